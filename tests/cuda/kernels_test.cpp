// Every kernel of our own against the references, run by the emulation: sizes that are no multiples
// of a pack, a warp or a block, each element type, operands that are aligned and not.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "collect/reference/reference.hpp"
#include "cuda/module/context.hpp"
#include "cuda/module/counter_hash.hpp"
#include "cuda/module/support.hpp"
#include "data/operators/activation.hpp"
#include "data/operators/elementwise.hpp"
#include "data/operators/reduce.hpp"
#include "tests/cuda/emulation/emulation.hpp"
#include "tests/cuda/emulation/self_test.hpp"
#include "tests/update_reference.hpp"

namespace forecost::cuda {
namespace {

using Values = std::vector<double>;
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

std::size_t element_bytes(Element element) {
  return element == Element::f32 ? 4 : element == Element::i64 ? 8 : 2;
}
template <class T, class U>
void put(unsigned char* to, U value) {
  const T stored = static_cast<T>(value);
  std::memcpy(to, &stored, sizeof(T));
}
template <class T>
T get(const unsigned char* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

/// Memory between guards. A misaligned one begins an element behind a multiple of 16 bytes.
class Memory {
 public:
  Memory(std::size_t bytes, std::size_t offset, unsigned char fill)
      : bytes_(bytes), all_(bytes + 3 * guard_bytes, guard) {
    const auto begin = reinterpret_cast<std::uintptr_t>(all_.data());
    begin_ = guard_bytes + (64 - begin % 64) % 64 + offset;
    std::memset(data(), fill, bytes);
  }
  unsigned char* data() { return all_.data() + begin_; }
  const unsigned char* data() const { return all_.data() + begin_; }
  bool intact() const {
    const auto is_guard = [](unsigned char each) { return each == guard; };
    const auto begin = all_.begin() + static_cast<std::ptrdiff_t>(begin_);
    return std::all_of(all_.begin(), begin, is_guard) &&
           std::all_of(begin + static_cast<std::ptrdiff_t>(bytes_), all_.end(), is_guard);
  }

 private:
  static constexpr std::size_t guard_bytes = 256;
  static constexpr unsigned char guard = 0xA5;
  std::size_t bytes_, begin_;
  std::vector<unsigned char> all_;
};

/// A tensor on the emulated device; without values, of NaNs.
class Tensor {
 public:
  Tensor(Element element, std::size_t count, bool misaligned)
      : element_(element),
        count_(count),
        memory_(count * element_bytes(element), misaligned ? element_bytes(element) : 0, 0xFF) {}
  Tensor(Element element, const Values& values, bool misaligned)
      : Tensor(element, values.size(), misaligned) {
    for (std::size_t i = 0; i < count_; ++i) {
      unsigned char* to = memory_.data() + i * element_bytes(element_);
      const auto value = static_cast<float>(values[i]);
      switch (element_) {
        case Element::f32:
          put<float>(to, value);
          break;
        case Element::f16:
          put<__half>(to, __float2half(value));
          break;
        case Element::bf16:
          put<__nv_bfloat16>(to, __float2bfloat16(value));
          break;
        default:
          put<std::int64_t>(to, values[i]);
      }
    }
  }
  Values values() const {
    Values values(count_);
    for (std::size_t i = 0; i < count_; ++i) {
      const unsigned char* from = memory_.data() + i * element_bytes(element_);
      switch (element_) {
        case Element::f32:
          values[i] = static_cast<double>(get<float>(from));
          break;
        case Element::f16:
          values[i] = static_cast<double>(__half2float(get<__half>(from)));
          break;
        case Element::bf16:
          values[i] = static_cast<double>(__bfloat162float(get<__nv_bfloat16>(from)));
          break;
        default:
          values[i] = static_cast<double>(get<std::int64_t>(from));
      }
    }
    return values;
  }
  Memory& memory() { return memory_; }

 private:
  Element element_;
  std::size_t count_;
  Memory memory_;
};

/// Runs one primitive; a null tensor is passed as such.
void run(Planner planner, const Primitive& primitive, const std::vector<Tensor*>& tensors) {
  Context context(0);
  const auto plan = planner(context, primitive);
  EXPECT_TRUE(std::string(plan->info.implementation).starts_with("forecost:"));
  void* pointers[most_tensors] = {};
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i] != nullptr) pointers[i] = tensors[i]->memory().data();
  Memory workspace(static_cast<std::size_t>(plan->info.workspace_bytes), 0, 0xFF);
  plan->enqueue(context, pointers, workspace.data());
  EXPECT_TRUE(workspace.intact()) << "the workspace is too small";
  for (Tensor* each : tensors) {
    EXPECT_TRUE(each == nullptr || each->memory().intact()) << "written beyond a tensor";
  }
}

struct Numbers {
  Element element;
  DType dtype;
  bool misaligned;
};

class Kernels : public ::testing::TestWithParam<Numbers> {
 protected:
  Element element() const { return GetParam().element; }
  Values uniform(std::int64_t count, double low = -1, double high = 1) {
    Values values(static_cast<std::size_t>(count));
    for (double& each : values) each = std::uniform_real_distribution(low, high)(random_);
    return values;
  }
  Tensor input(const Values& values) const { return {element(), values, GetParam().misaligned}; }
  Tensor input(std::int64_t count, double low = -1, double high = 1) {
    return input(uniform(count, low, high));
  }
  Tensor output(std::int64_t count) const {
    return {element(), static_cast<std::size_t>(count), GetParam().misaligned};
  }
  /// f32 whatever the elements are.
  Tensor state(std::int64_t count) const {
    return {Element::f32, Values(static_cast<std::size_t>(count)), GetParam().misaligned};
  }
  Tensor indices(std::int64_t count, std::int64_t bound) {
    Values values(static_cast<std::size_t>(count));
    for (double& each : values) {
      each =
          static_cast<double>(std::uniform_int_distribution(std::int64_t{0}, bound - 1)(random_));
    }
    return {Element::i64, values, false};
  }
  void expect_reference(const Layer& layer, Pass pass, const Operands& operands) const {
    const Task task{.layer = layer, .pass = pass, .dtype = GetParam().dtype};
    const Deviation deviation = deviation_from_reference(task, operands);
    EXPECT_LE(deviation.relative, reference_tolerance(task.dtype))
        << task_text(task) << ": " << deviation.result;
  }
  /// As the reference's, of results by loops of a test.
  void expect_near(const Values& got, const Values& expected, const std::string& what) const {
    ASSERT_EQ(got.size(), expected.size());
    double largest = 1e-30;
    for (const double each : expected) largest = std::max(largest, std::fabs(each));
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_NEAR(got[i], expected[i], largest * reference_tolerance(GetParam().dtype))
          << what << ", element " << i;
    }
  }

