#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

// Elements of device memory to and from float, in which everything is computed.

namespace forecost::standin {

enum class Type { f32, f64, f16, bf16, i32, i8, none };

inline std::size_t size_of(Type type) {
  switch (type) {
    case Type::f64:
      return 8;
    case Type::f32:
    case Type::i32:
      return 4;
    case Type::f16:
    case Type::bf16:
      return 2;
    default:
      return 1;
  }
}

inline float load(Type type, const void* memory, std::size_t i) {
  switch (type) {
    case Type::f32:
      return static_cast<const float*>(memory)[i];
    case Type::f64:
      return static_cast<float>(static_cast<const double*>(memory)[i]);
    case Type::f16:
      return __half2float(static_cast<const __half*>(memory)[i]);
    case Type::bf16:
      return __bfloat162float(static_cast<const __nv_bfloat16*>(memory)[i]);
    case Type::i32:
      return static_cast<float>(static_cast<const std::int32_t*>(memory)[i]);
    default:
      return static_cast<const signed char*>(memory)[i];
  }
}

inline void store(Type type, void* memory, std::size_t i, double value) {
  switch (type) {
    case Type::f32:
      static_cast<float*>(memory)[i] = static_cast<float>(value);
      break;
    case Type::f64:
      static_cast<double*>(memory)[i] = value;
      break;
    case Type::f16:
      static_cast<__half*>(memory)[i] = __float2half(static_cast<float>(value));
      break;
    case Type::bf16:
      static_cast<__nv_bfloat16*>(memory)[i] = __float2bfloat16(static_cast<float>(value));
      break;
    case Type::i32:
      static_cast<std::int32_t*>(memory)[i] = static_cast<std::int32_t>(value);
      break;
    default:
      static_cast<signed char*>(memory)[i] = static_cast<signed char>(value);
  }
}

inline std::vector<float> load_all(Type type, const void* memory, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = load(type, memory, i);
  return values;
}

/// As tensor cores take f32: 10 bits of mantissa, to nearest, ties away from zero.
inline void round_to_tf32(std::vector<float>& values) {
  for (float& value : values) {
    std::uint32_t bits;
    std::memcpy(&bits, &value, 4);
    bits = (bits + 0x1000) & ~std::uint32_t{0x1fff};
    std::memcpy(&value, &bits, 4);
  }
}

}  // namespace forecost::standin
