#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "cuda/module/support.hpp"

namespace forecost::cuda {

namespace {

template <class T>
T element_at(const std::byte* bytes, std::int64_t index) {
  T value;
  std::memcpy(&value, bytes + index * std::int64_t{sizeof(T)}, sizeof(T));
  return value;
}

double value_at(const std::byte* bytes, Element element, std::int64_t index) {
  switch (element) {
    case Element::f32:
      return static_cast<double>(element_at<float>(bytes, index));
    case Element::f16:
      return static_cast<double>(__half2float(element_at<__half>(bytes, index)));
    case Element::bf16:
      return static_cast<double>(__bfloat162float(element_at<__nv_bfloat16>(bytes, index)));
    case Element::f64:
      return element_at<double>(bytes, index);
    case Element::i64:
      return static_cast<double>(element_at<std::int64_t>(bytes, index));
    case Element::u8:
      return static_cast<double>(element_at<std::uint8_t>(bytes, index));
  }
  throw Failure(Code::failed, "read: unknown element");
}

}  // namespace

void zero(Context& context, void* memory, std::int64_t bytes) {
  check(cudaMemsetAsync(memory, 0, static_cast<std::size_t>(bytes), context.stream),
        "cudaMemsetAsync");
  context.wait();
}

void read(Context& context, const void* memory, Element element, std::int64_t count,
          double* values) {
  constexpr std::int64_t most = 1 << 20;
  const std::int64_t size = bytes_of(element);
  std::vector<std::byte> chunk(static_cast<std::size_t>(std::min(count, most) * size));
  for (std::int64_t done = 0; done < count; done += most) {
    const std::int64_t now = std::min(count - done, most);
    check(cudaMemcpyAsync(chunk.data(), static_cast<const std::byte*>(memory) + done * size,
                          static_cast<std::size_t>(now * size), cudaMemcpyDefault, context.stream),
          "cudaMemcpyAsync");
    context.wait();
    for (std::int64_t i = 0; i < now; ++i) values[done + i] = value_at(chunk.data(), element, i);
  }
}

void flush(Context& context, std::int64_t bytes) {
  if (bytes <= 0) return;
  std::byte* const buffer = context.flushed.of(bytes);
  check(cudaMemsetAsync(buffer, 0x55, static_cast<std::size_t>(bytes), context.stream),
        "cudaMemsetAsync");
  context.wait();
}

double spin(Context& context, double seconds) {
  const Event start = make_event(), stop = make_event();
  check(cudaEventRecord(start.get(), context.stream), "cudaEventRecord");
  enqueue_spin(context, seconds, context.properties.multiProcessorCount);
  check(cudaEventRecord(stop.get(), context.stream), "cudaEventRecord");
  return seconds_between(start, stop);
}

}  // namespace forecost::cuda
