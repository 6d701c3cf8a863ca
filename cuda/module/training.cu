#include "cuda/module/training.hpp"

#include "cuda/module/kernels.cuh"

namespace forecost::cuda {

namespace {

constexpr int threads = 256;

dim3 grid_of(std::int64_t elements, std::int64_t networks) {
  return {static_cast<unsigned>(ceil_divide(elements, threads)), static_cast<unsigned>(networks)};
}

/// Calls work.operator()<T>() with the C++ type of the elements of a precision.
template <class Work>
void with_precision(Precision precision, Work work) {
  if (precision == Precision::bf16) {
    work.template operator()<__nv_bfloat16>();
  } else {
    work.template operator()<float>();
  }
}

}  // namespace

__device__ inline std::int64_t element_index() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline std::int64_t row_of_step(const StepRows& rows, std::int64_t network,
                                           std::int64_t r) {
  return rows.order[network * rows.rows + *rows.next_step * rows.batch + rows.offset + r];
}

template <class T>
__global__ void gather_rows_kernel(StepRows rows, const float* x, std::int64_t inputs, T* to) {
  const std::int64_t i = element_index(), network = blockIdx.y;
  if (i >= rows.count * inputs) return;
  const std::int64_t row = row_of_step(rows, network, i / inputs);
  from_float(to[network * rows.count * inputs + i], x[row * inputs + i % inputs]);
}

template <class T>
__global__ void activate_hidden_kernel(StepRows rows, LayerView layer, const float* products,
                                       T* hidden, DropoutRule dropout, const std::uint64_t* seeds) {
  const std::int64_t i = element_index(), network = blockIdx.y;
  if (i >= rows.count * layer.out) return;
  const std::int64_t r = i / layer.out, column = i % layer.out,
                     at = network * rows.count * layer.out + i;
  const float value =
      products[at] + layer.parameters[network * layer.network_size + layer.bias_at + column];
  float kept = value > 0 ? value : 0;
  if (seeds != nullptr) {
    kept *=
        dropout.factor(seeds[network], static_cast<std::uint64_t>(row_of_step(rows, network, r)),
                       static_cast<std::uint64_t>(column));
  }
  from_float(hidden[at], kept);
}

/// A warp for a row.
template <class T>
__global__ void output_gradient_kernel(StepRows rows, LayerView output, const T* hidden,
                                       const float* y, Loss loss, float huber_delta, float scale,
                                       float kept, double* losses, float* slopes, T* delta) {
  const std::int64_t r = team_row<warp>(), network = blockIdx.y;
  if (r >= rows.count) return;
  const float* parameters = output.parameters + network * output.network_size;
  const float* weights = parameters + output.weights_at;
  const std::int64_t row = network * rows.count + r;
  const T* h = hidden + row * output.in;
  float dot = 0;
  for (std::int64_t c = threadIdx.x; c < output.in; c += warp) dot += to_float(h[c]) * weights[c];
  dot = combine_team<warp>(dot, Sum());
  const float error = dot + parameters[output.bias_at] - y[row_of_step(rows, network, r)];
  const RowLoss of_row = row_loss(loss, huber_delta, error);
  const float slope = of_row.slope * scale;
  if (threadIdx.x == 0) {
    losses[row] = of_row.value;
    slopes[row] = slope;
  }
  // What dropout dropped is 0 as what the ReLU did.
  for (std::int64_t c = threadIdx.x; c < output.in; c += warp) {
    from_float(delta[row * output.in + c],
               rectified_gradient(to_float(h[c]), slope * weights[c] * kept));
  }
}

inline constexpr int sum_rows = 8;  ///< of a block of warp x sum_rows threads

/// to[network * to_stride + column] = sum over rows of values, times factors where there are any.
template <class T>
__global__ void sum_columns_kernel(std::int64_t count, std::int64_t width, const T* values,
                                   const float* factors, float* to, std::int64_t to_stride) {
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * warp + threadIdx.x,
                     network = blockIdx.y;
  float sum = 0;
  if (column < width) {
    for (std::int64_t r = threadIdx.y; r < count; r += sum_rows) {
      const float value = to_float(values[(network * count + r) * width + column]);
      sum += factors == nullptr ? value : factors[network * count + r] * value;
    }
  }
  __shared__ float sums[sum_rows][warp];
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= width) return;
  for (int other = 1; other < sum_rows; ++other) sum += sums[other][threadIdx.x];
  to[network * to_stride + column] = sum;
}

template <class T>
__global__ void rectify_gradient_kernel(std::int64_t count, const T* hidden, const float* products,
                                        T* delta) {
  const std::int64_t i = element_index();
  if (i < count) from_float(delta[i], rectified_gradient(to_float(hidden[i]), products[i]));
}

template <class Copy>
struct AdamRule {
  const AdamFactors* factors;
  const std::int64_t* next_step;
  const float* gradient;
  float *parameters, *first, *second;
  Copy* copy;

