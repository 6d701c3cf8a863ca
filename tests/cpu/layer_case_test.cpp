#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "collect/backends/cpu/cpu_case.hpp"
#include "collect/backends/cpu/probe.hpp"
#include "data/operators/conv2d.hpp"
#include "data/operators/dense.hpp"
#include "tests/cpu/activate.hpp"

namespace forecost::cpu {
namespace {

using Values = std::vector<float>;

/// f'(z) from y = f(z).
double slope(Activation activation, double y) {
  switch (activation) {
    case Activation::relu:
      return y > 0 ? 1 : 0;
    case Activation::tanh:
      return 1 - y * y;
    case Activation::sigmoid:
      return y * (1 - y);
    case Activation::none:
      break;
  }
  return 1;
}

/// A dense layer is a convolution of 1x1 images with 1x1 kernels.
Conv2dShape shape_of(const Layer& layer) {
  if (&layer.op() == &conv2d_operator) return conv2d_shape(layer);
  const DenseShape s = dense_shape(layer);
  return {s.batch, s.in_features, s.out_features, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1,
          1,       s.bias,        s.activation};
}

/// Calls visit(source index, weight index, destination index) for every multiply-add.
template <class Visit>
void for_each_product(const Conv2dShape& s, Visit visit) {
  const std::int64_t ic_group = s.in_channels / s.groups, oc_group = s.out_channels / s.groups;
  for (std::int64_t n = 0; n < s.batch; ++n)
    for (std::int64_t oc = 0; oc < s.out_channels; ++oc)
      for (std::int64_t oh = 0; oh < s.out_h(); ++oh)
        for (std::int64_t ow = 0; ow < s.out_w(); ++ow)
          for (std::int64_t ic = 0; ic < ic_group; ++ic)
            for (std::int64_t kh = 0; kh < s.kernel_h; ++kh)
              for (std::int64_t kw = 0; kw < s.kernel_w; ++kw) {
                const std::int64_t h = oh * s.stride_h - s.pad_top + kh * s.dilation_h;
                const std::int64_t w = ow * s.stride_w - s.pad_left + kw * s.dilation_w;
                if (h < 0 || h >= s.in_h || w < 0 || w >= s.in_w) continue;
                const std::int64_t channel = oc / oc_group * ic_group + ic;
                visit(static_cast<std::size_t>(
                          ((n * s.in_channels + channel) * s.in_h + h) * s.in_w + w),
                      static_cast<std::size_t>(
                          ((oc * ic_group + ic) * s.kernel_h + kh) * s.kernel_w + kw),
                      static_cast<std::size_t>(
                          ((n * s.out_channels + oc) * s.out_h() + oh) * s.out_w() + ow));
              }
}

std::size_t channel_of(const Conv2dShape& s, std::size_t destination) {
  return destination / static_cast<std::size_t>(s.out_h() * s.out_w()) %
         static_cast<std::size_t>(s.out_channels);
}

void expect_close(const Values& got, const std::vector<double>& expected, double tolerance,
                  const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  double scale = 0;
  for (const double value : expected) scale = std::max(scale, std::fabs(value));
  ASSERT_GT(scale, 0) << what << ": a reference of zeros would prove nothing";
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(static_cast<double>(got[i]), expected[i], tolerance * scale) << what << " at " << i;
  }
}

class LayerCases : public ::testing::TestWithParam<const char*> {
 protected:
  void check(Pass pass, DType dtype) {
    const Layer layer = Layer::parse(GetParam());
    const Conv2dShape s = shape_of(layer);
    const auto prepared = prepare_layer_case(context_, Task{layer, pass, dtype}, 42);
    const auto& seen = dynamic_cast<const LayerCase&>(*prepared);
    prepared->run(1);
    prepared->run(2);  // a pass overwrites its result, it does not add to it
    const double tolerance = dtype == DType::bf16 ? 0.02 : 1e-5;
    const auto name = [&](const char* what) {
      return std::string(name_of(pass)) + " " + std::string(name_of(dtype)) + " " + what;
    };
    if (pass == Pass::forward) {
      const Values x = seen.operand(DNNL_ARG_SRC), w = seen.operand(DNNL_ARG_WEIGHTS),
                   b = seen.operand(DNNL_ARG_BIAS), y = seen.operand(DNNL_ARG_DST);
      ASSERT_EQ(b.empty(), !s.bias);
      std::vector<double> expected(y.size());
      for_each_product(s, [&](std::size_t i, std::size_t j, std::size_t k) {
        expected[k] += static_cast<double>(x[i]) * static_cast<double>(w[j]);
      });
      for (std::size_t k = 0; k < expected.size(); ++k) {
        const double bias = s.bias ? static_cast<double>(b[channel_of(s, k)]) : 0;
        expected[k] = activate(s.activation, expected[k] + bias);
      }
      expect_close(y, expected, tolerance, name("y"));
    } else if (pass == Pass::backward_data) {
      const Values w = seen.operand(DNNL_ARG_WEIGHTS), dx = seen.operand(DNNL_ARG_DIFF_SRC),
                   y = seen.operand(DNNL_ARG_DST), dz = seen.operand(DNNL_ARG_DIFF_DST),
                   dy = seen.operand(DNNL_ARG_MULTIPLE_SRC);
      ASSERT_EQ(dy.empty(), s.activation == Activation::none);
      std::vector<double> gradient(dz.begin(), dz.end()), expected(dx.size());
      if (!dy.empty()) {
        for (std::size_t k = 0; k < gradient.size(); ++k) {
          gradient[k] = static_cast<double>(dy[k]) * slope(s.activation, static_cast<double>(y[k]));
        }
        expect_close(dz, gradient, tolerance, name("dz"));
      }
      for_each_product(s, [&](std::size_t i, std::size_t j, std::size_t k) {
        expected[i] += gradient[k] * static_cast<double>(w[j]);
      });
      expect_close(dx, expected, tolerance, name("dx"));
    } else {
      const Values x = seen.operand(DNNL_ARG_SRC), dz = seen.operand(DNNL_ARG_DIFF_DST),
                   dw = seen.operand(DNNL_ARG_DIFF_WEIGHTS), db = seen.operand(DNNL_ARG_DIFF_BIAS);
      std::vector<double> expected(dw.size()), bias(db.size());
      for_each_product(s, [&](std::size_t i, std::size_t j, std::size_t k) {
        expected[j] += static_cast<double>(dz[k]) * static_cast<double>(x[i]);
      });
      expect_close(dw, expected, tolerance, name("dw"));
      ASSERT_EQ(db.empty(), !s.bias);
      if (s.bias) {
        for (std::size_t k = 0; k < dz.size(); ++k)
          bias[channel_of(s, k)] += static_cast<double>(dz[k]);
        expect_close(db, bias, tolerance, name("db"));
      }
    }
    const double checksum = prepared->checksum();
    EXPECT_TRUE(std::isfinite(checksum));
    prepared->run(1);
    EXPECT_EQ(prepared->checksum(), checksum);
    EXPECT_GT(prepared->info().memory_bytes, 0);
    EXPECT_FALSE(prepared->info().implementation.empty());
  }

