#pragma once

#include <cstddef>
#include <cstdint>

#include "core/optimizer_rules.hpp"
#include "data/vocabulary.hpp"

namespace forecost::cpu {

/// One parameter tensor with its gradient, both f32 or both bf16, and the optimizer's f32 state. A
/// bf16 tensor has no f32 master copy: what is read and written is what update_work() counts.
struct ParameterTensor {
  void* parameters;
  const void* gradient;
  float* first = nullptr;   ///< momentum, mean square, first moment; if the optimizer has it
  float* second = nullptr;  ///< Adadelta's mean square update, Adam's second moment
  std::size_t elements = 0;
};

/// One step of the optimizer on one tensor, on all threads; `step` counts from 1 (Adam's bias
/// correction). Formulas as in data/work.hpp. dtype is f32 or bf16.
void update(Optimizer optimizer, DType dtype, const ParameterTensor& tensor, std::int64_t step,
            const UpdateRates& rates = {});

}  // namespace forecost::cpu