  template <int n>
  __device__ void run(std::int64_t i) const {
    const AdamFactors f = factors[*next_step];
    Floats<n> w = load<n>(parameters + i), a = load<n>(first + i), b = load<n>(second + i);
    const Floats<n> g = load<n>(gradient + i);
#pragma unroll
    for (int k = 0; k < n; ++k) adam_rule(f, g[k], w[k], a[k], b[k]);
    store<n>(parameters + i, w);
    store<n>(first + i, a);
    store<n>(second + i, b);
    if (copy != nullptr) {
#pragma unroll
      for (int k = 0; k < n; ++k) from_float(copy[i + k], w[k]);
    }
  }
};

__global__ void round_parameters_kernel(std::int64_t count, const float* from, __nv_bfloat16* to) {
  const std::int64_t i = element_index();
  if (i < count) from_float(to[i], from[i]);
}

/// Of one block.
__global__ void finish_step_kernel(std::int64_t count, const double* losses, double* loss,
                                   std::int64_t* next_step) {
  __shared__ double sums[threads];
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += threads) sum += losses[i];
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int other = 1; other < threads; ++other) sum += sums[other];
  *loss += sum;
  ++*next_step;
}

void gather_rows(Context& context, Precision precision, const StepRows& rows, const float* x,
                 std::int64_t inputs, void* to) {
  with_precision(precision, [&]<class T>() {
    launch<&gather_rows_kernel<T>>(grid_of(rows.count * inputs, rows.networks), dim3(threads),
                                   context.stream, rows, x, inputs, static_cast<T*>(to));
  });
}

void activate_hidden(Context& context, Precision precision, const StepRows& rows,
                     const LayerView& layer, const float* products, void* hidden, double dropout,
                     const std::uint64_t* seeds) {
  with_precision(precision, [&]<class T>() {
    launch<&activate_hidden_kernel<T>>(
        grid_of(rows.count * layer.out, rows.networks), dim3(threads), context.stream, rows, layer,
        products, static_cast<T*>(hidden), DropoutRule(dropout), dropout > 0 ? seeds : nullptr);
  });
}

void output_gradient(Context& context, Precision precision, const StepRows& rows,
                     const LayerView& output, const void* hidden, const float* y, Loss loss,
                     double huber_delta, double scale, double dropout, double* losses,
                     float* slopes, void* delta) {
  with_precision(precision, [&]<class T>() {
    launch<&output_gradient_kernel<T>>(
        dim3(team_grid<warp>(rows.count).x, static_cast<unsigned>(rows.networks)),
        team_block<warp>(), context.stream, rows, output, static_cast<const T*>(hidden), y, loss,
        static_cast<float>(huber_delta), static_cast<float>(scale), DropoutRule(dropout).kept,
        losses, slopes, static_cast<T*>(delta));
  });
}

namespace {

template <class T>
void sum_columns(Context& context, const StepRows& rows, std::int64_t width, const T* values,
                 const float* factors, float* to, std::int64_t to_stride) {
  launch<&sum_columns_kernel<T>>(
      dim3(static_cast<unsigned>(ceil_divide(width, warp)), static_cast<unsigned>(rows.networks)),
      dim3(warp, sum_rows), context.stream, rows.count, width, values, factors, to, to_stride);
}

}  // namespace

void output_weight_gradient(Context& context, Precision precision, const StepRows& rows,
                            const LayerView& output, const void* hidden, const float* slopes,
                            float* gradient) {
  with_precision(precision, [&]<class T>() {
    sum_columns(context, rows, output.in, static_cast<const T*>(hidden), slopes,
                gradient + output.weights_at, output.network_size);
  });
  sum_columns(context, rows, 1, slopes, nullptr, gradient + output.bias_at, output.network_size);
}

void bias_gradient(Context& context, Precision precision, const StepRows& rows,
                   const LayerView& layer, const void* delta, float* gradient) {
  with_precision(precision, [&]<class T>() {
    sum_columns(context, rows, layer.out, static_cast<const T*>(delta), nullptr,
                gradient + layer.bias_at, layer.network_size);
  });
}

void rectify_gradient(Context& context, Precision precision, const StepRows& rows,
                      std::int64_t width, const void* hidden, const float* products, void* delta) {
  const std::int64_t count = rows.networks * rows.count * width;
  with_precision(precision, [&]<class T>() {
    launch<&rectify_gradient_kernel<T>>(grid_of(count, 1), dim3(threads), context.stream, count,
                                        static_cast<const T*>(hidden), products,
                                        static_cast<T*>(delta));
  });
}

void adam(Context& context, std::int64_t count, const AdamFactors* factors,
          const std::int64_t* next_step, const float* gradient, float* parameters, float* first,
          float* second, void* copy) {
  const AdamRule<__nv_bfloat16> rule{
      factors, next_step, gradient, parameters, first, second, static_cast<__nv_bfloat16*>(copy)};
  map<float>(context, rule, count, aligned({gradient, parameters, first, second}));
}

void round_parameters(Context& context, std::int64_t count, const float* from, void* to) {
  launch<&round_parameters_kernel>(grid_of(count, 1), dim3(threads), context.stream, count, from,
                                   static_cast<__nv_bfloat16*>(to));
}

void finish_step(Context& context, std::int64_t losses_count, const double* losses, double* loss,
                 std::int64_t* next_step) {
  launch<&finish_step_kernel>(dim3(1), dim3(threads), context.stream, losses_count, losses, loss,
                              next_step);
}

}  // namespace forecost::cuda
