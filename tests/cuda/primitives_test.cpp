#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "tests/cuda/loaded_module.hpp"

// The primitives that cuDNN computes, against plain loops in f64; gradients against differences of
// these. The inputs are read back from the device, so that rounding them is no error.

namespace forecost::cuda {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

using Function_ = std::function<Values(const std::vector<Values>&)>;

/// Of sum(dy f(inputs)) by input `which`.
Values gradient(const Function_& f, std::vector<Values> inputs, std::size_t which,
                const Values& dy) {
  constexpr double step = 1e-5;
  const auto total = [&] {
    const Values y = f(inputs);
    return std::inner_product(y.begin(), y.end(), dy.begin(), 0.0);
  };
  Values result;
  for (double& x : inputs[which]) {
    const double before = x;
    x = before + step;
    const double above = total();
    x = before - step;
    result.push_back((above - total()) / (2 * step));
    x = before;
  }
  return result;
}

double tolerance_of(Element element) {
  switch (element) {
    case Element::f16:
      return 4e-3;
    case Element::bf16:
      return 3e-2;
    default:
      return 1e-4;
  }
}

/// Relative to the largest value.
void expect_near(const Values& actual, const Values& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  double largest = 0;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  ASSERT_GT(largest, 0);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], tolerance * largest) << "element " << i;
  }
}

/// Where an element of an image lies.
std::size_t at(Layout layout, const Image& image, std::int64_t n, std::int64_t c, std::int64_t h,
               std::int64_t w) {
  return static_cast<std::size_t>(layout == Layout::nchw
                                      ? ((n * image.c + c) * image.h + h) * image.w + w
                                      : ((n * image.h + h) * image.w + w) * image.c + c);
}
std::int64_t count(const Image& image) { return image.n * image.c * image.h * image.w; }

// --- convolution ---

Image output_of(const Convolution& p) { return {p.in.n, p.out_channels, p.out_h, p.out_w}; }
Image weights_of(const Convolution& p) {
  return {p.out_channels, p.in.c / p.groups, p.window.kernel_h, p.window.kernel_w};
}

Convolution convolution(const Image& in, std::int64_t out_channels, const Window& window,
                        std::int64_t groups = 1, Layout layout = Layout::nchw,
                        Element element = Element::f32) {
  Convolution p{};
  p.element = element;
  p.layout = layout;
  p.in = in;
  p.out_channels = out_channels;
  p.groups = groups;
  p.window = window;
  const auto out = [](std::int64_t size, std::int64_t pad, std::int64_t kernel,
                      std::int64_t dilation, std::int64_t stride) {
    return (size + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1;
  };
  p.out_h = out(in.h, window.pad_h, window.kernel_h, window.dilation_h, window.stride_h);
  p.out_w = out(in.w, window.pad_w, window.kernel_w, window.dilation_w, window.stride_w);
  p.policy = Policy::heuristic;
  p.workspace_limit_bytes = 64 << 20;
  return p;
}

Values convolve(const Convolution& p, const Values& x, const Values& w) {
  const Image out = output_of(p), weights = weights_of(p);
  Values y(static_cast<std::size_t>(count(out)));
  for (std::int64_t n = 0; n < out.n; ++n)
    for (std::int64_t k = 0; k < out.c; ++k)
      for (std::int64_t i = 0; i < out.h; ++i)
        for (std::int64_t j = 0; j < out.w; ++j)
          for (std::int64_t c = 0; c < weights.c; ++c)
            for (std::int64_t r = 0; r < weights.h; ++r)
              for (std::int64_t s = 0; s < weights.w; ++s) {
                const std::int64_t h =
                    i * p.window.stride_h - p.window.pad_h + r * p.window.dilation_h;
                const std::int64_t v =
                    j * p.window.stride_w - p.window.pad_w + s * p.window.dilation_w;
                if (h < 0 || h >= p.in.h || v < 0 || v >= p.in.w) continue;
                const std::int64_t channel = k / (p.out_channels / p.groups) * weights.c + c;
                y[at(p.layout, out, n, k, i, j)] +=
                    x[at(p.layout, p.in, n, channel, h, v)] * w[at(p.layout, weights, k, c, r, s)];
              }
  return y;
}

Primitive primitive_of(const Convolution& p, Direction direction) {
  Primitive primitive{Kind::convolution, {}};
  primitive.convolution = p;
  primitive.convolution.direction = direction;
  return primitive;
}

class ConvolutionPrimitive : public OnDevice {
 protected:
  void expect_all_directions(const Convolution& p, std::int64_t runs = 1,
                             Launch launch = Launch::direct) {
    const DeviceTensor x = random(p.element, count(p.in)),
                       w = random(p.element, count(weights_of(p))),
                       dy = random(p.element, count(output_of(p))), y = zeros(p.element, dy.count),
                       dx = zeros(p.element, x.count), dw = zeros(p.element, w.count);
    const std::vector<Values> inputs{read(x), read(w)};
    const Function_ f = [&](const std::vector<Values>& in) { return convolve(p, in[0], in[1]); };
    const double tolerance = tolerance_of(p.element);
    run(primitive_of(p, Direction::forward), {x.memory, w.memory, y.memory}, runs, launch);
    expect_near(read(y), f(inputs), tolerance);
    run(primitive_of(p, Direction::backward_data), {w.memory, dy.memory, dx.memory}, runs, launch);
    expect_near(read(dx), gradient(f, inputs, 0, read(dy)), tolerance);
    run(primitive_of(p, Direction::backward_weights), {x.memory, dy.memory, dw.memory}, runs,
        launch);
    expect_near(read(dw), gradient(f, inputs, 1, read(dy)), tolerance);
  }
};

constexpr Window window_3x2{3, 2, 2, 1, 1, 1, 1, 2};
constexpr Image image{2, 4, 6, 5};

TEST_F(ConvolutionPrimitive, ComputesEachDirection) {
  for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
    for (const Element element : {Element::f32, Element::f16, Element::bf16}) {
      expect_all_directions(convolution(image, 6, window_3x2, 1, layout, element));
    }
  }
}

