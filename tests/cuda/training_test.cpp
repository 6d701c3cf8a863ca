// Training by the CUDA module, over the stand-in, beside the CPU's: one executable, run on 1, 2 and
// 4 ranks with a GPU each.

#include <numeric>

#include <gtest/gtest.h>

#include "tests/cuda/training_rows.hpp"
#include "tests/mpi/collective_contract.hpp"
#include "tests/mpi/mpi_main.hpp"
#include "train/cuda/cuda_engine.hpp"
#include "train/ensemble_trainer.hpp"

namespace forecost {
namespace {

constexpr std::int64_t inputs = 7;

/// This rank's GPU, for all tests: a process has one context at a time.
class Gpu : public testing::Environment {
 public:
  void SetUp() override { device_ = open_training_device(test_world()); }
  void TearDown() override { device_.reset(); }
  TrainingDevice& device() const { return *device_; }

 private:
  std::unique_ptr<TrainingDevice> device_;
};
Gpu& gpu = dynamic_cast<Gpu&>(*testing::AddGlobalTestEnvironment(new Gpu));

/// Of all ranks of the world.
std::unique_ptr<Collective> nccl_of(const World& world, double timeout_s) {
  std::vector<int> ranks(static_cast<std::size_t>(world.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return nccl_collectives(gpu.device())(world, ranks, timeout_s);
}

INSTANTIATE_TEST_SUITE_P(Nccl, CollectiveContract,
                         testing::Values(CollectiveUnderTest{"nccl", &nccl_of}));

class CudaTraining : public testing::Test {
 protected:
  const World& world = test_world();

  std::unique_ptr<Collective> collective() { return nccl_of(world, 60); }
  static EngineFactory engine(cuda::Precision precision = cuda::Precision::f32) {
    return cuda_engines(gpu.device(), precision);
  }

  static EnsembleTask task(const TrainingRows& rows, const Recipe& recipe, std::int64_t batch,
                           int epochs) {
    return {.recipe = recipe,
            .shape = MlpShape(inputs, recipe.hidden),
            .x = rows.x,
            .y = rows.y,
            .epochs = epochs,
            .batch = batch,
            .seed = 11,
            .sharing = Sharing::fast,
            .members = {0, 2}};
  }

  static EnsembleState trained(const EnsembleTask& task, const EngineFactory& engine,
                               Collective& collective, int epochs) {
    EnsembleTrainer trainer(task, engine, collective);
    for (int epoch = 0; epoch < epochs; ++epoch) trainer.run_epoch();
    return trainer.state();
  }

  /// 20 steps: parameters of order 1 are within 1e-5 of the CPU's, and far from where they began.
  void expect_follows_the_cpu(const Recipe& recipe) {
    // Batches of 24 and a last one of 3, of which one of 4 ranks gets no row.
    const TrainingRows rows(99, inputs);
    const EnsembleTask wanted = task(rows, recipe, 24, 4);
    const auto alone = make_local_collective();
    const EnsembleState begun = trained(wanted, make_cpu_engine, *alone, 0);
    const EnsembleState expected = trained(wanted, make_cpu_engine, *alone, 4);
    const auto together = collective();
    const EnsembleState found = trained(wanted, engine(), *together, 4);
    EXPECT_EQ(found.step, 20);
    EXPECT_GT(largest_difference(begun.parameters, expected.parameters), 1e-3);
    EXPECT_LE(largest_difference(found.parameters, expected.parameters), 1e-5);
    EXPECT_LE(largest_difference(found.first_moment, expected.first_moment), 1e-5);
    EXPECT_LE(largest_difference(found.second_moment, expected.second_moment), 1e-5);
  }
};

TEST_F(CudaTraining, FollowsTheCpuWithTheDefaultRecipe) {
  Recipe recipe = recipe_of("default");
  recipe.hidden = {20, 12, 16};
  expect_follows_the_cpu(recipe);
}

TEST_F(CudaTraining, FollowsTheCpuWithThePapersRecipe) {
  Recipe recipe = recipe_of("justus2018");
  recipe.hidden = {12, 24};
  recipe.learning_rate = 0.01;  // 0.1 makes a chaos of few rows
  expect_follows_the_cpu(recipe);
}

TEST_F(CudaTraining, ReportsTheSameLoss) {
  const TrainingRows rows(50, inputs);
  Recipe recipe = recipe_of("default");
  recipe.hidden = {16};
  const EnsembleTask wanted = task(rows, recipe, 25, 2);
  const auto alone = make_local_collective(), together = collective();
  EnsembleTrainer cpu(wanted, make_cpu_engine, *alone);
  EnsembleTrainer on_gpu(wanted, engine(), *together);
  for (int epoch = 0; epoch < 2; ++epoch) {
    std::vector<double> loss{on_gpu.run_epoch()};
    together->sum(std::span<double>(loss));  // of all ranks' rows
    EXPECT_NEAR(loss[0], cpu.run_epoch(), 1e-5);
  }
}

TEST_F(CudaTraining, GoesOnFromAState) {
  const TrainingRows rows(60, inputs);
  Recipe recipe = recipe_of("default");
  recipe.hidden = {16, 8};
  const EnsembleTask wanted = task(rows, recipe, 20, 4);
  const auto together = collective();
  const EnsembleState whole = trained(wanted, engine(), *together, 4);
  const EnsembleState half = trained(wanted, engine(), *together, 2);
  EnsembleTrainer second(wanted, engine(), *together);
  second.restore(half);
  second.run_epoch();
  second.run_epoch();
  EXPECT_EQ(largest_difference(second.state().parameters, whole.parameters), 0);
}

/// Rounded products lead elsewhere, but not far: losses fall alike.
TEST_F(CudaTraining, LearnsInMixedPrecision) {
  const TrainingRows rows(96, inputs);
  Recipe recipe = recipe_of("default");
  recipe.hidden = {24, 24};
  const auto final_loss = [&](cuda::Precision precision) {
    const auto together = collective();
    EnsembleTrainer trainer(task(rows, recipe, 24, 12), engine(precision), *together);
    std::vector<double> loss{0};
    for (int epoch = 0; epoch < 12; ++epoch) loss[0] = trainer.run_epoch();
    together->sum(std::span<double>(loss));
    return loss[0];
  };
  const double f32 = final_loss(cuda::Precision::f32);
  for (const auto precision : {cuda::Precision::tf32, cuda::Precision::bf16}) {
    const double rounded = final_loss(precision);
    EXPECT_NE(rounded, f32) << "nothing was rounded";
    EXPECT_NEAR(rounded, f32, 0.1 * f32);
  }
}

// Its steps wait on the device: whoever waits for them gives up when the time is over.
TEST_F(CudaTraining, NoticesARankThatTrainsNoMore) {
  if (world.size() == 1) return;  // nobody to wait for
  const TrainingRows rows(60, inputs);
  Recipe recipe = recipe_of("default");
  recipe.hidden = {8};
  const auto together = nccl_of(world, 0.5);
  EnsembleTrainer trainer(task(rows, recipe, 20, 3), engine(), *together);
  trainer.run_epoch();
  world.barrier();
  if (world.rank() != 0) {
    EXPECT_THROW(trainer.run_epoch(), RankLost);
  }
  world.barrier();
}

TEST_F(CudaTraining, TellsOfADivergence) {
  const TrainingRows rows(40, inputs);
  Recipe recipe = recipe_of("default");
  recipe.hidden = {8};
  recipe.learning_rate = 1e38;
  const auto together = collective();
  EnsembleTrainer trainer(task(rows, recipe, 10, 3), engine(), *together);
  EXPECT_THROW(
      {
        for (int epoch = 0; epoch < 3; ++epoch) trainer.run_epoch();
      },
      DataError);
}

TEST_F(CudaTraining, RefusesDeterministicSums) {
  const TrainingRows rows(40, inputs);
  EnsembleTask wanted = task(rows, recipe_of("default"), 10, 1);
  wanted.sharing = Sharing::deterministic;
  const auto together = collective();
  EXPECT_THROW(EnsembleTrainer(wanted, engine(), *together), UsageError);
}

}  // namespace
}  // namespace forecost
