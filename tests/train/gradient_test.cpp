#include "train/gradient.hpp"

#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "core/random.hpp"
#include "train/adam.hpp"
#include "train/gemm.hpp"

namespace forecost {
namespace {

Floats random_floats(std::size_t n, std::uint64_t seed) {
  Random random(seed);
  Floats values(n);
  for (float& v : values) v = static_cast<float>(random.normal());
  return values;
}

class GemmContract : public testing::TestWithParam<const Gemm*> {};

TEST_P(GemmContract, AgreesWithLoopsForEveryTransposition) {
  const Gemm& gemm = *GetParam();
  const std::int64_t m = 13, n = 37, k = 21, pad = 3;
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      for (const float beta : {0.0F, 1.0F}) {
        const std::int64_t lda = (ta ? m : k) + pad, ldb = (tb ? k : n) + pad, ldc = n + pad;
        const Floats a = random_floats(static_cast<std::size_t>((ta ? k : m) * lda), 1);
        const Floats b = random_floats(static_cast<std::size_t>((tb ? n : k) * ldb), 2);
        Floats c = random_floats(static_cast<std::size_t>(m * ldc), 3);
        const Floats before = c;
        gemm.multiply(m, n, k, {a.data(), lda, ta}, {b.data(), ldb, tb}, beta, c.data(), ldc);
        const auto at = [](const Floats& v, std::int64_t i) {
          return v[static_cast<std::size_t>(i)];
        };
        for (std::int64_t i = 0; i < m; ++i) {
          for (std::int64_t j = 0; j < ldc; ++j) {
            if (j >= n) {
              ASSERT_EQ(at(c, i * ldc + j), at(before, i * ldc + j)) << "wrote beyond the columns";
              continue;
            }
            double sum = beta * at(before, i * ldc + j);
            for (std::int64_t l = 0; l < k; ++l) {
              sum += static_cast<double>(at(a, ta ? l * lda + i : i * lda + l)) *
                     at(b, tb ? j * ldb + l : l * ldb + j);
            }
            ASSERT_NEAR(at(c, i * ldc + j), sum, 1e-4) << gemm.name();
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, GemmContract, testing::Values(&eigen_gemm(), &best_gemm()),
                         [](const auto& each) { return "product" + std::to_string(each.index); });

struct Case {
  Loss loss;
  double dropout;
};

class Gradient : public testing::TestWithParam<Case> {};

// The derivative of the loss by central differences, parameter by parameter.
TEST_P(Gradient, AgreesWithFiniteDifferences) {
  const std::vector<std::int64_t> hidden{7, 5};
  const MlpShape shape(4, hidden);
  Recipe recipe{};
  recipe.loss = GetParam().loss;
  recipe.huber_delta = 0.5;
  const Dropout dropout{GetParam().dropout, 99};
  constexpr std::size_t rows = 9;
  const Floats x = random_floats(rows * 4, 5), y = random_floats(rows, 6);
  Floats parameters = random_floats(shape.size(), 7);
  std::vector<std::uint32_t> order(rows);
  std::iota(order.begin(), order.end(), 0U);
  GradientWorkspace workspace(shape, rows);
  Floats gradient(shape.size()), ignored(shape.size());
  const double scale = 1.0 / rows;
  mlp_gradient(best_gemm(), shape, recipe, dropout, parameters.data(), x.data(), y.data(), order,
               scale, workspace, gradient.data());
  const auto loss_at = [&](std::size_t i, float value) {
    const float kept = std::exchange(parameters[i], value);
    const double loss = mlp_gradient(best_gemm(), shape, recipe, dropout, parameters.data(),
                                     x.data(), y.data(), order, scale, workspace, ignored.data());
    parameters[i] = kept;
    return loss * scale;
  };
  int checked = 0;
  for (std::size_t l = 0; l < shape.layers(); ++l) {
    const auto in = static_cast<std::size_t>(shape.widths()[l]);
    const auto out = static_cast<std::size_t>(shape.widths()[l + 1]);
    for (std::size_t i = 0; i < in * out + out; ++i) {
      const std::size_t at =
          i < in * out ? shape.weights_at(l) + i : shape.bias_at(l) + i - in * out;
      const float step = 2e-3F;
      const double slope =
          (loss_at(at, parameters[at] + step) - loss_at(at, parameters[at] - step)) /
          (2 * static_cast<double>(step));
      EXPECT_NEAR(gradient[at], slope, 0.02 * std::fabs(slope) + 2e-3)
          << "layer " << l << ", " << i;
      ++checked;
    }
  }
  EXPECT_EQ(checked, 4 * 7 + 7 + 7 * 5 + 5 + 5 + 1);
}

INSTANTIATE_TEST_SUITE_P(Losses, Gradient,
                         testing::Values(Case{Loss::squared, 0}, Case{Loss::absolute, 0},
                                         Case{Loss::squared, 0.4}),
                         [](const auto& each) { return "case" + std::to_string(each.index); });

TEST(Dropout, DependsOnTheRowAndNotOnItsPlaceInTheBatch) {
  const std::vector<std::int64_t> hidden{8};
  const MlpShape shape(3, hidden);
  Recipe recipe{};
  recipe.loss = Loss::squared;
  const Floats x = random_floats(6 * 3, 1), y = random_floats(6, 2),
               parameters = random_floats(shape.size(), 3);
  GradientWorkspace workspace(shape, 6);
  Floats together(shape.size()), alone(shape.size()), sum(shape.size());
  const Dropout dropout{0.5, 4};
  const std::vector<std::uint32_t> all{0, 1, 2, 3, 4, 5};
  mlp_gradient(best_gemm(), shape, recipe, dropout, parameters.data(), x.data(), y.data(), all, 1,
               workspace, together.data());
  for (const std::uint32_t row : {5U, 3U, 1U, 0U, 2U, 4U}) {
    const std::vector<std::uint32_t> one{row};
    mlp_gradient(best_gemm(), shape, recipe, dropout, parameters.data(), x.data(), y.data(), one, 1,
                 workspace, alone.data());
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += alone[i];
  }
  for (std::size_t i = 0; i < sum.size(); ++i) EXPECT_NEAR(sum[i], together[i], 1e-3);
}

TEST(Adam, FirstStepsByHand) {
  // Step 1: m = 0.1 g, v = 0.001 g^2; corrected both give g: the step is rate g / (|g| + eps).
  const float gradient[2] = {0.5F, -2.0F};
  float parameters[2] = {1.0F, 1.0F}, first[2] = {}, second[2] = {};
  AdamStep step{.learning_rate = 0.1, .epsilon = 1e-8, .weight_decay = 0, .l2 = 0, .step = 1};
  adam_step(step, 2, gradient, parameters, first, second);
  EXPECT_NEAR(parameters[0], 0.9, 1e-6);
  EXPECT_NEAR(parameters[1], 1.1, 1e-6);
  EXPECT_NEAR(first[0], 0.05, 1e-7);
  EXPECT_NEAR(second[1], 0.004, 1e-7);
  // Step 2 with the same gradient has the same corrected moments; weight decay multiplies by 1 -
  // 0.1 x 0.2.
  step.step = 2;
  step.weight_decay = 0.2;
  adam_step(step, 2, gradient, parameters, first, second);
  EXPECT_NEAR(parameters[0], 0.9 * 0.98 - 0.1, 1e-6);
}

}  // namespace
}  // namespace forecost
