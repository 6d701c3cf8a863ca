#include "collect/backends/cpu/network_runner.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstring>
#include <deque>
#include <functional>
#include <map>

#include "collect/backends/cpu/cpu_backend.hpp"
#include "collect/backends/cpu/memory.hpp"
#include "collect/backends/cpu/primitives.hpp"
#include "collect/backends/cpu/update.hpp"
#include "core/error.hpp"
#include "core/random.hpp"
#include "core/units.hpp"

namespace forecost {
namespace {

using namespace cpu;
using dnnl::memory;

/// Where a tensor lives. Tensors that only the next primitive reads share memory, as a framework's
/// allocator makes them do: two places alternate along the chain of layers.
enum class Place : std::uint8_t { own, chain_even, chain_odd, scratch_data, scratch_weights };
constexpr std::size_t shared_places = 4;

struct Tensor {
  memory::desc layout;
  Place place = Place::own;
  const Tensor* same_as = nullptr;  ///< another view of the same memory
  float scale = 0;                  ///< of random values; 0: zeros
  memory value{};

  std::size_t bytes() const { return layout.get_size(); }
};

struct Planned {
  dnnl::primitive primitive;
  memory::desc scratchpad;
  std::map<int, Tensor*> operands;
};

/// A parameter tensor in the layout of the forward pass, its gradient in the same one, and the
/// state.
struct Parameter {
  Tensor* value;
  Tensor* gradient = nullptr;
  Tensor* first = nullptr;
  Tensor* second = nullptr;
};

class NetworkCase final : public PreparedCase {
 public:
  NetworkCase(const NetworkRun& run, const dnnl::engine& engine, Arena& arena,
              const RandomPool& pool, double free_memory_bytes)
      : run_(run), engine_(engine), arena_(arena), pool_(pool), stream_(engine) {
    const double begin = seconds_now();
    type_ = data_type_of(run.dtype);
    plan();
    info_.plan_s = seconds_now() - begin;
    info_.implementation = "oneDNN sequence";
    allocate(free_memory_bytes);
    initialise();
    for (const Planned& planned : planned_) {
      Step step{planned.primitive, {}};
      for (const auto& [argument, tensor] : planned.operands) {
        step.arguments[argument] = tensor->value;
      }
      step.arguments[DNNL_ARG_SCRATCHPAD] = memory(planned.scratchpad, engine_, scratchpad_);
      steps_.push_back(std::move(step));
    }
  }

  const CaseInfo& info() const override { return info_; }
  int primitives() const { return static_cast<int>(steps_.size()); }
  int reorders() const { return reorders_; }

  Sample run(std::int64_t runs) override {
    const double begin = seconds_now();
    for (std::int64_t i = 0; i < runs; ++i) step();
    const double elapsed = seconds_now() - begin;
    return {.device_s = elapsed, .host_s = elapsed};
  }

  void make_cold() override {
    throw std::logic_error("a network is measured as it runs: nothing is flushed");
  }

  /// Of the output, or, since training changes the parameters, of the parameters after one step
  /// from the first state.
  double checksum() override {
    if (!run_.training) return sum_of(*output_);
    initialise();
    step();
    double total = 0;
    for (const Parameter& parameter : parameters_) total += sum_of(*parameter.value);
    return total;
  }

  std::vector<float> plain_values(const Tensor& tensor) {
    const memory::desc layout = plain(tensor.layout.dims(), memory::data_type::f32);
    std::vector<float> values(layout.get_size() / sizeof(float));
    memory to(layout, engine_, values.data()), from = tensor.value;
    dnnl::reorder(from, to).execute(stream_, from, to);
    stream_.wait();
    return values;
  }
  NetworkValues values() {
    NetworkValues all{plain_values(*input_), {}, plain_values(*output_), {}, {}};
    const auto append = [&](std::vector<float>& to, const Tensor& tensor) {
      const std::vector<float> part = plain_values(tensor);
      to.insert(to.end(), part.begin(), part.end());
    };
    if (run_.training) append(all.output_gradient, *output_gradient_);
    for (const Parameter& parameter : parameters_) {
      append(all.parameters, *parameter.value);
      if (run_.training) append(all.gradients, *parameter.gradient);
    }
    return all;
  }

 private:
  // --- planning ---

