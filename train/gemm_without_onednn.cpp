#include "train/gemm.hpp"

namespace forecost {

const Gemm& best_gemm() { return eigen_gemm(); }

}  // namespace forecost