 private:
  std::mt19937_64 random_{1};
};

TEST_P(Kernels, ElementwiseIsTheReference) {
  for (const std::int64_t n : {1, 31, 33, 1000, 2051})
    for (std::int64_t operation = 0; operation < 5; ++operation)
      for (const bool both : {false, true}) {
        const Layer layer(
            "elementwise",
            {{"batch", 1}, {"features", n}, {"operation", operation}, {"operand", both ? 0 : 1}});
        Primitive p{.kind = Kind::elementwise};
        p.elementwise = {.direction = Direction::forward,
                         .element = element(),
                         .count = n,
                         .operation = static_cast<Operation>(operation),
                         .b_is_scalar = both ? 0 : 1,
                         .scalar = elementwise_scalar};
        Tensor a = input(n, 1, 1.5), b = input(n, 1, 1.5), y = output(n), dy = input(n),
               da = output(n), db = output(n);
        run(&plan_elementwise, p, {&a, both ? &b : nullptr, &y});
        expect_reference(layer, Pass::forward,
                         {{"src", a.values()}, {"other", b.values()}, {"dst", y.values()}});

        // Nothing but what the derivatives are written in is there to be read.
        const bool power = operation == 4, divide = operation == 3, multiply = operation == 2;
        p.elementwise.direction = Direction::backward;
        run(&plan_elementwise, p,
            {power || (both && multiply) ? &a : nullptr,
             both && (power || divide || multiply) ? &b : nullptr,
             both && (power || divide) ? &y : nullptr, &dy, &da, both ? &db : nullptr});
        expect_reference(layer, Pass::backward,
                         {{"src", a.values()},
                          {"other", b.values()},
                          {"dst", y.values()},
                          {"diff_dst", dy.values()},
                          {"diff_src", da.values()},
                          {"diff_other", db.values()}});
      }
}

