#pragma once

#include "train/cuda/nccl_collective.hpp"
#include "train/step_engine.hpp"

namespace forecost {

/// Steps on a GPU, in the precision that is asked for. The collective must be an NcclCollective of
/// the same device, or one of a single rank. Fast sharing only: UsageError for deterministic sums.
EngineFactory cuda_engines(TrainingDevice& device, cuda::Precision precision);

}  // namespace forecost
