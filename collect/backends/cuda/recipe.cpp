#include "collect/backends/cuda/recipe.hpp"

#include <stdexcept>

namespace forecost::cuda {

std::int64_t bytes_of(const Recipe::Shape& shape) { return bytes_of(shape.element) * shape.count; }

Function function_of(forecost::Activation activation) {
  switch (activation) {
    case forecost::Activation::relu:
      return Function::relu;
    case forecost::Activation::tanh:
      return Function::tanh;
    case forecost::Activation::sigmoid:
      return Function::sigmoid;
    case forecost::Activation::none:
      break;
  }
  return Function::none;
}

Element Recipe::element() const {
  switch (task_.dtype) {
    case DType::f32:
    case DType::tf32:
      return Element::f32;
    case DType::f16:
      return Element::f16;
    case DType::bf16:
      return Element::bf16;
    default:
      throw std::logic_error("the CUDA backend has f32, tf32, f16 and bf16");
  }
}

Policy Recipe::policy() const {
  switch (task_.policy) {
    case AlgorithmPolicy::find:
      return Policy::find;
    case AlgorithmPolicy::fixed:
      return Policy::fixed;
    default:
      return Policy::heuristic;
  }
}

Recipe::Shape Recipe::image(std::int64_t n, std::int64_t channels, std::int64_t spatial) const {
  Shape shape = plain(n * channels * spatial);
  if (layout_ == Layout::nhwc) {
    shape.channels = channels;
    shape.spatial = spatial;
  }
  return shape;
}

Recipe::Id Recipe::add(Tensor tensor) {
  tensors_.push_back(std::move(tensor));
  return tensors_.size() - 1;
}

Recipe::Id Recipe::input(std::string name, const Shape& shape, Uniform values) {
  return add({.name = std::move(name),
              .shape = shape,
              .content = Tensor::Content::random,
              .values = values});
}

Recipe::Id Recipe::indices(std::string name, std::int64_t count, std::int64_t bound) {
  return add({.name = std::move(name),
              .shape = {count, Element::i64},
              .content = Tensor::Content::indices,
              .bound = bound});
}

Recipe::Id Recipe::result(std::string name, const Shape& shape) {
  return add({.name = std::move(name), .shape = shape, .result = true});
}

Recipe::Id Recipe::intermediate(const Shape& shape, std::string name) {
  return add({.name = std::move(name), .shape = shape});
}

void Recipe::keep_on_host(Id id, bool pinned) {
  tensors_.at(id).place = pinned ? Tensor::Place::pinned : Tensor::Place::pageable;
}

void Recipe::prepare(const PlanMaker::Made& made, std::initializer_list<Id> tensors) {
  preparation_.push_back({made, tensors});
}

void Recipe::run(const PlanMaker::Made& made, std::initializer_list<Id> tensors) {
  timed_.push_back({made, tensors});
}

}  // namespace forecost::cuda
