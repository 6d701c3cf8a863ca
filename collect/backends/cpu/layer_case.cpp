#include <chrono>
#include <cmath>
#include <cstring>
#include <map>

#include <fmt/format.h>

#include "collect/backends/cpu/cpu_case.hpp"
#include "core/random.hpp"
#include "core/units.hpp"

namespace forecost::cpu {
namespace {

using dnnl::memory;

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// A tensor of the case: where it is and how it is filled.
struct Operand {
  memory::desc layout, plain_layout;
  float scale;  ///< of its random values; 0: a result, zeroed
  memory value{};
};

class OneDnnCase final : public LayerCase {
 public:
  OneDnnCase(const CaseContext& context, const Task& task, std::uint64_t seed)
      : context_(context), stream_(context.engine), layer_(affine_of(task.layer, task.dtype)) {
    info_.seed = seed;
    const double begin = seconds_now();
    describe(task.pass);
    for (const dnnl::primitive_desc& description : descriptions_) {
      steps_.push_back({dnnl::primitive(description), {}});
    }
    info_.plan_s = seconds_now() - begin;
    allocate();
    fill(seed);
    bind();
  }
  ~OneDnnCase() override { context_.arena.trim(); }

  const CaseInfo& info() const override { return info_; }

  Sample run(std::int64_t runs) override {
    const double begin = seconds_now();
    for (std::int64_t i = 0; i < runs; ++i) {
      for (const Step& step : steps_) step.primitive.execute(stream_, step.arguments);
    }
    stream_.wait();
    const double elapsed = seconds_now() - begin;
    return {.device_s = elapsed, .host_s = elapsed};
  }

  void make_cold() override { context_.flush(touched_); }

  double checksum() override {
    double total = 0;
    for (const int argument : results_) {
      const Operand& operand = operands_.at(argument);
      const std::size_t bytes = operand.layout.get_size();
      void* data = operand.value.get_data_handle();
      total += layer_.type == memory::data_type::f32
                   ? sum_f32({static_cast<const float*>(data), bytes / sizeof(float)})
                   : sum_bf16({static_cast<const std::uint16_t*>(data), bytes / 2});
    }
    return total;
  }

  std::vector<float> operand(int argument) const override {
    const auto found = operands_.find(argument);
    if (found == operands_.end()) return {};
    const memory::dims& dims = found->second.plain_layout.dims();
    const memory::desc plain_f32 = plain(dims, memory::data_type::f32);
    std::vector<float> values(plain_f32.get_size() / sizeof(float));
    memory to(plain_f32, context_.engine, values.data());
    memory from = found->second.value;
    dnnl::stream stream(context_.engine);
    dnnl::reorder(from, to).execute(stream, from, to);
    stream.wait();
    return values;
  }

 private:
  void add(int argument, const memory::desc& layout, const memory::dims& dims, float scale) {
    operands_[argument] = {layout, plain(dims, layer_.type), scale};
  }

  /// The gradient with respect to the sum before the activation: the layer's own work.
  static constexpr int pre_activation_gradient = DNNL_ARG_DIFF_DST;
  /// The gradient with respect to the output, where an activation lies between.
  static constexpr int output_gradient = DNNL_ARG_MULTIPLE_SRC;

  void describe(Pass pass) {
    const auto any_of = [&](const memory::dims& dims) { return any(dims, layer_.type); };
    // Sums of fan_in products stay of the size of their terms.
    const auto weight_scale = static_cast<float>(std::sqrt(3 / layer_.fan_in));
    switch (pass) {
      case Pass::forward: {
        const auto main = describe_forward(context_.engine, layer_,
                                           dnnl::prop_kind::forward_inference, any_of(layer_.src));
        add(DNNL_ARG_SRC, main.query_md(dnnl::query::src_md), layer_.src, 1);
        add(DNNL_ARG_WEIGHTS, main.query_md(dnnl::query::weights_md), layer_.weights, weight_scale);
        if (!layer_.bias.empty()) {
          add(DNNL_ARG_BIAS, main.query_md(dnnl::query::weights_md, 1), layer_.bias, 1);
        }
        add(DNNL_ARG_DST, main.query_md(dnnl::query::dst_md), layer_.dst, 0);
        descriptions_ = {main};
        results_ = {DNNL_ARG_DST};
        break;
      }
      case Pass::backward_data: {
        const auto main = describe_backward_data(context_.engine, layer_, any_of(layer_.dst));
        const memory::desc gradient = main.query_md(dnnl::query::diff_dst_md);
        add(DNNL_ARG_WEIGHTS, main.query_md(dnnl::query::weights_md), layer_.weights, weight_scale);
        add(DNNL_ARG_DIFF_SRC, main.query_md(dnnl::query::diff_src_md), layer_.src, 0);
        if (layer_.activation != Activation::none) {
          add(DNNL_ARG_DST, gradient, layer_.dst, 1);
          add(output_gradient, gradient, layer_.dst, 1);
          add(pre_activation_gradient, gradient, layer_.dst, 0);
          descriptions_.push_back(
              describe_activation_backward(context_.engine, layer_.activation, gradient));
        } else {
          add(pre_activation_gradient, gradient, layer_.dst, 1);
        }
        descriptions_.push_back(main);
        results_ = {DNNL_ARG_DIFF_SRC};
        break;
      }
      case Pass::backward_weights: {
        const auto main = describe_backward_weights(context_.engine, layer_, any_of(layer_.src),
                                                    any_of(layer_.dst));
        add(DNNL_ARG_SRC, main.query_md(dnnl::query::src_md), layer_.src, 1);
        add(DNNL_ARG_DIFF_DST, main.query_md(dnnl::query::diff_dst_md), layer_.dst, 1);
        add(DNNL_ARG_DIFF_WEIGHTS, main.query_md(dnnl::query::diff_weights_md), layer_.weights, 0);
        results_ = {DNNL_ARG_DIFF_WEIGHTS};
        if (!layer_.bias.empty()) {
          add(DNNL_ARG_DIFF_BIAS, main.query_md(dnnl::query::diff_weights_md, 1), layer_.bias, 0);
          results_.push_back(DNNL_ARG_DIFF_BIAS);
        }
        descriptions_ = {main};
        break;
      }
      default:
        throw CaseRefused(Status::unsupported, fmt::format("no pass {}", name_of(pass)));
    }
    for (const dnnl::primitive_desc& description : descriptions_) {
      if (!info_.implementation.empty()) info_.implementation += "+";
      info_.implementation += implementation_of(description);
    }
  }