TEST_P(Kernels, ActivationIsTheReference) {
  for (const std::int64_t n : {1, 31, 33, 1000, 2051})
    for (std::int64_t function = 0; function < 5; ++function) {
      const Layer layer("activation", {{"batch", 1}, {"features", n}, {"function", function}});
      const bool from_input = function > 2;
      Primitive p{.kind = Kind::activation};
      p.activation = {Direction::forward, element(), n, static_cast<Function>(function)};
      Tensor x = input(n, -4, 4), y = output(n), dy = input(n), dx = output(n);
      run(&plan_own_activation, p, {&x, &y});
      expect_reference(layer, Pass::forward, {{"src", x.values()}, {"dst", y.values()}});
      p.activation.direction = Direction::backward;
      run(&plan_own_activation, p,
          {from_input ? &x : nullptr, from_input ? nullptr : &y, &dy, &dx});
      expect_reference(layer, Pass::backward,
                       {{"src", x.values()},
                        {"dst", y.values()},
                        {"diff_dst", dy.values()},
                        {"diff_src", dx.values()}});
    }
}

double value_of(Function function, double x) {
  switch (function) {
    case Function::relu:
      return std::max(x, 0.0);
    case Function::tanh:
      return std::tanh(x);
    case Function::sigmoid:
      return 1 / (1 + std::exp(-x));
    default:
      return x;
  }
}
double slope_of(Function function, double y) {
  switch (function) {
    case Function::relu:
      return y > 0 ? 1 : 0;
    case Function::tanh:
      return 1 - y * y;
    case Function::sigmoid:
      return y * (1 - y);
    default:
      return 1;
  }
}

TEST_P(Kernels, BiasIsAddedToItsChannel) {
  struct Case {
    std::int64_t n, c, spatial;
  };
  for (const auto& [n, c, spatial] : {Case{1, 1, 1}, Case{2, 3, 5}, Case{2, 5, 16}, Case{3, 33, 1},
                                      Case{4, 64, 1}, Case{2, 8, 9}})
    for (const Layout layout : {Layout::nchw, Layout::nhwc})
      for (const Function function :
           {Function::none, Function::relu, Function::tanh, Function::sigmoid})
        for (const bool with_bias : {true, false}) {
          Primitive p{.kind = Kind::bias_activation};
          p.bias_activation = {Direction::forward, element(), layout, n, c, spatial, function};
          Tensor y = input(n * c * spatial), bias = input(c), dy = input(n * c * spatial),
                 dz = output(n * c * spatial);
          Values expected = y.values();
          const Values shifts = bias.values();
          for (std::size_t i = 0; i < expected.size(); ++i) {
            const auto place = static_cast<std::int64_t>(i);
            const auto channel =
                static_cast<std::size_t>(layout == Layout::nchw ? place / spatial % c : place % c);
            expected[i] = value_of(function, expected[i] + (with_bias ? shifts[channel] : 0));
          }
          run(&plan_bias_activation, p, {&y, with_bias ? &bias : nullptr});
          expect_near(y.values(), expected, "bias_activation");

          p.bias_activation.direction = Direction::backward;
          run(&plan_bias_activation, p, {&y, &dy, &dz});
          expected = dy.values();
          const Values of = y.values();
          for (std::size_t i = 0; i < expected.size(); ++i)
            expected[i] *= slope_of(function, of[i]);
          expect_near(dz.values(), expected, "gradient of bias_activation");
        }
}

