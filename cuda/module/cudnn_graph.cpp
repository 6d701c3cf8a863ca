#include "cuda/module/cudnn_graph.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <string>

#include "cuda/module/cudnn_descriptors.hpp"

namespace forecost::cuda {

GraphDescriptor::GraphDescriptor(cudnnBackendDescriptorType_t type) {
  check(cudnnBackendCreateDescriptor(type, &handle_), "making a descriptor of cuDNN's graphs");
}

GraphDescriptor::~GraphDescriptor() {
  if (handle_ != nullptr) cudnnBackendDestroyDescriptor(handle_);
}

void GraphDescriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                          std::size_t count, const void* values) {
  const cudnnStatus_t status =
      cudnnBackendSetAttribute(handle_, name, type, static_cast<std::int64_t>(count), values);
  if (status == CUDNN_STATUS_SUCCESS) return;
  check(status, ("setting attribute " + std::to_string(name) + " of a graph of cuDNN").c_str());
}

void GraphDescriptor::set(cudnnBackendAttributeName_t name, std::span<const std::int64_t> values) {
  set(name, CUDNN_TYPE_INT64, values.size(), values.data());
}
void GraphDescriptor::set(cudnnBackendAttributeName_t name, std::int64_t value) {
  set(name, CUDNN_TYPE_INT64, 1, &value);
}
void GraphDescriptor::set(cudnnBackendAttributeName_t name, bool value) {
  set(name, CUDNN_TYPE_BOOLEAN, 1, &value);
}
void GraphDescriptor::set(cudnnBackendAttributeName_t name, cudnnDataType_t value) {
  set(name, CUDNN_TYPE_DATA_TYPE, 1, &value);
}
void GraphDescriptor::set(cudnnBackendAttributeName_t name, cudnnPointwiseMode_t value) {
  set(name, CUDNN_TYPE_POINTWISE_MODE, 1, &value);
}
void GraphDescriptor::set(cudnnBackendAttributeName_t name, cudnnReduceTensorOp_t value) {
  set(name, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &value);
}
void GraphDescriptor::set(cudnnBackendAttributeName_t name, cudnnBackendHeurMode_t value) {
  set(name, CUDNN_TYPE_HEUR_MODE, 1, &value);
}
void GraphDescriptor::set(cudnnBackendAttributeName_t name, cudnnHandle_t value) {
  set(name, CUDNN_TYPE_HANDLE, 1, &value);
}
void GraphDescriptor::set(cudnnBackendAttributeName_t name, const GraphDescriptor& value) {
  const cudnnBackendDescriptor_t handle = value.get();
  set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &handle);
}
void GraphDescriptor::set(cudnnBackendAttributeName_t name,
                          std::span<const cudnnBackendDescriptor_t> values) {
  set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, values.size(), values.data());
}
void GraphDescriptor::set_addresses(cudnnBackendAttributeName_t name,
                                    std::span<void* const> addresses) {
  set(name, CUDNN_TYPE_VOID_PTR, addresses.size(), addresses.data());
}

std::int64_t GraphDescriptor::get(cudnnBackendAttributeName_t name) const {
  std::int64_t count = 0, value = 0;
  check(cudnnBackendGetAttribute(handle_, name, CUDNN_TYPE_INT64, 1, &count, &value),
        "reading an attribute of a graph of cuDNN");
  return value;
}

void GraphDescriptor::finalize(const char* what) {
  const cudnnStatus_t status = try_finalize();
  if (is_refusal(status)) {
    throw Failure(Code::unsupported, std::string(what) + ": " + words_of(status));
  }
  check(status, what);
}

// --- operations ---

namespace {

OperationGraph::Dims dense_strides(const OperationGraph::Dims& d, bool transposed) {
  return transposed ? OperationGraph::Dims{d[1] * d[2] * d[3], d[2] * d[3], 1, d[2]}
                    : OperationGraph::Dims{d[1] * d[2] * d[3], d[2] * d[3], d[3], 1};
}

/// In which a pointwise operation computes to get this.
cudnnDataType_t computed_as(cudnnDataType_t result) {
  return result == CUDNN_DATA_INT32 || result == CUDNN_DATA_BOOLEAN ? result : CUDNN_DATA_FLOAT;
}

}  // namespace

OperationGraph::Tensor OperationGraph::add(const Dims& dims, bool transposed, cudnnDataType_t type,
                                           Source source, std::int64_t where) {
  const auto id = static_cast<std::int64_t>(tensors_.size()) + 1;
  GraphDescriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, type);
  tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, dims);
  tensor.set(CUDNN_ATTR_TENSOR_STRIDES, dense_strides(dims, transposed));
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, std::int64_t{16});
  tensor.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, source == Source::inner);
  tensor.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, source == Source::scalar);
  tensor.finalize("a tensor of a graph of cuDNN");
  tensors_.push_back(std::move(tensor));
  types_.push_back(type);
  if (source != Source::inner) bindings_.push_back({id, source, where});
  return {id, dims};
}

