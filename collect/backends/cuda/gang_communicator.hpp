#pragma once

#include "collect/backends/cuda/cuda_case.hpp"
#include "mpi/gang.hpp"

namespace forecost::cuda {

/// Opens NCCL's communicator between the GPUs of a gang, which keeps it and must not outlive the
/// device. Called by all members at the same time.
void open_communicator(Gang& gang, OpenDevice& device);
/// Throws CaseRefused (failed) where it did not open.
Communicator* communicator_of(const Gang& gang);

}  // namespace forecost::cuda
