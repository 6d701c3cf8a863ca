#include "cuda/module/reduction.cuh"

namespace forecost::cuda {

template <class T>
struct LayerNormForward {
  const T *x, *scale, *shift;
  T* y;
  float *mean, *inverse_deviation;
  std::int64_t rows, features;
  float epsilon;
};

/// A row is read three times, of which two from the cache: the deviations are those from the mean
/// itself, which rounds less than a difference of squares.
template <class T, int team, int width>
__global__ void __launch_bounds__(block_team) layer_norm_forward(LayerNormForward<T> p) {
  const std::int64_t row = team_row<team>();
  if (row >= p.rows) return;
  const T* x = p.x + row * p.features;
  T* y = p.y + row * p.features;
  const std::int64_t begin = static_cast<int>(threadIdx.x) * width;
  const auto n = static_cast<float>(p.features);

  float sum = 0;
  for (std::int64_t i = begin; i < p.features; i += team * width) {
    const Floats<width> values = load<width>(x + i);
#pragma unroll
    for (int k = 0; k < width; ++k) sum += values[k];
  }
  const float mean = combine_team<team>(sum, Sum()) / n;

  float squares = 0;
  for (std::int64_t i = begin; i < p.features; i += team * width) {
    const Floats<width> values = load<width>(x + i);
#pragma unroll
    for (int k = 0; k < width; ++k) squares += (values[k] - mean) * (values[k] - mean);
  }
  const float inverse = 1 / std::sqrt(combine_team<team>(squares, Sum()) / n + p.epsilon);

  for (std::int64_t i = begin; i < p.features; i += team * width) {
    Floats<width> values = load<width>(x + i);
    Floats<width> scale = all_of<width>(1), shift = all_of<width>(0);
    if (p.scale != nullptr) scale = load<width>(p.scale + i);
    if (p.shift != nullptr) shift = load<width>(p.shift + i);
#pragma unroll
    for (int k = 0; k < width; ++k) values[k] = (values[k] - mean) * inverse * scale[k] + shift[k];
    store<width>(y + i, values);
  }
  if (threadIdx.x == 0 && p.mean != nullptr) {
    p.mean[row] = mean;
    p.inverse_deviation[row] = inverse;
  }
}

template <class T>
struct LayerNormBackward {
  const T *x, *dy, *scale;
  const float *mean, *inverse_deviation;
  T* dx;
  std::int64_t rows, features;
};

template <class T, int team, int width>
__global__ void __launch_bounds__(block_team) layer_norm_backward(LayerNormBackward<T> p) {
  const std::int64_t row = team_row<team>();
  if (row >= p.rows) return;
  const T *x = p.x + row * p.features, *dy = p.dy + row * p.features;
  const std::int64_t begin = static_cast<int>(threadIdx.x) * width;
  const float mean = p.mean[row], inverse = p.inverse_deviation[row];
  const auto n = static_cast<float>(p.features);

  float2 sums{0, 0};  // of the gradient of the normal values, and of that times them
  for (std::int64_t i = begin; i < p.features; i += team * width) {
    const Floats<width> vx = load<width>(x + i), vdy = load<width>(dy + i);
    Floats<width> scale = all_of<width>(1);
    if (p.scale != nullptr) scale = load<width>(p.scale + i);
#pragma unroll
    for (int k = 0; k < width; ++k) {
      const float d = vdy[k] * scale[k];
      sums.x += d;
      sums.y += d * (vx[k] - mean) * inverse;
    }
  }
  sums = combine_team<team>(sums, Sum());

  for (std::int64_t i = begin; i < p.features; i += team * width) {
    Floats<width> vx = load<width>(x + i);
    const Floats<width> vdy = load<width>(dy + i);
    Floats<width> scale = all_of<width>(1);
    if (p.scale != nullptr) scale = load<width>(p.scale + i);
#pragma unroll
    for (int k = 0; k < width; ++k) {
      const float normal = (vx[k] - mean) * inverse;
      vx[k] = (vdy[k] * scale[k] - sums.x / n - normal * sums.y / n) * inverse;
    }
    store<width>(p.dx + row * p.features + i, vx);
  }
}

/// Of scale and shift: sums over rows.
template <class T>
struct LayerNormParameters {
  using Value = float2;
  const T *x, *dy;
  const float *mean, *inverse_deviation;
  T *dscale, *dshift;
  std::int64_t features;

