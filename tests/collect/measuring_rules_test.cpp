// The rules of docs/measuring.md, one by one, on the replay backend: recorded sequences, injected
// faults, and a clock of its own. What a rule asks of a real device is in tests/cpu.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <span>
#include <sstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "collect/backend.hpp"
#include "collect/collector.hpp"
#include "collect/device_group.hpp"
#include "collect/protocol.hpp"
#include "collect/sweep.hpp"
#include "core/random.hpp"
#include "data/corpus/corpus.hpp"
#include "data/corpus/journal.hpp"
#include "data/corpus/merge.hpp"
#include "data/corpus/repeats.hpp"

namespace forecost {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

Task dense_task(std::int64_t batch, CacheState cache = CacheState::cold) {
  return {.layer = Layer("dense", {{"batch", batch}, {"in_features", 512}, {"out_features", 512}}),
          .cache = cache};
}

std::unique_ptr<TimingBackend> open(const std::string& replay) {
  return open_backend("replay", {.replay = replay});
}

Measurement measured(TimingBackend& backend, const Task& task, const MeasureRules& rules = {}) {
  const auto row = measure(backend, task, rules, 1);
  EXPECT_TRUE(row.has_value());
  return *row;
}

Measurement measured(const std::string& replay, const Task& task, const MeasureRules& rules = {}) {
  return measured(*open(replay), task, rules);
}

class MeasuringRules : public testing::Test {
 protected:
  void SetUp() override {
    directory = fs::path(testing::TempDir()) / fmt::format("forecost-rules-{}", ::getpid());
    fs::remove_all(directory);
    fs::create_directories(directory);
  }
  void TearDown() override { fs::remove_all(directory); }

  /// A corpus with one row, to be replayed, that a device took these samples for.
  std::string recorded(const std::vector<double>& samples, CacheState cache = CacheState::cold,
                       const std::function<void(Device&, Measurement&)>& change = {}) {
    Corpus corpus;
    Device device;
    device.name = device.device_class = "recorded";
    device.uuid = "u";
    corpus.environments = {{{{"library", "1"}}}};
    corpus.runs = {{"r", {}}};
    Measurement row{.task = dense_task(8, cache)};
    row.device_class = "recorded";
    row.device_id = device.id();
    row.environment_id = corpus.environments[0].id();
    row.run_id = "r";
    row.implementation = "jit:recorded";
    row.time = summarize(samples);
    row.samples_s.assign(samples.begin(), samples.end());
    if (change) change(device, row);
    corpus.devices = {device};
    corpus.rows = {row};
    const fs::path file = directory / "recorded.h5";
    write_corpus(corpus, file);
    return file.string();
  }

  std::string sweep(const std::string& measure, int layers = 60) {
    const fs::path file = directory / "sweep.toml";
    std::ofstream(file) << fmt::format(R"(
[sweep]
name = "rules"
seed = 3
[measure]
{}
[[dense]]
samples = {}
batch = {{min = 1000, max = 4000}}
in_features = {{min = 500, max = 2000}}
out_features = {{min = 500, max = 2000}}
passes = ["forward"]
cache = ["cold"]
)",
                                       measure, layers);
    return file.string();
  }

  /// Collects on this process alone, into directory/run.
  CollectResult run(const std::string& sweep_file, const std::string& replay, bool resume = false) {
    int argc = 0;
    char** argv = nullptr;
    const World world(argc, argv);
    out.str("");
    return collect(world,
                   {.sweep = sweep_file,
                    .run_directory = directory / "run",
                    .backend = "replay",
                    .replay = replay,
                    .resume = resume,
                    .resume_command = "resume"},
                   out);
  }
  Rows rows() const { return read_corpus(directory / "run").rows; }
  /// In the order in which they were measured.
  Rows journal() const { return read_journals(directory / "run").rows; }

  fs::path directory;
  std::ostringstream out;
};

std::int64_t count(std::span<const Measurement> rows, Status status) {
  return std::count_if(rows.begin(), rows.end(),
                       [&](const Measurement& row) { return row.status == status; });
}

TEST_F(MeasuringRules, Rule01_both_clocks_are_stored) {
  const Measurement row = measured(":noise=0", dense_task(64));
  EXPECT_EQ(row.status, Status::ok);
  // The played host takes 2 us longer than the device.
  EXPECT_NEAR(row.host_s - row.time.median_s, 2e-6, 1e-9);
}