OperationGraph::Tensor OperationGraph::operand(int place, const Dims& dims, cudnnDataType_t type,
                                               bool transposed) {
  return add(dims, transposed, type, Source::operand, place);
}

OperationGraph::Tensor OperationGraph::scratch(const Dims& dims) {
  const std::int64_t offset = scratch_bytes_;
  scratch_bytes_ += (dims[0] * dims[1] * dims[2] * dims[3] * 4 + 255) / 256 * 256;
  return add(dims, false, CUDNN_DATA_FLOAT, Source::scratch, offset);
}

OperationGraph::Tensor OperationGraph::inner(const Dims& dims, cudnnDataType_t type,
                                             bool transposed) {
  return add(dims, transposed, type, Source::inner, 0);
}

OperationGraph::Tensor OperationGraph::add_scalar(cudnnDataType_t type,
                                                  std::array<std::byte, 4> value) {
  scalars_.push_back(value);
  return add({1, 1, 1, 1}, false, type, Source::scalar,
             static_cast<std::int64_t>(scalars_.size()) - 1);
}
OperationGraph::Tensor OperationGraph::scalar(float value) {
  return add_scalar(CUDNN_DATA_FLOAT, std::bit_cast<std::array<std::byte, 4>>(value));
}
OperationGraph::Tensor OperationGraph::scalar(std::int32_t value) {
  return add_scalar(CUDNN_DATA_INT32, std::bit_cast<std::array<std::byte, 4>>(value));
}

const GraphDescriptor& OperationGraph::descriptor_of(const Tensor& tensor) const {
  return tensors_[static_cast<std::size_t>(tensor.id - 1)];
}

GraphDescriptor& OperationGraph::part(cudnnBackendDescriptorType_t type) {
  return parts_.emplace_back(type);
}

OperationGraph::Tensor OperationGraph::finish(GraphDescriptor& operation, const Tensor& result) {
  operation.finalize("an operation of a graph of cuDNN");
  operations_.push_back(operation.get());
  return result;
}

OperationGraph::Tensor OperationGraph::pointwise(cudnnPointwiseMode_t mode,
                                                 std::initializer_list<Tensor> inputs,
                                                 const Tensor& result) {
  GraphDescriptor& pointwise = part(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  pointwise.set(CUDNN_ATTR_POINTWISE_MODE, mode);
  pointwise.set(CUDNN_ATTR_POINTWISE_MATH_PREC,
                computed_as(types_[static_cast<std::size_t>(result.id - 1)]));
  pointwise.finalize("a pointwise operation of cuDNN");

  GraphDescriptor& operation = part(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, pointwise);
  constexpr std::array names{CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
                             CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                             CUDNN_ATTR_OPERATION_POINTWISE_TDESC};
  const auto* name = names.begin();
  for (const Tensor& input : inputs) operation.set(*name++, descriptor_of(input));
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, descriptor_of(result));
  return finish(operation, result);
}

OperationGraph::Tensor OperationGraph::index(std::int64_t axis, const Tensor& x,
                                             const Tensor& result) {
  GraphDescriptor& pointwise = part(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  pointwise.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_POINTWISE_GEN_INDEX);
  pointwise.set(CUDNN_ATTR_POINTWISE_AXIS, axis);
  pointwise.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_INT32);
  pointwise.finalize("an index of cuDNN");

  GraphDescriptor& operation = part(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, pointwise);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, descriptor_of(x));
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, descriptor_of(result));
  return finish(operation, result);
}

OperationGraph::Tensor OperationGraph::reduce(cudnnReduceTensorOp_t operator_, const Tensor& x,
                                              const Tensor& result) {
  GraphDescriptor& reduction = part(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  reduction.set(CUDNN_ATTR_REDUCTION_OPERATOR, operator_);
  reduction.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  reduction.finalize("a reduction of cuDNN");

  GraphDescriptor& operation = part(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, reduction);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, descriptor_of(x));
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, descriptor_of(result));
  return finish(operation, result);
}

OperationGraph::Tensor OperationGraph::matmul(const Tensor& a, const Tensor& b,
                                              const Tensor& result) {
  GraphDescriptor& matmul = part(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  matmul.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
  matmul.finalize("a matrix product of cuDNN");

  GraphDescriptor& operation = part(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, matmul);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, descriptor_of(a));
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, descriptor_of(b));
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, descriptor_of(result));
  return finish(operation, result);
}