  Tensor* add(const memory::desc& layout, Place place = Place::own, float scale = 0) {
    return &tensors_.emplace_back(Tensor{layout, place, nullptr, scale});
  }
  /// The next tensor of the chain of layers: never where its predecessor is.
  Tensor* add_to_chain(const memory::desc& layout) {
    chain_is_odd_ = !chain_is_odd_;
    return add(layout, chain_is_odd_ ? Place::chain_odd : Place::chain_even);
  }
  /// An activation: training needs it again in the backward pass.
  Tensor* add_activation(const memory::desc& layout) {
    return run_.training ? add(layout) : add_to_chain(layout);
  }
  Tensor* view(const Tensor* of, const memory::desc& layout) {
    Tensor* tensor = add(layout);
    tensor->same_as = of;
    return tensor;
  }

  template <class Description>
  void add_step(const Description& description, std::map<int, Tensor*> operands) {
    planned_.push_back(
        {dnnl::primitive(description.get()), description.scratchpad_desc(), std::move(operands)});
  }

  void add_reorder(Tensor* from, Tensor* to) {
    const dnnl::reorder::primitive_desc description(engine_, from->layout, engine_, to->layout,
                                                    attributes_of());
    planned_.push_back({dnnl::reorder(description),
                        description.scratchpad_desc(),
                        {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}});
    ++reorders_;
  }

  /// The tensor in the wanted layout; a new one made by `make` and a reorder if it is not.
  Tensor* in_layout(Tensor* tensor, const memory::desc& layout,
                    const std::function<Tensor*(const memory::desc&)>& make) {
    if (tensor->layout == layout) return tensor;
    Tensor* other = make(layout);
    add_reorder(tensor, other);
    return other;
  }

  memory::dims batch_of(const ItemShape& shape) const {
    const ItemShape::Image image = shape.image();
    return {run_.batch, image.channels, image.height, image.width};
  }

  /// A node of the network with what its backward pass needs.
  struct Stage {
    const NetworkNode* node;
    std::function<Tensor*(Tensor* gradient, bool input_gradient)> backward;
    bool has_parameters = false;
  };

  void plan() {
    const Network& network = *run_.network;
    input_ = add(plain(batch_of(network.input), type_), Place::own, 1);
    Tensor* at = input_;
    for (std::size_t i = 0; i < network.nodes.size(); ++i) {
      const NetworkNode& node = network.nodes[i];
      const bool sequential =
          i == 0 ? node.inputs.empty() : node.inputs.size() == 1 && node.inputs.front() == i - 1;
      if (!sequential) {
        throw UsageError(
            fmt::format("network {}: node {} does not follow the one before it; only "
                        "sequential networks can be run whole",
                        network.name, node.name));
      }
      at = plan_node(node, at);
    }
    output_ = in_layout(at, plain(at->layout.dims(), type_),
                        [&](const memory::desc& layout) { return add_activation(layout); });
    if (!run_.training) {
      // Checksums are taken after the run: the output must survive it.
      output_->place = Place::own;
      return;
    }
    output_gradient_ = add(output_->layout, Place::own, 0.01F);
    Tensor* gradient = output_gradient_;
    std::size_t first = 0;
    while (first < stages_.size() && !stages_[first].has_parameters) ++first;
    for (std::size_t i = stages_.size(); i-- > first;) {
      gradient = stages_[i].backward(gradient, i > first);
    }
    plan_updates();
  }

  Tensor* plan_node(const NetworkNode& node, Tensor* at) {
    if (node.op == "conv2d" || node.op == "dense") {
      const Affine layer = affine_of(node.at_batch(run_.batch), run_.dtype);
      if (!layer.convolution) at = flatten(node, at);
      return plan_affine(node, layer, at);
    }
    if (node.op == "flatten") return flatten(node, at);
    if (node.op == "pool2d") return plan_pool(node, at);
    if (node.op == "dropout" && !run_.training) return at;  // does nothing in inference
    throw UsageError(
        fmt::format("network {}: node {} is a {}, which cannot be run whole; expected "
                    "conv2d, dense, pool2d or flatten",
                    run_.network->name, node.name, node.op));
  }