TEST_F(MeasuringRules, Rule02_one_off_costs_are_in_no_sample) {
  const Measurement plain = measured(":noise=0", dense_task(64));
  const Measurement row = measured(":noise=0:first_run_s=0.5", dense_task(64));
  EXPECT_GT(row.first_run_s, 0.5);
  EXPECT_LT(plain.first_run_s, 0.01);
  EXPECT_GT(row.plan_s, 0);
  EXPECT_EQ(row.samples_s, plain.samples_s);
  EXPECT_EQ(row.time.max_s, plain.time.max_s);
  EXPECT_NEAR(row.sampling_s, plain.sampling_s, 1e-9);
}

TEST_F(MeasuringRules, Rule03_slow_first_runs_are_warm_up) {
  const Measurement plain = measured(":noise=0", dense_task(64));
  // From twice as long downwards in steps of 8 %.
  const Measurement row = measured(":noise=0:slow_runs=12", dense_task(64));
  EXPECT_GT(row.warmup_s, 5 * plain.warmup_s);
  EXPECT_EQ(row.samples_s, plain.samples_s);
  // A device that never settles ends with the budget.
  const Measurement restless = measured(":noise=0.3", dense_task(4096), {.warmup_budget_s = 0.05});
  EXPECT_LT(restless.warmup_s, 0.1);
  EXPECT_EQ(restless.status, Status::ok);
}

TEST_F(MeasuringRules, Rule03_the_device_is_kept_awake) {
  const auto backend = open("");
  KeepAwake awake(*backend);
  const auto spun_s = [&] {
    const double begin_s = backend->now_s();
    awake.before_task();
    return backend->now_s() - begin_s;
  };
  EXPECT_NEAR(spun_s(), 0.5, 1e-9);  // at start
  awake.after_task();
  EXPECT_EQ(spun_s(), 0);
  backend->rest(0.9);
  EXPECT_EQ(spun_s(), 0);
  backend->rest(0.2);
  EXPECT_NEAR(spun_s(), 0.5, 1e-9);
  awake.after_task();
  EXPECT_EQ(spun_s(), 0);
}

TEST_F(MeasuringRules, Rule04_cold_and_hot_are_different_tasks) {
  const Measurement cold = measured("v100:noise=0", dense_task(64));
  const Measurement hot = measured("v100:noise=0", dense_task(64, CacheState::hot));
  EXPECT_NE(task_key(cold.task, cold.device_class), task_key(hot.task, hot.device_class));
  EXPECT_GE(cold.flush_bytes, 2 * open("v100")->device()[Attribute::l2_bytes]);
  EXPECT_EQ(hot.flush_bytes, 0);
  // The flush takes time between the samples, and is in none of them.
  const double flush_s = cold.flush_bytes / open("v100")->device().bandwidth_bytes_per_s();
  EXPECT_NEAR(cold.sampling_s, static_cast<double>(cold.time.n) * (cold.host_s + flush_s), 1e-7);
}

TEST_F(MeasuringRules, Rule05_short_hot_runs_are_batched_for_a_millisecond) {
  const Measurement hot = measured("h100:noise=0.2", dense_task(8, CacheState::hot));
  ASSERT_LT(hot.time.median_s, 50e-6);
  EXPECT_GE(static_cast<double>(hot.runs_per_sample) * hot.time.median_s, 0.5e-3);
  EXPECT_GT(hot.runs_per_sample, 10);
  EXPECT_EQ(measured("h100", dense_task(8)).runs_per_sample, 1);  // cold ones cannot be
  // Exactly known runs: at least a millisecond, and not much more.
  const Measurement exact = measured("h100:noise=0", dense_task(8, CacheState::hot));
  const double batch_s = static_cast<double>(exact.runs_per_sample) * exact.time.median_s;
  EXPECT_GE(batch_s, 1e-3);
  EXPECT_LT(batch_s, 1.2e-3);
}

struct Sequence {
  const char* name;
  std::function<double(int)> sample;
  StopReason reason;
  std::int64_t n_min, n_max;
};

