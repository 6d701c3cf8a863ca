#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cuda/module_interface.hpp"

// The module that users run, opened over the stand-in for the CUDA libraries: for tests.

namespace forecost::cuda::tests {

/// What a process left behind.
struct Ended {
  int status = -1;                      ///< 0: no expectation failed
  std::vector<std::string> violations;  ///< of the protocol, as the stand-in saw them
};

/// Calls `body` in a process of its own, since the stand-in reads its configuration once and looks
/// at its end for what was not released. What fails in there is printed.
Ended in_process(const nlohmann::json& standin,
                 const std::function<void(const ModuleTable&)>& body);

/// The same, expecting neither failures nor violations.
void expect_clean(const std::function<void(const ModuleTable&)>& body,
                  const nlohmann::json& standin = nlohmann::json::object());

/// The outcome's message where it is not ok, for EXPECT_EQ(failure_of(...), "").
std::string failure_of(const Outcome& outcome);

/// An opened device 0 and what a test makes on it, released in the right order.
class Device {
 public:
  explicit Device(const ModuleTable& module);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  Context* context() { return context_; }
  const ModuleTable& module() { return module_; }

  /// Device memory, not filled; nullptr, and a failed expectation, where there is none.
  void* allocate(std::int64_t bytes, Space space = Space::device);
  /// Of random values in [low, high).
  void* random(Element element, std::int64_t count, std::uint64_t seed, double low = -1,
               double high = 1);
  /// Of these values, each rounded to the element.
  void* of(Element element, const std::vector<double>& values);
  std::vector<double> values(const void* memory, Element element, std::int64_t count);

  /// A failed expectation where it cannot be planned.
  Plan* plan(const Primitive& primitive, PlanInfo* info = nullptr);
  Sequence* prepare(const std::vector<Step>& steps, std::int64_t workspace_bytes = 0);
  /// Plans it, prepares it with what workspace it wants, and runs it once.
  PlanInfo run(const Primitive& primitive, const std::vector<void*>& tensors);

 private:
  const ModuleTable& module_;
  Context* context_ = nullptr;
  std::vector<std::pair<Space, void*>> memory_;
  std::vector<Plan*> plans_;
  std::vector<Sequence*> sequences_;
};

}  // namespace forecost::cuda::tests