  void check_passes(DType dtype) {
    for (const Pass pass : {Pass::forward, Pass::backward_data, Pass::backward_weights}) {
      check(pass, dtype);
    }
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  Arena arena_;
  RandomPool pool_;
  Flush flush_;
  CaseContext context_{engine_, arena_, pool_, flush_, 1e9};
};

TEST_P(LayerCases, AgreeWithNestedLoopsInF32) { check_passes(DType::f32); }
TEST_P(LayerCases, AgreeWithNestedLoopsInBf16) {
  if (!cpu_has_bf16()) GTEST_SKIP() << "this CPU has no bf16 instructions";
  check_passes(DType::bf16);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, LayerCases,
    ::testing::Values(
        "dense batch=3 in_features=5 out_features=7",
        "dense batch=16 in_features=33 out_features=64 bias=0 activation=relu",
        "dense batch=4 in_features=20 out_features=9 activation=sigmoid",
        "dense batch=4 in_features=20 out_features=9 activation=tanh",
        "conv2d batch=2 in_channels=3 out_channels=5 in_h=9 in_w=7 kernel_h=3 kernel_w=3",
        // Same padding, stride and activation; 17 channels do not fill the library's blocks.
        "conv2d batch=2 in_channels=17 out_channels=16 in_h=8 in_w=8 kernel_h=3 kernel_w=3 "
        "stride_h=2 "
        "stride_w=2 pad_bottom=1 pad_right=1 activation=relu",
        "conv2d batch=1 in_channels=8 out_channels=8 in_h=10 in_w=9 kernel_h=3 kernel_w=2 "
        "pad_top=2 "
        "pad_left=1 dilation_h=2 dilation_w=3 bias=0 activation=tanh",
        "conv2d batch=2 in_channels=8 out_channels=12 in_h=6 in_w=6 kernel_h=3 kernel_w=3 groups=4 "
        "pad_top=1 pad_bottom=1 pad_left=1 pad_right=1 activation=sigmoid",
        // Depthwise.
        "conv2d batch=2 in_channels=16 out_channels=16 in_h=7 in_w=7 kernel_h=3 kernel_w=3 "
        "groups=16 "
        "pad_top=1 pad_bottom=1 pad_left=1 pad_right=1 activation=relu"),
    [](const auto& shape) { return "shape" + std::to_string(shape.index); });

TEST(LayerCase, RefusesWhatDoesNotFit) {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  Arena arena;
  const RandomPool pool;
  Flush flush;
  const CaseContext context{engine, arena, pool, flush, 1000};
  const Layer layer("dense", {{"batch", 64}, {"in_features", 64}, {"out_features", 64}});
  try {
    prepare_layer_case(context, Task{layer}, 1);
    FAIL() << "1000 bytes were enough";
  } catch (const CaseRefused& refused) {
    EXPECT_EQ(refused.status(), Status::skipped_memory);
  }
}

}  // namespace
}  // namespace forecost::cpu
