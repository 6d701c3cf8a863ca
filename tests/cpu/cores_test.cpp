#include "collect/backends/cpu/cores.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "collect/backends/cpu/cpu_backend.hpp"
#include "collect/backends/cpu/recipe.hpp"
#include "collect/protocol.hpp"
#include "core/error.hpp"

namespace forecost::cpu {
namespace {

using Cores = std::vector<int>;

Cores choose(const HostCores& host, int rank, int size, int cores) {
  return choose_cores(host, {.cores = cores, .local_rank = rank, .local_size = size});
}

TEST(ChooseCores, TakesWhatTheProcessIsBoundTo) {
  const HostCores host{{2, 3}, {0, 1, 2, 3}};
  EXPECT_EQ(choose(host, 0, 1, 0), (Cores{2, 3}));
  EXPECT_EQ(choose(host, 0, 1, 1), (Cores{2}));
  EXPECT_THROW(choose(host, 0, 1, 3), EnvironmentError);
  EXPECT_EQ(choose(host, 1, 2, 0), (Cores{2, 3}));  // bound by the launcher, each to its own
}

TEST(ChooseCores, DealsUnboundCoresOut) {
  const HostCores host{{0, 1, 2, 3}, {0, 1, 2, 3}};
  EXPECT_EQ(choose(host, 0, 2, 0), (Cores{0, 1}));
  EXPECT_EQ(choose(host, 1, 2, 0), (Cores{2, 3}));
  EXPECT_EQ(choose(host, 1, 2, 1), (Cores{1}));
  EXPECT_THROW(choose(host, 0, 2, 5), EnvironmentError);
}

TEST(ChooseCores, LeavesTheManagerWithoutADevice) {
  const HostCores host{{0, 1, 2, 3}, {0, 1, 2, 3}};
  EXPECT_EQ(choose(host, 0, 3, 2), Cores{});
  EXPECT_EQ(choose(host, 1, 3, 2), (Cores{0, 1}));
  EXPECT_EQ(choose(host, 2, 3, 2), (Cores{2, 3}));
  // Two more ranks than devices: the last ones go without.
  EXPECT_EQ(choose(host, 0, 4, 2), (Cores{0, 1}));
  EXPECT_EQ(choose(host, 3, 4, 2), Cores{});
  // Bound to one core each by mpirun, but asked to use two.
  EXPECT_EQ(choose({{0}, {0, 1}}, 0, 2, 2), Cores{});
  EXPECT_EQ(choose({{1}, {0, 1}}, 1, 2, 2), (Cores{0, 1}));
}

TEST(CpuBackend, DescribesItsDeviceAndRefusesWhatItCannotMeasure) {
  const auto backend = cpu_backend.open({.cores = 1});
  ASSERT_NE(backend, nullptr);
  EXPECT_EQ(backend->device()[Attribute::cores], 1);
  EXPECT_EQ(backend->processors().size(), 1U);
  EXPECT_TRUE(backend->device().device_class.ends_with("-1c"));
  EXPECT_FALSE(backend->device().uuid.empty());
  EXPECT_GT(backend->free_memory_bytes(), 0);
  EXPECT_TRUE(backend->environment().facts.contains("onednn"));

  const Layer layer("dense", {{"batch", 2}, {"in_features", 4}, {"out_features", 4}});
  EXPECT_FALSE(backend->unsupported({layer, Pass::forward}));
  EXPECT_FALSE(backend->unsupported({layer, Pass::update, DType::f32, Optimizer::adam}));
  EXPECT_TRUE(backend->unsupported({layer, Pass::training_step, DType::f32, Optimizer::adam}));
  EXPECT_TRUE(backend->unsupported({layer, Pass::update}));
  EXPECT_TRUE(backend->unsupported({layer, Pass::forward, DType::f16}));
  EXPECT_TRUE(backend->unsupported({layer, Pass::forward, DType::f32, Optimizer::none,
                                    CacheState::cold, AlgorithmPolicy::find}));

  // What it lacks of the vocabulary is named, in a row with a status of its own.
  for (const Operator* op : operators()) {
    if (find_cpu_operator(op->name) != nullptr) continue;
    std::vector<std::int64_t> values;
    for (const ParameterInfo& p : op->parameters) values.push_back(p.default_value.value_or(p.min));
    const Task task{Layer::of_values(*op, values), Pass::forward};
    EXPECT_EQ(backend->unsupported(task),
              "the cpu backend has no operator " + std::string(op->name));
    const auto row = measure(*backend, task, {}, 1);
    ASSERT_TRUE(row);
    EXPECT_EQ(row->status, Status::unsupported);
  }
}

}  // namespace
}  // namespace forecost::cpu