  Tensor* plan_affine(const NetworkNode& node, const Affine& layer, Tensor* at) {
    const auto kind =
        run_.training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
    const auto forward = describe_forward(engine_, layer, kind, any(layer.src, type_));
    Tensor* src = in_layout(at, forward.query_md(dnnl::query::src_md),
                            [&](const memory::desc& layout) { return add_activation(layout); });
    const auto weight_scale = static_cast<float>(std::sqrt(3 / layer.fan_in));
    Tensor* weights = add(forward.query_md(dnnl::query::weights_md), Place::own, weight_scale);
    Tensor* dst = add_activation(forward.query_md(dnnl::query::dst_md));
    std::map<int, Tensor*> operands{
        {DNNL_ARG_SRC, src}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DST, dst}};
    const std::size_t parameter = parameters_.size();
    parameters_.push_back({weights});
    if (!layer.bias.empty()) {
      Tensor* bias = add(forward.query_md(dnnl::query::weights_md, 1), Place::own, 0.1F);
      operands[DNNL_ARG_BIAS] = bias;
      parameters_.push_back({bias});
    }
    add_step(forward, std::move(operands));
    stages_.push_back({&node,
                       [this, layer, src, dst, weights, parameter](Tensor* gradient, bool input) {
                         return plan_affine_backward(layer, src, dst, weights, parameter, gradient,
                                                     input);
                       },
                       true});
    return dst;
  }

  Tensor* plan_affine_backward(const Affine& layer, Tensor* src, Tensor* dst, Tensor* weights,
                               std::size_t parameter, Tensor* gradient, bool input_gradient) {
    const auto in_chain = [&](const memory::desc& layout) { return add_to_chain(layout); };
    const auto in_scratch = [&](const memory::desc& layout) {
      return add(layout, Place::scratch_data);
    };
    if (layer.activation != Activation::none) {
      gradient = in_layout(gradient, dst->layout, in_chain);
      Tensor* inner = add_to_chain(dst->layout);
      add_step(describe_activation_backward(engine_, layer.activation, dst->layout),
               {{DNNL_ARG_DST, dst}, {DNNL_ARG_DIFF_DST, gradient}, {DNNL_ARG_DIFF_SRC, inner}});
      gradient = inner;
    }
    const auto by_weights =
        describe_backward_weights(engine_, layer, any(layer.src, type_), any(layer.dst, type_));
    const memory::desc wanted_src = by_weights.query_md(dnnl::query::src_md);
    // Both operands may need a new layout at once: the source then gets a place of its own.
    Tensor* x = in_layout(src, wanted_src, [&](const memory::desc& layout) { return add(layout); });
    Tensor* dz = in_layout(gradient, by_weights.query_md(dnnl::query::diff_dst_md), in_scratch);
    Tensor* dw = add(by_weights.query_md(dnnl::query::diff_weights_md));
    std::map<int, Tensor*> operands{
        {DNNL_ARG_SRC, x}, {DNNL_ARG_DIFF_DST, dz}, {DNNL_ARG_DIFF_WEIGHTS, dw}};
    if (!layer.bias.empty()) {
      Tensor* db = add(by_weights.query_md(dnnl::query::diff_weights_md, 1));
      operands[DNNL_ARG_DIFF_BIAS] = db;
      parameters_[parameter + 1].gradient = db;
    }
    add_step(by_weights, std::move(operands));
    parameters_[parameter].gradient =
        in_layout(dw, weights->layout, [&](const memory::desc& layout) { return add(layout); });
    if (!input_gradient) return nullptr;

    const auto by_data = describe_backward_data(engine_, layer, any(layer.dst, type_));
    dz = in_layout(gradient, by_data.query_md(dnnl::query::diff_dst_md), in_scratch);
    Tensor* w =
        in_layout(weights, by_data.query_md(dnnl::query::weights_md),
                  [&](const memory::desc& layout) { return add(layout, Place::scratch_weights); });
    Tensor* dx = add_to_chain(by_data.query_md(dnnl::query::diff_src_md));
    add_step(by_data, {{DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DIFF_DST, dz}, {DNNL_ARG_DIFF_SRC, dx}});
    return dx;
  }

  Tensor* flatten(const NetworkNode& node, Tensor* at) {
    const memory::dims dims = at->layout.dims();
    if (dims.size() == 2) return at;
    Tensor* from = in_layout(at, plain(dims, type_),
                             [&](const memory::desc& layout) { return add_activation(layout); });
    const memory::desc flat = plain({run_.batch, dims[1] * dims[2] * dims[3]}, type_);
    stages_.push_back({&node, [this, dims, flat](Tensor* gradient, bool) {
                         Tensor* plain_gradient = in_layout(
                             gradient, flat,
                             [&](const memory::desc& layout) { return add_to_chain(layout); });
                         return view(plain_gradient, plain(dims, type_));
                       }});
    return view(from, flat);
  }