TEST_F(MeasuringRules, Rule06_recorded_sequences_stop_for_the_right_reason) {
  Random random(2);
  const Sequence sequences[] = {
      {"constant", [](int) { return 1e-3; }, StopReason::precise, 10, 10},
      {"one spike", [](int i) { return i == 4 ? 1.0 : 1e-3; }, StopReason::precise, 10, 10},
      {"a little noise", [&](int) { return 1e-3 * random.uniform(0.99, 1.01); },
       StopReason::precise, 10, 60},
      {"two modes", [](int i) { return i % 2 == 0 ? 1e-3 : 1.5e-3; }, StopReason::noise_stable, 20,
       200},
      {"a trend", [](int i) { return 1e-3 * (1 + 0.01 * i); }, StopReason::sample_budget, 400, 400},
  };
  for (const Sequence& sequence : sequences) {
    std::vector<double> samples;
    for (int i = 0; i < 400; ++i) samples.push_back(sequence.sample(i));
    const Measurement row =
        measured(recorded(samples), dense_task(8), {.max_samples = 400, .budget_s = 1000});
    EXPECT_EQ(row.status, Status::ok) << sequence.name << ": " << row.reason;
    EXPECT_EQ(row.stop_reason, sequence.reason) << sequence.name;
    EXPECT_GE(row.time.n, sequence.n_min) << sequence.name;
    EXPECT_LE(row.time.n, sequence.n_max) << sequence.name;
    // In their order, from the first one on.
    ASSERT_EQ(row.samples_s.size(), static_cast<std::size_t>(row.time.n)) << sequence.name;
    for (std::size_t i = 0; i < row.samples_s.size(); ++i) {
      ASSERT_EQ(row.samples_s[i], static_cast<float>(samples[i])) << sequence.name << " " << i;
    }
  }
  const Measurement slow = measured(recorded(std::vector<double>(20, 0.5)), dense_task(8));
  EXPECT_EQ(slow.stop_reason, StopReason::time_budget);
  EXPECT_EQ(slow.time.n, 4);  // of half a second, in two seconds
}

TEST_F(MeasuringRules, Rule07_the_distribution_comes_through_journal_and_corpus) {
  const std::vector<double> samples{3e-3, 1e-3, 2e-3, 7e-3, 4e-3, 5e-3, 6e-3, 9e-3, 8e-3, 10e-3};
  Measurement row = measured(recorded(samples), dense_task(8), {.max_samples = 10});
  const auto backend = open(recorded(samples));
  row.environment_id = backend->environment().id();
  row.run_id = "r";
  const fs::path run_directory = directory / "run";
  fs::create_directories(run_directory / "runs" / "r");
  {
    Journal journal(run_directory / "runs" / "r" / "journal-0");
    journal.append(forecost::Run{"r", {}});
    journal.append(backend->environment());
    journal.append(backend->device());
    journal.append(row);
  }
  merge_run_directory(run_directory);
  EXPECT_THAT(validate_corpus(run_directory / "corpus.h5"), testing::IsEmpty());
  const Corpus corpus = read_corpus(run_directory);
  ASSERT_EQ(corpus.rows.size(), 1U);
  const Measurement& read = corpus.rows[0];
  EXPECT_EQ(read.stop_reason, StopReason::sample_budget);
  EXPECT_EQ(read.samples_s, std::vector<float>(samples.begin(), samples.end()));
  const TimingSummary& t = read.time;
  EXPECT_EQ(t.n, 10);
  // Of 1..10 ms: quartiles by linear interpolation.
  EXPECT_NEAR(t.min_s, 1e-3, 1e-9);
  EXPECT_NEAR(t.q1_s, 3.25e-3, 1e-9);
  EXPECT_NEAR(t.median_s, 5.5e-3, 1e-9);
  EXPECT_NEAR(t.q3_s, 7.75e-3, 1e-9);
  EXPECT_NEAR(t.max_s, 10e-3, 1e-9);
  EXPECT_NEAR(t.mean_s, 5.5e-3, 1e-9);
  EXPECT_NEAR(t.stdev_s, std::sqrt(82.5 / 9) * 1e-3, 1e-9);
}

TEST_F(MeasuringRules, Rule08_outliers_are_counted_and_kept) {
  std::vector<double> samples;
  for (int i = 0; i < 12; ++i) samples.push_back(1e-3 * (1 + 1e-3 * (i % 5)));
  samples[7] = 0.3;
  const Measurement row = measured(recorded(samples), dense_task(8));
  EXPECT_EQ(row.status, Status::ok);
  EXPECT_EQ(row.time.outliers, 1);
  EXPECT_NEAR(row.time.max_s, 0.3, 1e-7);
  EXPECT_EQ(row.samples_s[7], 0.3F);
  EXPECT_LT(row.time.median_s, 1.01e-3);
}

