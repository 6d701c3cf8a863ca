#include "collect/backends/cpu/cpu_case.hpp"

#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "collect/backends/cpu/primitives.hpp"
#include "collect/backends/cpu/recipe.hpp"
#include "core/random.hpp"
#include "core/units.hpp"

namespace forecost::cpu {
namespace {

using dnnl::memory;
using Content = Recipe::Tensor::Content;

std::size_t elements_of(const memory::desc& layout) {
  std::size_t elements = 1;
  for (const memory::dim dim : layout.dims()) elements *= static_cast<std::size_t>(dim);
  return elements;
}

/// Of all that the memory holds, padding of the library's blocks included, which is zero.
double sum_of(const memory& tensor) {
  const std::size_t bytes = tensor.get_desc().get_size();
  const void* data = tensor.get_data_handle();
  switch (tensor.get_desc().data_type()) {
    case memory::data_type::f32:
      return sum_f32({static_cast<const float*>(data), bytes / sizeof(float)});
    case memory::data_type::bf16:
      return sum_bf16({static_cast<const std::uint16_t*>(data), bytes / 2});
    default:
      break;  // masks and indices say nothing that the numbers do not
  }
  return 0;
}

class RecipeCase final : public PreparedCase {
 public:
  RecipeCase(const CaseContext& context, std::uint64_t seed,
             const std::function<void(Recipe&)>& describe)
      : context_(context), stream_(context.engine), recipe_(context.engine) {
    info_.seed = seed;
    const double begin = seconds_now();
    describe(recipe_);
    for (const Action& action : recipe_.timed()) {
      if (!info_.implementation.empty()) info_.implementation += "+";
      info_.implementation += action.implementation;
    }
    info_.plan_s = seconds_now() - begin;
    allocate();
    start();
  }
  ~RecipeCase() override { context_.arena.trim(); }

  const CaseInfo& info() const override { return info_; }

  Sample run(std::int64_t runs) override {
    const double begin = seconds_now();
    for (std::int64_t i = 0; i < runs; ++i) {
      for (const auto& action : actions_) action();
    }
    stream_.wait();
    const double elapsed = seconds_now() - begin;
    return {.device_s = elapsed, .host_s = elapsed};
  }

  void make_cold() override { context_.flush(touched_); }

  double checksum() override {
    const bool all = recipe_.changed_operands();
    if (all) {
      start();
      run(1);
    }
    double total = 0;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      if (all || recipe_.tensors()[i].result) total += sum_of(tensors_[i]);
    }
    return total;
  }

  Operands operands() override {
    Operands seen;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const Recipe::Tensor& tensor = recipe_.tensors()[i];
      if (!tensor.name.empty()) seen[tensor.name] = plain_values(tensor, tensors_[i]);
    }
    return seen;
  }

 private:
  void allocate() {
    const double begin = seconds_now();
    std::size_t operands = 0, staging = 0, scratchpad = 0;
    for (const Recipe::Tensor& tensor : recipe_.tensors()) {
      operands += Arena::padded(tensor.layout.get_size());
      if (tensor.content == Content::random) {
        staging = std::max(staging, Arena::padded(elements_of(tensor.layout) * sizeof(float)));
      }
    }
    for (const auto& actions : {recipe_.preparation(), recipe_.timed()}) {
      for (const Action& action : actions) {
        scratchpad = std::max(scratchpad, action.scratchpad_bytes);
      }
    }
    info_.workspace_bytes = static_cast<double>(scratchpad);
    info_.memory_bytes = static_cast<double>(operands + scratchpad);
    const std::size_t total = operands + Arena::padded(scratchpad) + staging;
    if (static_cast<double>(total) > context_.free_memory_bytes) {
      throw CaseRefused(
          Status::skipped_memory,
          fmt::format("{} (workspace {}) do not fit into {}",
                      format_bytes(static_cast<double>(total)), format_bytes(info_.workspace_bytes),
                      format_bytes(context_.free_memory_bytes)));
    }
    context_.arena.reset(total);
    for (const Recipe::Tensor& tensor : recipe_.tensors()) {
      tensors_.emplace_back(tensor.layout, context_.engine,
                            context_.arena.take(tensor.layout.get_size()));
    }
    scratchpad_ = static_cast<std::byte*>(context_.arena.take(scratchpad));
    touched_ = context_.arena.taken();
    info_.flush_bytes = context_.flush.bytes(touched_);
    staging_ = static_cast<float*>(context_.arena.take(staging));
    info_.allocate_s = seconds_now() - begin;
  }