TEST_F(ConvolutionPrimitive, ComputesGroups) {
  expect_all_directions(convolution(image, 6, window_3x2, 2));
  expect_all_directions(convolution(image, 4, window_3x2, 4, Layout::nhwc));
}

TEST_F(ConvolutionPrimitive, ComputesTheSameAgainAndInAGraph) {
  expect_all_directions(convolution(image, 6, window_3x2), 3);
  expect_all_directions(convolution(image, 6, window_3x2), 3, Launch::graph);
}

TEST_F(ConvolutionPrimitive, RecordsWhatRuns) {
  const auto implementation = [&](const Convolution& p, Direction direction) {
    return std::string(plan(primitive_of(p, direction)).second.implementation);
  };
  Convolution p = convolution(image, 6, window_3x2);
  EXPECT_THAT(implementation(p, Direction::forward), StartsWith("cudnn:fwd_"));
  EXPECT_THAT(implementation(p, Direction::forward), HasSubstr(":fma:nchw"));
  EXPECT_THAT(implementation(p, Direction::backward_data), StartsWith("cudnn:bwd_data_"));
  EXPECT_THAT(implementation(p, Direction::backward_weights), StartsWith("cudnn:bwd_filter_"));
  p.policy = Policy::find;
  EXPECT_THAT(implementation(p, Direction::forward), HasSubstr(":fma:"))
      << "a trial of the default math type would be TF32";
  p.tf32 = 1;
  EXPECT_THAT(implementation(p, Direction::forward), HasSubstr(":default:"));
  p.element = Element::bf16;
  p.layout = Layout::nhwc;
  p.policy = Policy::fixed;
  p.fixed_algorithm = 1;
  EXPECT_EQ(implementation(p, Direction::forward),
            "cudnn:fwd_implicit_precomp_gemm:tensor_op:nhwc");
  p.fixed_algorithm = 0;
  EXPECT_EQ(implementation(p, Direction::forward), "cudnn:fwd_implicit_gemm:tensor_op:nhwc");
}

TEST_F(ConvolutionPrimitive, ComputesWithEachPolicy) {
  Convolution p = convolution(image, 6, window_3x2);
  p.policy = Policy::find;
  expect_all_directions(p);
  p.policy = Policy::fixed;
  p.fixed_algorithm = 1;
  expect_all_directions(p);
}

TEST_F(ConvolutionPrimitive, TellsWhichResultsChangeFromRunToRun) {
  Convolution p = convolution(image, 6, window_3x2);
  p.policy = Policy::fixed;
  const auto nondeterministic = [&](Direction direction, int algorithm) {
    p.fixed_algorithm = algorithm;
    return plan(primitive_of(p, direction)).second.nondeterministic != 0;
  };
  EXPECT_FALSE(nondeterministic(Direction::forward, 0));
  EXPECT_TRUE(nondeterministic(Direction::backward_data, 0));
  EXPECT_FALSE(nondeterministic(Direction::backward_data, 1));
  EXPECT_TRUE(nondeterministic(Direction::backward_weights, 0));
  EXPECT_FALSE(nondeterministic(Direction::backward_weights, 1));
  EXPECT_TRUE(nondeterministic(Direction::backward_weights, 3));
}

