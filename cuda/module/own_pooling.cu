#include <cmath>

#include "cuda/module/kernels.cuh"

// Pooling that cuDNN does not take: padded differently on opposite sides, or with a last window
// that is cut off.

namespace forecost::cuda {

/// Images of `channels` side by side; those of nchw are more images of one channel each.
struct PoolSizes {
  std::int64_t h, w, channels, out_h, out_w, kernel_h, kernel_w, stride_h, stride_w, top, left;
};

/// What a window covers of one side of an image: [begin, end).
struct Covered {
  std::int64_t begin, end;
};
__device__ inline Covered covered(std::int64_t out, std::int64_t stride, std::int64_t pad,
                                  std::int64_t kernel, std::int64_t size) {
  const std::int64_t begin = out * stride - pad, end = begin + kernel;
  return {begin > 0 ? begin : 0, end < size ? end : size};
}
/// The windows of one side that cover a place.
__device__ inline Covered windows_over(std::int64_t place, std::int64_t stride, std::int64_t pad,
                                       std::int64_t kernel, std::int64_t out) {
  const std::int64_t last = (place + pad) / stride, reach = place + pad - kernel;
  return {reach < 0 ? 0 : reach / stride + 1, last < out ? last + 1 : out};
}

template <class T, bool maximum>
struct PoolForward {
  const T* x;
  T* y;
  PoolSizes s;

  template <int n>
  __device__ void run(std::int64_t i) const {
    const std::int64_t channel = i % s.channels, q = i / s.channels % s.out_w,
                       rows = i / s.channels / s.out_w, p = rows % s.out_h;
    const T* image = x + rows / s.out_h * s.h * s.w * s.channels + channel;
    const Covered h = covered(p, s.stride_h, s.top, s.kernel_h, s.h),
                  w = covered(q, s.stride_w, s.left, s.kernel_w, s.w);
    Floats<n> result = all_of<n>(maximum ? -INFINITY : 0);
    for (std::int64_t r = h.begin; r < h.end; ++r) {
      for (std::int64_t c = w.begin; c < w.end; ++c) {
        const Floats<n> values = load<n>(image + (r * s.w + c) * s.channels);
#pragma unroll
        for (int k = 0; k < n; ++k) {
          if (maximum) {
            result[k] = values[k] > result[k] ? values[k] : result[k];
          } else {
            result[k] += values[k];
          }
        }
      }
    }
    if (!maximum) {
      const float share = 1 / static_cast<float>((h.end - h.begin) * (w.end - w.begin));
#pragma unroll
      for (int k = 0; k < n; ++k) result[k] *= share;
    }
    store<n>(y + i, result);
  }
};

/// The gradient of a maximum goes to the first largest element of the window.
template <class T, bool maximum>
struct PoolBackward {
  const T *x, *dy;
  T* dx;
  PoolSizes s;

  template <int n>
  __device__ void run(std::int64_t i) const {
    const std::int64_t channel = i % s.channels, column = i / s.channels % s.w,
                       rows = i / s.channels / s.w, row = rows % s.h, image = rows / s.h;
    const T* inputs = x + image * s.h * s.w * s.channels + channel;
    const T* gradients = dy + image * s.out_h * s.out_w * s.channels + channel;
    const Covered vertical = windows_over(row, s.stride_h, s.top, s.kernel_h, s.out_h),
                  horizontal = windows_over(column, s.stride_w, s.left, s.kernel_w, s.out_w);
    Floats<n> own = all_of<n>(0), result = all_of<n>(0);
    if (maximum) own = load<n>(inputs + (row * s.w + column) * s.channels);
    for (std::int64_t p = vertical.begin; p < vertical.end; ++p) {
      for (std::int64_t q = horizontal.begin; q < horizontal.end; ++q) {
        const Covered h = covered(p, s.stride_h, s.top, s.kernel_h, s.h),
                      w = covered(q, s.stride_w, s.left, s.kernel_w, s.w);
        const Floats<n> gradient = load<n>(gradients + (p * s.out_w + q) * s.channels);
        Floats<n> share =
            all_of<n>(maximum ? 1 : 1 / static_cast<float>((h.end - h.begin) * (w.end - w.begin)));
        if (maximum) {
          for (std::int64_t r = h.begin; r < h.end; ++r) {
            for (std::int64_t c = w.begin; c < w.end; ++c) {
              const bool before = r < row || (r == row && c < column);
              const Floats<n> other = load<n>(inputs + (r * s.w + c) * s.channels);
#pragma unroll
              for (int k = 0; k < n; ++k) {
                if (other[k] > own[k] || (before && other[k] == own[k])) share[k] = 0;
              }
            }
          }
        }
#pragma unroll
        for (int k = 0; k < n; ++k) result[k] += share[k] * gradient[k];
      }
    }
    store<n>(dx + i, result);
  }
};

namespace {

template <class T, bool maximum>
std::unique_ptr<Plan> plan_of(const Pooling& p) {
  constexpr int width = width_of<T>();
  const bool planes = p.layout == Layout::nchw;
  const std::int64_t images = planes ? p.in.n * p.in.c : p.in.n;
  const Window& w = p.window;
  const PoolSizes s{p.in.h,     p.in.w,     planes ? 1 : p.in.c, p.out_h, p.out_w, w.kernel_h,
                    w.kernel_w, w.stride_h, w.stride_w,          w.pad_h, w.pad_w};
  const char* name = maximum ? "max_pooling" : "average_pooling";
  if (p.direction == Direction::forward) {
    return own_plan(name, [=](Context& context, void* const* t, void*) {
      const PoolForward<T, maximum> rule{static_cast<const T*>(t[0]), static_cast<T*>(t[1]), s};
      map<T>(context, rule, images * s.out_h * s.out_w * s.channels,
             s.channels % width == 0 && aligned({rule.x, rule.y}));
    });
  }
  return own_plan(name, [=](Context& context, void* const* t, void*) {
    const PoolBackward<T, maximum> rule{static_cast<const T*>(t[0]), static_cast<const T*>(t[2]),
                                        static_cast<T*>(t[3]), s};
    map<T>(context, rule, images * s.h * s.w * s.channels,
           s.channels % width == 0 && aligned({rule.x, rule.dy, rule.dx}));
  });
}

}  // namespace

std::unique_ptr<Plan> plan_own_pooling(Context&, const Primitive& primitive) {
  const Pooling& p = primitive.pooling;
  const Window& w = p.window;
  if ((p.out_h - 1) * w.stride_h - w.pad_h >= p.in.h ||
      (p.out_w - 1) * w.stride_w - w.pad_w >= p.in.w || w.pad_h >= w.kernel_h ||
      w.pad_w >= w.kernel_w) {
    throw Failure(Code::unsupported, "a pooling with a window of padding alone");
  }
  return with_element(p.element, [&]<class T>() {
    return p.maximum != 0 ? plan_of<T, true>(p) : plan_of<T, false>(p);
  });
}

}  // namespace forecost::cuda
