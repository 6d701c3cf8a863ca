#pragma once

#include <string>

#include "collect/backend.hpp"

namespace forecost {

/// GPUs through the CUDA module, one for each rank.
extern const BackendInfo cuda_backend;

namespace cuda {

/// The class of a GPU (the unit of scheduling and modelling): the shipped device that is known by
/// this CUDA name, else the name as a user would type it ("NVIDIA RTX A6000" -> "rtx-a6000"). A MIG
/// slice adds its profile, and what makes a card another one adds to it: a power cap below the
/// board's own (0: unknown), error correction that is switched off.
std::string gpu_class(const std::string& cuda_name, double power_cap_w, double default_power_cap_w,
                      bool ecc_off);

/// Lets a GPU spin for so long by its own clock; what the timing path made of it, in seconds.
double timed_spin(TimingBackend& backend, double seconds);

}  // namespace cuda
}  // namespace forecost
