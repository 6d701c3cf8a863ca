#pragma once

#include <cstddef>
#include <cstdint>

// The boundary between the program and the CUDA module, forecost-cuda<major>.so, which is opened at
// run time: plain structs and one table of functions. No exception, no type of the standard library
// and nothing of core crosses it. Both sides include this file and nothing else of each other.
//
// The module knows devices, memory, *primitives* (one call of a library, or one kernel) and
// *sequences* of them, which it runs and times. Which primitives make an operator is said on the
// program's side, in operators/.

namespace forecost::cuda {

/// Raised by every change of this file; a module of another number is refused.
inline constexpr std::uint32_t interface_version = 3;

enum class Code : std::int32_t {
  ok,
  unsupported,    ///< the library has no such thing here: the message says what
  out_of_memory,  ///< device or pinned memory
  no_driver,      ///< absent, or too old for the module's runtime
  no_device,
  poisoned,   ///< a sticky error: nothing that is asked of this process's device will be answered
  peer_lost,  ///< another rank of a communicator did not answer in time, or died; it is of no use
              ///< now
  failed
};
/// Of every call. `message` is one line, empty where code is ok.
struct Outcome {
  Code code;
  char message[500];
};

enum class Element : std::int32_t { f32, f16, bf16, f64, i64, u8 };
constexpr std::int64_t bytes_of(Element element) {
  switch (element) {
    case Element::f32:
      return 4;
    case Element::f16:
    case Element::bf16:
      return 2;
    case Element::f64:
    case Element::i64:
      return 8;
    case Element::u8:
      break;
  }
  return 1;
}
/// Of images, and of convolution weights: KCRS in nchw, KRSC in nhwc.
enum class Layout : std::int32_t { nchw, nhwc };
/// As AlgorithmPolicy without unknown.
enum class Policy : std::int32_t { heuristic, find, fixed };
enum class Direction : std::int32_t { forward, backward_data, backward_weights, backward };

// --- primitives: each with its tensors, in the order in which a Step names them ---

enum class Kind : std::int32_t {
  empty,  ///< a kernel that does nothing; no tensors
  copy,
  read,
  convolution,
  gemm,
  pooling,
  batch_norm,
  softmax,
  activation,
  dropout,
  rnn,
  attention,
  layer_norm,
  elementwise,
  bias_activation,
  embedding,
  reduce,
  optimizer,
  pad,
  all_reduce
};

/// Copies `bytes` from tensors {source, destination}, device or host memory.
struct Copy {
  std::int64_t bytes;
};

/// Reads `bytes` `repeats` times over with the whole device, writes next to nothing. {source, sink
/// of 8 bytes}.
struct Read {
  std::int64_t bytes, repeats;
};

struct Image {
  std::int64_t n, c, h, w;
};
/// Padding is the same on opposite sides, as cuDNN's descriptors have it; see Pad for other.
struct Window {
  std::int64_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
};

/// forward {x, w, y}; backward_data {w, dy, dx}; backward_weights {x, dy, dw}. Weights of
/// out_channels x c / groups x kernel.
struct Convolution {
  Direction direction;
  Element element;
  std::int32_t tf32;  ///< of f32 elements: products in TF32
  Layout layout;
  Image in;
  std::int64_t out_channels, out_h, out_w, groups;
  Window window;
  Policy policy;
  std::int32_t fixed_algorithm;  ///< cuDNN's number, of policy fixed
  std::int64_t workspace_limit_bytes;
};

enum class Epilogue : std::int32_t {
  none,
  bias,      ///< fourth tensor: n elements, added to each row of C
  relu,      ///< of C
  relu_bias  ///< of C with bias
};
/// C = alpha op(A) op(B) for each of `batch` triples of dense row-major matrices: C of m x n, op(A)
/// of m x k, op(B) of k x n; a transposed one lies as k x m or n x k. {a, b, c, bias or nullptr}.
struct Gemm {
  Element element;
  std::int32_t tf32;
  std::int64_t batch, m, n, k;
  std::int32_t transpose_a, transpose_b;
  double alpha;
  Epilogue epilogue;
  Policy policy;
  std::int32_t fixed_algorithm;  ///< of policy fixed: the rank in the library's own list
  std::int64_t workspace_limit_bytes;
};

/// forward {x, y}; backward {x, y, dy, dx}. A mean is of the elements that are not padding. Padding
/// at the end is what out_h and out_w leave of it, so that it may be another than at the beginning.
struct Pooling {
  Direction direction;
  Element element;
  Layout layout;
  Image in;
  std::int64_t out_h, out_w;
  Window window;  ///< dilation is 1
  std::int32_t maximum;
};

/// forward of training {x, scale, shift, y, mean, inverse_deviation, reserve}, the last three are
/// written; forward with stored statistics {x, scale, shift, mean, variance, y};
/// backward of training {x, dy, scale, mean, inverse_deviation, dx, dscale, dshift, reserve};
/// backward with stored statistics {x, dy, scale, mean, variance, dx, dscale, dshift}.
/// Parameters and statistics are c f32 numbers. `reserve` is PlanInfo::reserve_bytes, which is what
/// the fast kernels of nhwc hand from forward to backward; nullptr where that is 0.
struct BatchNorm {
  Direction direction;
  std::int32_t training;
  Element element;
  Layout layout;
  Image image;
  double epsilon;
};

/// Of each of `rows` rows. forward {x, y}; backward {y, dy, dx}. Where `causal_queries` is not 0,
/// rows are that many queries, again and again, and each sees the columns up to its own place, the
/// queries being the last ones of the columns; what it does not see becomes 0.
struct Softmax {
  Direction direction;
  Element element;
  std::int64_t rows, columns, causal_queries;
};

/// As ActivationFunction.
enum class Function : std::int32_t { relu, tanh, sigmoid, gelu, silu, none };
/// forward {x, y}; backward {x, y, dy, dx}: one that needs only x, or only y, does not look at the
/// other, which may be nullptr: relu, tanh and sigmoid take y, gelu and silu x.
struct Activation {
  Direction direction;
  Element element;
  std::int64_t count;
  Function function;
};

/// forward {x, y, reserve}; backward {dy, dx, reserve}. `reserve` is PlanInfo::reserve_bytes.
struct Dropout {
  Direction direction;
  Element element;
  std::int64_t count;
  double probability;  ///< of an element to become 0
  std::uint64_t seed;
};

/// As RnnCell.
enum class Cell : std::int32_t { vanilla, lstm, gru };
/// Sequences of equal length, time-major (steps x batch x features); vanilla has tanh. First states
/// are zero. forward {x, weights, y, reserve or nullptr (inference)}; backward, data and weights
/// together {x, y, dy, weights, reserve of the forward pass, dx, dweights}. `weights` is
/// PlanInfo::weight_bytes, see RnnRegion.
struct Rnn {
  Direction direction;
  Element element;
  std::int32_t tf32;
  std::int32_t training;  ///< forward writes a reserve
  std::int64_t batch, steps, in_features, hidden_features, layers;
  std::int32_t bidirectional;
  Cell cell;
};
/// One matrix or bias of the weight space of an Rnn, dense and row-major.
struct RnnRegion {
  std::int32_t layer;    ///< pseudo-layer: layers x directions
  std::int32_t gate;     ///< cuDNN's linLayerID
  std::int32_t is_bias;  ///< columns is 1
  std::int64_t offset_bytes, rows, columns;
};

/// Fused attention. forward {q, k, v, o, statistics or nullptr (inference)}; backward {q, k, v, o,
/// do, statistics, dq, dk, dv}. Tensors are batch x heads x length x head_features; statistics
/// batch x heads x query_length f32. Scaled by 1 / sqrt head_features.
struct Attention {
  Direction direction;
  Element element;
  std::int32_t training;  ///< forward writes statistics
  std::int64_t batch, heads, query_length, key_length, head_features;
  std::int32_t causal;
};

/// forward {x, scale, shift, y, mean, inverse_deviation}; backward {x, dy, scale, mean,
/// inverse_deviation, dx, dscale, dshift}. Without affine, scale and the like are nullptr.
/// Parameters are f32 with f32 elements, else of the element type; statistics are f32.
struct LayerNorm {
  Direction direction;
  Element element;
  std::int64_t rows, features;
  std::int32_t affine;
  double epsilon;
};

/// As ElementwiseOperation.
enum class Operation : std::int32_t { add, subtract, multiply, divide, power };
/// forward {a, b or nullptr, y}; backward {a, b, y, dy, da, db}: those that the gradient does not
/// need are not looked at and may be nullptr. `scalar` instead of b where b_is_scalar.
struct Elementwise {
  Direction direction;
  Element element;
  std::int64_t count;
  Operation operation;
  std::int32_t b_is_scalar;
  double scalar;
};

/// Elements are n x c x spatial (nchw) or n x spatial x c (nhwc, and rows of dense layers with
/// spatial 1). forward {y, bias or nullptr}: y = function(y + bias) in place. backward {y, dy, dz}:
/// dz = dy function'(y).
struct BiasActivation {
  Direction direction;
  Element element;
  Layout layout;
  std::int64_t n, c, spatial;
  Function function;
};

/// forward {ids (i64), table, y}; backward {ids, dy, dtable}: zeroed, then summed.
struct Embedding {
  Direction direction;
  Element element;
  std::int64_t count, entries, features;
};

enum class Reduction : std::int32_t { sum, mean, max };
/// Of x, outer x reduced x inner, over the middle. forward {x, y}; backward {x, y, dy, dx}: max
/// gives the gradient to the first largest one; x and y matter to max only.
struct Reduce {
  Direction direction;
  Element element;
  std::int64_t outer, reduced, inner;
  Reduction reduction;
};

/// As Optimizer. One step over {parameters, gradient, first or nullptr, second or nullptr}, in
/// place; state is f32.
struct OptimizerStep {
  std::int32_t optimizer;
  Element element;
  std::int64_t count;
};

/// forward {x, y}: copies an image into one with zeros around it; backward {dy, dx}: cuts it out
/// again. `padded_*` is the larger image.
struct Pad {
  Direction direction;
  Element element;
  Layout layout;
  Image in;
  std::int64_t top, left, padded_h, padded_w;
};

struct Communicator;
/// The sum over the ranks of a communicator. {source, destination}, which may be the same.
struct AllReduce {
  Communicator* communicator;
  Element element;
  std::int64_t count;
};

struct Primitive {
  Kind kind;
  union {
    Copy copy;
    Read read;
    Convolution convolution;
    Gemm gemm;
    Pooling pooling;
    BatchNorm batch_norm;
    Softmax softmax;
    Activation activation;
    Dropout dropout;
    Rnn rnn;
    Attention attention;
    LayerNorm layer_norm;
    Elementwise elementwise;
    BiasActivation bias_activation;
    Embedding embedding;
    Reduce reduce;
    OptimizerStep optimizer;
    Pad pad;
    AllReduce all_reduce;
  };
};

// --- devices, plans, sequences ---

struct DeviceFacts {
  char name[256];  ///< "NVIDIA H200", of a MIG slice with its profile
  char uuid[64];   ///< "GPU-..." or "MIG-..."
  char pci[32];    ///< "0000:1b:00.0"
  std::int32_t capability_major, capability_minor;
  std::int64_t memory_bytes, multiprocessors, l2_bytes, bus_width_bits;
  double clock_hz, memory_clock_hz;  ///< 0 where the driver does not tell
  std::int32_t ecc, integrated;
};

struct Versions {
  std::int32_t runtime, driver;  ///< 13000 for 13.0; driver 0 where there is none
  std::int32_t cudnn, cudnn_headers, cublas_lt, nccl;  ///< as the libraries count; 0: not loaded
  std::int32_t lowest_capability;  ///< 75 for sm_75: what the module was built for
};

struct Context;
struct Plan;
struct Sequence;

struct PlanInfo {
  /// "cudnn:conv_fwd_algo_1:tensor_op:nchw", "forecost:layer_norm": what runs, as read back.
  char implementation[120];
  std::int64_t workspace_bytes;
  std::int64_t reserve_bytes;  ///< what forward leaves for backward, where a library sizes it
  std::int64_t weight_bytes;   ///< of Rnn
  /// The last bits of a result may change from run to run: sums by atomic additions.
  std::int32_t nondeterministic;
};

/// Of elements, and of their absolute values.
struct Sums {
  double total, magnitude;
};

inline constexpr int most_tensors = 10;
struct Step {
  Plan* plan;
  void* tensors[most_tensors];
};

enum class Space : std::int32_t { device, pinned_host };

/// How the runs of a sample reach the device.
enum class Launch : std::int32_t {
  direct,  ///< one by one, as a framework does
  graph    ///< all runs as one captured graph
};

struct Timing {
  double device_s;  ///< between two events on the stream, all runs together
  double host_s;    ///< launch to completion
  Launch launch;    ///< direct where the sequence could not be captured
};

// --- ranks that add up together, each with a GPU of its own ---

/// Made by one rank and told to the others, in whatever way they have.
struct CommunicatorId {
  char bytes[128];
};
enum class Combine : std::int32_t { sum, max };

// --- training of perceptrons ---

struct Trainer;
enum class TrainingLoss : std::int32_t { absolute, squared };
/// What products are computed in. Parameters, moments, gradients and their sums are f32.
enum class Precision : std::int32_t { f32, tf32, bf16 };

/// `networks` perceptrons of one shape, ReLU between layers and one linear output, trained side by
/// side on the same rows. Layer l maps widths[l] to widths[l + 1]; its weights (in x out,
/// row-major) begin at weights_at[l] of a network's `parameters` f32 numbers, its bias at
/// bias_at[l]; network follows network.
struct TrainingSetup {
  std::int32_t layers;
  const std::int64_t *widths, *weights_at, *bias_at;
  std::int64_t parameters, networks;
  std::int64_t rows;
  const float *x, *y;  ///< of the host: rows x widths[0], rows
  std::int64_t batch;  ///< rows of a step, of all ranks together
  TrainingLoss loss;
  double huber_delta, dropout;
  Precision precision;
};
/// One pass over the rows. The last step may have fewer.
struct TrainingEpoch {
  const std::uint32_t* order;          ///< networks x rows
  const std::uint64_t* dropout_seeds;  ///< of each network
  const void* factors;                 ///< AdamFactors (core/training_rules.hpp) of each step
  std::int64_t steps;
};

struct ModuleTable {
  std::uint32_t interface_version;
  const char* build;  ///< of the sources, must be the program's own
  void (*versions)(Versions*);
  /// Code::no_driver or no_device where there is none. Does not create a context.
  Outcome (*count_devices)(std::int32_t* count);
  Outcome (*describe_device)(std::int32_t index, DeviceFacts* facts);
  /// One context at a time and process.
  Outcome (*open)(std::int32_t index, Context** context);
  void (*close)(Context*);