TEST_P(Kernels, OptimizersFollowTheirRule) {
  for (const std::int64_t n : {1, 31, 33, 1000})
    for (int o = 1; o <= static_cast<int>(Optimizer::adamw); ++o) {
      const auto optimizer = static_cast<Optimizer>(o);
      const int states = optimizer_cost(optimizer).state_tensors;
      Primitive p{.kind = Kind::optimizer};
      p.optimizer = {o, element(), n};
      Tensor w = input(n), g = input(n), a = state(n), b = state(n);
      Context context(0);
      const auto plan = plan_optimizer(context, p);
      void* pointers[] = {w.memory().data(), g.memory().data(),
                          states > 0 ? a.memory().data() : nullptr,
                          states > 1 ? b.memory().data() : nullptr};
      const Values gradient = g.values();
      std::vector<UpdateReference> expected;
      for (const double each : w.values()) expected.push_back({each});
      for (int t = 1; t <= 3; ++t) {
        const Values before = w.values();
        plan->enqueue(context, pointers, nullptr);
        const Values after = w.values();
        for (std::size_t i = 0; i < expected.size(); ++i) {
          expected[i].w = before[i];  // as it was rounded
          expected[i].step(optimizer, gradient[i], t);
          const double rounding = element() == Element::f32   ? 2e-6
                                  : element() == Element::f16 ? 0x1p-11
                                                              : 0x1p-8;
          ASSERT_NEAR(after[i], expected[i].w, std::fabs(expected[i].w) * rounding + 1e-6)
              << name_of(optimizer) << " step " << t << " element " << i << " of " << n;
        }
      }
      for (Tensor* each : {&w, &g, &a, &b}) EXPECT_TRUE(each->memory().intact());
    }
}

TEST_P(Kernels, PadPutsZerosAroundAndCutsThemOff) {
  for (const std::int64_t c : {1, 3, 8, 16})
    for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
      const Image in{2, c, 5, 7};
      const std::int64_t top = 1, left = 2, ph = 8, pw = 9;
      const auto place = [&](std::int64_t n, std::int64_t channel, std::int64_t row,
                             std::int64_t column, std::int64_t h, std::int64_t w) {
        return static_cast<std::size_t>(layout == Layout::nchw
                                            ? ((n * c + channel) * h + row) * w + column
                                            : ((n * h + row) * w + column) * c + channel);
      };
      Primitive p{.kind = Kind::pad};
      p.pad = {Direction::forward, element(), layout, in, top, left, ph, pw};
      Tensor x = input(2 * c * 5 * 7), y = output(2 * c * ph * pw), dy = input(2 * c * ph * pw),
             dx = output(2 * c * 5 * 7);
      run(&plan_pad, p, {&x, &y});
      p.pad.direction = Direction::backward;
      run(&plan_pad, p, {&dy, &dx});
      const Values from = x.values(), gradient = dy.values();
      Values padded(y.values().size()), cut(from.size());
      for (std::int64_t n = 0; n < 2; ++n)
        for (std::int64_t channel = 0; channel < c; ++channel)
          for (std::int64_t row = 0; row < 5; ++row)
            for (std::int64_t column = 0; column < 7; ++column) {
              const std::size_t inner = place(n, channel, row, column, 5, 7),
                                outer = place(n, channel, row + top, column + left, ph, pw);
              padded[outer] = from[inner];
              cut[inner] = gradient[outer];
            }
      EXPECT_EQ(y.values(), padded);
      EXPECT_EQ(dx.values(), cut);
    }
}

TEST_P(Kernels, EmbeddingIsTheReference) {
  struct Case {
    std::int64_t count, entries, features;
  };
  // One run over many chunks, several tiles of the sort, ids of three digits.
  for (const auto& [count, entries, features] :
       {Case{1, 1, 1}, Case{33, 5, 31}, Case{1000, 3, 8}, Case{700, 1, 16}, Case{5000, 300, 9},
        Case{4100, 70000, 4}}) {
    const Layer layer(
        "embedding",
        {{"batch", 1}, {"length", count}, {"entries", entries}, {"features", features}});
    Primitive p{.kind = Kind::embedding};
    p.embedding = {Direction::forward, element(), count, entries, features};
    Tensor ids = indices(count, entries), table = input(entries * features),
           y = output(count * features), dy = input(count * features),
           dtable = output(entries * features);
    run(&plan_embedding, p, {&ids, &table, &y});
    expect_reference(layer, Pass::forward,
                     {{"ids", ids.values()}, {"weights", table.values()}, {"dst", y.values()}});
    p.embedding.direction = Direction::backward;
    run(&plan_embedding, p, {&ids, &dy, &dtable});
    expect_reference(
        layer, Pass::backward_weights,
        {{"ids", ids.values()}, {"diff_dst", dy.values()}, {"diff_weights", dtable.values()}});
  }
}

