#pragma once

#include <cudnn.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "cuda/module/context.hpp"

// cuDNN's graph ("backend") interface as far as we use it: operations on tensors of four
// dimensions, which the library fuses into one engine.

namespace forecost::cuda {

/// Owns a descriptor of the graph interface.
class GraphDescriptor {
 public:
  explicit GraphDescriptor(cudnnBackendDescriptorType_t type);
  ~GraphDescriptor();
  GraphDescriptor(GraphDescriptor&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)) {}
  GraphDescriptor& operator=(GraphDescriptor&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  cudnnBackendDescriptor_t get() const { return handle_; }

  void set(cudnnBackendAttributeName_t name, std::span<const std::int64_t> values);
  void set(cudnnBackendAttributeName_t name, std::int64_t value);
  void set(cudnnBackendAttributeName_t name, bool value);
  void set(cudnnBackendAttributeName_t name, cudnnDataType_t value);
  void set(cudnnBackendAttributeName_t name, cudnnPointwiseMode_t value);
  void set(cudnnBackendAttributeName_t name, cudnnReduceTensorOp_t value);
  void set(cudnnBackendAttributeName_t name, cudnnBackendHeurMode_t value);
  void set(cudnnBackendAttributeName_t name, cudnnHandle_t value);
  void set(cudnnBackendAttributeName_t name, const GraphDescriptor& value);
  void set(cudnnBackendAttributeName_t name, std::span<const cudnnBackendDescriptor_t> values);
  void set_addresses(cudnnBackendAttributeName_t name, std::span<void* const> addresses);
  std::int64_t get(cudnnBackendAttributeName_t name) const;
  /// Whether the library takes it so.
  cudnnStatus_t try_finalize() { return cudnnBackendFinalize(handle_); }
  /// Throws Failure, unsupported with the library's words where it refuses.
  void finalize(const char* what);

 private:
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::size_t count,
           const void* values);

  cudnnBackendDescriptor_t handle_ = nullptr;
};

/// Operations before they are compiled.
class OperationGraph {
 public:
  using Dims = std::array<std::int64_t, 4>;  ///< batch, heads, rows, columns
  struct Tensor {
    std::int64_t id;
    Dims dims;
  };

  /// Operand `place` of the step, dense; `transposed` reads it with rows and columns exchanged:
  /// `dims` are what is read.
  Tensor operand(int place, const Dims& dims, cudnnDataType_t type, bool transposed = false);
  /// f32, in the workspace.
  Tensor scratch(const Dims& dims);
  /// Exists only inside of the engine.
  Tensor inner(const Dims& dims, cudnnDataType_t type = CUDNN_DATA_FLOAT, bool transposed = false);
  Tensor scalar(float value);
  Tensor scalar(std::int32_t value);

  // Each returns `result`. Dimensions of 1 are broadcast.

  /// `inputs` are x, b and the condition of CUDNN_POINTWISE_BINARY_SELECT, as many as `mode` has.
  Tensor pointwise(cudnnPointwiseMode_t mode, std::initializer_list<Tensor> inputs,
                   const Tensor& result);
  /// The place of each element of x along an axis.
  Tensor index(std::int64_t axis, const Tensor& x, const Tensor& result);
  Tensor reduce(cudnnReduceTensorOp_t operation, const Tensor& x, const Tensor& result);
  Tensor matmul(const Tensor& a, const Tensor& b, const Tensor& result);
  /// x as `result` describes it: with rows and columns exchanged.
  Tensor reshape(const Tensor& x, const Tensor& result);

  std::span<const cudnnBackendDescriptor_t> operations() const { return operations_; }

 private:
  friend class CompiledGraph;
  enum class Source : std::uint8_t { inner, operand, scratch, scalar };
  struct Binding {
    std::int64_t id;
    Source source;
    std::int64_t where;  ///< place of the operand, offset of the scratch, number of the scalar
  };

  Tensor add(const Dims& dims, bool transposed, cudnnDataType_t type, Source source,
             std::int64_t where);
  Tensor add_scalar(cudnnDataType_t type, std::array<std::byte, 4> value);
  const GraphDescriptor& descriptor_of(const Tensor& tensor) const;
  GraphDescriptor& part(cudnnBackendDescriptorType_t type);
  Tensor finish(GraphDescriptor& operation, const Tensor& result);

  std::vector<GraphDescriptor> tensors_;  ///< by id - 1
  std::vector<cudnnDataType_t> types_;    ///< of these
  std::deque<GraphDescriptor> parts_;     ///< operations and what they are described by
  std::vector<cudnnBackendDescriptor_t> operations_;
  std::vector<Binding> bindings_;
  std::deque<std::array<std::byte, 4>> scalars_;  ///< the library reads them at every launch
  std::int64_t scratch_bytes_ = 0;
};

/// A graph with the first engine of the library's heuristics that takes it. Throws Failure,
/// unsupported with the library's words where none does.
class CompiledGraph {
 public:
  CompiledGraph(cudnnHandle_t handle, OperationGraph graph, const char* what);

  std::int64_t workspace_bytes() const { return scratch_offset_ + graph_.scratch_bytes_; }
  /// The library's number of what runs.
  std::int64_t engine() const { return engine_; }
  /// By the library's own note.
  bool nondeterministic() const { return nondeterministic_; }
  std::int64_t scratch_offset() const { return scratch_offset_; }
  std::int64_t scratch_bytes() const { return graph_.scratch_bytes_; }

  /// Describes the addresses to the library, once for each set of them.
  void bind(void* const* operands, void* workspace);
  void enqueue(cudnnHandle_t handle, void* const* operands, void* workspace);

 private:
  using Addresses = std::vector<void*>;
  Addresses addresses(void* const* operands, void* workspace);
  std::vector<GraphDescriptor> configurations(cudnnBackendHeurMode_t mode) const;
  bool compile(cudnnHandle_t handle, const GraphDescriptor& configuration);

  OperationGraph graph_;
  GraphDescriptor operations_, plan_;
  cudnnStatus_t refusal_ = CUDNN_STATUS_NOT_SUPPORTED;
  std::int64_t engine_ = 0, scratch_offset_ = 0;
  bool nondeterministic_ = false;
  std::map<Addresses, GraphDescriptor> packs_;
};

}  // namespace forecost::cuda