  Tensor* plan_pool(const NetworkNode& node, Tensor* at) {
    const Pooling layer = pooling_of(node.at_batch(run_.batch), run_.dtype);
    const auto kind =
        run_.training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
    const auto forward = describe_pool(engine_, layer, kind, at->layout);
    Tensor* dst = add_activation(forward.dst_desc());
    std::map<int, Tensor*> operands{{DNNL_ARG_SRC, at}, {DNNL_ARG_DST, dst}};
    Tensor* workspace = nullptr;
    if (run_.training && layer.algorithm == dnnl::algorithm::pooling_max) {
      workspace = add(forward.workspace_desc());
      operands[DNNL_ARG_WORKSPACE] = workspace;
    }
    add_step(forward, std::move(operands));
    stages_.push_back(
        {&node, [=, this](Tensor* gradient, bool input_gradient) -> Tensor* {
           if (!input_gradient) return nullptr;
           Tensor* dy = in_layout(gradient, dst->layout,
                                  [&](const memory::desc& layout) { return add_to_chain(layout); });
           Tensor* dx = add_to_chain(at->layout);
           std::map<int, Tensor*> of_backward{{DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_DIFF_SRC, dx}};
           if (workspace != nullptr) of_backward[DNNL_ARG_WORKSPACE] = workspace;
           add_step(describe_pool_backward(engine_, layer, forward), std::move(of_backward));
           return dx;
         }});
    return dst;
  }

  void plan_updates() {
    const int states = optimizer_cost(run_.optimizer).state_tensors;
    for (Parameter& parameter : parameters_) {
      const auto elements =
          static_cast<memory::dim>(parameter.value->bytes() / memory_size_of_element());
      const memory::desc state = plain({elements}, memory::data_type::f32);
      if (states > 0) parameter.first = add(state);
      if (states > 1) parameter.second = add(state);
    }
  }

  std::size_t memory_size_of_element() const {
    return static_cast<std::size_t>(bytes_of(run_.dtype));
  }

  // --- memory and values ---

  void allocate(double free_memory_bytes) {
    const double begin = seconds_now();
    std::array<std::size_t, shared_places + 1> shared{};
    std::size_t total = 0, scratchpad = 0, staging = 0;
    for (const Tensor& tensor : tensors_) {
      if (tensor.same_as != nullptr) continue;
      auto& place = shared[static_cast<std::size_t>(tensor.place)];
      if (tensor.place == Place::own) {
        total += Arena::padded(tensor.bytes());
      } else {
        place = std::max(place, Arena::padded(tensor.bytes()));
      }
      if (tensor.scale != 0) staging = std::max(staging, staging_bytes(tensor));
    }
    for (const std::size_t bytes : shared) total += bytes;
    for (const Planned& planned : planned_) {
      scratchpad = std::max(scratchpad, planned.scratchpad.get_size());
    }
    info_.workspace_bytes = static_cast<double>(scratchpad);
    info_.memory_bytes = static_cast<double>(total + scratchpad);
    total += Arena::padded(scratchpad) + staging;
    if (static_cast<double>(total) > free_memory_bytes) {
      throw CaseRefused(
          Status::skipped_memory,
          fmt::format("network {} at batch {} needs {}, more than the {} that are free",
                      run_.network->name, run_.batch, format_bytes(static_cast<double>(total)),
                      format_bytes(free_memory_bytes)));
    }
    arena_.reset(total);
    std::array<void*, shared_places + 1> places{};
    for (std::size_t i = 1; i < places.size(); ++i) places[i] = arena_.take(shared[i]);
    scratchpad_ = arena_.take(scratchpad);
    for (Tensor& tensor : tensors_) {
      void* data = nullptr;
      if (tensor.same_as != nullptr) {
        data = tensor.same_as->value.get_data_handle();  // views come after what they show
      } else if (tensor.place == Place::own) {
        data = arena_.take(tensor.bytes());
      } else {
        data = places[static_cast<std::size_t>(tensor.place)];
      }
      tensor.value = memory(tensor.layout, engine_, data);
    }
    staging_ = static_cast<float*>(arena_.take(staging));
    info_.allocate_s = seconds_now() - begin;
  }

