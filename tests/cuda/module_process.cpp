#include "tests/cuda/module_process.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace forecost::cuda::tests {

namespace {

const ModuleTable* open_module() {
  void* const library = dlopen(FORECOST_CUDA_MODULE, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    ADD_FAILURE() << dlerror();
    return nullptr;
  }
  const auto entry =
      reinterpret_cast<decltype(&forecost_cuda_module)>(dlsym(library, module_symbol));
  if (entry == nullptr) {
    ADD_FAILURE() << dlerror();
    return nullptr;
  }
  return entry(interface_version);
}

template <class T>
void put(std::byte* to, std::size_t index, T value) {
  std::memcpy(to + index * sizeof value, &value, sizeof value);
}

}  // namespace

Ended in_process(const nlohmann::json& standin,
                 const std::function<void(const ModuleTable&)>& body) {
  static int count = 0;
  const auto folder =
      std::filesystem::temp_directory_path() /
      ("forecost-module-" + std::to_string(getpid()) + "-" + std::to_string(count++));
  std::filesystem::create_directories(folder);
  nlohmann::json configuration = standin;
  configuration["report"] = (folder / "report").string();
  std::ofstream(folder / "standin.json") << configuration;

  std::fflush(nullptr);
  const pid_t process = fork();
  if (process == 0) {
    setenv("FORECOST_STANDIN", (folder / "standin.json").c_str(), 1);
    if (const ModuleTable* module = open_module()) body(*module);
    // Not _exit: the stand-in looks for leaks when the process ends.
    std::exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  Ended ended;
  int status = 0;
  if (process < 0 || waitpid(process, &status, 0) != process) {
    ADD_FAILURE() << "no process";
    return ended;
  }
  ended.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  bool finished = false;
  std::ifstream report(folder / ("report-" + std::to_string(process) + ".txt"));
  for (std::string line; std::getline(report, line);) {
    if (line.starts_with("end:")) {
      finished = true;
    } else if (!line.starts_with("begin:")) {
      ended.violations.push_back(line);
    }
  }
  if (!finished) ended.violations.emplace_back("no report of the stand-in: was it loaded?");
  std::filesystem::remove_all(folder);
  return ended;
}

void expect_clean(const std::function<void(const ModuleTable&)>& body,
                  const nlohmann::json& standin) {
  const Ended ended = in_process(standin, body);
  EXPECT_EQ(ended.status, 0);
  EXPECT_EQ(ended.violations, std::vector<std::string>{});
}

std::string failure_of(const Outcome& outcome) {
  if (outcome.code == Code::ok) return outcome.message;
  return "code " + std::to_string(static_cast<int>(outcome.code)) + ": " + outcome.message;
}

Device::Device(const ModuleTable& module) : module_(module) {
  EXPECT_EQ(failure_of(module_.open(0, &context_)), "");
}

Device::~Device() {
  for (Sequence* each : sequences_) module_.drop_sequence(each);
  for (Plan* each : plans_) module_.drop_plan(each);
  for (const auto& [space, memory] : memory_) module_.release(context_, space, memory);
  if (context_ != nullptr) module_.close(context_);
}

void* Device::allocate(std::int64_t bytes, Space space) {
  void* memory = nullptr;
  EXPECT_EQ(failure_of(module_.allocate(context_, space, bytes, &memory)), "");
  if (memory != nullptr) memory_.emplace_back(space, memory);
  return memory;
}

void* Device::random(Element element, std::int64_t count, std::uint64_t seed, double low,
                     double high) {
  void* const memory = allocate(count * bytes_of(element));
  EXPECT_EQ(failure_of(module_.fill_uniform(context_, memory, element, count, low, high, seed)),
            "");
  return memory;
}

void* Device::of(Element element, const std::vector<double>& values) {
  const std::int64_t bytes = static_cast<std::int64_t>(values.size()) * bytes_of(element);
  auto* const host = static_cast<std::byte*>(allocate(bytes, Space::pinned_host));
  for (std::size_t i = 0; i < values.size(); ++i) {
    switch (element) {
      case Element::f32:
        put(host, i, static_cast<float>(values[i]));
        break;
      case Element::f16:
        put(host, i, __float2half(static_cast<float>(values[i])));
        break;
      case Element::bf16:
        put(host, i, __float2bfloat16(static_cast<float>(values[i])));
        break;
      case Element::f64:
        put(host, i, values[i]);
        break;
      case Element::i64:
        put(host, i, static_cast<std::int64_t>(values[i]));
        break;
      case Element::u8:
        put(host, i, static_cast<std::uint8_t>(values[i]));
        break;
    }
  }
  void* const memory = allocate(bytes);
  Primitive copy{.kind = Kind::copy, .copy = {.bytes = bytes}};
  run(copy, {host, memory});
  return memory;
}

std::vector<double> Device::values(const void* memory, Element element, std::int64_t count) {
  std::vector<double> values(static_cast<std::size_t>(count));
  EXPECT_EQ(failure_of(module_.read(context_, memory, element, count, values.data())), "");
  return values;
}

Plan* Device::plan(const Primitive& primitive, PlanInfo* info) {
  Plan* plan = nullptr;
  PlanInfo own{};
  EXPECT_EQ(failure_of(module_.plan(context_, &primitive, &plan, info != nullptr ? info : &own)),
            "");
  if (plan != nullptr) plans_.push_back(plan);
  return plan;
}

Sequence* Device::prepare(const std::vector<Step>& steps, std::int64_t workspace_bytes) {
  Sequence* sequence = nullptr;
  void* const workspace = workspace_bytes > 0 ? allocate(workspace_bytes) : nullptr;
  EXPECT_EQ(
      failure_of(module_.prepare(context_, steps.data(), static_cast<std::int32_t>(steps.size()),
                                 workspace, workspace_bytes, &sequence)),
      "");
  if (sequence != nullptr) sequences_.push_back(sequence);
  return sequence;
}

PlanInfo Device::run(const Primitive& primitive, const std::vector<void*>& tensors) {
  PlanInfo info{};
  Step step{.plan = plan(primitive, &info), .tensors = {}};
  if (step.plan == nullptr) return info;
  std::copy(tensors.begin(), tensors.end(), step.tensors);
  Sequence* const sequence = prepare({step}, info.workspace_bytes);
  Timing timing{};
  if (sequence != nullptr) {
    EXPECT_EQ(failure_of(module_.run(sequence, 1, Launch::direct, 0, &timing)), "");
  }
  return info;
}

}  // namespace forecost::cuda::tests
