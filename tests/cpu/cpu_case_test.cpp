#include "collect/backends/cpu/cpu_case.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "collect/backends/cpu/probe.hpp"
#include "collect/backends/cpu/recipe.hpp"
#include "tests/small_layers.hpp"

namespace forecost::cpu {
namespace {

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
INSTANTIATE_TEST_SUITE_P(Layers, Cases, ::testing::ValuesIn(small_layers), name_of_case);

class Bf16Cases : public Cases {};
TEST_P(Bf16Cases, AgreeWithNestedLoops) { check(DType::bf16); }

/// None on a CPU without bf16 instructions.
std::vector<const char*> bf16_layers() {
  if (!cpu_has_bf16()) return {};
  return {std::begin(small_layers), std::end(small_layers)};
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
