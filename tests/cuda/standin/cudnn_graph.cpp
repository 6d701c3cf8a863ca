#include <cudnn.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <numeric>

#include "tests/cuda/standin/cudnn_common.hpp"

// cuDNN's graph interface: descriptors of any kind with their attributes, and one engine, which
// interprets graphs of matrix products, pointwise operations, reductions and reshapes of tensors of
// up to four dimensions. Everything is computed in f32 and rounded to the type of each tensor.

namespace forecost::standin::cudnn {
namespace {

struct Attribute {
  cudnnBackendAttributeType_t type;
  std::int64_t count;
  std::string bytes;
};

struct Descriptor {
  cudnnBackendDescriptorType_t type;
  bool finalized = false;
  std::map<cudnnBackendAttributeName_t, Attribute> attributes;

  template <class Value>
  std::vector<Value> values(cudnnBackendAttributeName_t name) const {
    std::vector<Value> found;
    const auto attribute = attributes.find(name);
    if (attribute == attributes.end()) return found;
    found.resize(attribute->second.bytes.size() / sizeof(Value));
    std::memcpy(found.data(), attribute->second.bytes.data(), found.size() * sizeof(Value));
    return found;
  }
  template <class Value>
  Value value(cudnnBackendAttributeName_t name, Value otherwise = {}) const {
    const auto found = values<Value>(name);
    return found.empty() ? otherwise : found.front();
  }
};

Handles<cudnnBackendDescriptor_t, Descriptor>& descriptors() {
  static auto* all = new Handles<cudnnBackendDescriptor_t, Descriptor>("graph descriptor");
  return *all;
}

std::size_t bytes_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR:
      return 1;
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
    case CUDNN_TYPE_FRACTION:
      return 8;
    default:
      return 4;
  }
}

// --- a graph as it is executed ---

struct GraphTensor {
  std::int64_t id = 0;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  std::vector<std::int64_t> dims, strides;
  bool inner = false, by_value = false;

  std::int64_t count() const {
    return std::accumulate(dims.begin(), dims.end(), std::int64_t{1}, std::multiplies<>());
  }
  Tensor tensor() const { return {true, type_of(type), dims, strides}; }
};

enum class Kind { pointwise, reduction, matmul, reshape };
struct Operation {
  Kind kind;
  int mode = 0;
  std::int64_t axis = 0;
  std::vector<std::int64_t> inputs;  ///< ids
  std::int64_t output = 0;
};

struct Executable {
  std::map<std::int64_t, GraphTensor> tensors;
  std::vector<Operation> operations;
  double flops = 0;
  std::string parameters;
};

/// Dense, in the order of the dimensions.
using Values = std::map<std::int64_t, std::vector<float>>;

float rounded(cudnnDataType_t type, double value) {
  std::uint64_t place = 0;
  switch (type) {
    case CUDNN_DATA_HALF:
    case CUDNN_DATA_BFLOAT16:
      store(type_of(type), &place, 0, value);
      return load(type_of(type), &place, 0);
    default:
      return static_cast<float>(value);
  }
}

/// Element of `tensor` that belongs to the element i of `shape`, dimensions of 1 broadcast.
std::size_t broadcast(const GraphTensor& tensor, const std::vector<std::int64_t>& shape,
                      std::int64_t i) {
  std::int64_t place = 0, stride = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    const std::int64_t index = i % shape[d];
    i /= shape[d];
    if (tensor.dims[d] != 1) place += index * stride;
    stride *= tensor.dims[d];
  }
  return static_cast<std::size_t>(place);
}

