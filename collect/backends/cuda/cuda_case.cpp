#include "collect/backends/cuda/cuda_case.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include <fmt/format.h>

#include "collect/backends/cuda/primitives.hpp"
#include "core/random.hpp"
#include "core/units.hpp"

namespace forecost::cuda {
namespace {

using Content = Recipe::Tensor::Content;
using Place = Recipe::Tensor::Place;

/// Below this a run's launches, a few microseconds each, would be much of it (MEASURING.md rule 5).
constexpr double short_run_s = 50e-6;
/// What a captured graph may be of: more nodes take longer to capture than they save.
constexpr std::int64_t most_graph_launches = 20000;

/// What another order of additions may change, as a part of a result's absolute values: of sums of
/// a million products of either sign some 1e-4 in f32; in less the last place of a result either
/// way.
double unordered_tolerance(Element element) {
  switch (element) {
    case Element::f16:
      return 0x1p-9;
    case Element::bf16:
      return 0x1p-6;
    default:
      return 1e-3;
  }
}

Status status_of(Code code) {
  switch (code) {
    case Code::unsupported:
      return Status::unsupported;
    case Code::out_of_memory:
      return Status::out_of_memory;
    default:
      return Status::failed;
  }
}

/// What the module could not do becomes the status of a row.
template <class Work>
auto refusing(Work work) {
  try {
    return work();
  } catch (const ModuleError& error) {
    throw CaseRefused(status_of(error.code()), error.what());
  }
}

/// Plans of one case; they live as long as it does.
class CasePlans final : public PlanMaker {
 public:
  explicit CasePlans(OpenDevice& device) : device_(device) {}
  ~CasePlans() override {
    for (Plan* plan : plans_) device_.table().drop_plan(plan);
  }
  CasePlans(const CasePlans&) = delete;
  CasePlans& operator=(const CasePlans&) = delete;

  Made plan(const Primitive& primitive) override {
    Made made{};
    device_.ask(device_.table().plan(device_.context(), &primitive, &made.plan, &made.info));
    plans_.push_back(made.plan);
    return made;
  }
  std::vector<RnnRegion> rnn_regions(Plan* plan) override {
    std::int32_t count = 0;
    device_.ask(device_.table().rnn_regions(plan, nullptr, 0, &count));
    std::vector<RnnRegion> regions(static_cast<std::size_t>(count));
    device_.ask(device_.table().rnn_regions(plan, regions.data(), count, &count));
    return regions;
  }

 private:
  OpenDevice& device_;
  std::vector<Plan*> plans_;
};

/// Memory of one case.
class CaseMemory {
 public:
  explicit CaseMemory(OpenDevice& device) : device_(device) {}
  ~CaseMemory() {
    for (const auto& [place, memory] : blocks_) {
      if (place == Place::pageable) {
        std::free(memory);
      } else {
        device_.table().release(device_.context(), space_of(place), memory);
      }
    }
  }
  CaseMemory(const CaseMemory&) = delete;
  CaseMemory& operator=(const CaseMemory&) = delete;

  void* allocate(Place place, std::int64_t bytes) {
    constexpr std::int64_t page = 4096;
    void* memory = nullptr;
    if (place == Place::pageable) {
      memory = std::aligned_alloc(page, static_cast<std::size_t>((bytes + page - 1) / page * page));
      if (memory == nullptr) throw std::bad_alloc();
    } else {
      device_.ask(device_.table().allocate(device_.context(), space_of(place), bytes, &memory));
    }
    blocks_.emplace_back(place, memory);
    return memory;
  }

 private:
  static Space space_of(Place place) {
    return place == Place::pinned ? Space::pinned_host : Space::device;
  }

