#include <cudnn.h>

#include <cmath>

#include "tests/cuda/standin/cudnn_common.hpp"
#include "tests/cuda/standin/memory.hpp"

// Recurrent networks of cuDNN (v8): tanh, LSTM and GRU cells with two biases, sequences of equal
// length, time-major, first states of zero. The formulas are those of NVIDIA's cuDNN documentation,
// cudnnRNNMode_t.

namespace forecost::standin::cudnn {
namespace {

struct Rnn {
  bool set = false;
  cudnnRNNAlgo_t algorithm{};
  cudnnRNNMode_t mode = CUDNN_RNN_TANH;
  cudnnRNNBiasMode_t bias{};
  cudnnDirectionMode_t direction{};
  cudnnRNNInputMode_t input{};
  cudnnDataType_t data{}, products{};
  cudnnMathType_t math{};
  std::int32_t in = 0, hidden = 0, projection = 0, layers = 0;
  cudnnDropoutDescriptor_t dropout = nullptr;
  std::uint32_t flags = 0;

  int directions() const { return direction == CUDNN_BIDIRECTIONAL ? 2 : 1; }
  int gates() const { return mode == CUDNN_LSTM ? 4 : mode == CUDNN_GRU ? 3 : 1; }
  std::size_t h() const { return static_cast<std::size_t>(hidden); }
  std::size_t width() const { return h() * static_cast<std::size_t>(directions()); }
  int pseudo_layers() const { return layers * directions(); }
  /// Features that come into a pseudo-layer.
  std::size_t inputs(int pseudo) const {
    return pseudo < directions() ? static_cast<std::size_t>(in) : width();
  }
  std::size_t matrix(int pseudo, int lin) const {
    return h() * (lin < gates() ? inputs(pseudo) : h());
  }
  /// In elements. All matrices of a pseudo-layer, then its biases.
  std::size_t offset(int pseudo, int lin, bool is_bias) const {
    std::size_t at = 0;
    for (int p = 0; p < pseudo; ++p) {
      for (int l = 0; l < 2 * gates(); ++l) at += matrix(p, l) + h();
    }
    for (int l = 0; l < (is_bias ? 2 * gates() : lin); ++l) at += matrix(pseudo, l);
    return is_bias ? at + static_cast<std::size_t>(lin) * h() : at;
  }
  std::size_t weights() const { return offset(pseudo_layers(), 0, false); }
  std::string key() const {
    return parameters(static_cast<int>(mode), in, hidden, layers, directions(),
                      static_cast<int>(data));
  }
};

struct Sequences {
  bool set = false;
  cudnnDataType_t type{};
  int steps = 0, batch = 0, features = 0;
  std::size_t count() const {
    return static_cast<std::size_t>(steps) * static_cast<std::size_t>(batch) *
           static_cast<std::size_t>(features);
  }
  std::size_t bytes() const { return count() * size_of(type_of(type)); }
};

struct RnnTables {
  Handles<cudnnRNNDescriptor_t, Rnn> rnns{"rnn descriptor"};
  Handles<cudnnRNNDataDescriptor_t, Sequences> sequences{"rnn data descriptor"};
};
RnnTables& rnn_tables() {
  static auto* all = new RnnTables;
  return *all;
}

#define STANDIN_FIND_RNN(name, table, descriptor)                          \
  const auto name##_found = rnn_tables().table.find(descriptor);           \
  if (!name##_found) return CUDNN_STATUS_BAD_PARAM;                        \
  if (!name##_found->set) return inconsistent(#descriptor " was not set"); \
  const auto& name = *name##_found

/// What forward leaves for backward, in f32: a mark, the outputs of the layers, of each gate its
/// value, and (from the gradient of the data on) the gradients of what goes into the gates.
class Reserve {
 public:
  Reserve(const Rnn& rnn, int steps, int batch, float* memory = nullptr)
      : rnn_(rnn),
        rows_(static_cast<std::size_t>(steps) * static_cast<std::size_t>(batch)),
        memory_(memory) {}
  // LSTM: i, f, c', o, c; GRU: r, i, h', and R h of h'; else h.
  std::size_t slots() const {
    return rnn_.mode == CUDNN_RNN_TANH ? 1 : rnn_.mode == CUDNN_LSTM ? 5 : 4;
  }
  std::size_t gradients() const { return rnn_.mode == CUDNN_RNN_TANH ? 1 : 4; }
  std::size_t bytes() const { return 4 * (2 + outputs_end() + gates_end() + gradients_end()); }

  float& mark() { return memory_[0]; }
  float* output(int layer, std::size_t row) {
    return memory_ + 2 + (static_cast<std::size_t>(layer) * rows_ + row) * rnn_.width();
  }
  float* gate(int pseudo, std::size_t row, std::size_t slot) {
    return memory_ + 2 + outputs_end() +
           ((static_cast<std::size_t>(pseudo) * rows_ + row) * slots() + slot) * rnn_.h();
  }
  float* gradient(int pseudo, std::size_t row, std::size_t slot) {
    return memory_ + 2 + outputs_end() + gates_end() +
           ((static_cast<std::size_t>(pseudo) * rows_ + row) * gradients() + slot) * rnn_.h();
  }

 private:
  std::size_t outputs_end() const {
    return static_cast<std::size_t>(rnn_.layers) * rows_ * rnn_.width();
  }
  std::size_t gates_end() const {
    return static_cast<std::size_t>(rnn_.pseudo_layers()) * rows_ * slots() * rnn_.h();
  }
  std::size_t gradients_end() const {
    return static_cast<std::size_t>(rnn_.pseudo_layers()) * rows_ * gradients() * rnn_.h();
  }
  const Rnn& rnn_;
  std::size_t rows_;
  float* memory_;
};
constexpr float after_forward = 12345, after_data = 54321;

/// y += M x of rows x columns; and y += M' x.
void add_product(const float* m, const float* x, float* y, std::size_t rows, std::size_t columns) {
  for (std::size_t i = 0; i < rows; ++i) {
    double sum = 0;
    for (std::size_t j = 0; j < columns; ++j) sum += static_cast<double>(m[i * columns + j]) * x[j];
    y[i] += static_cast<float>(sum);
  }
}
void add_transposed_product(const float* m, const float* x, float* y, std::size_t rows,
                            std::size_t columns) {
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < columns; ++j) y[j] += m[i * columns + j] * x[i];
}

float sigmoid(double x) { return static_cast<float>(1 / (1 + std::exp(-x))); }

struct Walk {
  std::size_t row, before;  ///< row of the state before
  bool first;
};

/// The rows of one sequence, in the order in which a direction sees them.
template <class Visit>
void for_each_step(int steps, int batch, bool backwards, bool reversed, Visit visit) {
  for (int b = 0; b < batch; ++b)
    for (int i = 0; i < steps; ++i) {
      const int order = reversed ? steps - 1 - i : i;
      const int t = backwards ? steps - 1 - order : order;
      const int previous = backwards ? t + 1 : t - 1;
      visit(Walk{static_cast<std::size_t>(t) * static_cast<std::size_t>(batch) +
                     static_cast<std::size_t>(b),
                 static_cast<std::size_t>(previous) * static_cast<std::size_t>(batch) +
                     static_cast<std::size_t>(b),
                 previous < 0 || previous >= steps});
    }
}

/// Of the whole network; the reserve holds everything, whether or not it is asked for.
void forward(const Rnn& rnn, int steps, int batch, const std::vector<float>& x,
             const std::vector<float>& weights, Reserve& reserve) {
  const std::size_t H = rnn.h();
  const std::vector<float> none(H, 0);
  for (int pseudo = 0; pseudo < rnn.pseudo_layers(); ++pseudo) {
    const int layer = pseudo / rnn.directions(), direction = pseudo % rnn.directions();
    const std::size_t inputs = rnn.inputs(pseudo);
    const auto G = static_cast<std::size_t>(rnn.gates());
    for_each_step(steps, batch, direction == 1, false, [&](const Walk& at) {
      const float* in = layer == 0 ? &x[at.row * inputs] : reserve.output(layer - 1, at.row);
      const std::size_t shift = static_cast<std::size_t>(direction) * H;
      const float* h = at.first ? none.data() : reserve.output(layer, at.before) + shift;
      std::vector<float> a(G * H), r(G * H);
      for (std::size_t g = 0; g < G; ++g) {
        const int lin = static_cast<int>(g), recurrent = lin + rnn.gates();
        for (std::size_t i = 0; i < H; ++i) {
          a[g * H + i] = weights[rnn.offset(pseudo, lin, true) + i];
          r[g * H + i] = weights[rnn.offset(pseudo, recurrent, true) + i];
        }
        add_product(&weights[rnn.offset(pseudo, lin, false)], in, &a[g * H], H, inputs);
        add_product(&weights[rnn.offset(pseudo, recurrent, false)], h, &r[g * H], H, H);
      }
      float* out = reserve.output(layer, at.row) + shift;
      const auto gate = [&](std::size_t slot) { return reserve.gate(pseudo, at.row, slot); };
      for (std::size_t i = 0; i < H; ++i) {
        if (rnn.mode == CUDNN_RNN_TANH) {
          out[i] = gate(0)[i] = std::tanh(a[i] + r[i]);
        } else if (rnn.mode == CUDNN_LSTM) {
          const float before = at.first ? 0 : reserve.gate(pseudo, at.before, 4)[i];
          gate(0)[i] = sigmoid(a[i] + r[i]);
          gate(1)[i] = sigmoid(a[H + i] + r[H + i]);
          gate(2)[i] = std::tanh(a[2 * H + i] + r[2 * H + i]);
          gate(3)[i] = sigmoid(a[3 * H + i] + r[3 * H + i]);
          gate(4)[i] = gate(1)[i] * before + gate(0)[i] * gate(2)[i];
          out[i] = gate(3)[i] * std::tanh(gate(4)[i]);
        } else {
          gate(0)[i] = sigmoid(a[i] + r[i]);
          gate(1)[i] = sigmoid(a[H + i] + r[H + i]);
          gate(3)[i] = r[2 * H + i];
          gate(2)[i] = std::tanh(a[2 * H + i] + gate(0)[i] * gate(3)[i]);
          out[i] = (1 - gate(1)[i]) * gate(2)[i] + gate(1)[i] * h[i];
        }
      }
    });
  }
  reserve.mark() = after_forward;
}

/// Of the data: leaves the gates' gradients in the reserve, gives dx.
std::vector<float> backward_data(const Rnn& rnn, int steps, int batch, std::vector<float> dy,
                                 const std::vector<float>& weights, Reserve& reserve) {
  const std::size_t H = rnn.h();
  const auto G = static_cast<std::size_t>(rnn.gates());
  for (int layer = rnn.layers - 1; layer >= 0; --layer) {
    const std::size_t inputs = rnn.inputs(layer * rnn.directions());
    std::vector<float> dx(
        static_cast<std::size_t>(steps) * static_cast<std::size_t>(batch) * inputs, 0);
    for (int direction = 0; direction < rnn.directions(); ++direction) {
      const int pseudo = layer * rnn.directions() + direction;
      const std::size_t shift = static_cast<std::size_t>(direction) * H;
      std::vector<float> dh(H, 0), dc(H, 0);
      std::size_t previous_sequence = 0;
      bool started = false;
      for_each_step(steps, batch, direction == 1, true, [&](const Walk& at) {
        const std::size_t sequence = at.row % static_cast<std::size_t>(batch);
        if (!started || sequence != previous_sequence) {
          std::fill(dh.begin(), dh.end(), 0.0F);
          std::fill(dc.begin(), dc.end(), 0.0F);
        }
        started = true;
        previous_sequence = sequence;
        const auto gate = [&](std::size_t slot) { return reserve.gate(pseudo, at.row, slot); };
        const auto gradient = [&](std::size_t slot) {
          return reserve.gradient(pseudo, at.row, slot);
        };
        std::vector<float> before(H, 0);
        for (std::size_t i = 0; i < H; ++i) {
          const float d = dy[at.row * rnn.width() + shift + i] + dh[i];
          const float h = at.first ? 0 : reserve.output(layer, at.before)[shift + i];
          if (rnn.mode == CUDNN_RNN_TANH) {
            gradient(0)[i] = d * (1 - gate(0)[i] * gate(0)[i]);
          } else if (rnn.mode == CUDNN_LSTM) {
            const float c = at.first ? 0 : reserve.gate(pseudo, at.before, 4)[i];
            const float t = std::tanh(gate(4)[i]);
            const float cell = d * gate(3)[i] * (1 - t * t) + dc[i];
            gradient(0)[i] = cell * gate(2)[i] * gate(0)[i] * (1 - gate(0)[i]);
            gradient(1)[i] = cell * c * gate(1)[i] * (1 - gate(1)[i]);
            gradient(2)[i] = cell * gate(0)[i] * (1 - gate(2)[i] * gate(2)[i]);
            gradient(3)[i] = d * t * gate(3)[i] * (1 - gate(3)[i]);
            dc[i] = cell * gate(1)[i];
          } else {
            const float z = gate(1)[i], n = gate(2)[i];
            const float dn = d * (1 - z) * (1 - n * n);
            gradient(0)[i] = dn * gate(3)[i] * gate(0)[i] * (1 - gate(0)[i]);
            gradient(1)[i] = d * (h - n) * z * (1 - z);
            gradient(2)[i] = dn;
            gradient(3)[i] = dn * gate(0)[i];  // of what the state gives to h'
            before[i] = d * z;
          }
        }
        for (std::size_t g = 0; g < G; ++g) {
          const int lin = static_cast<int>(g);
          const bool gru_new = rnn.mode == CUDNN_GRU && g == 2;
          add_transposed_product(&weights[rnn.offset(pseudo, lin, false)], gradient(g),
                                 &dx[at.row * inputs], H, inputs);
          add_transposed_product(&weights[rnn.offset(pseudo, lin + rnn.gates(), false)],
                                 gradient(gru_new ? 3 : g), before.data(), H, H);
        }
        dh = before;
      });
    }
    dy = std::move(dx);
  }
  reserve.mark() = after_data;
  return dy;
}

void backward_weights(const Rnn& rnn, int steps, int batch, const std::vector<float>& x,
                      Reserve& reserve, std::vector<float>& dweights) {
  const std::size_t H = rnn.h();
  for (int pseudo = 0; pseudo < rnn.pseudo_layers(); ++pseudo) {
    const int layer = pseudo / rnn.directions(), direction = pseudo % rnn.directions();
    const std::size_t inputs = rnn.inputs(pseudo);
    for_each_step(steps, batch, direction == 1, false, [&](const Walk& at) {
      const float* in = layer == 0 ? &x[at.row * inputs] : reserve.output(layer - 1, at.row);
      const float* h =
          at.first ? nullptr
                   : reserve.output(layer, at.before) + static_cast<std::size_t>(direction) * H;
      for (int lin = 0; lin < 2 * rnn.gates(); ++lin) {
        const bool recurrent = lin >= rnn.gates();
        const auto g = static_cast<std::size_t>(lin % rnn.gates());
        const float* d =
            reserve.gradient(pseudo, at.row, recurrent && rnn.mode == CUDNN_GRU && g == 2 ? 3 : g);
        float* matrix = &dweights[rnn.offset(pseudo, lin, false)];
        float* bias = &dweights[rnn.offset(pseudo, lin, true)];
        const std::size_t columns = recurrent ? H : inputs;
        const float* from = recurrent ? h : in;
        for (std::size_t i = 0; i < H; ++i) {
          bias[i] += d[i];
          if (from == nullptr) continue;
          for (std::size_t j = 0; j < columns; ++j) matrix[i * columns + j] += d[i] * from[j];
        }
      }
    });
  }
}

std::size_t temporary_bytes(const Rnn& rnn, const Sequences& x) {
  return static_cast<std::size_t>(x.batch) * rnn.width() * 4 *
             static_cast<std::size_t>(rnn.gates()) +
         1024;
}

double flops_of(const Rnn& rnn, const Sequences& x) {
  return 2.0 * x.steps * x.batch * static_cast<double>(rnn.weights());
}

/// What all three calls have in common: the status to answer at once, if any.
cudnnStatus_t check_call(cudnnHandle_t handle, const Rnn& rnn, const Sequences& x,
                         const Sequences& y, std::size_t weight_bytes, std::size_t temporary,
                         std::size_t reserve, bool training) {
  if (!stream_of_handle(handle)) return CUDNN_STATUS_BAD_PARAM;
  if (state().sticky != cudaSuccess) return status_of(state().sticky);
  if (x.steps != y.steps || x.batch != y.batch || x.type != y.type || x.type != rnn.data ||
      x.features != rnn.in || y.features != static_cast<int>(rnn.width()))
    return inconsistent("x, y and the rnn do not agree");
  if (weight_bytes != rnn.weights() * size_of(type_of(rnn.data)))
    return inconsistent("the weights are of another size");
  const std::size_t needed = training ? Reserve(rnn, x.steps, x.batch).bytes() : 0;
  if (temporary < temporary_bytes(rnn, x) || reserve < needed) {
    violation("workspace", std::string(state().call) + " is given " + std::to_string(temporary) +
                               " and " + std::to_string(reserve) + " bytes, was said to need " +
                               std::to_string(temporary_bytes(rnn, x)) + " and " +
                               std::to_string(needed));
    return refuse(CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT, "workspace or reserve too small");
  }
  return CUDNN_STATUS_SUCCESS;
}

Work work_of(const Rnn& rnn, const Sequences& x, double passes) {
  Work work;
  work.flops = flops_of(rnn, x) * passes;
  work.rate = type_of(rnn.data) != Type::f32 ? Rate::f16
              : rnn.math == CUDNN_FMA_MATH   ? Rate::f32
                                             : Rate::tf32;
  // One step waits for another.
  work.seconds = state().device().model.kernel_s * x.steps * rnn.layers;
  work.parameters = rnn.key() + parameters(x.steps, x.batch);
  work.memorable = true;
  return work;
}

}  // namespace
}  // namespace forecost::standin::cudnn

using namespace forecost::standin;
using namespace forecost::standin::cudnn;

extern "C" {

cudnnStatus_t cudnnCreateRNNDescriptor(cudnnRNNDescriptor_t* descriptor) {
  const Call call("cudnnCreateRNNDescriptor", Call::prepares);
  *descriptor = rnn_tables().rnns.make();
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyRNNDescriptor(cudnnRNNDescriptor_t descriptor) {
  const Call call("cudnnDestroyRNNDescriptor", Call::prepares);
  return rnn_tables().rnns.release(descriptor) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}
cudnnStatus_t cudnnCreateRNNDataDescriptor(cudnnRNNDataDescriptor_t* descriptor) {
  const Call call("cudnnCreateRNNDataDescriptor", Call::prepares);
  *descriptor = rnn_tables().sequences.make();
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyRNNDataDescriptor(cudnnRNNDataDescriptor_t descriptor) {
  const Call call("cudnnDestroyRNNDataDescriptor", Call::prepares);
  return rnn_tables().sequences.release(descriptor) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t cudnnSetRNNDescriptor_v8(cudnnRNNDescriptor_t descriptor, cudnnRNNAlgo_t algorithm,
                                       cudnnRNNMode_t mode, cudnnRNNBiasMode_t bias,
                                       cudnnDirectionMode_t direction, cudnnRNNInputMode_t input,
                                       cudnnDataType_t data, cudnnDataType_t products,
                                       cudnnMathType_t math, std::int32_t in, std::int32_t hidden,
                                       std::int32_t projection, std::int32_t layers,
                                       cudnnDropoutDescriptor_t dropout, std::uint32_t flags) {
  const Call call("cudnnSetRNNDescriptor_v8", Call::prepares);
  const auto found = rnn_tables().rnns.find(descriptor);
  if (!found) return CUDNN_STATUS_BAD_PARAM;
  if (unsupported("rnn"))
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "stand-in: rnn is not to be supported");
  if (in < 1 || hidden < 1 || layers < 1) return inconsistent("a size below 1");
  if (mode == CUDNN_RNN_RELU || bias != CUDNN_RNN_DOUBLE_BIAS || projection != hidden ||
      input != CUDNN_LINEAR_INPUT)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "stand-in: this kind of rnn");
  *found = {true, algorithm, mode,   bias,       direction, input,   data, products,
            math, in,        hidden, projection, layers,    dropout, flags};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetRNNDescriptor_v8(cudnnRNNDescriptor_t descriptor, cudnnRNNAlgo_t* algorithm,
                                       cudnnRNNMode_t* mode, cudnnRNNBiasMode_t* bias,
                                       cudnnDirectionMode_t* direction, cudnnRNNInputMode_t* input,
                                       cudnnDataType_t* data, cudnnDataType_t* products,
                                       cudnnMathType_t* math, std::int32_t* in,
                                       std::int32_t* hidden, std::int32_t* projection,
                                       std::int32_t* layers, cudnnDropoutDescriptor_t* dropout,
                                       std::uint32_t* flags) {
  const Call call("cudnnGetRNNDescriptor_v8");
  STANDIN_FIND_RNN(rnn, rnns, descriptor);
  *algorithm = rnn.algorithm;
  *mode = rnn.mode;
  *bias = rnn.bias;
  *direction = rnn.direction;
  *input = rnn.input;
  *data = rnn.data;
  *products = rnn.products;
  *math = rnn.math;
  *in = rnn.in;
  *hidden = rnn.hidden;
  *projection = rnn.projection;
  *layers = rnn.layers;
  *dropout = rnn.dropout;
  *flags = rnn.flags;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetRNNDataDescriptor(cudnnRNNDataDescriptor_t descriptor, cudnnDataType_t type,
                                        cudnnRNNDataLayout_t layout, int steps, int batch,
                                        int features, const int* lengths, void*) {
  const Call call("cudnnSetRNNDataDescriptor", Call::prepares);
  const auto found = rnn_tables().sequences.find(descriptor);
  if (!found) return CUDNN_STATUS_BAD_PARAM;
  if (layout == CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "stand-in: batch-major sequences");
  for (int i = 0; i < batch; ++i)
    if (lengths[i] != steps)
      return refuse(CUDNN_STATUS_NOT_SUPPORTED, "stand-in: sequences of several lengths");
  *found = {true, type, steps, batch, features};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetRNNTempSpaceSizes(cudnnHandle_t handle, cudnnRNNDescriptor_t descriptor,
                                        cudnnForwardMode_t mode,
                                        cudnnRNNDataDescriptor_t x_descriptor,
                                        std::size_t* temporary, std::size_t* reserve) {
  const Call call("cudnnGetRNNTempSpaceSizes", Call::prepares);
  if (!stream_of_handle(handle)) return CUDNN_STATUS_BAD_PARAM;
  STANDIN_FIND_RNN(rnn, rnns, descriptor);
  STANDIN_FIND_RNN(x, sequences, x_descriptor);
  if (temporary != nullptr) *temporary = temporary_bytes(rnn, x);
  if (reserve != nullptr)
    *reserve = mode == CUDNN_FWD_MODE_TRAINING ? Reserve(rnn, x.steps, x.batch).bytes() : 0;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetRNNWeightSpaceSize(cudnnHandle_t handle, cudnnRNNDescriptor_t descriptor,
                                         std::size_t* bytes) {
  const Call call("cudnnGetRNNWeightSpaceSize", Call::prepares);
  if (!stream_of_handle(handle)) return CUDNN_STATUS_BAD_PARAM;
  STANDIN_FIND_RNN(rnn, rnns, descriptor);
  *bytes = rnn.weights() * size_of(type_of(rnn.data));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetRNNWeightParams(cudnnHandle_t handle, cudnnRNNDescriptor_t descriptor,
                                      std::int32_t pseudo, std::size_t bytes, const void* space,
                                      std::int32_t lin, cudnnTensorDescriptor_t matrix_descriptor,
                                      void** matrix_at, cudnnTensorDescriptor_t bias_descriptor,
                                      void** bias_at) {
  const Call call("cudnnGetRNNWeightParams", Call::prepares);
  if (!stream_of_handle(handle)) return CUDNN_STATUS_BAD_PARAM;
  STANDIN_FIND_RNN(rnn, rnns, descriptor);
  const auto matrix = tables().tensors.find(matrix_descriptor),
             bias = tables().tensors.find(bias_descriptor);
  if (!matrix || !bias) return CUDNN_STATUS_BAD_PARAM;
  const Type type = type_of(rnn.data);
  if (pseudo < 0 || pseudo >= rnn.pseudo_layers() || lin < 0 || lin >= 2 * rnn.gates())
    return refuse(CUDNN_STATUS_BAD_PARAM, "no such matrix");
  if (bytes != rnn.weights() * size_of(type))
    return inconsistent("the weights are of another size");
  const auto H = static_cast<std::int64_t>(rnn.hidden);
  const std::int64_t columns =
      lin < rnn.gates() ? static_cast<std::int64_t>(rnn.inputs(pseudo)) : H;
  *matrix = {true, type, {1, H, columns}, {H * columns, columns, 1}};
  *bias = {true, type, {1, H, 1}, {H, 1, 1}};
  auto* base = static_cast<std::byte*>(const_cast<void*>(space));
  *matrix_at = base + rnn.offset(pseudo, lin, false) * size_of(type);
  *bias_at = base + rnn.offset(pseudo, lin, true) * size_of(type);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnRNNForward(cudnnHandle_t handle, cudnnRNNDescriptor_t descriptor,
                              cudnnForwardMode_t mode, const std::int32_t*,
                              cudnnRNNDataDescriptor_t x_descriptor, const void* x_at,
                              cudnnRNNDataDescriptor_t y_descriptor, void* y_at,
                              cudnnTensorDescriptor_t, const void* hx, void* hy,
                              cudnnTensorDescriptor_t, const void* cx, void* cy,
                              std::size_t weight_bytes, const void* weights_at,
                              std::size_t temporary_size, void* temporary,
                              std::size_t reserve_bytes, void* reserve_at) {
  const Call call("cudnnRNNForward");
  STANDIN_FIND_RNN(rnn, rnns, descriptor);
  STANDIN_FIND_RNN(x, sequences, x_descriptor);
  STANDIN_FIND_RNN(y, sequences, y_descriptor);
  const bool training = mode == CUDNN_FWD_MODE_TRAINING;
  if (hx != nullptr || hy != nullptr || cx != nullptr || cy != nullptr)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "stand-in: states");
  if (const auto bad =
          check_call(handle, rnn, x, y, weight_bytes, temporary_size, reserve_bytes, training);
      bad != CUDNN_STATUS_SUCCESS)
    return bad;
  Work work = work_of(rnn, x, 1);
  work.operands = {reads(x_at, x.bytes(), "x"), reads(weights_at, weight_bytes, "weights"),
                   writes(y_at, y.bytes(), "y"), scratch(temporary, temporary_size)};
  if (training) work.operands.push_back(writes(reserve_at, reserve_bytes, "reserve"));
  work.compute = [=, rnn = rnn, x = x, y = y] {
    const Type type = type_of(rnn.data);
    std::vector<float> own;
    if (!training) own.resize(Reserve(rnn, x.steps, x.batch).bytes() / 4);
    Reserve reserve(rnn, x.steps, x.batch, training ? static_cast<float*>(reserve_at) : own.data());
    forward(rnn, x.steps, x.batch, load_all(type, x_at, x.count()),
            load_all(type, weights_at, rnn.weights()), reserve);
    const float* out = reserve.output(rnn.layers - 1, 0);
    for (std::size_t i = 0; i < y.count(); ++i) store(type, y_at, i, out[i]);
  };
  return submit(handle, std::move(work));
}

cudnnStatus_t cudnnRNNBackwardData_v8(
    cudnnHandle_t handle, cudnnRNNDescriptor_t descriptor, const std::int32_t*,
    cudnnRNNDataDescriptor_t y_descriptor, const void* y_at, const void* dy_at,
    cudnnRNNDataDescriptor_t x_descriptor, void* dx_at, cudnnTensorDescriptor_t, const void* hx,
    const void* dhy, void* dhx, cudnnTensorDescriptor_t, const void* cx, const void* dcy, void* dcx,
    std::size_t weight_bytes, const void* weights_at, std::size_t temporary_size, void* temporary,
    std::size_t reserve_bytes, void* reserve_at) {
  const Call call("cudnnRNNBackwardData_v8");
  STANDIN_FIND_RNN(rnn, rnns, descriptor);
  STANDIN_FIND_RNN(x, sequences, x_descriptor);
  STANDIN_FIND_RNN(y, sequences, y_descriptor);
  if (hx != nullptr || dhy != nullptr || dhx != nullptr || cx != nullptr || dcy != nullptr ||
      dcx != nullptr)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "stand-in: states");
  if (const auto bad =
          check_call(handle, rnn, x, y, weight_bytes, temporary_size, reserve_bytes, true);
      bad != CUDNN_STATUS_SUCCESS)
    return bad;
  Work work = work_of(rnn, x, 1);
  work.operands = {reads(y_at, y.bytes(), "y"),
                   reads(dy_at, y.bytes(), "dy"),
                   reads(weights_at, weight_bytes, "weights"),
                   writes(dx_at, x.bytes(), "dx"),
                   scratch(temporary, temporary_size),
                   updates(reserve_at, reserve_bytes, "reserve")};
  work.compute = [=, rnn = rnn, x = x, y = y] {
    const Type type = type_of(rnn.data);
    Reserve reserve(rnn, x.steps, x.batch, static_cast<float*>(reserve_at));
    if (reserve.mark() != after_forward)
      violation("reserve", "the reserve of an rnn's gradient of data is not of a forward pass");
    const std::vector<float> dx =
        backward_data(rnn, x.steps, x.batch, load_all(type, dy_at, y.count()),
                      load_all(type, weights_at, rnn.weights()), reserve);
    for (std::size_t i = 0; i < x.count(); ++i) store(type, dx_at, i, dx[i]);
  };
  return submit(handle, std::move(work));
}

cudnnStatus_t cudnnRNNBackwardWeights_v8(cudnnHandle_t handle, cudnnRNNDescriptor_t descriptor,
                                         cudnnWgradMode_t mode, const std::int32_t*,
                                         cudnnRNNDataDescriptor_t x_descriptor, const void* x_at,
                                         cudnnTensorDescriptor_t, const void* hx,
                                         cudnnRNNDataDescriptor_t y_descriptor, const void* y_at,
                                         std::size_t weight_bytes, void* dweights_at,
                                         std::size_t temporary_size, void* temporary,
                                         std::size_t reserve_bytes, void* reserve_at) {
  const Call call("cudnnRNNBackwardWeights_v8");
  STANDIN_FIND_RNN(rnn, rnns, descriptor);
  STANDIN_FIND_RNN(x, sequences, x_descriptor);
  STANDIN_FIND_RNN(y, sequences, y_descriptor);
  if (mode != CUDNN_WGRAD_MODE_ADD) return refuse(CUDNN_STATUS_NOT_SUPPORTED, "set mode");
  if (hx != nullptr) return refuse(CUDNN_STATUS_NOT_SUPPORTED, "stand-in: states");
  if (const auto bad =
          check_call(handle, rnn, x, y, weight_bytes, temporary_size, reserve_bytes, true);
      bad != CUDNN_STATUS_SUCCESS)
    return bad;
  Work work = work_of(rnn, x, 1);
  work.operands = {reads(x_at, x.bytes(), "x"), reads(y_at, y.bytes(), "y"),
                   updates(dweights_at, weight_bytes, "dweights"),
                   scratch(temporary, temporary_size), reads(reserve_at, reserve_bytes, "reserve")};
  work.compute = [=, rnn = rnn, x = x] {
    const Type type = type_of(rnn.data);
    Reserve reserve(rnn, x.steps, x.batch, static_cast<float*>(reserve_at));
    if (reserve.mark() != after_data)
      violation("reserve", "the reserve of an rnn's gradient of weights is not of that of data");
    std::vector<float> dweights = load_all(type, dweights_at, rnn.weights());
    backward_weights(rnn, x.steps, x.batch, load_all(type, x_at, x.count()), reserve, dweights);
    for (std::size_t i = 0; i < dweights.size(); ++i) store(type, dweights_at, i, dweights[i]);
  };
  return submit(handle, std::move(work));
}

}  // extern "C"
