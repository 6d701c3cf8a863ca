#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "cuda/module_interface.hpp"

namespace forecost::cuda {

/// What a module answered when it was not ok.
class ModuleError : public std::runtime_error {
 public:
  ModuleError(Code code, const std::string& message) : std::runtime_error(message), code_(code) {}
  Code code() const noexcept { return code_; }

 private:
  Code code_;
};
/// Throws ModuleError unless the outcome is ok.
void ask(const Outcome& outcome);

/// A CUDA module that was opened; it stays in the process until that ends, since CUDA's libraries
/// do not bear being closed.
class Module {
 public:
  /// Throws EnvironmentError, one line that says what is wrong with it, where the file cannot be
  /// opened or was not built with this program.
  explicit Module(const std::filesystem::path& file);

  const ModuleTable& table() const { return *table_; }
  const std::filesystem::path& file() const { return file_; }
  Versions versions() const;

 private:
  std::filesystem::path file_;
  const ModuleTable* table_;
};

/// Where modules lie: lib/forecost beside the program's folder.
std::filesystem::path module_folder();
/// forecost-cuda<major>.so of the folder, the highest major first.
std::vector<std::filesystem::path> module_files(const std::filesystem::path& folder);

/// A GPU is there, and cannot be used.
class UnusableGpu : public EnvironmentError {
 public:
  using EnvironmentError::EnvironmentError;
};
/// This process sees no GPU, or is to see none.
class NoGpu : public EnvironmentError {
 public:
  using EnvironmentError::EnvironmentError;
};

/// One GPU of this process and the module that can run it.
struct OpenableDevice {
  std::shared_ptr<const Module> module;  ///< nullptr: none can
  std::int32_t index = 0;                ///< among those that the process sees
  DeviceFacts facts{};
};

/// For each GPU that this process sees, the newest module of the folder that its driver and its
/// compute capability can run. Throws one line if there is none: EnvironmentError without a module
/// that opens or a driver, NoGpu, or UnusableGpu where no module runs any of them.
std::vector<OpenableDevice> openable_devices(const std::filesystem::path& folder);

/// Which of the devices that a process sees is this rank's: its own number on the host. A process
/// that sees only one was given that one by the launcher (srun --gpus-per-task=1). -1 if there are
/// fewer than ranks: this one has none, and may be the manager.
int device_of_rank(int visible, int local_rank);

}  // namespace forecost::cuda