  OpenDevice& device_;
  std::vector<std::pair<Place, void*>> blocks_;
};

class CaseSequence {
 public:
  CaseSequence(OpenDevice& device, std::span<const Recipe::Use> uses, std::span<void* const> memory,
               void* workspace, std::int64_t workspace_bytes)
      : device_(device) {
    std::vector<Step> steps;
    for (const Recipe::Use& use : uses) {
      Step step{use.made.plan, {}};
      for (std::size_t i = 0; i < use.tensors.size(); ++i) {
        step.tensors[i] = use.tensors[i] == Recipe::none ? nullptr : memory[use.tensors[i]];
      }
      steps.push_back(step);
    }
    device.ask(device.table().prepare(device.context(), steps.data(),
                                      static_cast<std::int32_t>(steps.size()), workspace,
                                      workspace_bytes, &sequence_));
  }
  ~CaseSequence() { device_.table().drop_sequence(sequence_); }
  CaseSequence(const CaseSequence&) = delete;
  CaseSequence& operator=(const CaseSequence&) = delete;

  Timing run(std::int64_t runs, Launch launch, bool hold) {
    Timing timing{};
    device_.ask(device_.table().run(sequence_, runs, launch, hold, &timing));
    return timing;
  }

 private:
  OpenDevice& device_;
  Sequence* sequence_ = nullptr;
};

class CudaCase final : public PreparedCase {
 public:
  CudaCase(OpenDevice& device, ThrottleWatch& throttle, const Task& task, Layout layout,
           std::uint64_t seed, const std::function<void(Recipe&)>& describe)
      : device_(device),
        throttle_(throttle),
        plans_(device),
        recipe_(plans_, task, layout),
        memory_(device) {
    info_.seed = seed;
    const double begin = host_seconds();
    describe(recipe_);
    for (const Recipe::Use& use : recipe_.timed()) {
      if (!info_.implementation.empty()) info_.implementation += "+";
      info_.implementation += use.made.info.implementation;
    }
    info_.plan_s = host_seconds() - begin;
    info_.flush_bytes = static_cast<double>(device.flush_bytes());
    allocate();
    fill_all();
    plan_sequence();
  }

  const CaseInfo& info() const override { return info_; }

  Sample run(std::int64_t runs) override {
    // The first runs come one by one, as a framework launches them: the second one, which no longer
    // loads anything, tells what that costs the host. From then on the stream is held until all is
    // queued, and what is short runs as a graph, so that no gap between launches is timed.
    ++calls_;
    const bool plain = calls_ <= 2;
    const auto launches = runs * static_cast<std::int64_t>(recipe_.timed().size());
    const bool graph = !plain && run_s_ < short_run_s && launches <= most_graph_launches;
    const Timing timing = refusing(
        [&] { return sequence_->run(runs, graph ? Launch::graph : Launch::direct, !plain); });
    const auto n = static_cast<double>(runs);
    if (plain) host_run_s_ = timing.host_s / n;
    run_s_ = timing.device_s / n;
    return {
        .device_s = timing.device_s, .host_s = host_run_s_ * n, .throttled = throttle_.throttled()};
  }

  void make_cold() override {
    refusing([&] { device_.ask(device_.table().flush(device_.context(), device_.flush_bytes())); });
  }

  double checksum() override {
    return refusing([&] { return sum_of_results(); });
  }
  double checksum_tolerance() const override { return checksum_tolerance_; }

  Operands operands() override {
    return refusing([&] { return named_values(); });
  }

 private:
  double sum_of_results() {
    const bool all = recipe_.changed_operands();
    if (all) {
      // From its first values and its first step.
      fill_all();
      plan_sequence();
      sequence_->run(1, Launch::direct, false);
    }
    const bool fixed_order = std::ranges::none_of(recipe_.timed(), [](const Recipe::Use& use) {
      return use.made.info.nondeterministic != 0;
    });
    double total = 0;
    checksum_tolerance_ = 0;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const Recipe::Tensor& tensor = recipe_.tensors()[i];
      const Element element = tensor.shape.element;
      if (!(all || tensor.result) || element == Element::u8 || element == Element::i64) continue;
      const Sums sums = sums_of(tensor, tensors_[i]);
      total += sums.total;
      if (!fixed_order) checksum_tolerance_ += unordered_tolerance(element) * sums.magnitude;
    }
    return total;
  }