TEST_F(ConvolutionPrimitive, RefusesWhatTheLibraryHasNot) {
  Convolution p = convolution(image, 6, window_3x2);
  p.policy = Policy::fixed;
  p.fixed_algorithm = 99;
  try {
    plan(primitive_of(p, Direction::forward));
    ADD_FAILURE() << "algorithm 99 was planned";
  } catch (const Refused& refused) {
    EXPECT_EQ(refused.code, Code::unsupported);
    EXPECT_THAT(refused.what(), HasSubstr("no algorithm 99"));
  }
}

TEST_F(ConvolutionPrimitive, TakesNoMoreWorkspaceThanItIsGranted) {
  Convolution p = convolution(image, 6, window_3x2);
  const PlanInfo free = plan(primitive_of(p, Direction::backward_weights)).second;
  p.workspace_limit_bytes = 0;
  const PlanInfo tight = plan(primitive_of(p, Direction::backward_weights)).second;
  EXPECT_EQ(tight.workspace_bytes, 0);
  EXPECT_GE(free.workspace_bytes, tight.workspace_bytes);
}

// --- pooling ---

struct PoolingPrimitive : OnDevice {};

Values pool(const Pooling& p, const Values& x) {
  const Image out{p.in.n, p.in.c, p.out_h, p.out_w};
  const Window& w = p.window;
  Values y(static_cast<std::size_t>(count(out)));
  for (std::int64_t n = 0; n < out.n; ++n)
    for (std::int64_t c = 0; c < out.c; ++c)
      for (std::int64_t i = 0; i < out.h; ++i)
        for (std::int64_t j = 0; j < out.w; ++j) {
          double largest = -std::numeric_limits<double>::infinity(), sum = 0, inside = 0;
          for (std::int64_t r = 0; r < w.kernel_h; ++r)
            for (std::int64_t s = 0; s < w.kernel_w; ++s) {
              const std::int64_t h = i * w.stride_h - w.pad_h + r, v = j * w.stride_w - w.pad_w + s;
              if (h < 0 || h >= p.in.h || v < 0 || v >= p.in.w) continue;
              const double value = x[at(p.layout, p.in, n, c, h, v)];
              largest = std::max(largest, value);
              sum += value;
              ++inside;
            }
          y[at(p.layout, out, n, c, i, j)] = p.maximum != 0 ? largest : sum / inside;
        }
  return y;
}

struct PoolingCase {
  Image in;
  std::int64_t out_h, out_w;
  Window window;
  std::string_view library;
};

TEST_F(PoolingPrimitive, ComputesBothDirections) {
  const PoolingCase cases[] = {
      {{2, 3, 7, 6}, 4, 3, {3, 2, 2, 2, 1, 0, 1, 1}, "cudnn:"},
      // Padded at the end alone, as "same" pads an even size; and with a last window cut off.
      {{2, 8, 6, 8}, 3, 4, {3, 3, 2, 2, 0, 0, 1, 1}, "forecost:"},
      {{1, 3, 6, 5}, 4, 5, {3, 2, 2, 1, 1, 0, 1, 1}, "forecost:"},
  };
  for (const PoolingCase& each : cases) {
    for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
      for (const std::int32_t maximum : {0, 1}) {
        Primitive primitive{Kind::pooling, {}};
        Pooling& p = primitive.pooling;
        p = {Direction::forward, Element::f32, layout,      each.in,
             each.out_h,         each.out_w,   each.window, maximum};
        const Image out{p.in.n, p.in.c, p.out_h, p.out_w};
        const DeviceTensor x = random(p.element, count(p.in)), y = zeros(p.element, count(out)),
                           dy = random(p.element, y.count), dx = zeros(p.element, x.count);
        EXPECT_THAT(std::string(plan(primitive).second.implementation), StartsWith(each.library));
        run(primitive, {x.memory, y.memory});
        const Function_ f = [&](const std::vector<Values>& in) { return pool(p, in[0]); };
        expect_near(read(y), f({read(x)}), 1e-5);
        p.direction = Direction::backward;
        run(primitive, {x.memory, y.memory, dy.memory, dx.memory});
        expect_near(read(dx), gradient(f, {read(x)}, 0, read(dy)), 1e-4);
      }
    }
  }
}

