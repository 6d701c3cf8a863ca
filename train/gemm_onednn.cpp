#include <new>
#include <stdexcept>

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include "train/gemm.hpp"

namespace forecost {

namespace {

class OneDnnGemm final : public Gemm {
 public:
  std::string_view name() const override { return "onednn"; }
  void multiply(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView a, MatrixView b,
                float beta, float* c, std::int64_t c_stride) const override {
    // One rank trains on one core; a team of threads would also change the order of sums.
    const int threads = omp_get_max_threads();
    if (threads != 1) omp_set_num_threads(1);
    const dnnl_status_t status =
        dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', m, n, k, 1.0F, a.data,
                   a.stride, b.data, b.stride, beta, c, c_stride);
    if (threads != 1) omp_set_num_threads(threads);
    if (status == dnnl_out_of_memory) throw std::bad_alloc();
    if (status != dnnl_success) throw std::logic_error("dnnl_sgemm refused its arguments");
  }
};

}  // namespace

const Gemm& best_gemm() {
  static const OneDnnGemm gemm;
  return gemm;
}

}  // namespace forecost