TEST_P(Kernels, ReduceIsTheReference) {
  struct Case {
    std::int64_t batch, rows, features;
  };
  // The large ones are cut into chunks, along rows and along columns.
  for (const auto& [batch, rows, features] :
       {Case{1, 1, 1}, Case{3, 31, 33}, Case{2, 7, 1000}, Case{2, 3, 2048}, Case{1, 3000, 5},
        Case{1, 700, 40}, Case{1, 1, 30011}, Case{1, 2, 32768}})
    for (std::int64_t operation = 0; operation < 3; ++operation)
      for (std::int64_t axis = 0; axis < 2; ++axis) {
        const Layer layer("reduce", {{"batch", batch},
                                     {"rows", rows},
                                     {"features", features},
                                     {"operation", operation},
                                     {"axis", axis}});
        const bool along = axis == 0;
        Primitive p{.kind = Kind::reduce};
        p.reduce = {.direction = Direction::forward,
                    .element = element(),
                    .outer = along ? batch * rows : batch,
                    .reduced = along ? features : rows,
                    .inner = along ? 1 : features,
                    .reduction = static_cast<Reduction>(operation)};
        const std::int64_t results = p.reduce.outer * p.reduce.inner;
        // Few values, so that there are ties for the largest.
        Values values = uniform(batch * rows * features, -8, 8);
        for (double& each : values) each = std::floor(each) / 8;
        Tensor x = input(values), y = output(results), dy = input(results),
               dx = output(batch * rows * features);
        run(&plan_reduce, p, {&x, &y});
        expect_reference(layer, Pass::forward, {{"src", x.values()}, {"dst", y.values()}});

        Values index;
        for (std::int64_t o = 0; o < p.reduce.outer; ++o)
          for (std::int64_t i = 0; i < p.reduce.inner; ++i) {
            const auto at = [&](std::int64_t r) {
              return values[static_cast<std::size_t>((o * p.reduce.reduced + r) * p.reduce.inner +
                                                     i)];
            };
            std::int64_t first = 0;
            for (std::int64_t r = 1; r < p.reduce.reduced; ++r)
              if (at(r) > at(first)) first = r;
            index.push_back(static_cast<double>(first));
          }
        p.reduce.direction = Direction::backward;
        const bool max = operation == 2;
        run(&plan_reduce, p, {max ? &x : nullptr, max ? &y : nullptr, &dy, &dx});
        expect_reference(layer, Pass::backward,
                         {{"index", index}, {"diff_dst", dy.values()}, {"diff_src", dx.values()}});
      }
}

TEST_P(Kernels, LayerNormIsTheReference) {
  struct Case {
    std::int64_t rows, features;
  };
  // The last ones sum over rows in chunks. (Of one or two features the gradient is nothing but
  // rounding.)
  for (const auto& [rows, features] : {Case{1, 5}, Case{3, 31}, Case{9, 33}, Case{2, 1000},
                                       Case{3, 1025}, Case{2, 2064}, Case{300, 40}, Case{5000, 5}})
    for (const bool affine : {true, false}) {
      const Layer layer(
          "layer_norm",
          {{"batch", 1}, {"rows", rows}, {"features", features}, {"affine", affine ? 1 : 0}});
      Primitive p{.kind = Kind::layer_norm};
      p.layer_norm = {Direction::forward, element(), rows, features, affine ? 1 : 0, 1e-5};
      const std::int64_t n = rows * features;
      Tensor x = input(n, 1, 3), scale = input(features, 0.5, 1.5), shift = input(features),
             y = output(n), mean = state(rows), inverse = state(rows), dy = input(n),
             dx = output(n), dscale = output(features), dshift = output(features);
      run(&plan_layer_norm, p,
          {&x, affine ? &scale : nullptr, affine ? &shift : nullptr, &y, &mean, &inverse});
      expect_reference(layer, Pass::forward,
                       {{"src", x.values()},
                        {"scale", scale.values()},
                        {"shift", shift.values()},
                        {"dst", y.values()}});
      p.layer_norm.direction = Direction::backward;
      run(&plan_layer_norm, p,
          {&x, &dy, affine ? &scale : nullptr, &mean, &inverse, &dx, affine ? &dscale : nullptr,
           affine ? &dshift : nullptr});
      expect_reference(layer, Pass::backward,
                       {{"src", x.values()},
                        {"scale", scale.values()},
                        {"diff_dst", dy.values()},
                        {"diff_src", dx.values()},
                        {"diff_scale", dscale.values()},
                        {"diff_shift", dshift.values()}});
    }
}

