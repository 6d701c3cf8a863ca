#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cuda/module_interface.hpp"
#include "tests/cuda/standin/report.hpp"

// The module as users have it, on the stand-in's device: what a test of it needs. FORECOST_MODULE
// is its file; the stand-in's libraries are first on the library path.

namespace forecost::cuda {

/// What the module refused, with its words.
struct Refused : std::runtime_error {
  Refused(Code why, const std::string& what) : std::runtime_error(what), code(why) {}
  Code code;
};

inline void check(const Outcome& outcome) {
  if (outcome.code != Code::ok) throw Refused(outcome.code, outcome.message);
}

inline const ModuleTable& module_table() {
  static const ModuleTable* const table = [] {
    void* const library = dlopen(FORECOST_MODULE, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw std::runtime_error(dlerror());
    const auto entry =
        reinterpret_cast<decltype(&forecost_cuda_module)>(dlsym(library, module_symbol));
    const ModuleTable* const found = entry == nullptr ? nullptr : entry(interface_version);
    if (found == nullptr) throw std::runtime_error("no module of this interface");
    return found;
  }();
  return *table;
}

using Values = std::vector<double>;

struct DeviceTensor {
  void* memory = nullptr;
  Element element{};
  std::int64_t count = 0;
};

/// A device, its memory and plans; when it ends, the stand-in must have nothing to object.
class OnDevice : public testing::Test {
 protected:
  OnDevice() {
    standin::forget_violations();
    check(table_.open(0, &context_));
  }
  ~OnDevice() override {
    for (Plan* plan : plans_) table_.drop_plan(plan);
    for (void* memory : memory_) table_.release(context_, Space::device, memory);
    table_.close(context_);
    for (const std::string& line : standin::violations()) ADD_FAILURE() << line;
    for (const std::string& line : standin::leaks()) ADD_FAILURE() << "leak: " << line;
  }

  void* allocate(std::int64_t bytes) {
    void* memory = nullptr;
    if (bytes == 0) return memory;
    check(table_.allocate(context_, Space::device, bytes, &memory));
    memory_.push_back(memory);
    check(table_.zero(context_, memory, bytes));
    return memory;
  }
  DeviceTensor zeros(Element element, std::int64_t count) {
    return {allocate(count * bytes_of(element)), element, count};
  }
  DeviceTensor random(Element element, std::int64_t count, double low = -1, double high = 1) {
    const DeviceTensor tensor = zeros(element, count);
    check(table_.fill_uniform(context_, tensor.memory, element, count, low, high, ++seed_));
    return tensor;
  }
  Values read(const DeviceTensor& tensor) {
    Values values(static_cast<std::size_t>(tensor.count));
    check(table_.read(context_, tensor.memory, tensor.element, tensor.count, values.data()));
    return values;
  }

  std::pair<Plan*, PlanInfo> plan(const Primitive& primitive) {
    Plan* plan = nullptr;
    PlanInfo info{};
    check(table_.plan(context_, &primitive, &plan, &info));
    plans_.push_back(plan);
    return {plan, info};
  }

  /// As the backend does: prepared once, then run so many times. Says what ran.
  PlanInfo run(const Primitive& primitive, std::initializer_list<void*> tensors,
               std::int64_t runs = 1, Launch launch = Launch::direct) {
    const auto [planned, info] = plan(primitive);
    run(planned, info, tensors, runs, launch);
    return info;
  }
  Timing run(Plan* planned, const PlanInfo& info, std::initializer_list<void*> tensors,
             std::int64_t runs = 1, Launch launch = Launch::direct) {
    Step step{planned, {}};
    std::copy(tensors.begin(), tensors.end(), step.tensors);
    void* const workspace = allocate(info.workspace_bytes);
    Sequence* sequence = nullptr;
    check(table_.prepare(context_, &step, 1, workspace, info.workspace_bytes, &sequence));
    Timing timing{};
    const Outcome outcome = table_.run(sequence, runs, launch, 0, &timing);
    table_.drop_sequence(sequence);
    check(outcome);
    EXPECT_GT(timing.device_s, 0);
    return timing;
  }

  const ModuleTable& table_ = module_table();
  Context* context_ = nullptr;

 private:
  std::vector<void*> memory_;
  std::vector<Plan*> plans_;
  std::uint64_t seed_ = 0;
};

}  // namespace forecost::cuda
