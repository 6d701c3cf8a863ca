#include "collect/backends/replay/replay_backend.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <map>
#include <random>
#include <thread>

#include <fmt/format.h>
#include <unistd.h>

#include "collect/backends/replay/replay_spec.hpp"
#include "core/hash.hpp"
#include "core/random.hpp"
#include "core/version.hpp"
#include "data/corpus/corpus.hpp"

namespace forecost {

namespace {

/// What a source says of a task.
struct Answer {
  Status status = Status::ok;
  double run_s = 0;
  std::string text;                ///< the reason, or the implementation of an ok one
  std::vector<float> samples_s{};  ///< recorded, of one run each; empty if there are none
};

class Source {
 public:
  virtual ~Source() = default;
  virtual Answer answer(const Task& task) const = 0;
};

/// The roofline with what keeps real devices below it: small work does not fill a device, and a
/// launch costs time whatever it does.
class DeviceModel final : public Source {
 public:
  explicit DeviceModel(const Device& device) : device_(device) {}

  Answer answer(const Task& task) const override {
    if (std::isnan(device_.peak_flops(task.dtype))) {
      return {Status::unsupported, 0,
              fmt::format("{} has no peak for {}", device_.device_class, name_of(task.dtype))};
    }
    const Work work = task.work();
    // Half of the peak is reached when each core has about 2 MFLOP, as in public GEMM curves.
    const double cores = device_.has(Attribute::cores) ? device_[Attribute::cores] : 1;
    const double half_flops = 2e6 * cores;
    const double compute_s =
        (work.flops + half_flops * (work.flops > 0)) / (0.85 * device_.peak_flops(task.dtype));
    const double cache = device_[Attribute::l2_bytes];  // NaN compares false
    const bool cached = task.cache == CacheState::hot && work.bytes() <= cache;
    const double rate = device_.bandwidth_bytes_per_s(work.traffic);
    if (std::isnan(rate) && work.traffic != Traffic::memory) {
      return {Status::unsupported, 0,
              fmt::format("{} has no rate of its {}", device_.device_class,
                          work.traffic == Traffic::host_link ? "host link" : "interconnect")};
    }
    const double memory_s = work.moved_bytes() / ((cached ? 2.5 : 0.9) * rate);
    const double launch_s =
        device_.has(Attribute::launch_latency_s) ? device_[Attribute::launch_latency_s] : 1e-6;
    return {Status::ok, launch_s + std::max(compute_s, memory_s), "replay:model"};
  }

 private:
  Device device_;
};

/// Rows of one class of a corpus: their samples or medians, or their failures.
class CorpusRows final : public Source {
 public:
  CorpusRows(const Corpus& corpus, const std::string& device_class) {
    for (const Measurement& row : corpus.rows) {
      if (row.device_class != device_class || row.replicate != 0) continue;
      Answer& answer = rows_[task_text(row.task)];
      if (row.status == Status::ok) {
        answer = {row.status, row.time.median_s, row.implementation, row.samples_s};
      } else if (answer.status != Status::ok || answer.run_s == 0) {
        answer = {row.status, 0, row.reason};  // a failure beside an ok row, on another device, say
      }
    }
  }

  Answer answer(const Task& task) const override {
    const auto found = rows_.find(task_text(task));
    if (found == rows_.end()) {
      return {Status::unsupported, 0, "the replayed corpus has no such row"};
    }
    return found->second;
  }

 private:
  std::map<std::string, Answer> rows_;
};

/// The device without --replay: round numbers of no real product.
Device built_in_device() {
  Device device;
  device.name = "Forecost replay device";
  device.vendor = "Forecost";
  device.kind = "gpu";
  device.device_class = "replay";
  device.set(Attribute::memory_bytes, 16e9);
  device.set(Attribute::cores, 64);
  device.set(Attribute::clock_hz, 1.5e9);
  device.set(Attribute::l2_bytes, 8e6);
  device.set(Attribute::peak_f32_flops, 10e12);
  device.set(Attribute::peak_f16_flops, 40e12);
  device.set(Attribute::peak_bf16_flops, 40e12);
  device.set(Attribute::bandwidth_bytes_per_s, 500e9);
  device.set(Attribute::launch_latency_s, 5e-6);
  return device;
}

/// The virtual clock that a backend and its cases share.
struct VirtualClock {
  double drift_per_hour = 0;
  double now_s = 0;
  double slowness() const { return 1 + drift_per_hour * now_s / 3600; }
};

/// How the runs of one case come out.
struct Played {
  double run_s;
  std::vector<float> samples_s;  ///< instead of run_s and noise, if there are any
  double noise, first_run_s, slow_runs, throttled_runs;
  bool finite;
  double flush_s;
};

class ReplayCase final : public PreparedCase {
 public:
  ReplayCase(CaseInfo info, Played played, VirtualClock& clock)
      : info_(std::move(info)), played_(std::move(played)), clock_(clock), random_(info_.seed) {}

