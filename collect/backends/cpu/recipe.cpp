#include "collect/backends/cpu/recipe.hpp"

#include <fmt/format.h>

#include <stdexcept>

#include "collect/backends/cpu/primitives.hpp"

namespace forecost::cpu {

Recipe::Id Recipe::add(Tensor tensor) {
  tensors_.push_back(std::move(tensor));
  return tensors_.size() - 1;
}

Recipe::Id Recipe::input(std::string name, const dnnl::memory::desc& layout, Uniform values) {
  return add({std::move(name), layout, Tensor::Content::random, values, 0, false});
}

Recipe::Id Recipe::indices(std::string name, std::int64_t count, std::int64_t bound) {
  constexpr auto size = static_cast<std::int64_t>(sizeof(std::int64_t));  // oneDNN has no such type
  return add({std::move(name),
              plain({count * size}, dnnl::memory::data_type::u8),
              Tensor::Content::indices,
              {},
              bound,
              false});
}

Recipe::Id Recipe::result(std::string name, const dnnl::memory::desc& layout) {
  return add({std::move(name), layout, Tensor::Content::zeros, {}, 0, true});
}

Recipe::Id Recipe::intermediate(const dnnl::memory::desc& layout, std::string name) {
  return add({std::move(name), layout, Tensor::Content::zeros, {}, 0, false});
}

Action Recipe::primitive(const dnnl::primitive_desc_base& description,
                         const std::map<int, Id>& operands) const {
  const dnnl::memory::desc scratchpad = description.scratchpad_desc();
  const dnnl::primitive primitive(description.get());
  std::map<int, dnnl::memory::desc> layouts;
  for (const auto& [argument, id] : operands) {
    layouts[argument] = description.query_md(dnnl::query::exec_arg_md, argument);
    if (layouts[argument].get_size() != tensors_[id].layout.get_size()) {
      throw std::logic_error(
          fmt::format("{}: operand {} has {} bytes, its tensor {}", description.impl_info_str(),
                      argument, layouts[argument].get_size(), tensors_[id].layout.get_size()));
    }
  }
  return {
      description.impl_info_str(), scratchpad.get_size(),
      [=, engine = engine_](const Bound& bound) -> std::function<void()> {
        Step step{primitive, {}};
        for (const auto& [argument, id] : operands) {
          step.arguments[argument] =
              dnnl::memory(layouts.at(argument), engine, bound.data<void>(id));
        }
        step.arguments[DNNL_ARG_SCRATCHPAD] = dnnl::memory(scratchpad, engine, bound.scratchpad());
        return [step, stream = bound.stream()] { step.primitive.execute(stream, step.arguments); };
      }};
}

Action own_code(std::string_view name, std::function<std::function<void()>(const Bound&)> bind) {
  return {fmt::format("forecost:{}", name), 0, std::move(bind)};
}

}  // namespace forecost::cpu
