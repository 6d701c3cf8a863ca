#include "tests/cuda/standin/gemm.hpp"

#include <algorithm>
#include <vector>

#include "tests/cuda/standin/state.hpp"

namespace forecost::standin {
namespace {

std::size_t bytes_of(const Layout& layout) {
  const std::int64_t one = (layout.columns - 1) * layout.leading + layout.rows;
  return static_cast<std::size_t>((layout.batch - 1) * layout.batch_stride + one) *
         size_of(type_of(layout.type));
}

/// As the tensor cores take f32 in that mode.
void round_for(cublasComputeType_t compute, std::vector<float>& values) {
  const auto through = [&](Type type) {
    for (float& value : values) {
      store(type, &value, 0, value);
      value = load(type, &value, 0);
    }
  };
  if (compute == CUBLAS_COMPUTE_32F_FAST_TF32) round_to_tf32(values);
  if (compute == CUBLAS_COMPUTE_32F_FAST_16F) through(Type::f16);
  if (compute == CUBLAS_COMPUTE_32F_FAST_16BF) through(Type::bf16);
}

/// Dense, column-major, with the transposition done: rows x columns of each matrix of the batch.
std::vector<float> load_matrices(const Layout& layout, bool transposed, const void* memory) {
  const std::int64_t rows = transposed ? layout.columns : layout.rows,
                     columns = transposed ? layout.rows : layout.columns;
  std::vector<float> values(static_cast<std::size_t>(rows * columns * layout.batch));
  std::size_t at = 0;
  for (std::int64_t batch = 0; batch < layout.batch; ++batch)
    for (std::int64_t j = 0; j < columns; ++j)
      for (std::int64_t i = 0; i < rows; ++i)
        values[at++] = load(type_of(layout.type), memory,
                            static_cast<std::size_t>(
                                batch * layout.batch_stride +
                                (transposed ? i * layout.leading + j : j * layout.leading + i)));
  return values;
}

void compute(const Problem& p, const Factors& f) {
  // A with k running fastest, B too.
  std::vector<float> left = load_matrices(p.a, p.product.transpose_a == CUBLAS_OP_N, f.a);
  std::vector<float> right = load_matrices(p.b, p.product.transpose_b != CUBLAS_OP_N, f.b);
  if (p.a.type == CUDA_R_32F) {
    round_for(p.product.compute, left);
    round_for(p.product.compute, right);
  }
  const Type type = type_of(p.d.type);
  const Type bias_type =
      p.product.bias_type < 0 ? type : type_of(static_cast<cudaDataType_t>(p.product.bias_type));
  for (std::int64_t batch = 0; batch < p.d.batch; ++batch)
    for (std::int64_t j = 0; j < p.n; ++j)
      for (std::int64_t i = 0; i < p.m; ++i) {
        const float* x = &left[static_cast<std::size_t>((batch * p.m + i) * p.k)];
        const float* y = &right[static_cast<std::size_t>((batch * p.n + j) * p.k)];
        // Four sums, so that the compiler can keep them apart.
        double sums[4] = {};
        std::int64_t k = 0;
        for (; k + 4 <= p.k; k += 4)
          for (int l = 0; l < 4; ++l) sums[l] += static_cast<double>(x[k + l]) * y[k + l];
        for (; k < p.k; ++k) sums[0] += static_cast<double>(x[k]) * y[k];
        double value = f.alpha * (sums[0] + sums[1] + (sums[2] + sums[3]));
        if (f.beta != 0)
          value += f.beta *
                   load(type, f.c,
                        static_cast<std::size_t>(batch * p.c.batch_stride + j * p.c.leading + i));
        if (p.has_bias()) value += load(bias_type, p.product.bias, static_cast<std::size_t>(i));
        if (p.has_relu()) value = std::max(value, 0.0);
        store(type, f.d, static_cast<std::size_t>(batch * p.d.batch_stride + j * p.d.leading + i),
              value);
      }
}

}  // namespace

Type type_of(cudaDataType_t type) {
  switch (type) {
    case CUDA_R_32F:
      return Type::f32;
    case CUDA_R_16F:
      return Type::f16;
    case CUDA_R_16BF:
      return Type::bf16;
    case CUDA_R_64F:
      return Type::f64;
    default:
      return Type::none;
  }
}

cublasStatus_t status_of(cudaError_t error) {
  if (error == cudaSuccess) return CUBLAS_STATUS_SUCCESS;
  answer(error);
  return CUBLAS_STATUS_EXECUTION_FAILED;
}

cublasStatus_t inconsistent(const std::string& words) {
  violation("descriptor", std::string(state().call) + ": " + words);
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t complete(Problem& problem) {
  const Product& product = problem.product;
  for (const Layout* layout : {&problem.a, &problem.b, &problem.c, &problem.d}) {
    if (layout->order != CUBLASLT_ORDER_COL) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (type_of(layout->type) == Type::none) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (layout->rows < 1 || layout->columns < 1 || layout->leading < layout->rows)
      return inconsistent("a matrix without elements, or a leading dimension below its rows");
    if (layout->batch != problem.d.batch) return inconsistent("batches differ");
    if (layout->batch > 1 &&
        layout->batch_stride < (layout->columns - 1) * layout->leading + layout->rows &&
        layout == &problem.d)
      return inconsistent("results of a batch overlap");
  }
  const bool ta = product.transpose_a != CUBLAS_OP_N, tb = product.transpose_b != CUBLAS_OP_N;
  problem.m = problem.d.rows;
  problem.n = problem.d.columns;
  problem.k = ta ? problem.a.rows : problem.a.columns;
  if ((ta ? problem.a.columns : problem.a.rows) != problem.m ||
      (tb ? problem.b.rows : problem.b.columns) != problem.n ||
      (tb ? problem.b.columns : problem.b.rows) != problem.k || problem.c.rows != problem.d.rows ||
      problem.c.columns != problem.d.columns)
    return inconsistent("the shapes of A, B, C and D do not agree");
  if (problem.a.type != problem.b.type || problem.c.type != problem.d.type)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  if (product.scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (!problem.tensor_cores() && product.compute != CUBLAS_COMPUTE_32F &&
      product.compute != CUBLAS_COMPUTE_32F_PEDANTIC)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  if (problem.a.type != CUDA_R_32F && product.compute != CUBLAS_COMPUTE_32F)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  return unsupported("gemm") ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
}

Work product_work(const char* name, const Problem& problem, const Factors& factors) {
  const auto [alpha, a, b, beta, c, d] = factors;
  Work work;
  work.name = name;
  work.operands = {
      reads(a, bytes_of(problem.a), "A"),
      reads(b, bytes_of(problem.b), "B"),
      {d, bytes_of(problem.d), beta != 0 && c == d ? Access::update : Access::write, "D"}};
  if (beta != 0 && c != d) work.operands.push_back(reads(c, bytes_of(problem.c), "C"));
  if (problem.has_bias())
    work.operands.push_back(
        reads(problem.product.bias,
              static_cast<std::size_t>(problem.m) *
                  size_of(problem.product.bias_type < 0
                              ? type_of(problem.d.type)
                              : type_of(static_cast<cudaDataType_t>(problem.product.bias_type))),
              "bias"));
  work.flops = problem.flops();
  work.rate = !problem.tensor_cores()        ? Rate::f32
              : problem.a.type == CUDA_R_32F ? Rate::tf32
                                             : Rate::f16;
  work.parameters =
      std::to_string(problem.key()) + ";" + std::to_string(alpha) + ";" + std::to_string(beta);
  // What lies between its columns is not the result's, and not to be put back with it.
  work.memorable =
      problem.d.leading == problem.d.rows &&
      (problem.d.batch == 1 || problem.d.batch_stride == problem.d.rows * problem.d.columns);
  work.compute = [=] { compute(problem, factors); };
  return work;
}

}  // namespace forecost::standin