TEST_F(PoolingPrimitive, RefusesAWindowOfPaddingAlone) {
  Primitive primitive{Kind::pooling, {}};
  primitive.pooling = {Direction::forward,
                       Element::f32,
                       Layout::nchw,
                       {2, 3, 7, 6},
                       5,
                       3,
                       {3, 2, 2, 2, 1, 0, 1, 1},
                       1};
  EXPECT_THROW(plan(primitive), Refused);
}

// --- batch norm ---

struct BatchNormPrimitive : OnDevice {};

/// inputs: x, scale, shift and, with stored statistics, mean and variance.
Values normalise(const BatchNorm& p, const std::vector<Values>& inputs) {
  Values y(inputs[0].size());
  const double size = static_cast<double>(p.image.n * p.image.h * p.image.w);
  for (std::int64_t c = 0; c < p.image.c; ++c) {
    const auto channel = static_cast<std::size_t>(c);
    const auto each = [&](const auto& visit) {
      for (std::int64_t n = 0; n < p.image.n; ++n)
        for (std::int64_t h = 0; h < p.image.h; ++h)
          for (std::int64_t w = 0; w < p.image.w; ++w) visit(at(p.layout, p.image, n, c, h, w));
    };
    double mean = 0, variance = 0;
    if (p.training != 0) {
      each([&](std::size_t i) { mean += inputs[0][i] / size; });
      each([&](std::size_t i) { variance += std::pow(inputs[0][i] - mean, 2) / size; });
    } else {
      mean = inputs[3][channel];
      variance = inputs[4][channel];
    }
    each([&](std::size_t i) {
      y[i] = (inputs[0][i] - mean) / std::sqrt(variance + p.epsilon) * inputs[1][channel] +
             inputs[2][channel];
    });
  }
  return y;
}

TEST_F(BatchNormPrimitive, ComputesBothDirectionsOfTraining) {
  for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
    for (const Element element : {Element::f32, Element::f16}) {
      Primitive primitive{Kind::batch_norm, {}};
      BatchNorm& p = primitive.batch_norm;
      p = {Direction::forward, 1, element, layout, {3, 4, 5, 2}, 1e-5};
      const DeviceTensor x = random(element, count(p.image)), y = zeros(element, x.count),
                         dy = random(element, x.count), dx = zeros(element, x.count),
                         scale = random(Element::f32, 4, 0.5, 1.5), shift = random(Element::f32, 4),
                         mean = zeros(Element::f32, 4), deviation = zeros(Element::f32, 4),
                         dscale = zeros(Element::f32, 4), dshift = zeros(Element::f32, 4);
      const auto [forward, info] = plan(primitive);
      void* const reserve = allocate(info.reserve_bytes);
      run(forward, info,
          {x.memory, scale.memory, shift.memory, y.memory, mean.memory, deviation.memory, reserve});
      const std::vector<Values> inputs{read(x), read(scale), read(shift)};
      const Function_ f = [&](const std::vector<Values>& in) { return normalise(p, in); };
      expect_near(read(y), f(inputs), tolerance_of(element));
      p.direction = Direction::backward;
      run(primitive, {x.memory, dy.memory, scale.memory, mean.memory, deviation.memory, dx.memory,
                      dscale.memory, dshift.memory, reserve});
      expect_near(read(dx), gradient(f, inputs, 0, read(dy)), tolerance_of(element));
      expect_near(read(dscale), gradient(f, inputs, 1, read(dy)), tolerance_of(element));
      expect_near(read(dshift), gradient(f, inputs, 2, read(dy)), tolerance_of(element));
      EXPECT_THAT(info.implementation, layout == Layout::nhwc
                                           ? HasSubstr("fwd_training:spatial_persistent:nhwc")
                                           : HasSubstr("fwd_training:spatial:nchw"));
    }
  }
}

