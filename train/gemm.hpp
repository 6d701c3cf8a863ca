#pragma once

#include "train/model/gemm.hpp"

namespace forecost {

/// The fastest product that was built: oneDNN's, which takes the widest instructions that the CPU
/// has, else Eigen's.
const Gemm& best_gemm();

}  // namespace forecost