  static std::size_t elements_of(const Tensor& tensor) {
    std::size_t elements = 1;
    for (const memory::dim dim : tensor.layout.dims()) elements *= static_cast<std::size_t>(dim);
    return elements;
  }
  static std::size_t staging_bytes(const Tensor& tensor) {
    return Arena::padded(elements_of(tensor) * sizeof(float));
  }

  void initialise() {
    step_ = 0;
    std::uint64_t seed = 1;
    for (Tensor& tensor : tensors_) {
      ++seed;
      if (tensor.same_as != nullptr || tensor.place != Place::own) continue;
      if (tensor.scale == 0) {
        std::memset(tensor.value.get_data_handle(), 0, tensor.bytes());
        continue;
      }
      pool_.fill({staging_, elements_of(tensor)}, tensor.scale, seed);
      memory from(plain(tensor.layout.dims(), memory::data_type::f32), engine_, staging_);
      dnnl::reorder(from, tensor.value).execute(stream_, from, tensor.value);
      stream_.wait();
    }
  }

  void step() {
    for (const Step& step : steps_) step.primitive.execute(stream_, step.arguments);
    stream_.wait();
    if (!run_.training) return;
    ++step_;
    // Small enough that thousands of steps with one and the same gradient leave values of the size
    // that real ones have.
    const UpdateRates rates{.rate = 1e-6F};
    for (const Parameter& parameter : parameters_) {
      update(run_.optimizer, run_.dtype,
             {parameter.value->value.get_data_handle(), parameter.gradient->value.get_data_handle(),
              state_of(parameter.first), state_of(parameter.second),
              parameter.value->bytes() / memory_size_of_element()},
             step_, rates);
    }
  }

  static float* state_of(const Tensor* tensor) {
    return tensor == nullptr ? nullptr : static_cast<float*>(tensor->value.get_data_handle());
  }

  double sum_of(const Tensor& tensor) const {
    const void* data = tensor.value.get_data_handle();
    const std::size_t n = tensor.bytes() / memory_size_of_element();
    return run_.dtype == DType::f32 ? sum_f32({static_cast<const float*>(data), n})
                                    : sum_bf16({static_cast<const std::uint16_t*>(data), n});
  }

  NetworkRun run_;
  const dnnl::engine& engine_;
  Arena& arena_;
  const RandomPool& pool_;
  dnnl::stream stream_;
  memory::data_type type_{};
  CaseInfo info_;
  std::deque<Tensor> tensors_;
  std::vector<Planned> planned_;
  std::vector<Stage> stages_;
  std::vector<Parameter> parameters_;
  std::vector<Step> steps_;
  Tensor* input_ = nullptr;
  Tensor* output_ = nullptr;
  Tensor* output_gradient_ = nullptr;
  void* scratchpad_ = nullptr;
  float* staging_ = nullptr;
  bool chain_is_odd_ = false;
  int reorders_ = 0;
  std::int64_t step_ = 0;
};

}  // namespace

struct NetworkRunner::Resources {
  std::unique_ptr<TimingBackend> backend;
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  Arena arena;
  RandomPool pool;
};

NetworkRunner::NetworkRunner(int cores) : resources_(std::make_unique<Resources>()) {
  resources_->backend = cpu_backend.open({.cores = cores});
}
NetworkRunner::~NetworkRunner() = default;

const Device& NetworkRunner::device() const { return resources_->backend->device(); }

NetworkTimes NetworkRunner::measure(const NetworkRun& run, const MeasureRules& rules) {
  TimingBackend& backend = *resources_->backend;
  try {
    NetworkCase prepared(run, resources_->engine, resources_->arena, resources_->pool,
                         backend.free_memory_bytes());
    NetworkTimes measured;
    measured.plan_s = prepared.info().plan_s;
    measured.memory_bytes = prepared.info().memory_bytes;
    measured.primitives = prepared.primitives();
    measured.reorders = prepared.reorders();
    time_case(backend, prepared, CacheState::hot, rules, backend.now_s() + rules.timeout_s,
              measured.times);
    return measured;
  } catch (const dnnl::error& error) {
    throw CaseRefused(Status::failed,
                      fmt::format("network {}: oneDNN: {}", run.network->name, error.message));
  }
}

NetworkValues run_network_once(const NetworkRun& run) {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  Arena arena;
  const RandomPool pool;
  NetworkCase prepared(run, engine, arena, pool, 1e12);
  prepared.run(1);
  return prepared.values();
}

}  // namespace forecost