  const CaseInfo& info() const override { return info_; }

  Sample run(std::int64_t runs) override {
    const double slow =
        std::max(0.0, (played_.slow_runs - run_) / std::max(played_.slow_runs, 1.0));
    double device_s = next_s(runs > 1) * (1 + slow) * clock_.slowness() * static_cast<double>(runs);
    if (run_ == 0) device_s += played_.first_run_s;
    const double host_s = device_s + 2e-6;
    clock_.now_s += host_s;
    return {device_s, host_s, run_++ < played_.throttled_runs};
  }

  void make_cold() override { clock_.now_s += played_.flush_s; }
  double checksum() override {
    return played_.finite ? to_unit(mix64(info_.seed)) : std::numeric_limits<double>::quiet_NaN();
  }

 private:
  /// Of one run.
  double next_s(bool batched) {
    if (played_.samples_s.empty()) {
      // Noise only ever slows a real run down much; the median stays at the model's time.
      return played_.run_s * std::exp(played_.noise * random_.normal());
    }
    // What the warm-up takes: three runs, and a batch where runs are batched.
    if (run_ < 3 || (batched && !in_batches_)) {
      in_batches_ = batched;
      return played_.samples_s.front();
    }
    return played_.samples_s[next_sample_++ % played_.samples_s.size()];
  }

  const CaseInfo info_;
  const Played played_;
  VirtualClock& clock_;
  Random random_;
  double run_ = 0;
  std::size_t next_sample_ = 0;
  bool in_batches_ = false;
};

class ReplayBackend final : public TimingBackend {
 public:
  ReplayBackend(Device device, std::unique_ptr<Source> source, const ReplayFaults& faults)
      : device_(std::move(device)),
        source_(std::move(source)),
        faults_(faults),
        process_(std::random_device{}(), static_cast<std::uint64_t>(::getpid())),
        clock_{faults.drift} {}

  std::string_view name() const override { return "replay"; }
  Protocol protocol() const override { return Protocol::virtual_clock; }
  const Device& device() const override { return device_; }
  ProbeReport probe(double /*budget_s*/, const std::function<void()>& after_round) override {
    constexpr double round_s = 0.1;
    for (double left_s = faults_.real_probe_s; left_s > 0; left_s -= round_s) {
      std::this_thread::sleep_for(std::chrono::duration<double>(std::min(round_s, left_s)));
      if (after_round) after_round();
    }
    return {};
  }
  Environment environment() const override {
    return {{{"backend", "replay"},
             {"forecost", std::string(version)},
             {"replay_noise", fmt::format("{}", faults_.noise)}}};
  }
  double free_memory_bytes() const override {
    return device_.has(Attribute::memory_bytes) ? device_[Attribute::memory_bytes] : 1e15;
  }
  std::optional<std::string> unsupported(const Task& task) const override {
    if (drawn(task, "unsupported", faults_.unsupported)) return "injected: unsupported";
    return std::nullopt;
  }