TEST_F(BatchNormPrimitive, ComputesWithStoredStatistics) {
  for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
    for (const Image& of : {Image{3, 4, 5, 2}, Image{9, 8, 1, 1}}) {
      Primitive primitive{Kind::batch_norm, {}};
      BatchNorm& p = primitive.batch_norm;
      p = {Direction::forward, 0, Element::f32, layout, of, 1e-3};
      const std::int64_t c = of.c;
      const DeviceTensor x = random(p.element, count(of)), y = zeros(p.element, x.count),
                         scale = random(Element::f32, c, 0.5, 1.5), shift = random(Element::f32, c),
                         mean = random(Element::f32, c), variance = random(Element::f32, c, 0.1, 2),
                         dy = random(p.element, x.count), dx = zeros(p.element, x.count),
                         dscale = zeros(Element::f32, c), dshift = zeros(Element::f32, c);
      run(primitive,
          {x.memory, scale.memory, shift.memory, mean.memory, variance.memory, y.memory});
      const std::vector<Values> inputs{read(x), read(scale), read(shift), read(mean),
                                       read(variance)};
      const Function_ f = [&](const std::vector<Values>& in) { return normalise(p, in); };
      expect_near(read(y), f(inputs), 1e-5);
      p.direction = Direction::backward;
      EXPECT_STREQ(run(primitive, {x.memory, dy.memory, scale.memory, mean.memory, variance.memory,
                                   dx.memory, dscale.memory, dshift.memory})
                       .implementation,
                   "forecost:batch_norm_bwd_inference");
      expect_near(read(dx), gradient(f, inputs, 0, read(dy)), 1e-4);
      expect_near(read(dscale), gradient(f, inputs, 1, read(dy)), 1e-4);
      expect_near(read(dshift), gradient(f, inputs, 2, read(dy)), 1e-4);
    }
  }
}

// --- softmax, activation, dropout ---

struct RowPrimitive : OnDevice {};

TEST_F(RowPrimitive, SoftmaxComputesBothDirections) {
  Primitive primitive{Kind::softmax, {}};
  Softmax& p = primitive.softmax;
  p = {Direction::forward, Element::f32, 5, 7, 0};
  const DeviceTensor x = random(p.element, 35, -3, 3), y = zeros(p.element, 35),
                     dy = random(p.element, 35), dx = zeros(p.element, 35);
  const Function_ f = [](const std::vector<Values>& in) {
    Values result(35);
    for (std::size_t row = 0; row < 5; ++row) {
      double sum = 0;
      for (std::size_t j = 0; j < 7; ++j) sum += std::exp(in[0][row * 7 + j]);
      for (std::size_t j = 0; j < 7; ++j) {
        result[row * 7 + j] = std::exp(in[0][row * 7 + j]) / sum;
      }
    }
    return result;
  };
  EXPECT_STREQ(run(primitive, {x.memory, y.memory}).implementation, "cudnn:softmax_fwd:accurate");
  expect_near(read(y), f({read(x)}), 1e-5);
  p.direction = Direction::backward;
  run(primitive, {y.memory, dy.memory, dx.memory});
  expect_near(read(dx), gradient(f, {read(x)}, 0, read(dy)), 1e-4);
}

TEST_F(RowPrimitive, ActivationComputesBothDirectionsAlsoWithoutX) {
  const std::vector<std::pair<Function, double (*)(double)>> functions{
      {Function::relu, [](double x) { return std::max(x, 0.0); }},
      {Function::tanh, [](double x) { return std::tanh(x); }},
      {Function::sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }}};
  for (const auto& [function, of] : functions) {
    Primitive primitive{Kind::activation, {}};
    Activation& p = primitive.activation;
    p = {Direction::forward, Element::f32, 37, function};
    const DeviceTensor x = random(p.element, 37, -3, 3), y = zeros(p.element, 37),
                       dy = random(p.element, 37), dx = zeros(p.element, 37);
    const Function_ f = [of = of](const std::vector<Values>& in) {
      Values result = in[0];
      std::ranges::transform(result, result.begin(), of);
      return result;
    };
    EXPECT_THAT(run(primitive, {x.memory, y.memory}).implementation, StartsWith("cudnn:"));
    expect_near(read(y), f({read(x)}), 1e-5);
    p.direction = Direction::backward;
    for (void* const given : {x.memory, static_cast<void*>(nullptr)}) {
      run(primitive, {given, y.memory, dy.memory, dx.memory});
      expect_near(read(dx), gradient(f, {read(x)}, 0, read(dy)), 1e-4);
    }
  }
}