TEST_F(MeasuringRules, Rule09_a_throttled_sample_is_taken_again_after_a_rest) {
  // The three runs of the warm-up, one sample, and the run that follows the rest.
  const Measurement row = measured(":throttle=1:throttled_runs=5:noise=0", dense_task(64));
  EXPECT_EQ(row.status, Status::ok) << row.reason;
  EXPECT_THAT(row.reason, HasSubstr("1 sample throttled"));
  EXPECT_EQ(row.time.n, 10);
  const auto backend = open(":throttle=1:throttled_runs=5:noise=0");
  const double begin_s = backend->now_s();
  measured(*backend, dense_task(64));
  EXPECT_GT(backend->now_s() - begin_s, 0.05);  // it rested,
  EXPECT_LT(row.sampling_s, 0.01);              // outside of the samples
}

TEST_F(MeasuringRules, Rule09_after_some_retakes_the_row_is_throttled_with_its_numbers) {
  const Measurement row = measured(":throttle=1", dense_task(64));
  EXPECT_EQ(row.status, Status::throttled);
  EXPECT_THAT(row.reason, HasSubstr("after 5 retakes"));
  EXPECT_THAT(row.reason, HasSubstr("injected"));  // the driver's reasons
  EXPECT_GE(row.time.n, 10);
  EXPECT_TRUE(std::isfinite(row.time.median_s));
  EXPECT_EQ(row.samples_s.size(), static_cast<std::size_t>(row.time.n));
}

TEST_F(MeasuringRules, Rule10_operands_have_a_seed_of_their_own) {
  run(sweep("max_samples = 10"), "");
  std::set<std::uint64_t> seeds;
  for (const Measurement& row : rows()) seeds.insert(row.seed);
  EXPECT_EQ(seeds.size(), 60U);
  EXPECT_FALSE(seeds.contains(0));
}

TEST_F(MeasuringRules, Rule11_policy_and_what_ran_are_recorded) {
  const auto file = recorded({1e-3}, CacheState::cold,
                             [](Device&, Measurement& row) { row.implementation = "algorithm 7"; });
  const Measurement row = measured(file, dense_task(8));
  EXPECT_EQ(row.implementation, "algorithm 7");
  Task find = dense_task(8);
  find.policy = AlgorithmPolicy::find;
  EXPECT_NE(task_key(find, "c"), task_key(dense_task(8), "c"));
  EXPECT_EQ(measured(file, find).status, Status::unsupported);  // nobody measured that one
}

TEST_F(MeasuringRules, Rule12_a_device_belongs_to_one_rank) {
  DeviceGroup group;
  for (int rank = 0; rank < 2; ++rank) {
    DeviceGroup::Member member{.host = "node7", .has_device = true};
    member.device.uuid = "GPU-1234";
    group.members.push_back(member);
  }
  try {
    refuse_shared_devices(group);
    FAIL();
  } catch (const EnvironmentError& error) {
    for (const char* part : {"node7", "GPU-1234", "0", "1"}) {
      EXPECT_THAT(error.what(), HasSubstr(part));
    }
  }
}

TEST_F(MeasuringRules, Rule12_foreign_load_makes_a_row_shared) {
  const Measurement row = measured(":shared=1", dense_task(64));
  EXPECT_EQ(row.status, Status::shared);
  EXPECT_THAT(row.reason, HasSubstr("50 %"));
  EXPECT_EQ(row.foreign_share, 0.5);
  EXPECT_GE(row.samples_s.size(), 10U);
}

TEST_F(MeasuringRules, Rule12_shared_rows_are_measured_again_at_the_end) {
  const auto file = sweep("max_samples = 10", 200);
  EXPECT_EQ(run(file, ":shared=0.1").code, ExitCode::done);
  const auto first = journal();
  const std::int64_t disturbed = count({first.begin(), first.begin() + 200}, Status::shared);
  EXPECT_GT(disturbed, 5);
  EXPECT_LT(disturbed, 40);
  EXPECT_EQ(static_cast<std::int64_t>(first.size()), 200 + disturbed);
  const std::int64_t left = count(rows(), Status::shared);
  EXPECT_LT(left, disturbed / 2);  // a tenth of them
  EXPECT_EQ(rows().size(), 200U);
  EXPECT_THAT(out.str(), HasSubstr(fmt::format("{} ok", 200 - left)));
  EXPECT_GT(left, 0);
  EXPECT_THAT(out.str(), HasSubstr(fmt::format("{} shared", left)));
}