  Outcome (*free_memory)(Context*, std::int64_t* bytes);
  Outcome (*allocate)(Context*, Space, std::int64_t bytes, void** memory);
  void (*release)(Context*, Space, void* memory);
  /// Uniform in [low, high), rounded to the element; the same for a seed everywhere.
  Outcome (*fill_uniform)(Context*, void* memory, Element, std::int64_t count, double low,
                          double high, std::uint64_t seed);
  /// i64 of [0, bound).
  Outcome (*fill_indices)(Context*, void* memory, std::int64_t count, std::int64_t bound,
                          std::uint64_t seed);
  Outcome (*zero)(Context*, void* memory, std::int64_t bytes);
  /// Reads elements as f64 into host memory.
  Outcome (*read)(Context*, const void* memory, Element, std::int64_t count, double* values);
  /// In a fixed order; NaN or infinite if any element is.
  Outcome (*sum)(Context*, const void* memory, Element, std::int64_t count, Sums* sums);

  /// Chooses the algorithm; allocates nothing that lives on but the plan. `find` may run trials.
  Outcome (*plan)(Context*, const Primitive*, Plan**, PlanInfo*);
  void (*drop_plan)(Plan*);
  /// Of a plan of Rnn: at most `room` regions, `count` in all.
  Outcome (*rnn_regions)(Plan*, RnnRegion* regions, std::int32_t room, std::int32_t* count);