  void allocate() {
    const double begin = seconds_now();
    std::size_t operands = 0, staging = 0, scratchpad = 0;
    for (const auto& [argument, operand] : operands_) {
      operands += Arena::padded(operand.layout.get_size());
      std::size_t elements = 1;
      for (const memory::dim dim : operand.plain_layout.dims()) {
        elements *= static_cast<std::size_t>(dim);
      }
      if (operand.scale != 0) staging = std::max(staging, Arena::padded(elements * sizeof(float)));
    }
    for (const dnnl::primitive_desc& description : descriptions_) {
      scratchpad = std::max(scratchpad, description.scratchpad_desc().get_size());
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
    for (auto& [argument, operand] : operands_) {
      operand.value =
          memory(operand.layout, context_.engine, context_.arena.take(operand.layout.get_size()));
    }
    scratchpad_ = context_.arena.take(scratchpad);
    touched_ = context_.arena.taken();
    info_.flush_bytes = context_.flush.bytes(touched_);
    staging_ = static_cast<float*>(context_.arena.take(staging));
    info_.allocate_s = seconds_now() - begin;
  }

  /// Values are drawn in plain layout and then brought into the library's, so that its padding is
  /// zero, as its kernels expect.
  void fill(std::uint64_t seed) {
    info_.reorder_s = 0;
    for (auto& [argument, operand] : operands_) {
      const double begin = seconds_now();
      if (operand.scale == 0) {
        // Touches the pages; every element is written by a run.
        std::memset(operand.value.get_data_handle(), 0, operand.layout.get_size());
        info_.allocate_s += seconds_now() - begin;
        continue;
      }
      const memory::desc plain_f32 = plain(operand.plain_layout.dims(), memory::data_type::f32);
      const bool direct = operand.layout == plain_f32;
      float* values = direct ? static_cast<float*>(operand.value.get_data_handle()) : staging_;
      context_.pool.fill({values, plain_f32.get_size() / sizeof(float)}, operand.scale,
                         mix64(seed) + static_cast<std::uint64_t>(argument));
      const double filled = seconds_now();
      info_.allocate_s += filled - begin;
      if (direct) continue;
      memory from(plain_f32, context_.engine, values);
      dnnl::reorder(from, operand.value).execute(stream_, from, operand.value);
      stream_.wait();
      info_.reorder_s += seconds_now() - filled;
    }
  }

  void bind() {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      auto& arguments = steps_[i].arguments;
      if (i + 1 < steps_.size()) {  // the activation's gradient comes before the layer's
        arguments[DNNL_ARG_DST] = operands_.at(DNNL_ARG_DST).value;
        arguments[DNNL_ARG_DIFF_DST] = operands_.at(output_gradient).value;
        arguments[DNNL_ARG_DIFF_SRC] = operands_.at(pre_activation_gradient).value;
      } else {
        for (const auto& [argument, operand] : operands_) {
          const bool of_activation =
              steps_.size() > 1 && (argument == output_gradient || argument == DNNL_ARG_DST);
          if (!of_activation) arguments[argument] = operand.value;
        }
      }
      arguments[DNNL_ARG_SCRATCHPAD] =
          memory(descriptions_[i].scratchpad_desc(), context_.engine, scratchpad_);
    }
  }

  CaseContext context_;
  dnnl::stream stream_;
  Affine layer_;
  CaseInfo info_;
  std::vector<dnnl::primitive_desc> descriptions_;
  std::vector<Step> steps_;
  std::map<int, Operand> operands_;
  std::vector<int> results_;
  std::span<const std::byte> touched_;  ///< by a run: operands and scratchpad
  void* scratchpad_ = nullptr;
  float* staging_ = nullptr;
};

}  // namespace

std::unique_ptr<PreparedCase> prepare_layer_case(const CaseContext& context, const Task& task,
                                                 std::uint64_t seed) {
  try {
    return std::make_unique<OneDnnCase>(context, task, seed);
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_out_of_memory) throw CaseRefused(Status::out_of_memory, error.message);
    const Status status = error.status == dnnl_unimplemented ? Status::unsupported : Status::failed;
    throw CaseRefused(status, fmt::format("oneDNN: {}", error.message));
  }
}

}  // namespace forecost::cpu