TEST_F(MeasuringRules, Rule12_a_device_that_is_not_ours_is_not_measured_twice) {
  run(sweep("max_samples = 10", 40), ":shared=1");
  EXPECT_EQ(journal().size(), 40U);
  EXPECT_EQ(count(rows(), Status::shared), 40);
}

TEST_F(MeasuringRules, Rule13_what_does_not_fit_is_skipped_or_out_of_memory) {
  const Task huge{
      .layer = Layer("dense",
                     {{"batch", 1 << 20}, {"in_features", 1 << 16}, {"out_features", 1 << 16}})};
  const Measurement skipped = measured("k80", huge);
  EXPECT_EQ(skipped.status, Status::skipped_memory);
  EXPECT_THAT(skipped.reason, HasSubstr("GB"));  // the numbers
  EXPECT_EQ(measured("k80:oom=1", dense_task(8)).status, Status::out_of_memory);
  // The next task does not suffer.
  EXPECT_EQ(run(sweep("max_samples = 10"), ":oom=0.3").code, ExitCode::done);
  const auto all = rows();
  EXPECT_EQ(all.size(), 60U);
  EXPECT_GT(count(all, Status::out_of_memory), 5);
  EXPECT_EQ(count(all, Status::out_of_memory) + count(all, Status::ok), 60);
}

TEST_F(MeasuringRules, Rule13_a_poisoned_device_ends_the_process_after_its_row) {
  const auto backend = open(":poison=1");
  EXPECT_FALSE(backend->poisoned());
  EXPECT_EQ(measured(*backend, dense_task(8)).status, Status::failed);
  EXPECT_TRUE(backend->poisoned());

  const auto file = sweep("max_samples = 10");
  // As the program does it: a new backend each time, which knows nothing of the error.
  CollectResult result = run(file, ":poison=0.05");
  int launches = 1;
  std::size_t before = 0;
  for (; result.restart && launches < 30; ++launches) {
    EXPECT_EQ(result.code, ExitCode::stopped);
    EXPECT_EQ(out.str(), "");
    const auto so_far = journal();
    EXPECT_GT(so_far.size(), before);  // the row that poisoned it is there: nothing loops
    before = so_far.size();
    result = run(file, ":poison=0.05", true);
  }
  EXPECT_GT(launches, 1);
  EXPECT_FALSE(result.restart);
  const auto all = rows();
  EXPECT_EQ(all.size(), 60U);
  const auto poisoned = count(all, Status::failed);
  EXPECT_GE(poisoned, launches - 1);
  EXPECT_LE(poisoned, launches);
  EXPECT_EQ(count(all, Status::ok), 60 - poisoned);  // no innocent task failed
}

TEST_F(MeasuringRules, Rule14_times_below_the_floor_or_above_the_peak_are_implausible) {
  const Work work = dense_task(8).work();
  const auto status = [&](double seconds, auto set) {
    const auto file = recorded(std::vector<double>(12, seconds), CacheState::cold,
                               [&](Device& device, Measurement&) { set(device); });
    return measured(file, dense_task(8)).status;
  };
  const auto peak = [&](Device& d) { d.set(Attribute::peak_f32_flops, work.flops / 1e-3); };
  EXPECT_EQ(status(0.96e-3, peak), Status::ok);
  EXPECT_EQ(status(0.94e-3, peak), Status::implausible);
  const auto bandwidth = [&](Device& d) {
    d.set(Attribute::bandwidth_bytes_per_s, work.bytes_read / 1e-3);
  };
  EXPECT_EQ(status(0.95e-3, bandwidth), Status::ok);
  EXPECT_EQ(status(0.9e-3, bandwidth), Status::implausible);
  const auto launch = [&](Device& d) { d.set(Attribute::probed_launch_latency_s, 1e-3); };
  EXPECT_EQ(status(0.51e-3, launch), Status::ok);
  EXPECT_EQ(status(0.49e-3, launch), Status::implausible);
}

