#include "collect/backends/cpu/update.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "tests/update_reference.hpp"

namespace forecost::cpu {
namespace {

float from_bf16(std::uint16_t value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}
std::uint16_t to_bf16(float value) {  // truncation: exact for the values below
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
}

class Updates : public ::testing::TestWithParam<Optimizer> {};

TEST_P(Updates, FollowTheirRule) {
  // Beyond the size at which threads share the work, and no multiple of a vector.
  for (const std::size_t n : {std::size_t{1}, std::size_t{70'003}}) {
    std::vector<float> w(n), g(n), a(n), b(n);
    std::vector<UpdateReference> expected;
    for (std::size_t i = 0; i < n; ++i) {
      w[i] = static_cast<float>(i % 7) * 0.25F - 0.5F;
      g[i] = static_cast<float>(i % 5) * 0.5F - 0.75F;
      expected.push_back({static_cast<double>(w[i])});
    }
    for (int t = 1; t <= 3; ++t) {
      update(GetParam(), DType::f32, {w.data(), g.data(), a.data(), b.data(), n}, t);
      for (std::size_t i = 0; i < n; ++i)
        expected[i].step(GetParam(), static_cast<double>(g[i]), t);
    }
    for (std::size_t i = 0; i < n; ++i) {
      ASSERT_NEAR(static_cast<double>(w[i]), expected[i].w, 2e-6) << i << " of " << n;
    }
  }
}

TEST_P(Updates, RoundBf16ParametersToTheNearest) {
  constexpr std::size_t n = 40;
  std::vector<std::uint16_t> w(n), g(n);
  std::vector<float> a(n), b(n);
  std::vector<UpdateReference> expected;
  for (std::size_t i = 0; i < n; ++i) {
    w[i] = to_bf16(static_cast<float>(i) * 0.25F);
    g[i] = to_bf16(static_cast<float>(i % 5) * 0.5F - 0.75F);
    expected.push_back({static_cast<double>(from_bf16(w[i]))});
    expected[i].step(GetParam(), static_cast<double>(from_bf16(g[i])), 1);
  }
  update(GetParam(), DType::bf16, {w.data(), g.data(), a.data(), b.data(), n}, 1);
  for (std::size_t i = 0; i < n; ++i) {
    const double got = static_cast<double>(from_bf16(w[i]));
    ASSERT_NEAR(got, expected[i].w, std::fabs(expected[i].w) * 0x1p-8 + 1e-6) << i;  // half a unit
  }
}

INSTANTIATE_TEST_SUITE_P(All, Updates,
                         ::testing::Values(Optimizer::sgd, Optimizer::momentum, Optimizer::adagrad,
                                           Optimizer::adadelta, Optimizer::rmsprop, Optimizer::adam,
                                           Optimizer::adamw),
                         [](const auto& rule) { return std::string(name_of(rule.param)); });

}  // namespace
}  // namespace forecost::cpu
