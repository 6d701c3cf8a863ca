#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "cuda/module/cudnn_descriptors.hpp"
#include "cuda/module/handles.hpp"

namespace forecost::cuda {
namespace {

struct CellOfCudnn {
  cudnnRNNMode_t mode;
  const char* name;
  std::int32_t matrices;  ///< of a pseudo-layer: one for the input and one for the state per gate
};

CellOfCudnn cell_of(Cell cell) {
  switch (cell) {
    case Cell::vanilla:
      return {CUDNN_RNN_TANH, "rnn_tanh", 2};
    case Cell::lstm:
      return {CUDNN_LSTM, "lstm", 8};
    case Cell::gru:
      return {CUDNN_GRU, "gru", 6};
  }
  throw Failure(Code::failed, "an rnn of an unknown cell");
}

class RnnPlan final : public CudnnPlan {
 public:
  RnnPlan(Context& context, const Rnn& p)
      : CudnnPlan(context),
        forward_(p.direction == Direction::forward),
        training_(!forward_ || p.training != 0) {
    const cudnnDataType_t type = to_cudnn(p.element);
    const CellOfCudnn cell = cell_of(p.cell);
    const int batch = to_int(p.batch), steps = to_int(p.steps), hidden = to_int(p.hidden_features),
              directions = p.bidirectional != 0 ? 2 : 1,
              pseudo_layers = to_int(p.layers * directions);

    check(cudnnSetDropoutDescriptor(no_dropout_, handle_, 0, nullptr, 0, 0),
          "describing an rnn's dropout to cuDNN");
    check(
        cudnnSetRNNDescriptor_v8(
            rnn_, CUDNN_RNN_ALGO_STANDARD, cell.mode, CUDNN_RNN_DOUBLE_BIAS,
            p.bidirectional != 0 ? CUDNN_BIDIRECTIONAL : CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT,
            type, CUDNN_DATA_FLOAT, math_of(context, p.element, p.tf32 != 0), to_int(p.in_features),
            hidden, hidden, to_int(p.layers), no_dropout_, CUDNN_RNN_PADDED_IO_ENABLED),
        "describing an rnn to cuDNN");
    // All of the same length, which the library keeps in the descriptor.
    const std::vector<int> lengths(static_cast<std::size_t>(batch), steps);
    const auto describe_sequences = [&](cudnnRNNDataDescriptor_t descriptor, int features) {
      check(cudnnSetRNNDataDescriptor(descriptor, type, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED,
                                      steps, batch, features, lengths.data(), nullptr),
            "describing an rnn's sequences to cuDNN");
    };
    describe_sequences(x_, to_int(p.in_features));
    describe_sequences(y_, to_int(p.hidden_features * directions));
    const std::array dims{pseudo_layers, batch, hidden};
    const std::array strides{to_int(p.batch * p.hidden_features), hidden, 1};
    check(cudnnSetTensorNdDescriptor(state_, type, 3, dims.data(), strides.data()),
          "describing an rnn's states to cuDNN");

    check(cudnnGetRNNTempSpaceSizes(handle_, rnn_,
                                    training_ ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE,
                                    x_, &temporary_bytes_, &reserve_bytes_),
          "asking cuDNN for the workspace of an rnn");
    check(cudnnGetRNNWeightSpaceSize(handle_, rnn_, &weight_bytes_),
          "asking cuDNN for the weights of an rnn");
    info.workspace_bytes =
        static_cast<std::int64_t>(forward_ ? temporary_bytes_ : reserve_offset() + reserve_bytes_);
    info.reserve_bytes = static_cast<std::int64_t>(training_ ? reserve_bytes_ : 0);
    info.weight_bytes = static_cast<std::int64_t>(weight_bytes_);
    find_regions(pseudo_layers, cell.matrices);

    set_implementation(info, std::string("cudnn:") + cell.name +
                                 (!forward_   ? "_bwd"
                                  : training_ ? "_fwd_training"
                                              : "_fwd_inference") +
                                 ":standard:" + name_of(applied_math()));
  }

  void enqueue(Context& context, void* const* tensors, void* workspace) override {
    if (forward_) {
      run_forward(tensors, workspace);
    } else {
      run_backward(context, tensors, static_cast<std::byte*>(workspace));
    }
  }

  const std::vector<RnnRegion>& regions() const { return regions_; }

 private:
  /// {x, weights, y, reserve or nullptr}. Without first states they are zero; the last ones are not
  /// asked for.
  void run_forward(void* const* tensors, void* workspace) {
    check(cudnnRNNForward(handle_, rnn_,
                          training_ ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE, nullptr,
                          x_, tensors[0], y_, tensors[2], state_, nullptr, nullptr, state_, nullptr,
                          nullptr, weight_bytes_, tensors[1], temporary_bytes_, workspace,
                          training_ ? reserve_bytes_ : 0, training_ ? tensors[3] : nullptr),
          info.implementation);
  }

