#include "core/training_rules.hpp"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "core/random.hpp"
#include "train/adam.hpp"
#include "train/model/aligned.hpp"

namespace forecost {
namespace {

// The losses once more, in f64.
double loss_of(Loss loss, double delta, double error) {
  if (loss == Loss::squared) return error * error;
  return std::fabs(error) < delta ? error * error / (2 * delta) : std::fabs(error) - delta / 2;
}

TEST(RowLoss, HasTheSlopeOfItsValue) {
  for (const Loss loss : {Loss::absolute, Loss::squared}) {
    for (const float delta : {0.1F, 0.75F}) {
      for (double error = -2.03; error < 2; error += 0.01) {
        const RowLoss row = row_loss(loss, delta, static_cast<float>(error));
        EXPECT_NEAR(row.value, loss_of(loss, delta, error), 1e-6) << error;
        constexpr double h = 1e-5;
        const double slope =
            (loss_of(loss, delta, error + h) - loss_of(loss, delta, error - h)) / (2 * h);
        EXPECT_NEAR(row.slope, slope, 1e-3) << error;
      }
    }
  }
}

TEST(RowLoss, OfNothingThatIsANumberIsNone) {
  for (const Loss loss : {Loss::absolute, Loss::squared}) {
    EXPECT_TRUE(std::isnan(row_loss(loss, 0.1F, NAN).value));
    EXPECT_TRUE(std::isnan(row_loss(loss, 0.1F, NAN).slope));
  }
}

TEST(RectifiedGradient, PassesWhereTheOutputIsPositive) {
  EXPECT_EQ(rectified_gradient(0.5F, -3), -3);
  EXPECT_EQ(rectified_gradient(0, -3), 0);
}

// A mask is a function of seed, row and column: the sequence of Random(seed, row), column by
// column.
TEST(DropoutRule, DrawsTheRowsOwnSequence) {
  const DropoutRule rule(0.3);
  int dropped = 0;
  for (const std::uint64_t row : {0, 1, 77, 1 << 20}) {
    Random random(42, row);
    for (std::uint64_t column = 0; column < 500; ++column) {
      const bool drops = static_cast<double>(random.bits() >> 32) * 0x1p-32 < 0.3;
      EXPECT_EQ(rule.factor(42, row, column), drops ? 0.0F : static_cast<float>(1 / 0.7));
      dropped += drops ? 1 : 0;
    }
  }
  EXPECT_NEAR(dropped / 2000.0, 0.3, 0.05);
  EXPECT_EQ(DropoutRule(0).factor(42, 1, 2), 1);
}

// Twenty steps beside the paper's algorithm 1 in f64, with decay and L2.
TEST(AdamRule, FollowsThePaper) {
  constexpr std::size_t n = 100;
  Random random(3);
  Floats parameter(n), first(n), second(n), gradient(n);
  std::vector<double> p(n), m(n), v(n);
  for (std::size_t i = 0; i < n; ++i) p[i] = parameter[i] = static_cast<float>(random.normal());
  for (int step = 1; step <= 20; ++step) {
    const AdamStep s{.learning_rate = 0.01 * step,
                     .epsilon = 1e-3,
                     .weight_decay = 0.1,
                     .l2 = 0.02,
                     .step = step};
    for (float& g : gradient) g = static_cast<float>(random.normal());
    for (std::size_t i = 0; i < n; ++i) {
      const double g = gradient[i] + s.l2 * p[i];
      m[i] = 0.9 * m[i] + 0.1 * g;
      v[i] = 0.999 * v[i] + 0.001 * g * g;
      const double corrected = m[i] / (1 - std::pow(0.9, step));
      const double root = std::sqrt(v[i] / (1 - std::pow(0.999, step)));
      p[i] += -s.learning_rate * s.weight_decay * p[i] -
              s.learning_rate * corrected / (root + s.epsilon);
    }
    adam_step(s, n, gradient.data(), parameter.data(), first.data(), second.data());
    for (std::size_t i = 0; i < n; ++i) {
      ASSERT_NEAR(parameter[i], p[i], 2e-5 * step) << "step " << step << ", element " << i;
    }
  }
}

}  // namespace
}  // namespace forecost
