#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collect/reference/reference.hpp"
#include "cuda/module_interface.hpp"
#include "data/measurement.hpp"

namespace forecost::cuda {

class Recipe;

/// What plans primitives: the module, or a test that only looks at them. Throws ModuleError.
class PlanMaker {
 public:
  virtual ~PlanMaker() = default;
  struct Made {
    Plan* plan;
    PlanInfo info;
  };
  virtual Made plan(const Primitive& primitive) = 0;
  virtual std::vector<RnnRegion> rnn_regions(Plan* plan) = 0;
};

/// A pass of a layer on a GPU before any memory exists: its tensors, what prepares them, and the
/// primitives that a timed run consists of. One file in operators/ writes the recipes of an
/// operator.
///
/// Tensors that have a name are seen by the reference (collect/reference/reference.hpp) and are
/// called as there; those without are the recipe's own (statistics, workspaces).
class Recipe {
 public:
  using Id = std::size_t;
  static constexpr Id none = ~Id{0};  ///< a tensor that a primitive does without

  Recipe(PlanMaker& plans, const Task& task, Layout layout)
      : plans_(plans), task_(task), layout_(layout) {}

  /// Element and TF32 of the task's dtype.
  Element element() const;
  bool tf32() const { return task_.dtype == DType::tf32; }
  Policy policy() const;
  /// Of images: as the run was told.
  Layout layout() const { return layout_; }

  /// Uniform random values of [centre - scale, centre + scale).
  struct Uniform {
    double scale = 1, centre = 0;
  };
  /// How a tensor lies in memory, so that a reference gets it in plain row-major order.
  struct Shape {
    std::int64_t count;
    Element element;
    /// n x c x spatial that lies as n x spatial x c: 0, 0 for one that is plain.
    std::int64_t channels = 0, spatial = 0;
  };
  /// A tensor of the task's element, plain.
  Shape plain(std::int64_t count) const { return {count, element()}; }
  /// One of f32 numbers: statistics, parameters of normalisations.
  static Shape f32(std::int64_t count) { return {count, Element::f32}; }
  static Shape bytes(std::int64_t count) { return {count, Element::u8}; }
  /// An image, or convolution weights with out_channels as n, in the run's layout.
  Shape image(std::int64_t n, std::int64_t channels, std::int64_t spatial) const;

  /// An operand with random values.
  Id input(std::string name, const Shape& shape, Uniform values);
  Id input(std::string name, const Shape& shape) { return input(std::move(name), shape, {}); }
  /// i64 of [0, bound).
  Id indices(std::string name, std::int64_t count, std::int64_t bound);
  /// Zeroed, and written by every run; part of the checksum.
  Id result(std::string name, const Shape& shape);
  /// Zeroed; for what preparation makes and a run reads, or one step hands to the next.
  Id intermediate(const Shape& shape, std::string name = {});
  /// The tensor lies in the host's memory, locked into place or not.
  void keep_on_host(Id id, bool pinned);

  /// Plans a primitive, to learn what it needs before its tensors are made. Throws ModuleError.
  PlanMaker::Made plan(const Primitive& primitive) { return plans_.plan(primitive); }
  std::vector<RnnRegion> rnn_regions(Plan* plan) { return plans_.rnn_regions(plan); }

  /// Runs once, untimed, when the operands have their values: the forward pass whose statistics a
  /// backward pass reads.
  void prepare(const PlanMaker::Made& made, std::initializer_list<Id> tensors);
  /// Part of every timed run, in this order.
  void run(const PlanMaker::Made& made, std::initializer_list<Id> tensors);
  void run(const Primitive& primitive, std::initializer_list<Id> tensors) {
    run(plan(primitive), tensors);
  }
  /// A run changes its own operands (an optimizer step): the checksum is of all tensors, after one
  /// run from their first values.
  void changes_operands() { changes_operands_ = true; }
  /// Makes what a reference asks for of what the case has: variances of inverse deviations, say.
  void show(std::function<void(Operands&)> edit) { edit_ = std::move(edit); }

  struct Tensor {
    enum class Content : std::uint8_t { zeros, random, indices };
    enum class Place : std::uint8_t { device, pinned, pageable };
    std::string name;
    Shape shape;
    Content content = Content::zeros;
    Place place = Place::device;
    Uniform values = {};
    std::int64_t bound = 0;
    bool result = false;
  };
  struct Use {
    PlanMaker::Made made;
    std::vector<Id> tensors;
  };
  std::span<const Tensor> tensors() const { return tensors_; }
  std::span<const Use> preparation() const { return preparation_; }
  std::span<const Use> timed() const { return timed_; }
  bool changed_operands() const { return changes_operands_; }
  /// May be empty.
  const std::function<void(Operands&)>& edit() const { return edit_; }

 private:
  Id add(Tensor tensor);

  PlanMaker& plans_;
  const Task& task_;
  Layout layout_;
  std::vector<Tensor> tensors_;
  std::vector<Use> preparation_, timed_;
  std::function<void(Operands&)> edit_;
  bool changes_operands_ = false;
};

/// Bytes that a tensor takes.
std::int64_t bytes_of(const Recipe::Shape& shape);
Function function_of(forecost::Activation activation);

/// How the CUDA backend computes an operator: one line in operators.cpp.
struct CudaOperator {
  std::string_view name;
  /// Describes a pass that the operator has, of a dtype that the GPU has. Throws ModuleError or
  /// CaseRefused.
  void (*describe)(Recipe&, const Task&);
};
/// nullptr where the backend has no such operator.
const CudaOperator* find_cuda_operator(std::string_view name);

// One for each operator, in operators/.
void describe_activation(Recipe& recipe, const Task& task);
void describe_attention(Recipe& recipe, const Task& task);
void describe_batch_norm(Recipe& recipe, const Task& task);
void describe_conv2d(Recipe& recipe, const Task& task);
void describe_conv_transpose2d(Recipe& recipe, const Task& task);
void describe_dense(Recipe& recipe, const Task& task);
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
/// Over the ranks of the communicator, all of which run it at the same time.
void describe_allreduce(Recipe& recipe, const Task& task, Communicator* communicator);

}  // namespace forecost::cuda
