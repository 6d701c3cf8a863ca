#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collect/backend.hpp"
#include "collect/backends/replay/replay_spec.hpp"
#include "collect/protocol.hpp"
#include "data/device.hpp"

namespace forecost {
namespace {

Task dense_task(std::int64_t batch, DType dtype = DType::f32) {
  return {.layer = Layer("dense", {{"batch", batch}, {"in_features", 512}, {"out_features", 512}}),
          .dtype = dtype};
}

std::unique_ptr<TimingBackend> open(const std::string& replay, int rank = 0) {
  return open_backend("replay", {.rank = rank, .size = rank + 1, .replay = replay});
}

TEST(Replay, every_shipped_device_answers_for_every_rank_in_turn) {
  std::string all;
  for (const auto& name : shipped_devices()) all += (all.empty() ? "" : ",") + name;
  const auto count = static_cast<int>(shipped_devices().size());
  ASSERT_GE(count, 8);
  std::set<std::string> classes, uuids;
  for (int rank = 0; rank < 2 * count; ++rank) {
    const auto backend = open(all, rank);
    const auto row = measure(*backend, dense_task(8), {}, 1);
    ASSERT_TRUE(row);
    EXPECT_EQ(row->status, Status::ok) << row->reason;
    EXPECT_EQ(row->protocol, Protocol::virtual_clock);
    EXPECT_GT(row->time.median_s, 0);
    classes.insert(backend->device().device_class);
    uuids.insert(backend->device().uuid);
  }
  EXPECT_EQ(static_cast<int>(classes.size()), count);
  EXPECT_EQ(static_cast<int>(uuids.size()), 2 * count);
}

TEST(Replay, every_operator_is_measured_in_every_pass) {
  const auto backend = open("v100");
  for (const Operator* op : operators()) {
    if (op->family == Family::collective) continue;  // that takes several ranks
    std::vector<std::int64_t> values;
    for (const ParameterInfo& p : op->parameters) values.push_back(p.default_value.value_or(p.min));
    for (const Pass pass : op->passes) {
      const bool optimizes = pass == Pass::update || pass == Pass::training_step;
      const Task task{Layer::of_values(*op, values), pass, DType::f32,
                      optimizes ? Optimizer::adam : Optimizer::none};
      const auto row = measure(*backend, task, {}, 1);
      ASSERT_TRUE(row);
      EXPECT_EQ(row->status, Status::ok) << op->name << " " << name_of(pass) << ": " << row->reason;
      EXPECT_GT(row->time.median_s, 0) << op->name << " " << name_of(pass);
    }
  }
}

TEST(Replay, a_faster_device_is_faster_and_the_clock_is_virtual) {
  const auto k80 = open("k80:noise=0"), h100 = open("h100:noise=0");
  const auto slow = measure(*k80, dense_task(4096), {}, 1);
  const auto fast = measure(*h100, dense_task(4096), {}, 1);
  EXPECT_GT(slow->time.median_s, 4 * fast->time.median_s);
  EXPECT_GE(k80->now_s(), slow->sampling_s);
}

TEST(Replay, a_dtype_without_a_peak_is_unsupported) {
  const auto backend = open("k80");
  EXPECT_EQ(measure(*backend, dense_task(8, DType::bf16), {}, 1)->status, Status::unsupported);
}

TEST(Replay, faults_hit_their_share_and_the_same_tasks_again) {
  const auto count = [](const std::string& spec, Status status) {
    const auto backend = open(spec);
    std::set<std::int64_t> hit;
    for (std::int64_t batch = 1; batch <= 200; ++batch) {
      if (measure(*backend, dense_task(batch), {}, 1)->status == status) hit.insert(batch);
    }
    return hit;
  };
  const auto failed = count(":fail=0.3", Status::failed);
  EXPECT_GT(failed.size(), 35U);
  EXPECT_LT(failed.size(), 85U);
  EXPECT_EQ(count(":fail=0.3", Status::failed), failed);
  EXPECT_EQ(count("", Status::ok).size(), 200U);
  EXPECT_GT(count(":throttle=0.3", Status::throttled).size(), 35U);
}

TEST(Replay, specs_are_read_or_refused) {
  const auto entries = parse_replay("v100:noise=0.05:fail=0.1,none,:noise=0,c.h5:noise=0");
  ASSERT_EQ(entries.size(), 4U);
  EXPECT_EQ(entries[0].source, "v100");
  EXPECT_EQ(entries[0].faults.noise, 0.05);
  EXPECT_EQ(entries[0].faults.fail, 0.1);
  EXPECT_EQ(entries[2].source, "");
  EXPECT_EQ(open("v100,none", 1), nullptr);
  EXPECT_EQ(parse_replay("").size(), 1U);
  EXPECT_THROW(parse_replay("v100,"), UsageError);
  EXPECT_THROW(parse_replay("v100:noise"), UsageError);
  EXPECT_THROW(parse_replay("v100:fail=2"), UsageError);
  EXPECT_THROW(parse_replay("v100:noise=0.1x"), UsageError);
}

TEST(Registry, an_unknown_backend_lists_the_known_ones) {
  try {
    open_backend("gpuu", {});
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("replay"));
    EXPECT_THAT(error.what(), testing::HasSubstr("auto"));
  }
}

}  // namespace
}  // namespace forecost
