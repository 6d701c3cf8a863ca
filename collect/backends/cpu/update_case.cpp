#include <chrono>
#include <vector>

#include <fmt/format.h>

#include "collect/backends/cpu/cpu_case.hpp"
#include "collect/backends/cpu/update.hpp"
#include "core/random.hpp"
#include "core/units.hpp"

namespace forecost::cpu {
namespace {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// One optimizer step over all parameter tensors of a layer, a call for each.
class UpdateCase final : public PreparedCase {
 public:
  UpdateCase(const CaseContext& context, const Task& task, std::uint64_t seed)
      : context_(context), task_(task) {
    info_.seed = seed;
    info_.implementation = fmt::format("forecost:{}", name_of(task.optimizer));
    const double begin = seconds_now();
    const int states = optimizer_cost(task.optimizer).state_tensors;
    const auto size = static_cast<std::size_t>(bytes_of(task.dtype));
    std::size_t total = 0;
    for (const std::int64_t elements : task.layer.op().parameter_tensors(task.layer)) {
      tensors_.push_back({.parameters = nullptr,
                          .gradient = nullptr,
                          .elements = static_cast<std::size_t>(elements)});
      total += 2 * Arena::padded(tensors_.back().elements * size) +
               static_cast<std::size_t>(states) *
                   Arena::padded(tensors_.back().elements * sizeof(float));
    }
    if (static_cast<double>(total) > context.free_memory_bytes) {
      throw CaseRefused(
          Status::skipped_memory,
          fmt::format("{} do not fit into {}", format_bytes(static_cast<double>(total)),
                      format_bytes(context.free_memory_bytes)));
    }
    context.arena.reset(total);
    for (ParameterTensor& tensor : tensors_) {
      tensor.parameters = context.arena.take(tensor.elements * size);
      tensor.gradient = context.arena.take(tensor.elements * size);
      const std::size_t state_bytes = tensor.elements * sizeof(float);
      if (states > 0) tensor.first = static_cast<float*>(context.arena.take(state_bytes));
      if (states > 1) tensor.second = static_cast<float*>(context.arena.take(state_bytes));
    }
    info_.memory_bytes = static_cast<double>(total);
    info_.flush_bytes = context.flush.bytes(context.arena.taken());
    info_.plan_s = info_.reorder_s = 0;
    initialise();
    info_.allocate_s = seconds_now() - begin;
  }
  ~UpdateCase() override { context_.arena.trim(); }

  const CaseInfo& info() const override { return info_; }

  Sample run(std::int64_t runs) override {
    const double begin = seconds_now();
    for (std::int64_t i = 0; i < runs; ++i) step();
    const double elapsed = seconds_now() - begin;
    return {.device_s = elapsed, .host_s = elapsed};
  }

  void make_cold() override { context_.flush(context_.arena.taken()); }

  /// Of one step from the first state: every step changes the parameters, so that the results of
  /// the first and of the last one differ by nature.
  double checksum() override {
    initialise();
    step();
    double total = 0;
    for (const ParameterTensor& tensor : tensors_) {
      total +=
          task_.dtype == DType::f32
              ? sum_f32({static_cast<const float*>(tensor.parameters), tensor.elements})
              : sum_bf16({static_cast<const std::uint16_t*>(tensor.parameters), tensor.elements});
      if (tensor.first != nullptr) total += sum_f32({tensor.first, tensor.elements});
      if (tensor.second != nullptr) total += sum_f32({tensor.second, tensor.elements});
    }
    return total;
  }

 private:
  void step() {
    ++step_;
    for (const ParameterTensor& tensor : tensors_) {
      update(task_.optimizer, task_.dtype, tensor, step_);
    }
  }

  void initialise() {
    step_ = 0;
    std::uint64_t stream = 0;
    const auto fill = [&](void* data, std::size_t elements, float scale) {
      const std::uint64_t seed = mix64(info_.seed) + stream++;
      if (task_.dtype == DType::f32) {
        context_.pool.fill({static_cast<float*>(data), elements}, scale, seed);
        return;
      }
      const auto type = dnnl::memory::data_type::f32;
      const auto n = static_cast<dnnl::memory::dim>(elements);
      std::vector<float> values(elements);
      context_.pool.fill(values, scale, seed);
      dnnl::memory from(plain({n}, type), context_.engine, values.data());
      dnnl::memory to(plain({n}, data_type_of(task_.dtype)), context_.engine, data);
      dnnl::stream queue(context_.engine);
      dnnl::reorder(from, to).execute(queue, from, to);
      queue.wait();
    };
    for (const ParameterTensor& tensor : tensors_) {
      fill(tensor.parameters, tensor.elements, 1);
      fill(const_cast<void*>(tensor.gradient), tensor.elements, 0.01F);
      if (tensor.first != nullptr) std::fill_n(tensor.first, tensor.elements, 0.F);
      if (tensor.second != nullptr) std::fill_n(tensor.second, tensor.elements, 0.F);
    }
  }

  CaseContext context_;
  Task task_;
  CaseInfo info_;
  std::vector<ParameterTensor> tensors_;
  std::int64_t step_ = 0;
};

}  // namespace

std::unique_ptr<PreparedCase> prepare_update_case(const CaseContext& context, const Task& task,
                                                  std::uint64_t seed) {
  return std::make_unique<UpdateCase>(context, task, seed);
}

}  // namespace forecost::cpu