  /// {x, y, dy, weights, reserve of the forward pass, dx, dweights}. The gradient of the data
  /// replaces what forward kept by what the gradient of the weights reads: so that each run finds
  /// the same, it gets a copy, whose time is part of the run (two passes over the reserve).
  void run_backward(Context& context, void* const* tensors, std::byte* workspace) {
    void* const reserve = workspace + reserve_offset();
    check(cudaMemcpyAsync(reserve, tensors[4], reserve_bytes_, cudaMemcpyDeviceToDevice,
                          context.stream),
          "copying the reserve of an rnn");
    check(cudnnRNNBackwardData_v8(handle_, rnn_, nullptr, y_, tensors[1], tensors[2], x_,
                                  tensors[5], state_, nullptr, nullptr, nullptr, state_, nullptr,
                                  nullptr, nullptr, weight_bytes_, tensors[3], temporary_bytes_,
                                  workspace, reserve_bytes_, reserve),
          info.implementation);
    // The library only adds to the gradients of the weights.
    check(cudaMemsetAsync(tensors[6], 0, weight_bytes_, context.stream),
          "zeroing the gradients of an rnn's weights");
    check(cudnnRNNBackwardWeights_v8(handle_, rnn_, CUDNN_WGRAD_MODE_ADD, nullptr, x_, tensors[0],
                                     state_, nullptr, y_, tensors[1], weight_bytes_, tensors[6],
                                     temporary_bytes_, workspace, reserve_bytes_, reserve),
          info.implementation);
  }

  /// In the workspace of backward, where the copy of the reserve begins.
  std::size_t reserve_offset() const { return (temporary_bytes_ + 255) / 256 * 256; }

  cudnnMathType_t applied_math() const {
    cudnnRNNAlgo_t algorithm{};
    cudnnRNNMode_t mode{};
    cudnnRNNBiasMode_t bias{};
    cudnnDirectionMode_t direction{};
    cudnnRNNInputMode_t input{};
    cudnnDataType_t data{}, products{};
    cudnnMathType_t math{};
    std::int32_t in = 0, hidden = 0, projection = 0, layers = 0;
    cudnnDropoutDescriptor_t dropout = nullptr;
    std::uint32_t flags = 0;
    check(cudnnGetRNNDescriptor_v8(rnn_, &algorithm, &mode, &bias, &direction, &input, &data,
                                   &products, &math, &in, &hidden, &projection, &layers, &dropout,
                                   &flags),
          "reading the description of an rnn");
    return math;
  }

  void find_regions(std::int32_t pseudo_layers, std::int32_t matrices) {
    // The library answers with addresses.
    const DeviceMemory weights = device_memory(static_cast<std::int64_t>(weight_bytes_));
    const TensorDescriptor matrix, bias;
    for (std::int32_t layer = 0; layer < pseudo_layers; ++layer) {
      for (std::int32_t gate = 0; gate < matrices; ++gate) {
        void *matrix_at = nullptr, *bias_at = nullptr;
        check(cudnnGetRNNWeightParams(handle_, rnn_, layer, weight_bytes_, weights.get(), gate,
                                      matrix, &matrix_at, bias, &bias_at),
              "asking cuDNN for a matrix of an rnn");
        add_region(layer, gate, false, matrix, matrix_at, weights.get());
        add_region(layer, gate, true, bias, bias_at, weights.get());
      }
    }
  }

  void add_region(std::int32_t layer, std::int32_t gate, bool is_bias,
                  cudnnTensorDescriptor_t descriptor, const void* at, const void* base) {
    if (at == nullptr) return;
    cudnnDataType_t type{};
    int count = 0;
    std::array<int, 3> dims{}, strides{};
    check(cudnnGetTensorNdDescriptor(descriptor, 3, &type, &count, dims.data(), strides.data()),
          "reading the size of a matrix of an rnn");
    regions_.push_back({layer, gate, is_bias ? 1 : 0,
                        static_cast<const std::byte*>(at) - static_cast<const std::byte*>(base),
                        dims[1], dims[2]});
  }

  bool forward_, training_;
  DropoutDescriptor no_dropout_;
  RnnDescriptor rnn_;
  RnnDataDescriptor x_, y_;
  TensorDescriptor state_;
  std::size_t temporary_bytes_ = 0, reserve_bytes_ = 0, weight_bytes_ = 0;
  std::vector<RnnRegion> regions_;
};

}  // namespace

std::unique_ptr<Plan> plan_rnn(Context& context, const Primitive& primitive) {
  return std::make_unique<RnnPlan>(context, primitive.rnn);
}

std::int32_t rnn_regions_of(const Plan& plan, RnnRegion* regions, std::int32_t room) {
  const auto* rnn = dynamic_cast<const RnnPlan*>(&plan);
  if (rnn == nullptr) throw Failure(Code::failed, "only a plan of an rnn has regions of weights");
  const auto count = static_cast<std::int32_t>(rnn->regions().size());
  std::copy_n(rnn->regions().begin(), std::clamp(room, 0, count), regions);
  return count;
}

}  // namespace forecost::cuda