  __device__ float2 none() const { return {0, 0}; }
  __device__ float2 both(float2 a, float2 b) const { return {a.x + b.x, a.y + b.y}; }
  template <bool row, int n>
  __device__ void take(float2 (&to)[n], std::int64_t, std::int64_t r, std::int64_t i) const {
    const Floats<n> vx = load<n>(x + r * features + i), vdy = load<n>(dy + r * features + i);
#pragma unroll
    for (int k = 0; k < n; ++k) {
      const std::int64_t of = r + (row ? k : 0);
      to[k].x += vdy[k] * (vx[k] - mean[of]) * inverse_deviation[of];
      to[k].y += vdy[k];
    }
  }
  __device__ void put(std::int64_t result, float2 value) const {
    from_float(dscale[result], value.x);
    from_float(dshift[result], value.y);
  }
};

namespace {

template <class T>
std::unique_ptr<Plan> plan_of(const Context& device, const LayerNorm& p) {
  constexpr int width = width_of<T>();
  const bool whole = p.features % width == 0, affine = p.affine != 0;
  if (p.direction == Direction::forward) {
    return own_plan("layer_norm", [=](Context& context, void* const* t, void*) {
      const LayerNormForward<T> forward{static_cast<const T*>(t[0]),
                                        affine ? static_cast<const T*>(t[1]) : nullptr,
                                        affine ? static_cast<const T*>(t[2]) : nullptr,
                                        static_cast<T*>(t[3]),
                                        static_cast<float*>(t[4]),
                                        static_cast<float*>(t[5]),
                                        p.rows,
                                        p.features,
                                        static_cast<float>(p.epsilon)};
      if (p.rows == 0) return;
      const bool packs = whole && aligned({forward.x, forward.scale, forward.shift, forward.y});
      with_team<width>(p.features, packs, [&]<int team, int n>() {
        launch<&layer_norm_forward<T, team, n>>(team_grid<team>(p.rows), team_block<team>(),
                                                context.stream, forward);
      });
    });
  }
  const Extents e{1, p.rows, p.features};
  const Chunks chunks = chunks_of(device, e, width);
  return own_plan(
      "layer_norm",
      [=](Context& context, void* const* t, void* workspace) {
        const LayerNormBackward<T> data{static_cast<const T*>(t[0]),
                                        static_cast<const T*>(t[1]),
                                        affine ? static_cast<const T*>(t[2]) : nullptr,
                                        static_cast<const float*>(t[3]),
                                        static_cast<const float*>(t[4]),
                                        static_cast<T*>(t[5]),
                                        p.rows,
                                        p.features};
        if (p.rows == 0) return;
        const bool packs = whole && aligned({data.x, data.dy});
        with_team<width>(p.features, packs && aligned({data.scale, data.dx}),
                         [&]<int team, int n>() {
                           launch<&layer_norm_backward<T, team, n>>(
                               team_grid<team>(p.rows), team_block<team>(), context.stream, data);
                         });
        if (!affine) return;
        const LayerNormParameters<T> parameters{data.x,
                                                data.dy,
                                                data.mean,
                                                data.inverse_deviation,
                                                static_cast<T*>(t[6]),
                                                static_cast<T*>(t[7]),
                                                p.features};
        // (Of one feature, the rows are one row.)
        reduce<width>(context, parameters, e, chunks,
                      p.features == 1 ? p.rows % width == 0 && aligned({data.x, data.dy}) : packs,
                      workspace);
      },
      affine ? chunks.workspace_bytes<float2>(e) : 0);
}

}  // namespace

std::unique_ptr<Plan> plan_layer_norm(Context& context, const Primitive& primitive) {
  const LayerNorm& p = primitive.layer_norm;
  return with_element(p.element, [&]<class T>() { return plan_of<T>(context, p); });
}

}  // namespace forecost::cuda
