#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace forecost::cuda {

/// What NVIDIA's management library tells of a GPU. It comes with the driver and is opened at run
/// time: without it, and wherever it does not answer, things are unknown, never an error.
class Nvml {
 public:
  /// nullptr where there is no library or it does not start.
  static std::shared_ptr<Nvml> open();
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  std::string driver_version() const;  ///< "580.65.06"; empty if unknown
  /// Of the host, or of the job where that is confined to some; slices count as their GPU.
  unsigned gpus() const;

 private:
  friend class NvmlDevice;
  struct Library;
  explicit Nvml(std::unique_ptr<Library> library);
  std::unique_ptr<Library> library_;
};

/// Those of NVML's clocks event reasons ("throttle reasons") among `bits` that hold the clock below
/// what the device's class implies: heat, or the power supply. Empty, or their names. A power cap
/// is part of the class, and reaching it is how big products run.
std::string throttle_reasons(std::uint64_t bits);

/// A GPU or a MIG slice; what a slice does not tell is asked of its GPU.
class NvmlDevice {
 public:
  /// Knows nothing if `nvml` is nullptr or has no device of this UUID.
  NvmlDevice(std::shared_ptr<Nvml> nvml, const std::string& uuid);

  bool known() const { return device_ != nullptr; }
  std::optional<double> clock_hz() const;  ///< of the multiprocessors
  std::optional<double> memory_clock_hz() const;
  std::optional<double> highest_clock_hz() const;
  std::optional<double> power_w() const;
  std::optional<double> energy_j() const;  ///< since the driver was loaded
  std::optional<double> temperature_k() const;
  std::optional<std::uint64_t> clock_reasons() const;
  std::optional<double> power_cap_w() const;          ///< in force
  std::optional<double> default_power_cap_w() const;  ///< of the board
  std::optional<bool> ecc() const;
  std::optional<bool> mig() const;
  /// Processes that compute on it, this one among them, if the driver's numbers are ours
  /// (a container may have others).
  std::optional<std::vector<std::uint32_t>> processes() const;

 private:
  template <class Value, class Function, class... Arguments>
  std::optional<Value> get(Function function, void* device, Arguments... arguments) const;

  std::shared_ptr<Nvml> nvml_;
  void* device_ = nullptr;  ///< the slice, or the GPU
  void* gpu_ = nullptr;
};

/// Whether this process's number is the one that the driver knows it by: not so in a container that
/// numbers its own.
bool numbered_by_the_host();
/// `found` without this process, which is number `own`. Where the driver's numbers are others than
/// ours, one of them is taken to be this process, since that has the device open.
std::vector<std::uint32_t> without_this_process(std::vector<std::uint32_t> found, std::uint32_t own,
                                                bool numbered_by_the_host);

}  // namespace forecost::cuda
