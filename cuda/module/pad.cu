#include "cuda/module/kernels.cuh"

namespace forecost::cuda {

/// Images of `channels` side by side; those of nchw are more images of one channel each.
struct PadSizes {
  std::int64_t images, h, w, channels, top, left, padded_h, padded_w;
};

template <class T>
struct PadForward {
  const T* x;
  T* y;
  PadSizes s;

  template <int n>
  __device__ void run(std::int64_t i) const {
    const std::int64_t channel = i % s.channels, column = i / s.channels % s.padded_w - s.left,
                       rows = i / s.channels / s.padded_w, row = rows % s.padded_h - s.top;
    Floats<n> values = all_of<n>(0);
    if (row >= 0 && row < s.h && column >= 0 && column < s.w) {
      values = load<n>(x + ((rows / s.padded_h * s.h + row) * s.w + column) * s.channels + channel);
    }
    store<n>(y + i, values);
  }
};

template <class T>
struct PadBackward {
  const T* dy;
  T* dx;
  PadSizes s;

  template <int n>
  __device__ void run(std::int64_t i) const {
    const std::int64_t channel = i % s.channels, column = i / s.channels % s.w + s.left,
                       rows = i / s.channels / s.w, row = rows % s.h + s.top;
    store<n>(dx + i,
             load<n>(dy + ((rows / s.h * s.padded_h + row) * s.padded_w + column) * s.channels +
                     channel));
  }
};

std::unique_ptr<Plan> plan_pad(Context&, const Primitive& primitive) {
  const Pad& p = primitive.pad;
  const bool planes = p.layout == Layout::nchw;
  const PadSizes s{planes ? p.in.n * p.in.c : p.in.n,
                   p.in.h,
                   p.in.w,
                   planes ? 1 : p.in.c,
                   p.top,
                   p.left,
                   p.padded_h,
                   p.padded_w};
  if (p.top < 0 || p.left < 0 || p.top + s.h > s.padded_h || p.left + s.w > s.padded_w) {
    throw Failure(Code::failed, "pad: the image does not lie within the padded one");
  }
  return with_element(p.element, [&]<class T>() {
    constexpr int width = width_of<T>();
    if (p.direction == Direction::forward) {
      return own_plan("pad", [s](Context& context, void* const* t, void*) {
        const PadForward<T> rule{static_cast<const T*>(t[0]), static_cast<T*>(t[1]), s};
        map<T>(context, rule, s.images * s.padded_h * s.padded_w * s.channels,
               s.channels % width == 0 && aligned({rule.x, rule.y}));
      });
    }
    return own_plan("pad", [s](Context& context, void* const* t, void*) {
      const PadBackward<T> rule{static_cast<const T*>(t[0]), static_cast<T*>(t[1]), s};
      map<T>(context, rule, s.images * s.h * s.w * s.channels,
             s.channels % width == 0 && aligned({rule.dy, rule.dx}));
    });
  });
}

}  // namespace forecost::cuda
