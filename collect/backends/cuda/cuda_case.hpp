#pragma once

#include <functional>
#include <memory>

#include "collect/backend.hpp"
#include "collect/backends/cuda/nvml.hpp"
#include "collect/backends/cuda/recipe.hpp"
#include "cuda/module.hpp"

namespace forecost::cuda {

/// A GPU that is open, as its cases use it.
class OpenDevice {
 public:
  /// Throws ModuleError.
  explicit OpenDevice(const OpenableDevice& device);
  ~OpenDevice();
  OpenDevice(const OpenDevice&) = delete;
  OpenDevice& operator=(const OpenDevice&) = delete;

  const ModuleTable& table() const { return table_; }
  Context* context() const { return context_; }
  const DeviceFacts& facts() const { return facts_; }
  /// 90 of compute capability 9.0.
  int capability() const { return 10 * facts_.capability_major + facts_.capability_minor; }
  /// What a flush overwrites: twice the L2 (MEASURING.md rule 4).
  std::int64_t flush_bytes() const { return 2 * facts_.l2_bytes; }

  /// ask(), and remembers an error that sticks to the process.
  void ask(const Outcome& outcome);
  bool poisoned() const { return poisoned_; }

 private:
  const ModuleTable& table_;
  DeviceFacts facts_;
  Context* context_ = nullptr;
  bool poisoned_ = false;
};

/// Whether the driver says that a device is slowed down, asked at most every few milliseconds: the
/// question takes longer than many samples. Empty, or the reasons.
class ThrottleWatch {
 public:
  explicit ThrottleWatch(const NvmlDevice& nvml) : nvml_(nvml) {}
  void begin();
  bool throttled();  ///< now
  /// All reasons since begin().
  std::string reasons() const;

 private:
  const NvmlDevice& nvml_;
  double asked_s_ = 0;
  std::uint64_t now_ = 0, seen_ = 0;
};

/// A task planned, with memory and values. Throws CaseRefused.
std::unique_ptr<PreparedCase> prepare_case(OpenDevice& device, ThrottleWatch& throttle,
                                           const Task& task, Layout layout, std::uint64_t seed);
/// The same of a recipe that is no operator's own.
std::unique_ptr<PreparedCase> prepare_recipe(OpenDevice& device, ThrottleWatch& throttle,
                                             const Task& task, Layout layout, std::uint64_t seed,
                                             const std::function<void(Recipe&)>& describe);

/// The clock of the host: steady, in seconds.
double host_seconds();

}  // namespace forecost::cuda