TEST_F(MeasuringRules, Rule15_a_result_that_is_not_finite_fails) {
  const Measurement row = measured(":nonfinite=1", dense_task(8));
  EXPECT_EQ(row.status, Status::failed);
  EXPECT_THAT(row.reason, HasSubstr("not finite"));
  EXPECT_TRUE(std::isnan(row.checksum));
  EXPECT_TRUE(std::isfinite(measured("", dense_task(8)).checksum));
}

TEST_F(MeasuringRules, Rule16_the_order_is_one_shuffle_for_all_devices) {
  const auto file = sweep("max_samples = 10");
  const Plan plan = load_plan(file);
  run(file, "v100");
  std::vector<std::string> v100, k80, planned;
  for (const Measurement& row : journal()) v100.push_back(task_text(row.task));
  fs::remove_all(directory / "run");
  run(file, "k80");
  for (const Measurement& row : journal()) k80.push_back(task_text(row.task));
  for (const Task& task : plan.tasks) planned.push_back(task_text(task));
  // But for the last 5 %, which are sorted by their length on the device.
  for (auto* order : {&v100, &k80, &planned}) order->resize(57);
  EXPECT_EQ(v100, planned);
  EXPECT_EQ(k80, planned);
  EXPECT_FALSE(std::is_sorted(planned.begin(), planned.end()));
}

TEST_F(MeasuringRules, Rule16_replicates_are_passes_apart_in_another_order) {
  const auto file = sweep("max_samples = 10\nreplicates = 3");
  EXPECT_EQ(run(file, ":noise=0.01").code, ExitCode::done);
  EXPECT_THAT(out.str(), HasSubstr("180 of 180 measurements"));
  const auto all = journal();
  ASSERT_EQ(all.size(), 180U);
  std::map<std::int64_t, std::vector<std::string>> passes;
  std::set<std::string> keys;
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].replicate, static_cast<std::int64_t>(i / 60));
    passes[all[i].replicate].push_back(task_text(all[i].task));
    keys.insert(row_key(all[i]));
  }
  EXPECT_EQ(keys.size(), 180U);
  EXPECT_NE(passes[0], passes[1]);
  EXPECT_NE(passes[1], passes[2]);
  std::sort(passes[0].begin(), passes[0].end());
  std::sort(passes[1].begin(), passes[1].end());
  EXPECT_EQ(passes[0], passes[1]);
  // Their difference is told; it is known here: medians of some samples with 1 % noise.
  const Repeats repeats = find_repeats(rows());
  EXPECT_EQ(repeats.all.tasks, 60);
  EXPECT_GT(repeats.all.median_difference, 0.0005);
  EXPECT_LT(repeats.all.median_difference, 0.01);
  EXPECT_GT(repeats.longer.tasks, 5);
  EXPECT_EQ(repeats.between_devices.tasks, 0);
  EXPECT_THAT(out.str(), HasSubstr("60 tasks measured again"));
}

TEST_F(MeasuringRules, Rule16_resume_knows_tasks_by_their_replicate) {
  const auto file = sweep("max_samples = 10\nreplicates = 2");
  CollectResult result = run(file, ":poison=0.03");
  int launches = 1;
  for (; result.restart && launches < 30; ++launches) result = run(file, ":poison=0.03", true);
  EXPECT_GT(launches, 2);  // a poisonous task is one in both passes
  std::map<std::string, int> keys;
  for (const Measurement& row : journal()) {
    ++keys[fmt::format("{} {}", row.replicate, task_text(row.task))];
  }
  EXPECT_EQ(keys.size(), 120U);
  for (const auto& [key, times] : keys) EXPECT_EQ(times, 1) << key;
}