TEST_F(RowPrimitive, DropoutDropsItsShareAndHandsTheMaskOn) {
  constexpr std::int64_t elements = 4000;
  Primitive primitive{Kind::dropout, {}};
  Dropout& p = primitive.dropout;
  p = {Direction::forward, Element::f32, elements, 0.25, 7};
  const DeviceTensor x = random(p.element, elements, 1, 2), y = zeros(p.element, elements),
                     dy = random(p.element, elements, 1, 2), dx = zeros(p.element, elements);
  const auto [forward, info] = plan(primitive);
  ASSERT_GT(info.reserve_bytes, 0);
  void* const reserve = allocate(info.reserve_bytes);
  run(forward, info, {x.memory, y.memory, reserve});
  p.direction = Direction::backward;
  run(primitive, {dy.memory, dx.memory, reserve});
  const Values in = read(x), out = read(y), d_out = read(dy), d_in = read(dx);
  std::int64_t dropped = 0;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const bool kept = out[i] != 0;
    dropped += kept ? 0 : 1;
    ASSERT_NEAR(out[i], kept ? in[i] / 0.75 : 0, 1e-5);
    ASSERT_NEAR(d_in[i], kept ? d_out[i] / 0.75 : 0, 1e-5) << "another mask than forward's";
  }
  EXPECT_NEAR(static_cast<double>(dropped) / elements, 0.25, 0.04);
}

TEST_F(RowPrimitive, DropoutBeginsAnewWithASequence) {
  constexpr std::int64_t elements = 400;
  Primitive primitive{Kind::dropout, {}};
  primitive.dropout = {Direction::forward, Element::f32, elements, 0.25, 7};
  const DeviceTensor x = random(Element::f32, elements, 1, 2), y = zeros(Element::f32, elements);
  const auto [forward, info] = plan(primitive);
  void* const reserve = allocate(info.reserve_bytes);
  const auto after = [&](std::int64_t runs) {
    run(forward, info, {x.memory, y.memory, reserve}, runs);
    return read(y);
  };
  const Values first = after(1);
  EXPECT_NE(after(2), first) << "each run draws another mask";
  EXPECT_EQ(after(1), first);
}

// --- rnn ---

class RnnPrimitive : public OnDevice {
 protected:
  static Rnn small(Cell cell) {
    Rnn p{};
    p.direction = Direction::forward;
    p.element = Element::f32;
    p.training = 1;
    p.batch = 2;
    p.steps = 3;
    p.in_features = 2;
    p.hidden_features = 3;
    p.layers = 2;
    p.bidirectional = 1;
    p.cell = cell;
    return p;
  }

  std::vector<RnnRegion> regions(Plan* plan) {
    std::int32_t count = 0;
    check(table_.rnn_regions(plan, nullptr, 0, &count));
    std::vector<RnnRegion> found(static_cast<std::size_t>(count));
    check(table_.rnn_regions(plan, found.data(), count, &count));
    return found;
  }

  /// inputs: x and the weight space. The formulas of cudnnRNNMode_t in cuDNN's documentation.
  static Values evaluate(const Rnn& p, const std::vector<RnnRegion>& regions,
                         const std::vector<Values>& inputs) {
    const std::int64_t H = p.hidden_features, directions = p.bidirectional != 0 ? 2 : 1;
    const int gates = p.cell == Cell::lstm ? 4 : p.cell == Cell::gru ? 3 : 1;
    // Region `gate` of a pseudo-layer, times v, with its bias.
    const auto affine = [&](std::int64_t layer, int gate, const Values& v) {
      Values result(static_cast<std::size_t>(H));
      for (const RnnRegion& region : regions) {
        if (region.layer != layer || region.gate != gate) continue;
        const auto begin = static_cast<std::size_t>(region.offset_bytes / 4);
        for (std::int64_t i = 0; i < region.rows; ++i)
          for (std::int64_t j = 0; j < region.columns; ++j) {
            result[static_cast<std::size_t>(i)] +=
                inputs[1][begin + static_cast<std::size_t>(i * region.columns + j)] *
                (region.is_bias != 0 ? 1 : v[static_cast<std::size_t>(j)]);
          }
      }
      return result;
    };
    const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
    Values in = inputs[0], out;
    std::int64_t width = p.in_features;
    for (std::int64_t layer = 0; layer < p.layers; ++layer) {
      out.assign(static_cast<std::size_t>(p.steps * p.batch * H * directions), 0);
      for (std::int64_t direction = 0; direction < directions; ++direction) {
        const std::int64_t pseudo = layer * directions + direction;
        for (std::int64_t b = 0; b < p.batch; ++b) {
          Values h(static_cast<std::size_t>(H)), c(h.size());
          for (std::int64_t step = 0; step < p.steps; ++step) {
            const std::int64_t row = (direction == 0 ? step : p.steps - 1 - step) * p.batch + b;
            const Values x(in.begin() + row * width, in.begin() + (row + 1) * width);
            std::vector<Values> w, r;
            for (int gate = 0; gate < gates; ++gate) {
              w.push_back(affine(pseudo, gate, x));
              r.push_back(affine(pseudo, gate + gates, h));
            }
            for (std::size_t k = 0; k < h.size(); ++k) {
              if (p.cell == Cell::vanilla) {
                h[k] = std::tanh(w[0][k] + r[0][k]);
              } else if (p.cell == Cell::lstm) {
                c[k] = sigmoid(w[1][k] + r[1][k]) * c[k] +
                       sigmoid(w[0][k] + r[0][k]) * std::tanh(w[2][k] + r[2][k]);
                h[k] = sigmoid(w[3][k] + r[3][k]) * std::tanh(c[k]);
              } else {
                const double update = sigmoid(w[1][k] + r[1][k]);
                h[k] = update * h[k] +
                       (1 - update) * std::tanh(w[2][k] + sigmoid(w[0][k] + r[0][k]) * r[2][k]);
              }
              out[static_cast<std::size_t>((row * directions + direction) * H) + k] = h[k];
            }
          }
        }
      }
      in = out;
      width = H * directions;
    }
    return out;
  }
};

