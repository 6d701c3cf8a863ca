#include "collect/backends/cpu/network_runner.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "collect/reference/references.hpp"
#include "core/error.hpp"
#include "data/operators/conv2d.hpp"
#include "data/operators/dense.hpp"
#include "data/operators/pool2d.hpp"

namespace forecost {
namespace {

Network network_of(const std::string& layers) {
  const std::filesystem::path file =
      std::filesystem::path(::testing::TempDir()) / "forecost_network_runner_test.toml";
  std::ofstream(file)
      << "[network]\nname = \"t\"\ntitle = \"t\"\nsource = \"t\"\ninput = [3, 9, 9]\n"
      << layers;
  Network network = load_network(file);
  std::filesystem::remove(file);
  return network;
}

constexpr const char* small_network = R"(
[[layer]]
op = "conv2d"
out_channels = 5
kernel = 3
padding = "same"
activation = "tanh"
[[layer]]
op = "pool2d"
mode = "POOL"
kernel = 3
stride = 2
[[layer]]
op = "conv2d"
out_channels = 18
kernel = 2
activation = "sigmoid"
[[layer]]
op = "flatten"
[[layer]]
op = "dense"
out_features = 7
activation = "tanh"
[[layer]]
op = "dense"
out_features = 4
)";

Network with_pool(const std::string& mode) {
  std::string text = small_network;
  text.replace(text.find("POOL"), 4, mode);
  return network_of(text);
}

/// The network in double, with plain loops, for `batch` items.
std::vector<double> reference(const Network& network, std::int64_t batch,
                              const std::vector<double>& input,
                              const std::vector<double>& parameters) {
  std::vector<double> x = input;
  std::size_t used = 0;
  for (const NetworkNode& node : network.nodes) {
    const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
    std::vector<double> y(at(batch * node.out.elements()), 0.0);
    if (node.op == "flatten") continue;
    if (node.op == "pool2d") {
      const bool max = pool2d_shape(*node.layer).mode == PoolMode::max;
      const ItemShape::Image in = node.in.image(), out = node.out.image();
      for (std::int64_t nc = 0; nc < batch * in.channels; ++nc)
        for (std::int64_t h = 0; h < out.height; ++h)
          for (std::int64_t w = 0; w < out.width; ++w) {
            double best = -1e30, sum = 0;
            for (std::int64_t i = 0; i < 3; ++i)
              for (std::int64_t j = 0; j < 3; ++j) {
                const double value = x[at((nc * in.height + 2 * h + i) * in.width + 2 * w + j)];
                best = std::max(best, value);
                sum += value;
              }
            y[at((nc * out.height + h) * out.width + w)] = max ? best : sum / 9;
          }
      x = y;
      continue;
    }
    Conv2dShape s{};
    if (node.op == "conv2d") {
      s = conv2d_shape(node.at_batch(batch));
    } else {
      const DenseShape d = dense_shape(node.at_batch(batch));
      s = {d.batch, d.in_features, d.out_features, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1,
           1,       d.bias,        d.activation};
    }
    const std::size_t bias = used + at(s.weight_elements());
    for (std::int64_t n = 0; n < batch; ++n)
      for (std::int64_t oc = 0; oc < s.out_channels; ++oc)
        for (std::int64_t oh = 0; oh < s.out_h(); ++oh)
          for (std::int64_t ow = 0; ow < s.out_w(); ++ow) {
            double sum = parameters[bias + at(oc)];
            for (std::int64_t ic = 0; ic < s.in_channels; ++ic)
              for (std::int64_t kh = 0; kh < s.kernel_h; ++kh)
                for (std::int64_t kw = 0; kw < s.kernel_w; ++kw) {
                  const std::int64_t h = oh - s.pad_top + kh, w = ow - s.pad_left + kw;
                  if (h < 0 || h >= s.in_h || w < 0 || w >= s.in_w) continue;
                  sum += x[at(((n * s.in_channels + ic) * s.in_h + h) * s.in_w + w)] *
                         parameters[used +
                                    at(((oc * s.in_channels + ic) * s.kernel_h + kh) * s.kernel_w +
                                       kw)];
                }
            y[at(((n * s.out_channels + oc) * s.out_h() + oh) * s.out_w() + ow)] =
                activate(s.activation, sum);
          }
    used = bias + at(s.out_channels);
    x = y;
  }
  return x;
}

std::vector<double> doubles(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

TEST(NetworkRunner, InferenceAgreesWithPlainLoops) {
  for (const char* mode : {"max", "average"}) {
    const Network network = with_pool(mode);
    const NetworkValues values = run_network_once({&network, 3});
    const auto expected = reference(network, 3, doubles(values.input), doubles(values.parameters));
    ASSERT_EQ(values.output.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(static_cast<double>(values.output[i]), expected[i], 1e-5) << mode << " " << i;
    }
  }
}

TEST(NetworkRunner, TrainingGradientsAgreeWithFiniteDifferences) {
  for (const char* mode : {"max", "average"}) {
    const Network network = with_pool(mode);
    const NetworkValues values = run_network_once({&network, 2, true, DType::f32, Optimizer::adam});
    ASSERT_EQ(values.gradients.size(), values.parameters.size());
    ASSERT_EQ(values.parameters.size(), static_cast<std::size_t>(network.parameters()));
    std::vector<double> parameters = doubles(values.parameters);
    const auto loss = [&] {
      const auto output = reference(network, 2, doubles(values.input), parameters);
      double sum = 0;
      for (std::size_t i = 0; i < output.size(); ++i) {
        sum += output[i] * static_cast<double>(values.output_gradient[i]);
      }
      return sum;
    };
    double largest = 0;
    for (const float gradient : values.gradients) {
      largest = std::max(largest, std::fabs(static_cast<double>(gradient)));
    }
    ASSERT_GT(largest, 0);
    // A sample from all layers; the steps are coprime to every layer's row.
    for (std::size_t i = 0; i < parameters.size(); i += 13) {
      const double step = 1e-5, before = parameters[i];
      parameters[i] = before + step;
      const double above = loss();
      parameters[i] = before - step;
      const double below = loss();
      parameters[i] = before;
      EXPECT_NEAR(static_cast<double>(values.gradients[i]), (above - below) / (2 * step),
                  1e-3 * largest)
          << mode << ", parameter " << i;
    }
  }
}

TEST(NetworkRunner, MeasuresAndChecksRepeatedSteps) {
  const Network network = with_pool("max");
  NetworkRunner runner(1);
  const MeasureRules rules{.budget_s = 0.02, .warmup_budget_s = 0.02, .short_kernel_s = 0};
  for (const bool training : {false, true}) {
    const NetworkTimes measured =
        runner.measure({&network, 4, training, DType::f32, Optimizer::adam}, rules);
    EXPECT_GT(measured.times.time.n, 0);
    EXPECT_GT(measured.times.time.median_s, 0);
    EXPECT_GE(measured.primitives, training ? 15 : 5);
    EXPECT_TRUE(std::isfinite(measured.times.checksum));
  }
}

TEST(NetworkRunner, RefusesWhatItCannotRun) {
  const Network network = network_of(
      "[[layer]]\nop = \"conv2d\"\nout_channels = 4\nkernel = 3\n[[layer]]\nop = \"batch_norm\"\n");
  NetworkRunner runner(1);
  EXPECT_THROW(runner.measure({&network, 1}, {}), UsageError);
}

}  // namespace
}  // namespace forecost
