#include <malloc.h>

#include <Eigen/Core>

#include "train/model/gemm.hpp"

namespace forecost {
namespace {

using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using In = Eigen::Map<const RowMajor, 0, Eigen::OuterStride<>>;
using Out = Eigen::Map<RowMajor, 0, Eigen::OuterStride<>>;

class EigenGemm final : public Gemm {
 public:
  EigenGemm() {
    // Eigen allocates its packing buffers in each product; glibc would map and unmap them every
    // time, which takes four times as long as the product of a small network.
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
  }
  std::string_view name() const override { return "eigen"; }
  void multiply(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView a, MatrixView b,
                float beta, float* c, std::int64_t c_stride) const override {
    Out out(c, m, n, Eigen::OuterStride<>(c_stride));
    if (beta == 0) out.setZero();
    const In left(a.data, a.transposed ? k : m, a.transposed ? m : k,
                  Eigen::OuterStride<>(a.stride));
    const In right(b.data, b.transposed ? n : k, b.transposed ? k : n,
                   Eigen::OuterStride<>(b.stride));
    if (a.transposed && b.transposed) {
      out.noalias() += left.transpose() * right.transpose();
    } else if (a.transposed) {
      out.noalias() += left.transpose() * right;
    } else if (b.transposed) {
      out.noalias() += left * right.transpose();
    } else {
      out.noalias() += left * right;
    }
  }
};

}  // namespace

const Gemm& eigen_gemm() {
  static const EigenGemm gemm;
  return gemm;
}

}  // namespace forecost