TEST_F(RnnPrimitive, ComputesBothDirectionsAgainAndAgain) {
  for (const Cell cell : {Cell::vanilla, Cell::lstm, Cell::gru}) {
    Primitive primitive{Kind::rnn, {}};
    Rnn& p = primitive.rnn;
    p = small(cell);
    const auto [forward, info] = plan(primitive);
    const std::vector<RnnRegion> where = regions(forward);
    const DeviceTensor x = random(p.element, p.steps * p.batch * p.in_features),
                       weights = random(p.element, info.weight_bytes / 4, -0.6, 0.6),
                       y = zeros(p.element, p.steps * p.batch * p.hidden_features * 2),
                       dy = random(p.element, y.count), dx = zeros(p.element, x.count),
                       dweights = zeros(p.element, weights.count);
    void* const reserve = allocate(info.reserve_bytes);
    run(forward, info, {x.memory, weights.memory, y.memory, reserve});
    const std::vector<Values> inputs{read(x), read(weights)};
    const Function_ f = [&](const std::vector<Values>& in) { return evaluate(p, where, in); };
    expect_near(read(y), f(inputs), 1e-4);

    p.direction = Direction::backward;
    run(primitive,
        {x.memory, y.memory, dy.memory, weights.memory, reserve, dx.memory, dweights.memory}, 3);
    expect_near(read(dx), gradient(f, inputs, 0, read(dy)), 1e-4);
    expect_near(read(dweights), gradient(f, inputs, 1, read(dy)), 1e-4);
  }
}

TEST_F(RnnPrimitive, InfersWithoutAReserve) {
  Primitive primitive{Kind::rnn, {}};
  Rnn& p = primitive.rnn;
  p = small(Cell::lstm);
  p.training = p.bidirectional = 0;
  const auto [forward, info] = plan(primitive);
  EXPECT_EQ(info.reserve_bytes, 0);
  EXPECT_STREQ(info.implementation, "cudnn:lstm_fwd_inference:standard:fma");
  const DeviceTensor x = random(p.element, p.steps * p.batch * p.in_features),
                     weights = random(p.element, info.weight_bytes / 4, -0.6, 0.6),
                     y = zeros(p.element, p.steps * p.batch * p.hidden_features);
  run(forward, info, {x.memory, weights.memory, y.memory, nullptr});
  expect_near(read(y), evaluate(p, regions(forward), {read(x), read(weights)}), 1e-4);
}

TEST_F(RnnPrimitive, OnlyItHasRegions) {
  std::int32_t count = 0;
  Primitive primitive{Kind::softmax, {}};
  primitive.softmax = {Direction::forward, Element::f32, 5, 7, 0};
  EXPECT_EQ(table_.rnn_regions(plan(primitive).first, nullptr, 0, &count).code, Code::failed);
}

// --- attention ---

struct AttentionPrimitive : OnDevice {};