TEST_P(Kernels, SoftmaxIsTheReference) {
  struct Case {
    std::int64_t rows, columns;
  };
  for (const auto& [rows, columns] :
       {Case{1, 1}, Case{3, 31}, Case{9, 33}, Case{2, 1000}, Case{3, 1025}, Case{2, 2064}}) {
    const Layer layer("softmax", {{"batch", 1}, {"rows", rows}, {"features", columns}});
    Primitive p{.kind = Kind::softmax};
    p.softmax = {Direction::forward, element(), rows, columns, 0};
    Tensor x = input(rows * columns, -3, 3), y = output(rows * columns), dy = input(rows * columns),
           dx = output(rows * columns);
    run(&plan_own_softmax, p, {&x, &y});
    expect_reference(layer, Pass::forward, {{"src", x.values()}, {"dst", y.values()}});
    p.softmax.direction = Direction::backward;
    run(&plan_own_softmax, p, {&y, &dy, &dx});
    expect_reference(layer, Pass::backward,
                     {{"dst", y.values()}, {"diff_dst", dy.values()}, {"diff_src", dx.values()}});
  }
}

TEST_P(Kernels, CausalSoftmaxSeesTheColumnsUpToItsPlace) {
  struct Case {
    std::int64_t repeats, queries, columns;
  };
  for (const auto& [repeats, queries, columns] :
       {Case{2, 7, 7}, Case{3, 5, 9}, Case{2, 3, 64}, Case{1, 2, 1040}}) {
    const std::int64_t rows = repeats * queries;
    const auto seen = [&, queries = queries, columns = columns](std::int64_t row) {
      return columns - queries + row % queries + 1;
    };
    // What is not seen is not looked at: it would be the largest, or spoil a sum.
    Values values = uniform(rows * columns, -3, 3), gradients = uniform(rows * columns);
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t column = seen(row); column < columns; ++column) {
        values[static_cast<std::size_t>(row * columns + column)] = 1e4;
        gradients[static_cast<std::size_t>(row * columns + column)] = nan;
      }
    }
    Tensor x = input(values), dy = input(gradients), y = output(rows * columns),
           dx = output(rows * columns);
    Primitive p{.kind = Kind::softmax};
    p.softmax = {Direction::forward, element(), rows, columns, queries};
    run(&plan_own_softmax, p, {&x, &y});
    p.softmax.direction = Direction::backward;
    run(&plan_own_softmax, p, {&y, &dy, &dx});
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto cut = [&, columns = columns](const Values& all) {
        const auto begin = all.begin() + row * columns;
        return Values(begin, begin + seen(row));
      };
      const auto with_zeros = [&, columns = columns](Values part) {
        part.resize(static_cast<std::size_t>(columns));
        return part;
      };
      const auto whole = [&, columns = columns](const Values& all) {
        return Values(all.begin() + row * columns, all.begin() + (row + 1) * columns);
      };
      const Task forward{.layer = Layer("softmax", {{"batch", 1}, {"features", seen(row)}})};
      Task backward = forward;
      backward.pass = Pass::backward;
      expect_near(whole(y.values()),
                  with_zeros(reference(forward, {{"src", cut(x.values())}}).at("dst")), "forward");
      expect_near(
          whole(dx.values()),
          with_zeros(reference(backward, {{"dst", cut(y.values())}, {"diff_dst", cut(dy.values())}})
                         .at("diff_src")),
          "backward");
    }
  }
}

