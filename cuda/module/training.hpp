#pragma once

#include <cstdint>

#include "core/training_rules.hpp"
#include "cuda/module/context.hpp"

// The kernels of a training step, for all networks at once (training.cu). Matrices are row-major;
// those of one network follow those of the one before it, `stride` elements apart.

namespace forecost::cuda {

/// Which rows a step takes: `count` of each network's order from offset on, in the batch that the
/// number of the step, which the device counts, says.
struct StepRows {
  const std::uint32_t* order;     ///< networks x rows
  const std::int64_t* next_step;  ///< of the epoch
  std::int64_t rows, batch, offset, count, networks;
};

/// A layer of all networks: what kernels read of it.
struct LayerView {
  const float* parameters;  ///< of all networks
  std::int64_t network_size, weights_at, bias_at, in, out;
};

/// Rows of x (rows x inputs) as the step takes them: to of networks x count x inputs.
void gather_rows(Context&, Precision, const StepRows&, const float* x, std::int64_t inputs,
                 void* to);
/// hidden = relu(products + bias), and what dropout leaves of it where its rate is not 0. Both of
/// networks x count x out, products f32; the same memory where hidden is f32.
void activate_hidden(Context&, Precision, const StepRows&, const LayerView&, const float* products,
                     void* hidden, double dropout, const std::uint64_t* seeds);
/// The linear output of the last hidden values, the loss of each row and its gradient by the output
/// (`slopes`, times scale) and by the hidden values before their activation (`delta`, as hidden).
/// losses and slopes of networks x count.
void output_gradient(Context&, Precision, const StepRows&, const LayerView& output,
                     const void* hidden, const float* y, forecost::Loss loss, double huber_delta,
                     double scale, double dropout, double* losses, float* slopes, void* delta);
/// Gradient of the output layer, into networks x network_size: sums over rows of slopes x hidden
/// and of slopes.
void output_weight_gradient(Context&, Precision, const StepRows&, const LayerView& output,
                            const void* hidden, const float* slopes, float* gradient);
/// Gradient of a hidden layer's bias: sums over rows of delta.
void bias_gradient(Context&, Precision, const StepRows&, const LayerView&, const void* delta,
                   float* gradient);
/// delta = products where hidden is positive, else 0; the same memory where delta is f32.
void rectify_gradient(Context&, Precision, const StepRows&, std::int64_t width, const void* hidden,
                      const float* products, void* delta);
/// Adam with the factors of the step, for `count` elements. `copy` of the parameters in the
/// precision's element, or nullptr.
void adam(Context&, std::int64_t count, const AdamFactors* factors, const std::int64_t* next_step,
          const float* gradient, float* parameters, float* first, float* second, void* copy);
/// Rounds f32 to bf16.
void round_parameters(Context&, std::int64_t count, const float* from, void* to);
/// Adds the losses of the step up, in a fixed order, and counts the step.
void finish_step(Context&, std::int64_t losses_count, const double* losses, double* loss,
                 std::int64_t* next_step);

}  // namespace forecost::cuda