  /// First values in all tensors, and everything ready to run.
  void start() {
    info_.reorder_s = 0;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      fill(recipe_.tensors()[i], tensors_[i], mix64(info_.seed) + i);
    }
    const Bound bound(tensors_, stream_, scratchpad_);
    for (const Action& action : recipe_.preparation()) action.bind(bound)();
    stream_.wait();
    actions_.clear();
    for (const Action& action : recipe_.timed()) actions_.push_back(action.bind(bound));
  }

  void fill(const Recipe::Tensor& tensor, const memory& to, std::uint64_t seed) {
    const double begin = seconds_now();
    void* data = to.get_data_handle();
    const std::size_t bytes = tensor.layout.get_size();
    if (tensor.content == Content::zeros) {
      std::memset(data, 0, bytes);  // touches the pages
      info_.allocate_s += seconds_now() - begin;
      return;
    }
    if (tensor.content == Content::indices) {
      Random random(seed);
      for (std::int64_t& index :
           std::span(static_cast<std::int64_t*>(data), bytes / sizeof(std::int64_t))) {
        index = static_cast<std::int64_t>(random.uniform() * static_cast<double>(tensor.bound));
      }
      info_.allocate_s += seconds_now() - begin;
      return;
    }
    // Values are drawn in plain layout and then brought into the library's, so that its padding is
    // zero, as its kernels expect.
    const memory::desc plain_f32 = plain(tensor.layout.dims(), memory::data_type::f32);
    const bool direct = tensor.layout == plain_f32;
    const std::span<float> values(direct ? static_cast<float*>(data) : staging_,
                                  elements_of(tensor.layout));
    context_.pool.fill(values, tensor.values.scale, seed);
    if (tensor.values.centre != 0) {
      for (float& value : values) value += tensor.values.centre;
    }
    const double filled = seconds_now();
    info_.allocate_s += filled - begin;
    if (direct) return;
    std::memset(data, 0, bytes);
    memory from(plain_f32, context_.engine, values.data()), into = to;
    dnnl::reorder(from, into).execute(stream_, from, into);
    stream_.wait();
    info_.reorder_s += seconds_now() - filled;
  }

  std::vector<double> plain_values(const Recipe::Tensor& tensor, memory from) {
    if (tensor.content == Content::indices) {
      const auto* indices = static_cast<const std::int64_t*>(from.get_data_handle());
      return {indices, indices + tensor.layout.get_size() / sizeof(std::int64_t)};
    }
    const memory::desc plain_f32 = plain(tensor.layout.dims(), memory::data_type::f32);
    std::vector<float> values(elements_of(tensor.layout));
    memory to(plain_f32, context_.engine, values.data());
    dnnl::reorder(from, to).execute(stream_, from, to);
    stream_.wait();
    return {values.begin(), values.end()};
  }

  CaseContext context_;
  dnnl::stream stream_;
  Recipe recipe_;
  CaseInfo info_;
  std::vector<memory> tensors_;
  std::vector<std::function<void()>> actions_;
  std::span<const std::byte> touched_;  ///< by a run: operands and scratchpad
  std::byte* scratchpad_ = nullptr;
  float* staging_ = nullptr;
};

}  // namespace

std::unique_ptr<PreparedCase> prepare_recipe(const CaseContext& context, std::uint64_t seed,
                                             const std::function<void(Recipe&)>& describe) {
  try {
    return std::make_unique<RecipeCase>(context, seed, describe);
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_out_of_memory) throw CaseRefused(Status::out_of_memory, error.message);
    const Status status = error.status == dnnl_unimplemented ? Status::unsupported : Status::failed;
    throw CaseRefused(status, fmt::format("oneDNN: {}", error.message));
  }
}

std::unique_ptr<PreparedCase> prepare_case(const CaseContext& context, const Task& task,
                                           std::uint64_t seed) {
  return prepare_recipe(context, seed, [&](Recipe& recipe) {
    if (task.pass == Pass::update) {
      describe_update(recipe, task);
    } else {
      find_cpu_operator(task.layer.op().name)->describe(recipe, task);
    }
  });
}

}  // namespace forecost::cpu