TEST_F(MeasuringRules, Rule16_a_reference_tells_drift) {
  // A sampling of 10 times a few hundred microseconds and flushes: a reference every 20 tasks or
  // so.
  const auto file = sweep("max_samples = 10\nreference_interval_s = 0.2", 400);
  EXPECT_EQ(run(file, ":noise=0").code, ExitCode::done);
  auto repeats = find_repeats(rows());
  ASSERT_EQ(repeats.drifts.size(), 1U);
  EXPECT_GT(repeats.drifts[0].points.size(), 3U);
  EXPECT_LT(repeats.drifts[0].spread(), 1e-6);
  EXPECT_THAT(out.str(), HasSubstr("drift: "));
  EXPECT_THAT(out.str(), HasSubstr("400 of 400 tasks"));  // references count apart
  std::set<std::string> tasks;
  std::int64_t next = first_reference_replicate;
  for (const Measurement& row : journal()) {
    if (row.replicate == 0) continue;
    EXPECT_EQ(row.replicate, next++);
    tasks.insert(task_text(row.task));
  }
  EXPECT_EQ(tasks.size(), 1U);

  // Further launches go on counting: no row is there twice with another time, which a merge
  // refuses.
  fs::remove_all(directory / "run");
  CollectResult result = run(file, ":poison=0.02");
  int launches = 1;
  for (; result.restart && launches < 30; ++launches) result = run(file, ":poison=0.02", true);
  EXPECT_GT(launches, 2);
  std::set<std::string> keys;
  std::set<std::int64_t> replicates;
  for (const Measurement& row : journal()) {
    EXPECT_TRUE(keys.insert(row_key(row)).second) << row_key(row);
    // Another launch may take the same reference.
    const bool is_new = row.replicate == 0 || replicates.insert(row.replicate).second;
    EXPECT_TRUE(is_new) << row.replicate;
  }
  EXPECT_GT(replicates.size(), 5U);
  EXPECT_THAT(validate_corpus(directory / "run" / "corpus.h5"), testing::IsEmpty());

  fs::remove_all(directory / "run");
  run(file, ":noise=0:drift=100");  // twice as slow after 36 s
  repeats = find_repeats(rows());
  ASSERT_EQ(repeats.drifts.size(), 1U);
  EXPECT_GT(repeats.drifts[0].spread(), 0.01);
  const auto& points = repeats.drifts[0].points;
  EXPECT_TRUE(std::is_sorted(points.begin(), points.end(),
                             [](const auto& a, const auto& b) { return a.second < b.second; }));
}

TEST_F(MeasuringRules, Rule17_a_backward_pass_has_no_update_in_it) {
  const Layer layer = dense_task(64).layer;
  const auto seconds = [&](Pass pass, Optimizer optimizer) {
    return measured(":noise=0", {.layer = layer, .pass = pass, .optimizer = optimizer})
        .time.median_s;
  };
  EXPECT_GT(seconds(Pass::update, Optimizer::adam), seconds(Pass::update, Optimizer::sgd));
  // A plan gives an optimizer to updates only: a gradient is the same whatever is done with it.
  std::ofstream(directory / "passes.toml") << R"(
[sweep]
name = "passes"
[[dense]]
samples = 20
batch = {min = 1, max = 64}
in_features = {min = 1, max = 2000}
out_features = {min = 1, max = 2000}
passes = ["forward", "backward_data", "backward_weights", "update"]
optimizers = ["adam"]
)";
  std::map<Pass, int> passes;
  for (const Task& task : load_plan((directory / "passes.toml").string()).tasks) {
    ++passes[task.pass];
    EXPECT_EQ(task.optimizer, task.pass == Pass::update ? Optimizer::adam : Optimizer::none);
  }
  EXPECT_EQ(passes.size(), 4U);
}

TEST_F(MeasuringRules, Rule18_launch_overhead_is_a_number_of_its_own) {
  // The device's time does not hold the host's part; the device table holds the launch latency.
  run(sweep("max_samples = 10"), "v100:noise=0");
  const Corpus corpus = read_corpus(directory / "run");
  EXPECT_TRUE(corpus.devices[0].has(Attribute::launch_latency_s));
  for (const Measurement& row : corpus.rows) {
    EXPECT_NEAR(row.host_s - row.time.median_s, 2e-6, 1e-9);
  }
}

TEST_F(MeasuringRules, TheDutyCycleIsToldWithItsComplement) {
  run(sweep("max_samples = 10"), "");
  for (const char* part : {"duty cycle", "warm-up", "planning", "configurations per hour"}) {
    EXPECT_THAT(out.str(), HasSubstr(part));
  }
  EXPECT_THAT(out.str(), HasSubstr("\n60 tasks on 1 device in "));
}

TEST_F(MeasuringRules, ThePaceOfRepeatsIsThatOfMeasurements) {
  run(sweep("max_samples = 10\nreplicates = 2"), "");
  EXPECT_THAT(out.str(), HasSubstr("120 of 120 measurements"));
  EXPECT_THAT(out.str(), HasSubstr("\n120 measurements on 1 device in "));
  EXPECT_THAT(out.str(), HasSubstr(" measurements per hour; duty cycle"));
}

}  // namespace
}  // namespace forecost
