#include "collect/backends/cpu/cpu_case.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "collect/backends/cpu/probe.hpp"
#include "collect/backends/cpu/recipe.hpp"

namespace forecost::cpu {
namespace {

/// Small shapes of every operator that the backend has, odd ones among them: what does not fill the
/// library's blocks, asymmetric padding, groups.
constexpr const char* layers[] = {
    "dense batch=3 in_features=5 out_features=7",
    "dense batch=16 in_features=33 out_features=64 bias=0 activation=relu",
    "dense batch=4 in_features=20 out_features=9 activation=sigmoid",
    "dense batch=4 in_features=20 out_features=9 activation=tanh",
    "conv2d batch=2 in_channels=3 out_channels=5 in_h=9 in_w=7 kernel_h=3 kernel_w=3",
    // Same padding, stride and activation; 17 channels do not fill the library's blocks.
    "conv2d batch=2 in_channels=17 out_channels=16 in_h=8 in_w=8 kernel_h=3 kernel_w=3 stride_h=2 "
    "stride_w=2 pad_bottom=1 pad_right=1 activation=relu",
    "conv2d batch=1 in_channels=8 out_channels=8 in_h=10 in_w=9 kernel_h=3 kernel_w=2 pad_top=2 "
    "pad_left=1 dilation_h=2 dilation_w=3 bias=0 activation=tanh",
    "conv2d batch=2 in_channels=8 out_channels=12 in_h=6 in_w=6 kernel_h=3 kernel_w=3 groups=4 "
    "pad_top=1 pad_bottom=1 pad_left=1 pad_right=1 activation=sigmoid",
    // Depthwise.
    "conv2d batch=2 in_channels=16 out_channels=16 in_h=7 in_w=7 kernel_h=3 kernel_w=3 groups=16 "
    "pad_top=1 pad_bottom=1 pad_left=1 pad_right=1 activation=relu",
    "layer_norm batch=2 rows=3 features=33",
    "layer_norm batch=5 features=7 affine=0",
    "softmax batch=2 rows=3 features=21",
    "softmax batch=1 features=300",
    "elementwise batch=3 features=37 operation=add",
    "elementwise batch=3 features=37 operation=add operand=scalar",
    "elementwise batch=3 features=37 operation=subtract",
    "elementwise batch=3 features=37 operation=subtract operand=scalar",
    "elementwise batch=3 features=37 operation=multiply",
    "elementwise batch=3 features=37 operation=multiply operand=scalar",
    "elementwise batch=3 features=37 operation=divide",
    "elementwise batch=3 features=37 operation=divide operand=scalar",
    "elementwise batch=3 features=37 operation=power",
    "elementwise batch=3 features=37 operation=power operand=scalar",
    "elementwise batch=3 features=23333 operation=divide",  // enough for two threads
    "activation batch=3 features=37 function=relu",
    "activation batch=3 features=37 function=tanh",
    "activation batch=3 features=37 function=sigmoid",
    "activation batch=3 features=37 function=gelu",
    "activation batch=3 features=37 function=silu",
    "attention batch=2 heads=3 query_length=5 key_length=7 head_features=9",
    "attention batch=1 heads=2 query_length=33 key_length=33 head_features=16 causal=1",
    // The last of a sequence.
    "attention batch=2 heads=2 query_length=3 key_length=18 head_features=8 causal=1",
    "embedding batch=3 length=5 entries=11 features=7",
    // Each thread gets rows.
    "embedding batch=4 length=9 entries=300 features=130",
    "embedding batch=40 entries=9 features=1000",
    "dropout batch=3 features=37",
    "dropout batch=3 features=23333",
    "transfer batch=3 features=37 direction=device_to_device",
    "transfer batch=3 features=53333 direction=device_to_device",
    "conv_transpose2d batch=2 in_channels=3 out_channels=5 in_h=4 in_w=6 kernel_h=3 kernel_w=2",
    // The upsampling of generators and U-nets; then with one output row more than columns.
    "conv_transpose2d batch=2 in_channels=17 out_channels=16 in_h=5 in_w=5 kernel_h=4 kernel_w=4 "
    "stride_h=2 stride_w=2 pad_top=1 pad_bottom=1 pad_left=1 pad_right=1 bias=0",
    "conv_transpose2d batch=1 in_channels=8 out_channels=12 in_h=5 in_w=4 kernel_h=3 kernel_w=3 "
    "stride_h=3 stride_w=2 pad_top=1 pad_left=1 pad_right=1 dilation_h=2 groups=4",
    "pool2d batch=2 channels=16 in_h=8 in_w=9 kernel_h=2 kernel_w=2 stride_h=2 stride_w=2 mode=max",
    "pool2d batch=2 channels=17 in_h=9 in_w=7 kernel_h=3 kernel_w=2 stride_h=2 stride_w=1 "
    "pad_top=1 "
    "pad_left=1 pad_right=1 mode=max",
    // An index of more than one byte.
    "pool2d batch=1 channels=4 in_h=20 in_w=20 kernel_h=17 kernel_w=17 mode=max",
    "pool2d batch=2 channels=5 in_h=6 in_w=6 kernel_h=3 kernel_w=3 stride_h=2 stride_w=3 pad_top=1 "
    "pad_bottom=2 mode=average",
    "pool2d batch=3 channels=33 in_h=7 in_w=5 mode=global_average",
    "batch_norm batch=4 channels=32 height=5 width=3",
    "batch_norm batch=3 channels=17 height=6 width=6",
    "batch_norm batch=3 channels=17 height=6 width=6 training=0",
    "batch_norm batch=20 channels=48",
    "batch_norm batch=20 channels=7",
    "batch_norm batch=20 channels=48 training=0",
    "rnn batch=3 steps=5 in_features=7 hidden_features=6 cell=vanilla",
    "rnn batch=2 steps=4 in_features=5 hidden_features=9 layers=2 bidirectional=1 cell=vanilla",
    "rnn batch=3 steps=5 in_features=7 hidden_features=6 cell=lstm",
    "rnn batch=1 steps=1 in_features=16 hidden_features=33 bidirectional=1 cell=lstm",
    "rnn batch=4 steps=3 in_features=12 hidden_features=16 layers=3 cell=lstm",
    "rnn batch=3 steps=5 in_features=7 hidden_features=6 layers=2 bidirectional=1 cell=gru",
    // Recurrent weights in a layout of the library's own.
    "rnn batch=32 steps=6 in_features=20 hidden_features=20 cell=gru",
    "reduce batch=3 rows=5 features=37 operation=sum axis=features",
    "reduce batch=3 rows=7 features=37 operation=sum axis=rows",
    "reduce batch=3 rows=5 features=37 operation=mean axis=features",
    "reduce batch=3 rows=7 features=37 operation=mean axis=rows",
    "reduce batch=3 rows=5 features=37 operation=max axis=features",
    "reduce batch=3 rows=7 features=37 operation=max axis=rows",
    // Blocks of columns, the last one smaller, and items that are split among threads.
    "reduce batch=2 rows=50 features=1100 operation=sum axis=rows",
    "reduce batch=1 rows=3000 features=40 operation=max axis=rows",
    "reduce batch=7 rows=3 features=1 operation=mean axis=features",
    "matmul batch=1 m=5 n=3 k=7",
    "matmul batch=6 m=17 n=1 k=40",
    "matmul batch=3 m=1 n=33 k=16",
};

class Cases : public ::testing::TestWithParam<const char*> {
 protected:
  void check(DType dtype) {
    const Layer layer = Layer::parse(GetParam());
    for (const Pass pass : layer.op().passes) {
      const Task task{layer, pass, dtype};
      if (!has_reference(task)) continue;
      SCOPED_TRACE(task_text(task));
      std::unique_ptr<PreparedCase> prepared;
      try {
        prepared = prepare_case(context_, task, 42);
      } catch (const CaseRefused& refused) {
        ASSERT_EQ(refused.status(), Status::unsupported) << refused.what();
        ASSERT_EQ(dtype, DType::bf16) << "f32 is there for everything: " << refused.what();
        continue;
      }
      prepared->run(1);
      prepared->run(2);  // a pass overwrites its result, it does not add to it
      const Deviation deviation = deviation_from_reference(task, prepared->operands());
      EXPECT_FALSE(deviation.result.empty());
      EXPECT_LT(deviation.relative, reference_tolerance(dtype)) << deviation.result;
      const double checksum = prepared->checksum();
      EXPECT_TRUE(std::isfinite(checksum));
      prepared->run(1);
      EXPECT_EQ(prepared->checksum(), checksum);
      EXPECT_GT(prepared->info().memory_bytes, 0);
      EXPECT_FALSE(prepared->info().implementation.empty());
    }
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  Arena arena_;
  RandomPool pool_;
  Flush flush_;
  CaseContext context_{engine_, arena_, pool_, flush_, 1e9};
};

TEST_P(Cases, AgreeWithNestedLoopsInF32) { check(DType::f32); }

std::string name_of_case(const ::testing::TestParamInfo<const char*>& layer) {
  const std::string text = layer.param;
  return text.substr(0, text.find(' ')) + std::to_string(layer.index);
}
INSTANTIATE_TEST_SUITE_P(Layers, Cases, ::testing::ValuesIn(layers), name_of_case);

class Bf16Cases : public Cases {};
TEST_P(Bf16Cases, AgreeWithNestedLoops) { check(DType::bf16); }

/// None on a CPU without bf16 instructions.
std::vector<const char*> bf16_layers() {
  if (!cpu_has_bf16()) return {};
  return {std::begin(layers), std::end(layers)};
}
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Bf16Cases);
INSTANTIATE_TEST_SUITE_P(Layers, Bf16Cases, ::testing::ValuesIn(bf16_layers()), name_of_case);

TEST(CpuCase, RefusesWhatDoesNotFit) {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  Arena arena;
  const RandomPool pool;
  Flush flush;
  const CaseContext context{engine, arena, pool, flush, 1000};
  const Layer layer("dense", {{"batch", 64}, {"in_features", 64}, {"out_features", 64}});
  try {
    prepare_case(context, Task{layer}, 1);
    FAIL() << "1000 bytes were enough";
  } catch (const CaseRefused& refused) {
    EXPECT_EQ(refused.status(), Status::skipped_memory);
  }
}

TEST(CpuCase, DropsATenthAndNotTheSameInEveryRow) {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  Arena arena;
  const RandomPool pool;
  Flush flush;
  const CaseContext context{engine, arena, pool, flush, 1e9};
  constexpr std::size_t features = 4096;
  const Layer layer("dropout", {{"batch", 64}, {"features", features}});
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    const auto prepared = prepare_case(context, Task{layer, pass}, 3);
    prepared->run(1);
    const std::vector<double> mask = prepared->operands().at("mask");
    double kept = 0, like_the_row_before = 0;
    for (std::size_t i = 0; i < mask.size(); ++i) {
      kept += mask[i];
      if (i >= features && mask[i] == mask[i - features]) ++like_the_row_before;
    }
    const auto n = static_cast<double>(mask.size());
    EXPECT_NEAR(kept / n, 0.9, 0.004);  // 7 standard deviations
    EXPECT_NEAR(like_the_row_before / (n - features), 0.9 * 0.9 + 0.1 * 0.1, 0.008);
  }
}

TEST(CpuCase, CopiesWithinTheOneMemoryThatThereIs) {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  Arena arena;
  const RandomPool pool;
  Flush flush;
  const CaseContext context{engine, arena, pool, flush, 1e9};
  for (const char* direction : {"host_to_device", "device_to_host"}) {
    const Layer layer =
        Layer::parse(std::string("transfer batch=2 features=8 direction=") + direction);
    try {
      prepare_case(context, Task{layer}, 1);
      FAIL() << direction << " was measured";
    } catch (const CaseRefused& refused) {
      EXPECT_EQ(refused.status(), Status::unsupported);
    }
  }
}

TEST(CpuCase, AnUpdateHasTheSameChecksumHoweverOftenItRan) {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  Arena arena;
  const RandomPool pool;
  Flush flush;
  const CaseContext context{engine, arena, pool, flush, 1e9};
  const Layer layer("dense", {{"batch", 1}, {"in_features", 30}, {"out_features", 9}});
  for (const Optimizer optimizer : {Optimizer::sgd, Optimizer::adam}) {
    const auto prepared =
        prepare_case(context, Task{layer, Pass::update, DType::f32, optimizer}, 3);
    prepared->run(1);
    const double checksum = prepared->checksum();
    prepared->run(5);
    EXPECT_EQ(prepared->checksum(), checksum) << name_of(optimizer);
    const Operands before = prepared->operands();
    prepared->run(1);
    EXPECT_NE(prepared->operands(), before) << "the step changed nothing";
  }
}

}  // namespace
}  // namespace forecost::cpu
