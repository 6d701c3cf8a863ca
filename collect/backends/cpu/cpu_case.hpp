#pragma once

#include <functional>
#include <memory>

#include "collect/backend.hpp"
#include "collect/backends/cpu/memory.hpp"
#include "collect/backends/cpu/onednn_compat.hpp"
#include "collect/backends/cpu/recipe.hpp"

namespace forecost::cpu {

/// What a case needs of the backend it runs on, which outlives it.
struct CaseContext {
  const dnnl::engine& engine;
  Arena& arena;
  const RandomPool& pool;
  Flush& flush;
  double free_memory_bytes;
};

/// A task with memory, values and everything planned. One case at a time: they share the arena.
/// Throws CaseRefused.
std::unique_ptr<PreparedCase> prepare_case(const CaseContext& context, const Task& task,
                                           std::uint64_t seed);
/// The same of a recipe that is no operator's own.
std::unique_ptr<PreparedCase> prepare_recipe(const CaseContext& context, std::uint64_t seed,
                                             const std::function<void(Recipe&)>& describe);

}  // namespace forecost::cpu