  /// `workspace` serves all steps, one after another. The plans must outlive the sequence.
  Outcome (*prepare)(Context*, const Step*, std::int32_t count, void* workspace,
                     std::int64_t workspace_bytes, Sequence**);
  void (*drop_sequence)(Sequence*);
  /// Runs and waits. `hold` keeps the stream busy until all is queued, so that gaps between
  /// launches are not timed; host_s is then without meaning. A graph is captured, untimed, when
  /// `runs` differs from the last call's.
  Outcome (*run)(Sequence*, std::int64_t runs, Launch, std::int32_t hold, Timing*);

  Outcome (*communicator_id)(CommunicatorId*);
  /// Waits for all `size` ranks. From then on whatever waits for the context's stream also watches
  /// the communicator, and gives up on it (Code::peer_lost) after `timeout_s` without an answer.
  Outcome (*open_communicator)(Context*, const CommunicatorId*, std::int32_t rank,
                               std::int32_t size, double timeout_s, Communicator**);
  void (*close_communicator)(Communicator*);
  /// In place, of host memory, element by element over all ranks; waits. The caller sees to it that
  /// all ranks have the same count.
  Outcome (*combine)(Communicator*, void* host_values, Element, std::int64_t count, Combine);
  Outcome (*broadcast)(Communicator*, void* host_values, std::int64_t bytes, std::int32_t root);

  /// The ranks of `communicator` (nullptr: this one alone) share each batch. Copies x and y.
  Outcome (*open_trainer)(Context*, Communicator* communicator, const TrainingSetup*, Trainer**);
  void (*close_trainer)(Trainer*);
  /// networks x parameters each, of the host.
  Outcome (*load_trainer)(Trainer*, const float* parameters, const float* first_moment,
                          const float* second_moment);
  Outcome (*store_trainer)(Trainer*, float* parameters, float* first_moment, float* second_moment);
  /// `loss`: summed over this rank's rows of all networks; not finite if the training diverged.
  Outcome (*train_epoch)(Trainer*, const TrainingEpoch*, double* loss);

  /// Overwrites a buffer of this size on the stream, so that L2 holds nothing else; waits.
  Outcome (*flush)(Context*, std::int64_t bytes);
  /// Keeps the device busy for this long, by its own clock; waits.
  Outcome (*spin)(Context*, double seconds, double* device_s);
};

/// The one symbol of the module. nullptr for another interface_version.
extern "C" const ModuleTable* forecost_cuda_module(std::uint32_t interface_version);
inline constexpr const char* module_symbol = "forecost_cuda_module";

}  // namespace forecost::cuda