OperationGraph::Tensor OperationGraph::reshape(const Tensor& x, const Tensor& result) {
  GraphDescriptor& operation = part(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, descriptor_of(x));
  operation.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, descriptor_of(result));
  return finish(operation, result);
}

// --- compiled ---

CompiledGraph::CompiledGraph(cudnnHandle_t handle, OperationGraph graph, const char* what)
    : graph_(std::move(graph)),
      operations_(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR),
      plan_(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
  operations_.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, handle);
  operations_.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, graph_.operations());
  operations_.finalize(what);
  for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    for (const GraphDescriptor& configuration : configurations(mode)) {
      if (compile(handle, configuration)) return;
    }
  }
  throw Failure(Code::unsupported,
                std::string(what) + ": cuDNN has no engine for it here: " + words_of(refusal_));
}

std::vector<GraphDescriptor> CompiledGraph::configurations(cudnnBackendHeurMode_t mode) const {
  GraphDescriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, operations_);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
  if (heuristics.try_finalize() != CUDNN_STATUS_SUCCESS) return {};
  std::int64_t count = 0;
  check(cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr),
        "counting cuDNN's engines for a graph");
  std::vector<GraphDescriptor> found;
  std::vector<cudnnBackendDescriptor_t> handles;
  for (std::int64_t i = 0; i < count; ++i) {
    handles.push_back(found.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).get());
  }
  if (count == 0) return found;
  check(cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &count, handles.data()),
        "asking cuDNN for engines of a graph");
  while (found.size() > static_cast<std::size_t>(count)) found.pop_back();
  return found;
}

bool CompiledGraph::compile(cudnnHandle_t handle, const GraphDescriptor& configuration) {
  GraphDescriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, handle);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
  if (const cudnnStatus_t status = plan.try_finalize(); status != CUDNN_STATUS_SUCCESS) {
    refusal_ = status;
    return false;
  }
  plan_ = std::move(plan);
  scratch_offset_ = (plan_.get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) + 255) / 256 * 256;

  const GraphDescriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t filled = engine.get();
  std::int64_t count = 0;
  check(cudnnBackendGetAttribute(configuration.get(), CUDNN_ATTR_ENGINECFG_ENGINE,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &filled),
        "reading the engine of a graph of cuDNN");
  engine_ = engine.get(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
  check(cudnnBackendGetAttribute(engine.get(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                 CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count,
                                 notes.data()),
        "reading the notes of an engine of cuDNN");
  const auto last = notes.begin() + std::min(count, std::int64_t{CUDNN_NUMERICAL_NOTE_TYPE_COUNT});
  nondeterministic_ = std::find(notes.begin(), last, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) != last;
  return true;
}

CompiledGraph::Addresses CompiledGraph::addresses(void* const* operands, void* workspace) {
  Addresses addresses;
  for (const OperationGraph::Binding& binding : graph_.bindings_) {
    const auto where = static_cast<std::size_t>(binding.where);
    switch (binding.source) {
      case OperationGraph::Source::operand:
        addresses.push_back(operands[where]);
        break;
      case OperationGraph::Source::scratch:
        addresses.push_back(static_cast<std::byte*>(workspace) + scratch_offset_ + where);
        break;
      case OperationGraph::Source::scalar:
        addresses.push_back(graph_.scalars_[where].data());
        break;
      case OperationGraph::Source::inner:
        break;
    }
  }
  return addresses;
}

void CompiledGraph::bind(void* const* operands, void* workspace) {
  Addresses key = addresses(operands, workspace);
  key.push_back(workspace);
  if (packs_.contains(key)) return;
  std::vector<std::int64_t> ids;
  for (const OperationGraph::Binding& binding : graph_.bindings_) ids.push_back(binding.id);
  GraphDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids);
  pack.set_addresses(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                     std::span<void* const>(key.data(), ids.size()));
  pack.set_addresses(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, std::span<void* const>(&workspace, 1));
  pack.finalize("binding the operands of a graph of cuDNN");
  packs_.emplace(std::move(key), std::move(pack));
}

void CompiledGraph::enqueue(cudnnHandle_t handle, void* const* operands, void* workspace) {
  Addresses key = addresses(operands, workspace);
  key.push_back(workspace);
  const auto pack = packs_.find(key);
  if (pack == packs_.end()) {
    throw Failure(Code::failed, "a graph of cuDNN runs on operands that it was not prepared for");
  }
  check(cudnnBackendExecute(handle, plan_.get(), pack->second.get()), "running a graph of cuDNN");
}

}  // namespace forecost::cuda
