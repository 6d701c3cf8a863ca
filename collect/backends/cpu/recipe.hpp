#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collect/backends/cpu/onednn_compat.hpp"
#include "data/measurement.hpp"

namespace forecost {
class Gang;
}

namespace forecost::cpu {

class Bound;

/// Random values of a tensor: uniform in [centre - scale, centre + scale).
struct Uniform {
  float scale = 1, centre = 0;
};

/// What runs: a oneDNN primitive, or code of our own. Bound to memory once it exists.
struct Action {
  std::string implementation;  ///< "jit:avx512_core", "forecost:gather"
  std::size_t scratchpad_bytes = 0;
  std::function<std::function<void()>(const Bound&)> bind;
};

/// A pass of a layer before any memory exists: its tensors, what prepares them, and what a timed
/// run consists of. One file in operators/ writes the recipes of an operator.
///
/// Tensors that have a name are seen by the reference (collect/reference.hpp) in plain layout, and
/// are called as there; those without are the recipe's own (statistics, workspaces).
class Recipe {
 public:
  using Id = std::size_t;

  explicit Recipe(const dnnl::engine& engine) : engine_(engine) {}
  const dnnl::engine& engine() const { return engine_; }

  /// An operand with random values.
  Id input(std::string name, const dnnl::memory::desc& layout, Uniform values = {});
  /// `count` 8-byte numbers of [0, bound), such as the ids of an embedding.
  Id indices(std::string name, std::int64_t count, std::int64_t bound);
  /// Zeroed, and written by every run; part of the checksum.
  Id result(std::string name, const dnnl::memory::desc& layout);
  /// Zeroed; for what preparation makes and a run reads, or one action hands to the next. With a
  /// name where the reference needs it.
  Id intermediate(const dnnl::memory::desc& layout, std::string name = {});

  /// Runs once, untimed, when the operands have their values: the forward pass whose statistics or
  /// workspace a backward pass reads.
  void prepare(Action action) { preparation_.push_back(std::move(action)); }
  /// Part of every timed run, in this order.
  void run(Action action) { timed_.push_back(std::move(action)); }

  /// `prepare` or `run` a oneDNN primitive on these operands, by DNNL_ARG number. Its scratchpad is
  /// the case's. It reads a tensor as it was described: that may be another view of the memory,
  /// such as the transposed one. Throws std::logic_error where the sizes differ.
  Action primitive(const dnnl::primitive_desc_base& description,
                   const std::map<int, Id>& operands) const;

  /// A run changes its own operands (an optimizer step): the checksum is of all tensors, after one
  /// run from their first values.
  void changes_operands() { changes_operands_ = true; }

  struct Tensor {
    enum class Content : std::uint8_t { zeros, random, indices };
    std::string name;
    dnnl::memory::desc layout;
    Content content;
    Uniform values;
    std::int64_t bound;
    bool result;
  };
  std::span<const Tensor> tensors() const { return tensors_; }
  std::span<const Action> preparation() const { return preparation_; }
  std::span<const Action> timed() const { return timed_; }
  bool changed_operands() const { return changes_operands_; }

 private:
  Id add(Tensor tensor);

  const dnnl::engine& engine_;
  std::vector<Tensor> tensors_;
  std::vector<Action> preparation_, timed_;
  bool changes_operands_ = false;
};

/// The memory of a recipe's tensors.
class Bound {
 public:
  Bound(std::span<const dnnl::memory> tensors, dnnl::stream& stream, std::byte* scratchpad)
      : tensors_(tensors), stream_(stream), scratchpad_(scratchpad) {}
  const dnnl::memory& memory(Recipe::Id id) const { return tensors_[id]; }
  template <class T>
  T* data(Recipe::Id id) const {
    return static_cast<T*>(tensors_[id].get_data_handle());
  }
  dnnl::stream& stream() const { return stream_; }
  /// Shared by all actions, each of which may write all that it asked for.
  std::byte* scratchpad() const { return scratchpad_; }

 private:
  std::span<const dnnl::memory> tensors_;
  dnnl::stream& stream_;
  std::byte* scratchpad_;
};

/// Code of our own; `bind` looks the tensors up once and returns what a run calls.
Action own_code(std::string_view name, std::function<std::function<void()>(const Bound&)> bind);

/// How the CPU backend computes an operator: one line in operators.cpp.
struct CpuOperator {
  std::string_view name;
  /// Describes a pass that the operator has, of a dtype that the CPU has. Throws dnnl::error
  /// (unimplemented: no kernel for it here) or CaseRefused.
  void (*describe)(Recipe&, const Task&);
};
/// nullptr where the backend has no such operator.
const CpuOperator* find_cpu_operator(std::string_view name);

// One for each operator, in operators/.
void describe_activation(Recipe& recipe, const Task& task);
void describe_affine(Recipe& recipe, const Task& task);
void describe_attention(Recipe& recipe, const Task& task);
void describe_batch_norm(Recipe& recipe, const Task& task);
void describe_dropout(Recipe& recipe, const Task& task);
void describe_elementwise(Recipe& recipe, const Task& task);
void describe_embedding(Recipe& recipe, const Task& task);
void describe_layer_norm(Recipe& recipe, const Task& task);
void describe_matmul(Recipe& recipe, const Task& task);
void describe_pool2d(Recipe& recipe, const Task& task);
void describe_reduce(Recipe& recipe, const Task& task);
void describe_rnn(Recipe& recipe, const Task& task);
void describe_softmax(Recipe& recipe, const Task& task);
void describe_transfer(Recipe& recipe, const Task& task);
void describe_update(Recipe& recipe, const Task& task);
/// On every member of the gang. Throws CaseRefused.
void describe_allreduce(Recipe& recipe, const Task& task, Gang& gang);

}  // namespace forecost::cpu