TEST_P(Kernels, ValuesAreFilledInAndSummedUp) {
  const std::int64_t n = 5003;
  Tensor values = output(n);
  Context context(0);
  fill_uniform(context, values.memory().data(), element(), n, -0.5, 0.75, 42);
  Values expected;
  Sums sums{};
  for (std::int64_t i = 0; i < n; ++i) {
    expected.push_back(counter_uniform(42, static_cast<std::uint64_t>(i), -0.5, 0.75));
  }
  expect_near(values.values(), expected, "fill_uniform");
  for (const double each : values.values()) {
    sums.total += each;
    sums.magnitude += std::fabs(each);
  }
  const Sums found = sum(context, values.memory().data(), element(), n);
  EXPECT_NEAR(found.total, sums.total, 1e-9);
  EXPECT_NEAR(found.magnitude, sums.magnitude, 1e-9);
}

INSTANTIATE_TEST_SUITE_P(All, Kernels,
                         ::testing::Values(Numbers{Element::f32, DType::f32, false},
                                           Numbers{Element::f32, DType::f32, true},
                                           Numbers{Element::f16, DType::f16, false},
                                           Numbers{Element::f16, DType::f16, true},
                                           Numbers{Element::bf16, DType::bf16, false},
                                           Numbers{Element::bf16, DType::bf16, true}),
                         [](const auto& numbers) {
                           return std::string(name_of(numbers.param.dtype)) +
                                  (numbers.param.misaligned ? "_misaligned" : "");
                         });

TEST(OwnKernels, RefuseWhatTheyCannotDo) {
  Context context(0);
  Primitive p{.kind = Kind::bias_activation};
  p.bias_activation = {Direction::backward, Element::f32, Layout::nchw, 1, 1, 1, Function::gelu};
  EXPECT_THROW(plan_bias_activation(context, p), Failure);  // y alone does not give its gradient
  p.bias_activation.function = Function::relu;
  p.bias_activation.element = Element::u8;
  EXPECT_THROW(plan_bias_activation(context, p), Failure);
  p.pad = {Direction::forward, Element::f32, Layout::nchw, {1, 1, 4, 4}, 2, 0, 5, 5};
  EXPECT_THROW(plan_pad(context, p), Failure);
}

void expect_sums() {
  const int start = 1000;
  std::vector<int> sums(5);
  emulation::sum_by_barriers(5, &start, sums.data());
  for (int block = 0; block < 5; ++block)
    EXPECT_EQ(sums[static_cast<std::size_t>(block)], 96 * start + 95 * 96 / 2 + block);
}

TEST(Emulation, ThreadsOfABlockMeetAtBarriers) { expect_sums(); }

TEST(Emulation, TellsOfBlocksThatWouldHang) {
  EXPECT_THROW(emulation::wait_for_nobody(), std::logic_error);
  EXPECT_THROW(emulation::shuffle_with_few(), std::logic_error);
  expect_sums();  // and runs the next
}

TEST(Emulation, KnowsKernelsByTheirSymbols) {
  const std::vector<std::string> names = emulation::kernel_names();
  EXPECT_GT(names.size(), 300U);
  const std::string empty = "_ZN8forecost4cuda12empty_kernelEv";
  EXPECT_TRUE(std::ranges::find(names, empty) != names.end());
  EXPECT_TRUE(emulation::emulate(empty.c_str(), dim3(2), dim3(64), 0, nullptr));
  EXPECT_EQ(emulation::parameter_bytes("_ZN8forecost4cuda11read_kernelEPK5uint4llPm"),
            (std::vector<std::size_t>{8, 8, 8, 8}));
  EXPECT_FALSE(emulation::emulate("_Z4nonev", dim3(1), dim3(1), 0, nullptr));
}

}  // namespace
}  // namespace forecost::cuda