  Operands named_values() {
    Operands seen;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const Recipe::Tensor& tensor = recipe_.tensors()[i];
      if (!tensor.name.empty()) seen[tensor.name] = plain_values(tensor, tensors_[i]);
    }
    if (recipe_.edit()) recipe_.edit()(seen);
    return seen;
  }

  void plan_sequence() {
    sequence_.reset();
    sequence_.emplace(device_, recipe_.timed(), tensors_, workspace_, workspace_bytes_);
  }

  void allocate() {
    const double begin = host_seconds();
    std::int64_t on_device = 0, total = 0;
    for (const Recipe::Tensor& tensor : recipe_.tensors()) {
      total += bytes_of(tensor.shape);
      if (tensor.place == Place::device) on_device += bytes_of(tensor.shape);
    }
    for (const auto& uses : {recipe_.preparation(), recipe_.timed()}) {
      for (const Recipe::Use& use : uses) {
        workspace_bytes_ = std::max(workspace_bytes_, use.made.info.workspace_bytes);
      }
    }
    info_.workspace_bytes = static_cast<double>(workspace_bytes_);
    info_.memory_bytes = static_cast<double>(total + workspace_bytes_);
    std::int64_t free_bytes = 0;
    device_.ask(device_.table().free_memory(device_.context(), &free_bytes));
    const auto needed = static_cast<double>(on_device + workspace_bytes_ + device_.flush_bytes()),
               room = static_cast<double>(free_bytes);
    if (needed > room) {
      throw CaseRefused(Status::skipped_memory,
                        fmt::format("{} (workspace {}) do not fit into {}", format_bytes(needed),
                                    format_bytes(info_.workspace_bytes), format_bytes(room)));
    }
    for (const Recipe::Tensor& tensor : recipe_.tensors()) {
      tensors_.push_back(
          memory_.allocate(tensor.place, std::max<std::int64_t>(bytes_of(tensor.shape), 1)));
    }
    if (workspace_bytes_ > 0) workspace_ = memory_.allocate(Place::device, workspace_bytes_);
    info_.allocate_s = host_seconds() - begin;
  }

