#include "data/operators/matmul.hpp"

#include "data/layer_draft.hpp"
#include "data/operators/passes.hpp"

namespace forecost {

MatmulShape matmul_shape(const Layer& layer) {
  const auto v = layer.values();
  return {v[0], v[1], v[2], v[3]};
}

namespace {

std::int64_t input_elements(const Layer& layer) {
  const MatmulShape s = matmul_shape(layer);
  return s.batch * s.k * (s.m + s.n);
}

std::int64_t output_elements(const Layer& layer) {
  const MatmulShape s = matmul_shape(layer);
  return s.batch * s.m * s.n;
}

/// A multiply-add is two FLOPs, as LAPACK's operation counts have it (LAPACK Working Note 41,
/// appendix C): 2 m n k for each product. Forward reads A and B and writes C. backward
/// is the two products dA = dC B' and dB = A' dC; it reads dC, A and B once and writes dA and dB.
Work own_work(const Layer& layer, Pass pass, DType dtype) {
  const auto operands = static_cast<double>(input_elements(layer)),
             result = static_cast<double>(output_elements(layer)), size = bytes_of(dtype);
  const double flops = 2 * result * static_cast<double>(matmul_shape(layer).k);
  if (pass == Pass::forward) {
    return {.flops = flops, .bytes_read = size * operands, .bytes_written = size * result};
  }
  return {.flops = 2 * flops,
          .bytes_read = size * (result + operands),
          .bytes_written = size * operands};
}

ItemShape output_shape(const Layer& layer, std::span<const ItemShape> /*inputs*/) {
  const MatmulShape s = matmul_shape(layer);
  return {s.m, s.n};
}

// So that the elements of all operands can be counted in 64 bits.
constexpr std::int64_t most = 1 << 20;

constexpr ParameterInfo parameters[] = {
    {"batch", 1, most, std::nullopt, {}, "products"},
    {"m", 1, most, std::nullopt, {}, "rows of the first operand and of the result"},
    {"n", 1, most, std::nullopt, {}, "columns of the second operand and of the result"},
    {"k", 1, most, std::nullopt, {}, "columns of the first operand, rows of the second"},
};

}  // namespace

constinit const Operator matmul_operator{
    .name = "matmul",
    .family = Family::gemm,
    .parameters = parameters,
    .passes = forward_and_backward,
    .check = [](const Layer&) {},
    .work = &work_of_passes<own_work>,
    .parameter_tensors = &no_parameter_tensors,
    .input_elements = &input_elements,
    .output_elements = &output_elements,
    .output_shape = &output_shape,
};

}  // namespace forecost