double pointwise(int mode, double x, double b, double t) {
  switch (mode) {
    case CUDNN_POINTWISE_ADD:
      return x + b;
    case CUDNN_POINTWISE_MUL:
      return x * b;
    case CUDNN_POINTWISE_MIN:
      return std::min(x, b);
    case CUDNN_POINTWISE_MAX:
      return std::max(x, b);
    case CUDNN_POINTWISE_SQRT:
      return std::sqrt(x);
    case CUDNN_POINTWISE_DIV:
      return x / b;
    case CUDNN_POINTWISE_SUB:
      return x - b;
    case CUDNN_POINTWISE_EXP:
      return std::exp(x);
    case CUDNN_POINTWISE_LOG:
      return std::log(x);
    case CUDNN_POINTWISE_NEG:
      return -x;
    case CUDNN_POINTWISE_IDENTITY:
      return x;
    case CUDNN_POINTWISE_RECIPROCAL:
      return 1 / x;
    case CUDNN_POINTWISE_RSQRT:
      return 1 / std::sqrt(x);
    case CUDNN_POINTWISE_CMP_EQ:
      return x == b ? 1 : 0;
    case CUDNN_POINTWISE_CMP_NEQ:
      return x != b ? 1 : 0;
    case CUDNN_POINTWISE_CMP_GT:
      return x > b ? 1 : 0;
    case CUDNN_POINTWISE_CMP_GE:
      return x >= b ? 1 : 0;
    case CUDNN_POINTWISE_CMP_LT:
      return x < b ? 1 : 0;
    case CUDNN_POINTWISE_CMP_LE:
      return x <= b ? 1 : 0;
    case CUDNN_POINTWISE_LOGICAL_AND:
      return x != 0 && b != 0 ? 1 : 0;
    case CUDNN_POINTWISE_LOGICAL_OR:
      return x != 0 || b != 0 ? 1 : 0;
    case CUDNN_POINTWISE_BINARY_SELECT:
      return t != 0 ? x : b;
    default:
      return std::numeric_limits<double>::quiet_NaN();
  }
}

bool knows(int mode) {
  return mode == CUDNN_POINTWISE_GEN_INDEX || std::isfinite(pointwise(mode, 1, 1, 1));
}

void compute(const Executable& graph, const Operation& operation, Values& values) {
  const GraphTensor& out = graph.tensors.at(operation.output);
  std::vector<float> result(static_cast<std::size_t>(out.count()));
  std::vector<const GraphTensor*> inputs;
  std::vector<const std::vector<float>*> in;
  for (const std::int64_t id : operation.inputs) {
    inputs.push_back(&graph.tensors.at(id));
    in.push_back(&values.at(id));
  }
  switch (operation.kind) {
    case Kind::pointwise:
      for (std::int64_t i = 0; i < out.count(); ++i) {
        if (operation.mode == CUDNN_POINTWISE_GEN_INDEX) {
          std::int64_t inner = 1;
          for (std::size_t d = static_cast<std::size_t>(operation.axis) + 1; d < out.dims.size();
               ++d)
            inner *= out.dims[d];
          result[static_cast<std::size_t>(i)] =
              static_cast<float>(i / inner % out.dims[static_cast<std::size_t>(operation.axis)]);
          continue;
        }
        double arguments[3] = {};
        for (std::size_t j = 0; j < in.size(); ++j)
          arguments[j] = (*in[j])[broadcast(*inputs[j], out.dims, i)];
        result[static_cast<std::size_t>(i)] =
            rounded(out.type, pointwise(operation.mode, arguments[0], arguments[1], arguments[2]));
      }
      break;
    case Kind::reduction: {
      const bool maximum = operation.mode == CUDNN_REDUCE_TENSOR_MAX;
      std::vector<double> sums(result.size(),
                               maximum ? -std::numeric_limits<double>::infinity() : 0.0);
      for (std::int64_t i = 0; i < inputs[0]->count(); ++i) {
        double& sum = sums[broadcast(out, inputs[0]->dims, i)];
        const double value = (*in[0])[static_cast<std::size_t>(i)];
        sum = maximum ? std::max(sum, value) : sum + value;
      }
      for (std::size_t i = 0; i < sums.size(); ++i) result[i] = rounded(out.type, sums[i]);
      break;
    }
    case Kind::matmul: {
      const std::size_t rank = out.dims.size();
      const std::int64_t m = out.dims[rank - 2], n = out.dims[rank - 1],
                         k = inputs[0]->dims[rank - 1], batch = out.count() / (m * n);
      for (std::int64_t b = 0; b < batch; ++b)
        for (std::int64_t i = 0; i < m; ++i)
          for (std::int64_t j = 0; j < n; ++j) {
            double sum = 0;
            for (std::int64_t l = 0; l < k; ++l)
              sum += static_cast<double>((*in[0])[static_cast<std::size_t>((b * m + i) * k + l)]) *
                     (*in[1])[static_cast<std::size_t>((b * k + l) * n + j)];
            result[static_cast<std::size_t>((b * m + i) * n + j)] = rounded(out.type, sum);
          }
      break;
    }
    case Kind::reshape: {
      // As the result describes it: rows and columns exchanged where the dimensions are.
      const std::size_t rank = out.dims.size();
      const std::int64_t rows = inputs[0]->dims[rank - 2], columns = inputs[0]->dims[rank - 1];
      const bool exchanged =
          out.dims[rank - 2] == columns && out.dims[rank - 1] == rows &&
          (rows != columns || out.strides[rank - 2] == 1 || inputs[0]->strides[rank - 2] == 1);
      if (!exchanged) {
        result = *in[0];
        break;
      }
      for (std::int64_t b = 0; b < out.count() / (rows * columns); ++b)
        for (std::int64_t i = 0; i < rows; ++i)
          for (std::int64_t j = 0; j < columns; ++j)
            result[static_cast<std::size_t>((b * columns + j) * rows + i)] =
                (*in[0])[static_cast<std::size_t>((b * rows + i) * columns + j)];
      break;
    }
  }
  values[operation.output] = std::move(result);
}

