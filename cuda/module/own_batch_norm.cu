#include <algorithm>

#include "cuda/module/reduction.cuh"

// The gradient of a batch norm with stored statistics, which cuDNN has not: statistics do not
// depend on x, so dx is dy, scaled.

namespace forecost::cuda {

/// Sums of dy normalised(x) and of dy over the middle: one pair of each outer and inner place.
template <class T>
struct NormSums {
  using Value = float2;
  const T *x, *dy;
  const float *mean, *variance;
  float epsilon;
  std::int64_t reduced, inner, channels;
  bool channel_is_inner;
  float2* sums;  ///< where more is to be added up; else nullptr
  float *dscale, *dshift;

  __device__ float2 none() const { return {0, 0}; }
  __device__ float2 both(float2 a, float2 b) const { return {a.x + b.x, a.y + b.y}; }
  template <bool row, int n>
  __device__ void take(float2 (&to)[n], std::int64_t o, std::int64_t r, std::int64_t i) const {
    const std::int64_t at = (o * reduced + r) * inner + i;
    const Floats<n> values = load<n>(x + at), gradients = load<n>(dy + at);
#pragma unroll
    for (int k = 0; k < n; ++k) {
      const std::int64_t channel = channel_is_inner ? i + (row ? 0 : k) : o % channels;
      const float normalised = (values[k] - mean[channel]) * rsqrtf(variance[channel] + epsilon);
      to[k] = both(to[k], {gradients[k] * normalised, gradients[k]});
    }
  }
  __device__ void put(std::int64_t result, float2 value) const {
    if (sums != nullptr) {
      sums[result] = value;
    } else {
      dscale[result] = value.x;
      dshift[result] = value.y;
    }
  }
};

/// Of the planes of nchw, over images.
struct PlaneSums {
  using Value = float2;
  const float2* planes;  ///< images x channels
  std::int64_t channels;
  float *dscale, *dshift;

  __device__ float2 none() const { return {0, 0}; }
  __device__ float2 both(float2 a, float2 b) const { return {a.x + b.x, a.y + b.y}; }
  template <bool row, int n>
  __device__ void take(float2 (&to)[n], std::int64_t, std::int64_t r, std::int64_t i) const {
#pragma unroll
    for (int k = 0; k < n; ++k) to[k] = both(to[k], planes[r * channels + i + k]);
  }
  __device__ void put(std::int64_t result, float2 value) const {
    dscale[result] = value.x;
    dshift[result] = value.y;
  }
};

/// A thread for each element; the channel of element i is i / spatial % channels.
template <class T>
struct NormGradient {
  const T* dy;
  const float *scale, *variance;
  T* dx;
  float epsilon;
  std::int64_t channels, spatial;

  template <int n>
  __device__ void run(std::int64_t i) const {
    Floats<n> values = load<n>(dy + i);
#pragma unroll
    for (int k = 0; k < n; ++k) {
      const std::int64_t channel = (i + k) / spatial % channels;
      values[k] *= scale[channel] * rsqrtf(variance[channel] + epsilon);
    }
    store<n>(dx + i, values);
  }
};

namespace {

template <class T>
std::unique_ptr<Plan> plan_of(const Context& device, const BatchNorm& p) {
  constexpr int width = width_of<T>();
  const Image& image = p.image;
  const std::int64_t spatial = image.h * image.w, count = image.n * image.c * spatial;
  const bool planes = p.layout == Layout::nchw && spatial > 1;
  // nchw in two steps: each plane, then the planes of a channel.
  const Extents first =
      planes ? Extents{image.n * image.c, spatial, 1} : Extents{1, image.n * spatial, image.c};
  const Extents second{1, image.n, image.c};
  const Chunks chunks = chunks_of(device, first, width),
               plane_chunks = chunks_of(device, second, 1);
  const auto float2_bytes = static_cast<std::int64_t>(sizeof(float2));
  const std::int64_t sums_bytes =
      planes ? ceil_divide(image.n * image.c * float2_bytes, 256) * 256 : 0;
  const auto epsilon = static_cast<float>(p.epsilon);
  const bool whole = (first.inner == 1 ? first.reduced : first.inner) % width == 0;
  return own_plan(
      "batch_norm_bwd_inference",
      [=](Context& context, void* const* t, void* workspace) {
        const auto *x = static_cast<const T*>(t[0]), *dy = static_cast<const T*>(t[1]);
        const auto *scale = static_cast<const float*>(t[2]),
                   *mean = static_cast<const float*>(t[3]),
                   *variance = static_cast<const float*>(t[4]);
        auto* dx = static_cast<T*>(t[5]);
        auto *dscale = static_cast<float*>(t[6]), *dshift = static_cast<float*>(t[7]);
        auto* sums = planes ? static_cast<float2*>(workspace) : nullptr;
        void* rest = static_cast<char*>(workspace) + sums_bytes;
        reduce<width>(context,
                      NormSums<T>{x, dy, mean, variance, epsilon, first.reduced, first.inner,
                                  image.c, !planes, sums, dscale, dshift},
                      first, chunks, whole && aligned({x, dy}), rest);
        if (planes) {
          reduce<1>(context, PlaneSums{sums, image.c, dscale, dshift}, second, plane_chunks, false,
                    rest);
        }
        map<T>(context,
               NormGradient<T>{dy, scale, variance, dx, epsilon, image.c,
                               p.layout == Layout::nchw ? spatial : 1},
               count, count % width == 0 && aligned({dy, dx}));
      },
      sums_bytes + std::max(chunks.workspace_bytes<float2>(first),
                            planes ? plane_chunks.workspace_bytes<float2>(second) : 0));
}

}  // namespace

std::unique_ptr<Plan> plan_own_batch_norm(Context& context, const Primitive& primitive) {
  return with_element(primitive.batch_norm.element,
                      [&]<class T>() { return plan_of<T>(context, primitive.batch_norm); });
}

}  // namespace forecost::cuda
