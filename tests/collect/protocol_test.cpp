#include "collect/protocol.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <new>

#include "core/stop.hpp"

namespace forecost {
namespace {

/// A backend with a clock of its own, and whatever a test wants to happen.
struct Script {
  double run_s = 1e-3;
  std::function<double(int)> run_of;  ///< seconds of the n-th call of run()
  std::function<double(int)> checksum_of = [](int) { return 7.0; };
  double checksum_tolerance = 0;
  std::function<void()> prepare = [] {};
  std::optional<std::string> unsupported;
  std::function<bool(int)> throttled = [](int) { return false; };
  std::string implementation = "scripted";
  double free_memory = 1e12;
  std::optional<double> confirmed_flops;
  Operands operands = {};
};

struct Seen {
  int runs = 0, flushes = 0, checksums = 0;
  std::vector<std::int64_t> batches;
};

class ScriptedBackend final : public TimingBackend {
 public:
  ScriptedBackend(Script script, Device device = {})
      : script_(std::move(script)), device_(std::move(device)) {
    device_.device_class = "scripted-1c";
    device_.uuid = "scripted";
  }

  class Case final : public PreparedCase {
   public:
    explicit Case(ScriptedBackend& backend) : backend_(backend) {
      info_.implementation = backend.script_.implementation;
      info_.flush_bytes = 64;
      info_.workspace_bytes = 5;
    }
    const CaseInfo& info() const override { return info_; }
    Sample run(std::int64_t runs) override {
      Seen& seen = backend_.seen;
      const int n = seen.runs++;
      seen.batches.push_back(runs);
      const double one =
          backend_.script_.run_of ? backend_.script_.run_of(n) : backend_.script_.run_s;
      const double all = one * static_cast<double>(runs);
      backend_.clock_s += all;
      return {all, 2 * all, backend_.script_.throttled(n)};
    }
    void make_cold() override {
      ++backend_.seen.flushes;
      backend_.clock_s += 1e-4;
    }
    double checksum() override { return backend_.script_.checksum_of(backend_.seen.checksums++); }
    double checksum_tolerance() const override { return backend_.script_.checksum_tolerance; }
    Operands operands() override { return backend_.script_.operands; }

   private:
    ScriptedBackend& backend_;
    CaseInfo info_;
  };

  std::string_view name() const override { return "scripted"; }
  Protocol protocol() const override { return Protocol::virtual_clock; }
  const Device& device() const override { return device_; }
  bool confirm_limits() override {
    if (!script_.confirmed_flops) return false;
    device_.set(Attribute::probed_f32_flops, *script_.confirmed_flops);
    return true;
  }
  Environment environment() const override { return {}; }
  double free_memory_bytes() const override { return script_.free_memory; }
  std::optional<std::string> unsupported(const Task&) const override { return script_.unsupported; }
  std::unique_ptr<PreparedCase> prepare(const Task&, std::uint64_t) override {
    script_.prepare();
    return std::make_unique<Case>(*this);
  }
  double now_s() const override { return clock_s; }
  void spin(double seconds) override { clock_s += seconds; }

  Seen seen;
  double clock_s = 100;