  std::unique_ptr<PreparedCase> prepare(const Task& task, std::uint64_t seed) override {
    if (faults_.real_delay_s > 0) {
      std::this_thread::sleep_for(std::chrono::duration<double>(faults_.real_delay_s));
    }
    if (process_.uniform() < faults_.crash || drawn(task, "kill", faults_.kill)) {
      std::raise(SIGKILL);
    }
    constexpr double plan_s = 1e-3;
    clock_.now_s += plan_s;
    if (poisoned_ || drawn(task, "poison", faults_.poison)) {
      poisoned_ = true;
      throw CaseRefused(Status::failed, "injected: the device answers nothing any more");
    }
    if (drawn(task, "fail", faults_.fail)) {
      throw CaseRefused(Status::failed, "injected: failed");
    }
    if (drawn(task, "oom", faults_.oom)) throw std::bad_alloc();
    Answer answer = source_->answer(task);
    if (answer.status != Status::ok) throw CaseRefused(answer.status, answer.text);
    const int attempt = attempts_[task_text(task)]++;
    shared_ = drawn(task, fmt::format("shared {}", attempt), faults_.shared);
    CaseInfo info;
    info.implementation = answer.text;
    info.memory_bytes = task.work().bytes();
    info.plan_s = plan_s;
    info.seed = seed;
    // Of twice the last cache, as a GPU's protocol has it; 0 where that is unknown.
    info.flush_bytes = device_.has(Attribute::l2_bytes) ? 2 * device_[Attribute::l2_bytes] : 0;
    const double bandwidth = device_.bandwidth_bytes_per_s();
    Played played{
        .run_s = answer.run_s * (shared_ ? 2 : 1),
        .samples_s = std::move(answer.samples_s),
        .noise = faults_.noise,
        .first_run_s = faults_.first_run_s,
        .slow_runs = faults_.slow_runs,
        .throttled_runs = drawn(task, "throttle", faults_.throttle) ? faults_.throttled_runs : 0,
        .finite = !drawn(task, "nonfinite", faults_.nonfinite),
        .flush_s = std::isnan(bandwidth) ? 0 : info.flush_bytes / bandwidth};
    return std::make_unique<ReplayCase>(std::move(info), std::move(played), clock_);
  }

  std::unique_ptr<PreparedCase> prepare_collective(const Task& task, std::uint64_t seed,
                                                   Gang&) override {
    return prepare(task, seed);
  }

  double now_s() const override { return clock_.now_s; }
  void spin(double seconds) override { clock_.now_s += seconds; }
  void rest(double seconds) override { clock_.now_s += seconds; }
  Conditions conditions() override {
    Conditions conditions{.throttled_by = faults_.throttle > 0 ? "injected" : ""};
    if (faults_.shared > 0) conditions.foreign_share = shared_ ? 0.5 : 0;
    if (shared_) conditions.shared = "injected: another program took 50 % of the time";
    return conditions;
  }
  bool poisoned() const override { return poisoned_; }

 private:
  bool drawn(const Task& task, std::string_view what, double share) const {
    if (share <= 0) return false;
    return to_unit(hash64(fmt::format("{} {}", what, task_key(task, device_.device_class)))) <
           share;
  }

  Device device_;
  std::unique_ptr<Source> source_;
  const ReplayFaults faults_;
  Random process_;
  VirtualClock clock_;
  std::map<std::string, int> attempts_;  ///< by task, how often it was measured
  bool shared_ = false, poisoned_ = false;
};

/// A corpus.h5 or a run directory; one that is called as a shipped device stands for the device.
bool is_corpus_name(const std::string& source) {
  if (source.ends_with(".h5")) return true;
  const auto devices = shipped_devices();
  return std::filesystem::is_directory(source) &&
         std::find(devices.begin(), devices.end(), source) == devices.end();
}

std::unique_ptr<TimingBackend> open_replay(const DeviceRequest& request) {
  const auto entries = parse_replay(request.replay);
  const auto turn = static_cast<std::size_t>(request.rank);
  const ReplayEntry& entry = entries[turn % entries.size()];
  if (entry.source == "none") return nullptr;

  Device device;
  std::unique_ptr<Source> source;
  if (is_corpus_name(entry.source)) {
    const Corpus corpus = read_corpus(entry.source);
    if (corpus.devices.empty()) {
      throw DataError(fmt::format("{}: a corpus without devices cannot be replayed", entry.source));
    }
    std::map<std::string, const Device*> classes;
    for (const Device& known : corpus.devices) classes.emplace(known.device_class, &known);
    // Entries take turns, and so do the classes within this one.
    const auto place = (turn / entries.size()) % classes.size();
    device = *std::next(classes.begin(), static_cast<std::ptrdiff_t>(place))->second;
    source = std::make_unique<CorpusRows>(corpus, device.device_class);
  } else {
    device = entry.source.empty() ? built_in_device() : find_device(entry.source);
    source = std::make_unique<DeviceModel>(device);
  }
  device.uuid = fmt::format("replay-{}", request.rank);
  device.host =
      "";  // a played device is nowhere; the row key must not depend on where it was played
  return std::make_unique<ReplayBackend>(std::move(device), std::move(source), entry.faults);
}

}  // namespace

const BackendInfo replay_backend{
    "replay", "answers from a device model or a corpus, on a virtual clock (tests, rehearsals)",
    &open_replay};

}  // namespace forecost
