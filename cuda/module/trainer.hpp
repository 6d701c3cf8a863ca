#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "core/training_rules.hpp"
#include "cuda/module/capture.hpp"
#include "cuda/module/communicator.hpp"
#include "cuda/module/cublas.hpp"
#include "cuda/module/training.hpp"

namespace forecost::cuda {

/// Trains perceptrons on a context's device, step after step without the host: of each batch this
/// rank takes its share, all gradients lie in one buffer, which is summed over the ranks by one
/// all-reduce. A step is a captured graph, where that can be had.
struct Trainer final : GraphOwner {
  /// `communicator` may be nullptr: this rank alone. Throws Failure.
  Trainer(Context& context, Communicator* communicator, const TrainingSetup& setup);

  void load(const float* parameters, const float* first, const float* second);
  void store(float* parameters, float* first, float* second);
  /// Returns the sum of the losses of this rank's rows.
  double run_epoch(const TrainingEpoch& epoch);

  void drop_graphs() noexcept override { graphs_.clear(); }
  Context& context() { return context_; }

 private:
  LayerView layer(std::size_t l) const;
  void enqueue_step(const StepRows& rows, std::int64_t batch_rows);
  void enqueue_gradient(const StepRows& rows, std::int64_t batch_rows);
  void run_step(std::int64_t batch_rows);
  void upload(std::byte* to, const void* from, std::int64_t bytes);
  void download(void* to, const std::byte* from, std::int64_t bytes);

  Context& context_;
  Communicator* communicator_;
  Cublas cublas_;
  std::vector<std::int64_t> widths_, weights_at_, bias_at_;
  std::int64_t network_size_, networks_, rows_, batch_, most_rows_;
  Loss loss_;
  double huber_delta_, dropout_;
  Precision precision_;

  // Of the device. The elements of what is not f32 are the precision's.
  DeviceMemory x_, y_;                          ///< of all rows
  DeviceMemory parameters_, first_, second_;    ///< networks x network_size
  DeviceMemory gradient_;                       ///< of all networks: what is summed over ranks
  DeviceMemory rounded_;                        ///< parameters in bf16; null where they are f32
  DeviceMemory order_, seeds_, factors_;        ///< of an epoch
  DeviceMemory inputs_;                         ///< networks x most_rows x inputs
  std::vector<DeviceMemory> hidden_;            ///< of each hidden layer, as inputs_
  DeviceMemory delta_, next_delta_, products_;  ///< of the widest layer; products are f32
  DeviceMemory slopes_, losses_, loss_sum_, next_step_;

  /// By the rows of a batch over all ranks; null where such a step could not be captured. The first
  /// step of each is run as it is: libraries set themselves up in it.
  std::map<std::int64_t, GraphExec> graphs_;
};

}  // namespace forecost::cuda