/// inputs: q, k, v
Values attend(const Attention& p, const std::vector<Values>& inputs, Values* statistics = nullptr) {
  const std::int64_t heads = p.batch * p.heads, D = p.head_features;
  Values o(inputs[0].size());
  const auto place = [&](std::int64_t head, std::int64_t row, std::int64_t rows, std::int64_t d) {
    return static_cast<std::size_t>((head * rows + row) * D + d);
  };
  for (std::int64_t head = 0; head < heads; ++head)
    for (std::int64_t i = 0; i < p.query_length; ++i) {
      const std::int64_t seen =
          p.causal != 0 ? p.key_length - p.query_length + i + 1 : p.key_length;
      Values weight(static_cast<std::size_t>(seen));
      double sum = 0;
      for (std::int64_t j = 0; j < seen; ++j) {
        double score = 0;
        for (std::int64_t d = 0; d < D; ++d) {
          score += inputs[0][place(head, i, p.query_length, d)] *
                   inputs[1][place(head, j, p.key_length, d)];
        }
        sum += weight[static_cast<std::size_t>(j)] =
            std::exp(score / std::sqrt(static_cast<double>(D)));
      }
      if (statistics != nullptr) statistics->push_back(std::log(sum));
      for (std::int64_t j = 0; j < seen; ++j)
        for (std::int64_t d = 0; d < D; ++d) {
          o[place(head, i, p.query_length, d)] += weight[static_cast<std::size_t>(j)] / sum *
                                                  inputs[2][place(head, j, p.key_length, d)];
        }
    }
  return o;
}

TEST_F(AttentionPrimitive, ComputesBothDirections) {
  for (const Element element : {Element::f16, Element::bf16}) {
    for (const auto& [causal, keys] : {std::pair{0, 5}, std::pair{1, 5}, std::pair{1, 9}}) {
      Primitive primitive{Kind::attention, {}};
      Attention& p = primitive.attention;
      p = {Direction::forward, element, 1, 2, 2, 5, keys, 8, causal};
      const std::int64_t queries = 2 * 2 * 5 * 8, all_keys = std::int64_t{2} * 2 * keys * 8;
      const DeviceTensor q = random(element, queries), k = random(element, all_keys),
                         v = random(element, all_keys), o = zeros(element, queries),
                         d_o = random(element, queries), dq = zeros(element, queries),
                         dk = zeros(element, all_keys), dv = zeros(element, all_keys),
                         statistics = zeros(Element::f32, 2 * 2 * 5);
      run(primitive, {q.memory, k.memory, v.memory, o.memory, statistics.memory}, 2);
      const std::vector<Values> inputs{read(q), read(k), read(v)};
      const Function_ f = [&](const std::vector<Values>& in) { return attend(p, in); };
      Values expected_statistics;
      expect_near(read(o), attend(p, inputs, &expected_statistics), 2 * tolerance_of(element));
      expect_near(read(statistics), expected_statistics, 1e-4);

      p.direction = Direction::backward;
      run(primitive,
          {q.memory, k.memory, v.memory, o.memory, d_o.memory, statistics.memory, dq.memory,
           dk.memory, dv.memory},
          2);
      const double tolerance = 3 * tolerance_of(element);
      expect_near(read(dq), gradient(f, inputs, 0, read(d_o)), tolerance);
      expect_near(read(dk), gradient(f, inputs, 1, read(d_o)), tolerance);
      expect_near(read(dv), gradient(f, inputs, 2, read(d_o)), tolerance);
    }
  }
}

TEST_F(AttentionPrimitive, InfersWithoutStatisticsAndInAGraph) {
  Primitive primitive{Kind::attention, {}};
  Attention& p = primitive.attention;
  p = {Direction::forward, Element::f16, 0, 2, 2, 5, 5, 8, 0};
  const DeviceTensor q = random(p.element, 160), k = random(p.element, 160),
                     v = random(p.element, 160), o = zeros(p.element, 160);
  const PlanInfo info =
      run(primitive, {q.memory, k.memory, v.memory, o.memory, nullptr}, 3, Launch::graph);
  EXPECT_THAT(info.implementation, StartsWith("cudnn:flash_attention_fwd:engine_"));
  expect_near(read(o), attend(p, {read(q), read(k), read(v)}), 1e-2);
}

TEST_F(AttentionPrimitive, RefusesSinglePrecision) {
  Primitive primitive{Kind::attention, {}};
  primitive.attention = {Direction::forward, Element::f32, 0, 2, 2, 5, 5, 8, 0};
  try {
    plan(primitive);
    ADD_FAILURE() << "it was planned";
  } catch (const Refused& refused) {
    EXPECT_EQ(refused.code, Code::unsupported);
  }
}

}  // namespace
}  // namespace forecost::cuda
