#pragma once

#include <memory>

#include "collect/backend.hpp"
#include "collect/backends/cpu/memory.hpp"
#include "collect/backends/cpu/primitives.hpp"

namespace forecost::cpu {

/// What a case needs of the backend it runs on, which outlives it.
struct CaseContext {
  const dnnl::engine& engine;
  Arena& arena;
  const RandomPool& pool;
  Flush& flush;
  double free_memory_bytes;
};

/// One case at a time: they share the arena. Throws CaseRefused.
std::unique_ptr<PreparedCase> prepare_layer_case(const CaseContext& context, const Task& task,
                                                 std::uint64_t seed);
std::unique_ptr<PreparedCase> prepare_update_case(const CaseContext& context, const Task& task,
                                                  std::uint64_t seed);

/// For tests: a layer case whose operands and results can be seen in plain layout, as f32.
class LayerCase : public PreparedCase {
 public:
  /// By oneDNN's argument number, DNNL_ARG_SRC...; empty if the pass has no such operand.
  virtual std::vector<float> operand(int argument) const = 0;
};

}  // namespace forecost::cpu