  /// First values in all tensors, and what preparation makes of them.
  void fill_all() {
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      fill(recipe_.tensors()[i], tensors_[i], mix64(info_.seed) + i);
    }
    if (recipe_.preparation().empty()) return;
    CaseSequence preparation(device_, recipe_.preparation(), tensors_, workspace_,
                             workspace_bytes_);
    preparation.run(1, Launch::direct, false);
  }

  void fill(const Recipe::Tensor& tensor, void* memory, std::uint64_t seed) {
    const ModuleTable& table = device_.table();
    Context* context = device_.context();
    // The device cannot write pageable memory: what belongs there is made beside it.
    const bool pageable = tensor.place == Place::pageable;
    std::optional<CaseMemory> scratch;
    void* const host = memory;
    if (pageable) memory = scratch.emplace(device_).allocate(Place::device, bytes_of(tensor.shape));
    switch (tensor.content) {
      case Content::zeros:
        device_.ask(table.zero(context, memory, bytes_of(tensor.shape)));
        break;
      case Content::indices:
        device_.ask(table.fill_indices(context, memory, tensor.shape.count, tensor.bound, seed));
        break;
      case Content::random:
        device_.ask(table.fill_uniform(context, memory, tensor.shape.element, tensor.shape.count,
                                       tensor.values.centre - tensor.values.scale,
                                       tensor.values.centre + tensor.values.scale, seed));
        break;
    }
    if (pageable) copy(memory, host, bytes_of(tensor.shape));
  }

  void copy(void* from, void* to, std::int64_t bytes) {
    CasePlans plans(device_);
    const std::vector<Recipe::Use> uses{{plans.plan(primitive(Copy{bytes})), {0, 1}}};
    const std::vector<void*> ends{from, to};
    CaseSequence(device_, uses, ends, nullptr, 0).run(1, Launch::direct, false);
  }

  Sums sums_of(const Recipe::Tensor& tensor, void* memory) {
    std::optional<CaseMemory> scratch;
    if (tensor.place == Place::pageable) {
      void* const host = memory;
      memory = scratch.emplace(device_).allocate(Place::device, bytes_of(tensor.shape));
      copy(host, memory, bytes_of(tensor.shape));
    }
    Sums sums{};
    device_.ask(device_.table().sum(device_.context(), memory, tensor.shape.element,
                                    tensor.shape.count, &sums));
    return sums;
  }

  std::vector<double> plain_values(const Recipe::Tensor& tensor, const void* memory) {
    const Recipe::Shape& shape = tensor.shape;
    std::vector<double> values(static_cast<std::size_t>(shape.count));
    device_.ask(
        device_.table().read(device_.context(), memory, shape.element, shape.count, values.data()));
    if (shape.channels == 0) return values;
    std::vector<double> plain(values.size());
    const std::int64_t c = shape.channels, s = shape.spatial, n = shape.count / (c * s);
    for (std::int64_t image = 0; image < n; ++image)
      for (std::int64_t place = 0; place < s; ++place)
        for (std::int64_t channel = 0; channel < c; ++channel) {
          plain[static_cast<std::size_t>((image * c + channel) * s + place)] =
              values[static_cast<std::size_t>((image * s + place) * c + channel)];
        }
    return plain;
  }

  OpenDevice& device_;
  ThrottleWatch& throttle_;
  CasePlans plans_;
  Recipe recipe_;
  CaseInfo info_;
  CaseMemory memory_;
  std::vector<void*> tensors_;
  void* workspace_ = nullptr;
  std::int64_t workspace_bytes_ = 0;
  std::optional<CaseSequence> sequence_;
  double checksum_tolerance_ = 0;
  int calls_ = 0;
  double run_s_ = 0, host_run_s_ = 0;
};

}  // namespace

double host_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

OpenDevice::OpenDevice(const OpenableDevice& device)
    : table_(device.module->table()), facts_(device.facts) {
  cuda::ask(table_.open(device.index, &context_));
}
OpenDevice::~OpenDevice() { table_.close(context_); }

void OpenDevice::ask(const Outcome& outcome) {
  if (outcome.code == Code::poisoned) poisoned_ = true;
  cuda::ask(outcome);
}

void ThrottleWatch::begin() {
  asked_s_ = 0;
  seen_ = 0;
  throttled();
}

bool ThrottleWatch::throttled() {
  constexpr double between_s = 5e-3;
  if (const double now_s = host_seconds(); now_s - asked_s_ > between_s) {
    asked_s_ = now_s;
    now_ = nvml_.clock_reasons().value_or(0);
    seen_ |= now_;
  }
  return !throttle_reasons(now_).empty();
}

std::string ThrottleWatch::reasons() const { return throttle_reasons(seen_); }

std::unique_ptr<PreparedCase> prepare_recipe(OpenDevice& device, ThrottleWatch& throttle,
                                             const Task& task, Layout layout, std::uint64_t seed,
                                             const std::function<void(Recipe&)>& describe) {
  return refusing([&]() -> std::unique_ptr<PreparedCase> {
    return std::make_unique<CudaCase>(device, throttle, task, layout, seed, describe);
  });
}

std::unique_ptr<PreparedCase> prepare_case(OpenDevice& device, ThrottleWatch& throttle,
                                           const Task& task, Layout layout, std::uint64_t seed) {
  return prepare_recipe(device, throttle, task, layout, seed, [&](Recipe& recipe) {
    if (task.pass == Pass::update) {
      describe_update(recipe, task);
    } else {
      find_cuda_operator(task.layer.op().name)->describe(recipe, task);
    }
  });
}

}  // namespace forecost::cuda