 private:
  Script script_;
  Device device_;
};

Task task(CacheState cache = CacheState::cold) {
  return {Layer("dense", {{"batch", 8}, {"in_features", 16}, {"out_features", 16}}), Pass::forward,
          DType::f32, Optimizer::none, cache};
}

Measurement measured(ScriptedBackend& backend, const Task& what = task(),
                     const MeasureRules& rules = {}) {
  const auto row = measure(backend, what, rules, 1);
  EXPECT_TRUE(row.has_value());
  return *row;
}

TEST(Protocol, ResultsAreComparedWithTheReferenceWhereAskedTo) {
  // y = 2 w x + 1 of one feature.
  const Task tiny{Layer("dense", {{"batch", 2}, {"in_features", 1}, {"out_features", 1}})};
  Operands operands{{"src", {3, 5}}, {"weights", {2}}, {"bias", {1}}, {"dst", {7, 11}}};
  MeasureRules asked;
  asked.check = true;
  {
    ScriptedBackend backend({.run_s = 1e-3, .operands = operands});
    EXPECT_EQ(measured(backend, tiny, asked).status, Status::ok);
  }
  operands["dst"] = {7, 11.01};
  {
    ScriptedBackend backend({.run_s = 1e-3, .operands = operands});
    const Measurement row = measured(backend, tiny, asked);
    EXPECT_EQ(row.status, Status::failed);
    EXPECT_THAT(row.reason, testing::HasSubstr("dst differs from the reference by 0.00091"));
    EXPECT_GT(row.time.n, 0) << "the numbers are kept";
  }
  {
    ScriptedBackend backend({.run_s = 1e-3, .operands = operands});
    EXPECT_EQ(measured(backend, tiny).status, Status::ok) << "nobody asked";
  }
  {
    ScriptedBackend backend({.run_s = 1e-3});
    EXPECT_EQ(measured(backend, tiny, asked).status, Status::ok) << "it shows nothing";
  }
}

TEST(Protocol, ColdRunsAreFlushedOneByOne) {
  ScriptedBackend backend({.run_s = 1e-6});
  const Measurement row = measured(backend);
  EXPECT_EQ(row.status, Status::ok) << row.reason;
  EXPECT_EQ(row.stop_reason, StopReason::precise);
  EXPECT_EQ(row.time.n, 10);
  EXPECT_DOUBLE_EQ(row.time.median_s, 1e-6);
  EXPECT_DOUBLE_EQ(row.host_s, 2e-6);
  EXPECT_EQ(row.runs_per_sample, 1);
  EXPECT_EQ(backend.seen.flushes, backend.seen.runs);
  EXPECT_EQ(backend.seen.runs, 3 + 10);  // warm-up of three runs that agree, ten samples
  EXPECT_EQ(row.flush_bytes, 64);
  EXPECT_EQ(row.workspace_bytes, 5);
  EXPECT_EQ(row.checksum, 7);
  EXPECT_EQ(row.samples_s.size(), 10U);
  EXPECT_EQ(row.device_class, "scripted-1c");
}

TEST(Protocol, ShortHotRunsAreBatched) {
  ScriptedBackend backend({.run_s = 1e-5});
  const Measurement row = measured(backend, task(CacheState::hot));
  EXPECT_EQ(row.runs_per_sample, 105);  // 1 ms and a margin
  EXPECT_NEAR(row.time.median_s, 1e-5, 1e-12);
  EXPECT_EQ(backend.seen.flushes, 0);
  EXPECT_EQ(row.flush_bytes, 0);
  EXPECT_EQ(backend.seen.batches.front(), 1);
  EXPECT_EQ(backend.seen.batches.back(), 105);

  ScriptedBackend longer({.run_s = 1e-3});
  EXPECT_EQ(measured(longer, task(CacheState::hot)).runs_per_sample, 1);
}

TEST(Protocol, WarmsUpUntilThreeRunsAgree) {
  ScriptedBackend backend({.run_of = [](int n) { return n < 7 ? 1e-3 * (8 - n) : 1e-3; }});
  const Measurement row = measured(backend);
  EXPECT_DOUBLE_EQ(row.time.max_s, 1e-3);  // no sample from the slow start
  EXPECT_NEAR(row.first_run_s, 8e-3 + 1e-4, 1e-9);
  EXPECT_GT(row.warmup_s, 0.02);
  // Runs that never agree end with the budget.
  ScriptedBackend restless({.run_of = [](int n) { return n % 2 == 0 ? 1e-3 : 2e-3; }});
  const Measurement other = measured(restless, task(), {.budget_s = 0.1, .warmup_budget_s = 0.5});
  EXPECT_NEAR(other.warmup_s, 0.5, 0.01);
}

TEST(Protocol, OutliersAreCountedAndKept) {
  ScriptedBackend backend(
      {.run_of = [](int n) { return n == 9 ? 1.0 : 1e-3 * (1 + 1e-3 * (n % 3)); }});
  const Measurement row = measured(backend);
  EXPECT_EQ(row.status, Status::ok);
  EXPECT_EQ(row.time.outliers, 1);
  EXPECT_DOUBLE_EQ(row.time.max_s, 1.0);
}

TEST(Protocol, EveryOutcomeIsARowWithOneStatus) {
  const auto status_of = [](Script script) {
    ScriptedBackend backend(std::move(script));
    const Measurement row = measured(backend);
    EXPECT_TRUE(row.status == Status::ok || !row.reason.empty());
    EXPECT_EQ(row.reason.find('\n'), std::string::npos);
    return row.status;
  };
  EXPECT_EQ(status_of({}), Status::ok);
  EXPECT_EQ(status_of({.unsupported = "not here"}), Status::unsupported);
  EXPECT_EQ(status_of({.prepare = [] { throw CaseRefused(Status::skipped_memory, "9 GB"); }}),
            Status::skipped_memory);
  EXPECT_EQ(status_of({.free_memory = 100}), Status::skipped_memory);
  EXPECT_EQ(status_of({.prepare = [] { throw std::bad_alloc(); }}), Status::out_of_memory);
  EXPECT_EQ(status_of({.prepare = [] { throw std::runtime_error("two\nlines"); }}), Status::failed);
  EXPECT_EQ(status_of({.run_of = [](int n) -> double {
              return n < 5 ? 1e-3 : throw std::runtime_error("x");
            }}),
            Status::failed);
  EXPECT_EQ(status_of({.checksum_of = [](int) { return std::nan(""); }}), Status::failed);
  EXPECT_EQ(status_of({.checksum_of = [](int n) { return n + 1.0; }}), Status::failed);
  EXPECT_EQ(status_of({.checksum_of = [](int n) { return n + 1.0; }, .checksum_tolerance = 0.5}),
            Status::failed);
  EXPECT_EQ(status_of({.checksum_of = [](int n) { return n + 1.0; }, .checksum_tolerance = 1}),
            Status::ok);
  EXPECT_EQ(status_of({.run_of = [](int) { return 0.0; }}), Status::implausible);
  EXPECT_EQ(status_of({.throttled = [](int) { return true; }}), Status::throttled);
  EXPECT_EQ(status_of({.throttled = [](int n) { return n == 5; }}), Status::ok);  // retaken
}

TEST(Protocol, LongTasksTimeOutAndLongRunsEndWithTheBudget) {
  ScriptedBackend slow({.run_s = 70});
  const Measurement row = measured(slow);
  EXPECT_EQ(row.status, Status::timeout);
  EXPECT_EQ(slow.seen.runs, 1);
  EXPECT_NEAR(row.first_run_s, 70 + 1e-4, 1e-9);
  ScriptedBackend steady({.run_s = 5});
  const Measurement one = measured(steady);
  EXPECT_EQ(one.status, Status::ok);
  EXPECT_EQ(one.stop_reason, StopReason::time_budget);
  EXPECT_EQ(one.time.n, 1);
}

TEST(Protocol, AStopAbandonsTheRow) {
  clear_stop();
  ScriptedBackend backend({.run_of = [](int n) {
    if (n == 6) request_stop();
    return 1e-3;
  }});
  EXPECT_FALSE(measure(backend, task(), {}, 1).has_value());
  EXPECT_EQ(backend.seen.runs, 7);
  clear_stop();
  EXPECT_TRUE(measure(backend, task(), {}, 1).has_value());
}

/// A row of which the host's clock says the same as the device's.
Verdict verdict(const Task& task, double seconds, const Device& device,
                const std::string& implementation = "jit") {
  Measurement row{.task = task};
  row.time.median_s = row.host_s = seconds;
  row.implementation = implementation;
  return plausibility(row, device);
}

bool plausible(const Task& task, double seconds, const Device& device,
               const std::string& implementation = "jit") {
  return verdict(task, seconds, device, implementation).status == Status::ok;
}

TEST(Plausibility, ComparesWithWhatTheDeviceReaches) {
  Device device;
  const Layer layer("dense",
                    {{"batch", 1000}, {"in_features", 1000}, {"out_features", 1000}, {"bias", 0}});
  Task cold{layer};
  EXPECT_TRUE(plausible(cold, 1e-9, device));  // nothing is known of it
  EXPECT_FALSE(plausible(cold, 0, device));
  device.set(Attribute::probed_f32_flops, 1e12);  // 2e9 FLOP: at least 2 ms
  EXPECT_TRUE(plausible(cold, 1.95e-3, device));
  EXPECT_FALSE(plausible(cold, 1.8e-3, device));
  device.set(Attribute::probed_bandwidth_bytes_per_s, 1e9);  // 8 MB read: at least 8 ms cold
  EXPECT_FALSE(plausible(cold, 7e-3, device));
  EXPECT_TRUE(plausible(cold, 7.5e-3, device));
  Task hot = cold;
  hot.cache = CacheState::hot;
  EXPECT_TRUE(plausible(hot, 3e-3, device));  // its cache is unknown
  device.set(Attribute::probed_cache_bandwidth_bytes_per_s, 2e9);
  EXPECT_FALSE(plausible(hot, 3e-3, device));
}

TEST(Plausibility, FastAndUnknownAlgorithmsAreOnlyFlaggedAboveThePeak) {
  Device device;
  device.set(Attribute::probed_f32_flops, 1e12);
  const Task task{Layer::parse("dense batch=1000 in_features=1000 out_features=1000 bias=0")};
  for (const char* name : {"jit_wino:avx512_core", "cudnn fft", ""}) {
    const Verdict flagged = verdict(task, 1e-3, device, name);
    EXPECT_EQ(flagged.status, Status::ok) << name;
    EXPECT_NE(flagged.reason, "") << name;
    EXPECT_EQ(verdict(task, 2e-3, device, name).reason, "") << name;
  }
  EXPECT_EQ(verdict(task, 1e-3, device, "implicit gemm").status, Status::implausible);
}

TEST(Plausibility, NoCallIsFasterThanTheCheapestOne) {
  Device device;
  device.set(Attribute::probed_launch_latency_s, 1e-6);
  const Task task{Layer::parse("dense batch=1 in_features=1 out_features=1")};
  EXPECT_FALSE(plausible(task, 4e-7, device));
  EXPECT_TRUE(plausible(task, 6e-7, device));
  EXPECT_TRUE(plausible(task, 4e-7, device, "forecost:sgd"));  // no library is called
  // On a device the kernel alone may be shorter.
  Measurement row{.task = task};
  row.time.median_s = 4e-7;
  row.host_s = 2e-6;
  EXPECT_EQ(plausibility(row, device).status, Status::ok);
}

// Another program may have slowed the probe down: it is asked again before a row is refused.
TEST(Plausibility, IsJudgedByASecondProbe) {
  Device device;
  const Task large{Layer::parse("dense batch=1000 in_features=1000 out_features=1000 bias=0")};
  const double flops = large.work().flops;
  device.set(Attribute::probed_f32_flops, flops / 2e-3);  // a run takes 1 ms
  const auto status = [&](std::optional<double> confirmed) {
    ScriptedBackend backend({.run_s = 1e-3, .confirmed_flops = confirmed}, device);
    return measured(backend, large).status;
  };
  EXPECT_EQ(status(std::nullopt), Status::implausible);
  EXPECT_EQ(status(flops / 1.5e-3), Status::implausible);
  EXPECT_EQ(status(flops / 1e-3), Status::ok);
}

// Nor is read what a window steps over: one element in 4 x 4 of this.
TEST(Plausibility, DoesNotCountInputThatIsSteppedOver) {
  Device device;
  device.set(Attribute::probed_bandwidth_bytes_per_s, 1e9);
  const std::string image = "batch=1 channels=100 in_h=400 in_w=400 mode=max kernel_h=";  // 64 MB
  const auto pool = [&](const std::string& rest) {
    return Task{Layer::parse("pool2d " + image + rest)};
  };
  EXPECT_FALSE(plausible(pool("4 kernel_w=4 stride_h=4 stride_w=4"), 10e-3, device));
  EXPECT_TRUE(plausible(pool("1 kernel_w=1 stride_h=4 stride_w=4"), 10e-3, device));
  EXPECT_FALSE(plausible({Layer::parse("dropout batch=16 features=1000000")}, 10e-3, device));
}

// A kernel may leave out the products with padding: 1 of 9 taps of this one meet the image.
TEST(Plausibility, DoesNotCountPadding) {
  Device device;
  device.set(Attribute::probed_f32_flops, 1e12);
  const Task task{Layer::parse(
      "conv2d batch=1000 in_channels=1000 out_channels=1000 in_h=1 in_w=1 kernel_h=3 kernel_w=3 "
      "pad_top=1 pad_bottom=1 pad_left=1 pad_right=1 bias=0")};
  EXPECT_TRUE(plausible(task, 2.1e-3, device));  // 18e9 FLOP, 2e9 of them inside
  EXPECT_FALSE(plausible(task, 1.8e-3, device));
}

}  // namespace
}  // namespace forecost