// --- from descriptors to that ---

cudnnStatus_t add_tensor(Executable& graph, cudnnBackendDescriptor_t handle, std::int64_t& id) {
  const auto descriptor = descriptors().find(handle);
  if (!descriptor || descriptor->type != CUDNN_BACKEND_TENSOR_DESCRIPTOR || !descriptor->finalized)
    return inconsistent("an operation on something that is no finalized tensor");
  GraphTensor tensor;
  tensor.id = id = descriptor->value<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
  tensor.type = descriptor->value<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
  tensor.dims = descriptor->values<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  tensor.strides = descriptor->values<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
  tensor.inner = descriptor->value<char>(CUDNN_ATTR_TENSOR_IS_VIRTUAL) != 0;
  tensor.by_value = descriptor->value<char>(CUDNN_ATTR_TENSOR_IS_BY_VALUE) != 0;
  if (tensor.dims.empty() || tensor.dims.size() != tensor.strides.size())
    return inconsistent("a tensor's dimensions and strides differ in number");
  graph.tensors[tensor.id] = tensor;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t add_operation(Executable& graph, cudnnBackendDescriptor_t handle) {
  const auto descriptor = descriptors().find(handle);
  if (!descriptor || !descriptor->finalized)
    return inconsistent("a graph of an operation that is not finalized");
  Operation operation{};
  std::vector<cudnnBackendAttributeName_t> inputs;
  cudnnBackendAttributeName_t output{};
  const auto part = [&](cudnnBackendAttributeName_t name) {
    return descriptors().find(descriptor->value<cudnnBackendDescriptor_t>(name));
  };
  switch (descriptor->type) {
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR: {
      const auto mode = part(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
      if (!mode) return CUDNN_STATUS_BAD_PARAM;
      operation.kind = Kind::pointwise;
      operation.mode = mode->value<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
      operation.axis = mode->value<std::int64_t>(CUDNN_ATTR_POINTWISE_AXIS, -1);
      if (!knows(operation.mode))
        return refuse(CUDNN_STATUS_NOT_SUPPORTED, "stand-in: pointwise mode");
      inputs = {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                CUDNN_ATTR_OPERATION_POINTWISE_TDESC};
      output = CUDNN_ATTR_OPERATION_POINTWISE_YDESC;
      break;
    }
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR: {
      const auto reduction = part(CUDNN_ATTR_OPERATION_REDUCTION_DESC);
      if (!reduction) return CUDNN_STATUS_BAD_PARAM;
      operation.kind = Kind::reduction;
      operation.mode = reduction->value<cudnnReduceTensorOp_t>(CUDNN_ATTR_REDUCTION_OPERATOR);
      if (operation.mode != CUDNN_REDUCE_TENSOR_MAX && operation.mode != CUDNN_REDUCE_TENSOR_ADD)
        return refuse(CUDNN_STATUS_NOT_SUPPORTED, "stand-in: reduction");
      inputs = {CUDNN_ATTR_OPERATION_REDUCTION_XDESC};
      output = CUDNN_ATTR_OPERATION_REDUCTION_YDESC;
      break;
    }
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
      operation.kind = Kind::matmul;
      inputs = {CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_ATTR_OPERATION_MATMUL_BDESC};
      output = CUDNN_ATTR_OPERATION_MATMUL_CDESC;
      break;
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
      operation.kind = Kind::reshape;
      inputs = {CUDNN_ATTR_OPERATION_RESHAPE_XDESC};
      output = CUDNN_ATTR_OPERATION_RESHAPE_YDESC;
      break;
    default:
      return refuse(CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, "stand-in: operation");
  }
  for (const auto name : inputs) {
    const auto tensor = descriptor->value<cudnnBackendDescriptor_t>(name);
    if (tensor == nullptr) continue;
    std::int64_t id = 0;
    if (const auto bad = add_tensor(graph, tensor, id); bad != CUDNN_STATUS_SUCCESS) return bad;
    operation.inputs.push_back(id);
  }
  if (const auto bad =
          add_tensor(graph, descriptor->value<cudnnBackendDescriptor_t>(output), operation.output);
      bad != CUDNN_STATUS_SUCCESS)
    return bad;

  const GraphTensor& out = graph.tensors.at(operation.output);
  if (operation.inputs.empty()) return inconsistent("an operation without inputs");
  const GraphTensor& first = graph.tensors.at(operation.inputs[0]);
  if (first.dims.size() != out.dims.size())
    return inconsistent("an operation on tensors of different ranks");
  double flops = static_cast<double>(out.count());
  if (operation.kind == Kind::matmul) {
    const GraphTensor& second = graph.tensors.at(operation.inputs.at(1));
    const std::size_t rank = out.dims.size();
    if (rank < 2 || first.dims[rank - 2] != out.dims[rank - 2] ||
        second.dims[rank - 1] != out.dims[rank - 1] ||
        first.dims[rank - 1] != second.dims[rank - 2] ||
        !std::equal(out.dims.begin(), out.dims.end() - 2, first.dims.begin()) ||
        !std::equal(out.dims.begin(), out.dims.end() - 2, second.dims.begin()))
      return inconsistent("a matrix product of shapes that do not agree");
    flops *= 2.0 * static_cast<double>(first.dims[rank - 1]);
  } else if (operation.kind == Kind::pointwise) {
    for (const std::int64_t id : operation.inputs) {
      const GraphTensor& input = graph.tensors.at(id);
      for (std::size_t d = 0; d < out.dims.size(); ++d)
        if (input.dims.size() != out.dims.size() ||
            (input.dims[d] != 1 && input.dims[d] != out.dims[d]))
          return inconsistent("a pointwise operation on shapes that do not agree");
    }
  } else if (operation.kind == Kind::reduction) {
    for (std::size_t d = 0; d < out.dims.size(); ++d)
      if (out.dims[d] != 1 && out.dims[d] != first.dims[d])
        return inconsistent("a reduction to a shape that does not agree");
    flops = static_cast<double>(first.count());
  } else if (out.count() != first.count()) {
    return inconsistent("a reshape to another number of elements");
  }
  graph.flops += flops;
  graph.operations.push_back(operation);
  graph.parameters += parameters(static_cast<int>(operation.kind), operation.mode, operation.axis,
                                 operation.output);
  for (const std::int64_t id : operation.inputs) graph.parameters += parameters(id);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t make_executable(cudnnBackendDescriptor_t graph_handle, Executable& graph) {
  const auto descriptor = descriptors().find(graph_handle);
  if (!descriptor || descriptor->type != CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR ||
      !descriptor->finalized)
    return inconsistent("no finalized graph");
  for (const auto operation :
       descriptor->values<cudnnBackendDescriptor_t>(CUDNN_ATTR_OPERATIONGRAPH_OPS))
    if (const auto bad = add_operation(graph, operation); bad != CUDNN_STATUS_SUCCESS) return bad;
  for (const auto& [id, tensor] : graph.tensors) graph.parameters += parameters(tensor.tensor());
  return CUDNN_STATUS_SUCCESS;
}

/// Executables of finalized execution plans.
std::map<cudnnBackendDescriptor_t, std::shared_ptr<const Executable>>& executables() {
  static auto* all = new std::map<cudnnBackendDescriptor_t, std::shared_ptr<const Executable>>;
  return *all;
}

constexpr std::int64_t engine_workspace_bytes = 4096;
constexpr std::int64_t engine_index = 8;

cudnnStatus_t finalize(cudnnBackendDescriptor_t handle, Descriptor& descriptor) {
  Executable graph;
  switch (descriptor.type) {
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
      if (!stream_of_handle(descriptor.value<cudnnHandle_t>(CUDNN_ATTR_OPERATIONGRAPH_HANDLE)))
        return CUDNN_STATUS_BAD_PARAM;
      for (const auto operation :
           descriptor.values<cudnnBackendDescriptor_t>(CUDNN_ATTR_OPERATIONGRAPH_OPS))
        if (const auto bad = add_operation(graph, operation); bad != CUDNN_STATUS_SUCCESS)
          return bad;
      break;
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
      if (unsupported("attention") || unsupported("graph"))
        return refuse(CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN,
                      "stand-in: attention is not to be supported");
      return make_executable(
          descriptor.value<cudnnBackendDescriptor_t>(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH), graph);
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: {
      const auto configuration = descriptors().find(
          descriptor.value<cudnnBackendDescriptor_t>(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG));
      if (!configuration) return CUDNN_STATUS_BAD_PARAM;
      auto made = std::make_shared<Executable>();
      const auto status = make_executable(
          configuration->value<cudnnBackendDescriptor_t>(CUDNN_ATTR_ENGINE_OPERATION_GRAPH), *made);
      if (status != CUDNN_STATUS_SUCCESS) return status;
      executables()[handle] = std::move(made);
      break;
    }
    default:
      break;
  }
  return CUDNN_STATUS_SUCCESS;
}

template <class Value>
cudnnStatus_t give(Value value, std::int64_t room, std::int64_t* count, void* to) {
  if (count != nullptr) *count = 1;
  if (room >= 1) std::memcpy(to, &value, sizeof value);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t get(const Descriptor& descriptor, cudnnBackendAttributeName_t name,
                  cudnnBackendAttributeType_t type, std::int64_t room, std::int64_t* count,
                  void* to) {
  switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS: {
      *count = 1;
      if (room < 1) return CUDNN_STATUS_SUCCESS;
      // Fills a descriptor that the caller made.
      const auto configuration = descriptors().find(*static_cast<cudnnBackendDescriptor_t*>(to));
      if (!configuration || configuration->type != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)
        return inconsistent("results are put into engine configurations");
      configuration->attributes[CUDNN_ATTR_ENGINE_OPERATION_GRAPH] =
          descriptor.attributes.at(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
      configuration->finalized = true;
      return CUDNN_STATUS_SUCCESS;
    }
    case CUDNN_ATTR_ENGINECFG_ENGINE: {
      *count = 1;
      if (room < 1) return CUDNN_STATUS_SUCCESS;
      const auto engine = descriptors().find(*static_cast<cudnnBackendDescriptor_t*>(to));
      if (!engine || engine->type != CUDNN_BACKEND_ENGINE_DESCRIPTOR)
        return inconsistent("the engine is put into an engine");
      engine->attributes = descriptor.attributes;
      engine->finalized = true;
      return CUDNN_STATUS_SUCCESS;
    }
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
      return give(engine_index, room, count, to);
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
      *count = 0;
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
      return give(engine_workspace_bytes, room, count, to);
    default:
      break;
  }
  const auto found = descriptor.attributes.find(name);
  if (found == descriptor.attributes.end() || found->second.type != type)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "stand-in: attribute " + std::to_string(name));
  if (count != nullptr) *count = found->second.count;
  std::memcpy(
      to, found->second.bytes.data(),
      std::min(found->second.bytes.size(), static_cast<std::size_t>(room) * bytes_of(type)));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t execute(cudnnHandle_t handle, const Executable& graph, const Descriptor& pack) {
  const auto ids = pack.values<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = pack.values<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  void* const workspace = pack.value<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  if (ids.size() != pointers.size())
    return inconsistent("a pack of so many ids and other pointers");
  std::map<std::int64_t, void*> places;
  for (std::size_t i = 0; i < ids.size(); ++i) places[ids[i]] = pointers[i];
  std::map<std::int64_t, bool> written;
  for (const Operation& operation : graph.operations) written[operation.output] = true;

  Work work;
  Values scalars;
  for (const auto& [id, tensor] : graph.tensors) {
    if (tensor.inner) continue;
    const auto place = places.find(id);
    if (place == places.end())
      return inconsistent("a pack without tensor " + std::to_string(id) + " of the graph");
    if (tensor.by_value) {  // in the host's memory, read at the launch
      float value;
      std::memcpy(&value, place->second, sizeof value);
      if (tensor.type == CUDNN_DATA_INT32) {
        std::int32_t integer;
        std::memcpy(&integer, place->second, sizeof integer);
        value = static_cast<float>(integer);
      }
      scalars[id] = {value};
      work.parameters += parameters(value);
      continue;
    }
    work.operands.push_back(written.count(id) != 0
                                ? writes(place->second, tensor.tensor().bytes(), "a result")
                                : reads(place->second, tensor.tensor().bytes(), "an operand"));
  }
  work.operands.push_back(scratch(workspace, engine_workspace_bytes));
  work.flops = graph.flops;
  work.rate = Rate::f16;
  work.parameters += graph.parameters;
  work.memorable = true;
  work.compute = [graph, places, scalars] {
    Values values = scalars;
    const auto in_memory = [](const GraphTensor& tensor) {
      return !tensor.inner && !tensor.by_value;
    };
    for (const Operation& operation : graph.operations) {
      for (const std::int64_t id : operation.inputs) {
        const GraphTensor& tensor = graph.tensors.at(id);
        if (values.count(id) == 0 && in_memory(tensor))
          values[id] = load_dense(tensor.tensor(), places.at(id));
      }
      compute(graph, operation, values);
      const GraphTensor& out = graph.tensors.at(operation.output);
      if (in_memory(out)) store_dense(out.tensor(), places.at(out.id), values.at(out.id));
    }
  };
  return submit(handle, std::move(work));
}

}  // namespace
}  // namespace forecost::standin::cudnn

using namespace forecost::standin;
using namespace forecost::standin::cudnn;

extern "C" {

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* handle) {
  const Call call("cudnnBackendCreateDescriptor", Call::prepares);
  *handle = descriptors().make({type, false, {}});
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t handle) {
  const Call call("cudnnBackendDestroyDescriptor", Call::prepares);
  executables().erase(handle);
  return descriptors().release(handle) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t handle) {
  const Call call("cudnnBackendFinalize", Call::prepares);
  const auto descriptor = descriptors().find(handle);
  if (!descriptor) return CUDNN_STATUS_BAD_PARAM;
  if (state().sticky != cudaSuccess) return status_of(state().sticky);
  const cudnnStatus_t status = finalize(handle, *descriptor);
  descriptor->finalized = status == CUDNN_STATUS_SUCCESS;
  return status;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t handle,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t count,
                                       const void* values) {
  const Call call("cudnnBackendSetAttribute", Call::prepares);
  const auto descriptor = descriptors().find(handle);
  if (!descriptor) return CUDNN_STATUS_BAD_PARAM;
  if (descriptor->finalized) return inconsistent("an attribute set after finalizing");
  descriptor->attributes[name] = {type, count,
                                  std::string(static_cast<const char*>(values),
                                              static_cast<std::size_t>(count) * bytes_of(type))};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t handle,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t room,
                                       std::int64_t* count, void* to) {
  const Call call("cudnnBackendGetAttribute");
  const auto descriptor = descriptors().find(handle);
  if (!descriptor) return CUDNN_STATUS_BAD_PARAM;
  if (!descriptor->finalized) return refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "not finalized");
  return get(*descriptor, name, type, room, count, to);
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan_handle,
                                  cudnnBackendDescriptor_t pack_handle) {
  const Call call("cudnnBackendExecute");
  const auto pack = descriptors().find(pack_handle);
  const auto plan = executables().find(plan_handle);
  if (!descriptors().find(plan_handle) || !pack) return CUDNN_STATUS_BAD_PARAM;
  if (plan == executables().end() || !pack->finalized)
    return inconsistent("a plan or a pack that is not finalized");
  if (state().sticky != cudaSuccess) return status_of(state().sticky);
  return execute(handle, *plan->second, *pack);
}

}  // extern "C"
