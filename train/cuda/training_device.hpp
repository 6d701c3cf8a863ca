#pragma once

#include <memory>

#include "cuda/module.hpp"
#include "mpi/world.hpp"

namespace forecost {

/// The GPU that this rank trains on, opened.
class TrainingDevice {
 public:
  /// Throws EnvironmentError where it does not open.
  explicit TrainingDevice(const cuda::OpenableDevice& device);
  ~TrainingDevice();
  TrainingDevice(const TrainingDevice&) = delete;
  TrainingDevice& operator=(const TrainingDevice&) = delete;

  /// Throws EnvironmentError that names the GPU unless the outcome is ok: a device without memory
  /// or after a fault trains nothing.
  void ask(const char* what, const cuda::Outcome& outcome) const;
  const cuda::ModuleTable& table() const { return module_->table(); }
  cuda::Context* context() const { return context_; }
  const cuda::DeviceFacts& facts() const { return facts_; }

 private:
  std::shared_ptr<const cuda::Module> module_;
  cuda::DeviceFacts facts_;
  cuda::Context* context_ = nullptr;
};

/// A GPU for each rank of the world, by its number on its host. Called by all ranks; all throw the
/// same AgreedError (exit code 3) where one has none, or two have the same: with hosts, ranks and
/// UUID.
std::unique_ptr<TrainingDevice> open_training_device(const World& world);

}  // namespace forecost
