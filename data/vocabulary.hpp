#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "core/enums.hpp"

// The closed lists of the vocabulary. The names are stable: they are in users' files, in JSON and
// in the corpus; new values are appended, never inserted.

namespace forecost {

/// What is computed of a layer. `backward` is the joint gradient where libraries have no split;
/// `training_step` is for imported tables that cannot tell the passes apart. A fused activation's
/// gradient belongs to backward_data, a bias gradient to backward_weights.
enum class Pass : std::uint8_t {
  forward,
  backward_data,
  backward_weights,
  backward,
  update,
  training_step
};
template <>
struct EnumNames<Pass> {
  static constexpr std::string_view kind = "pass";
  static constexpr std::array<std::string_view, 6> names{
      "forward", "backward_data", "backward_weights", "backward", "update", "training_step"};
};

/// What a network is run for.
enum class Mode : std::uint8_t { inference, training };
template <>
struct EnumNames<Mode> {
  static constexpr std::string_view kind = "mode";
  static constexpr std::array<std::string_view, 2> names{"inference", "training"};
};

enum class DType : std::uint8_t { f32, tf32, f16, bf16, f64, int8, fp8 };
template <>
struct EnumNames<DType> {
  static constexpr std::string_view kind = "dtype";
  static constexpr std::array<std::string_view, 7> names{"f32", "tf32", "f16", "bf16",
                                                         "f64", "int8", "fp8"};
};
/// Bytes of one element in memory.
constexpr double bytes_of(DType dtype) {
  constexpr std::array<double, 7> bytes{4, 4, 2, 2, 8, 1, 1};
  return bytes[static_cast<std::size_t>(dtype)];
}

enum class Optimizer : std::uint8_t {
  none,
  sgd,
  momentum,
  adagrad,
  adadelta,
  rmsprop,
  adam,
  adamw
};
template <>
struct EnumNames<Optimizer> {
  static constexpr std::string_view kind = "optimizer";
  static constexpr std::array<std::string_view, 8> names{
      "none", "sgd", "momentum", "adagrad", "adadelta", "rmsprop", "adam", "adamw"};
};

/// Whether operands were in the cache when a run began (MEASURING.md rule 4).
enum class CacheState : std::uint8_t { unknown, cold, hot };
template <>
struct EnumNames<CacheState> {
  static constexpr std::string_view kind = "cache state";
  static constexpr std::array<std::string_view, 3> names{"unknown", "cold", "hot"};
};

/// Who chose the algorithm: the library (`heuristic`), the best of repeated trials (`find`), or us.
enum class AlgorithmPolicy : std::uint8_t { unknown, heuristic, find, fixed };
template <>
struct EnumNames<AlgorithmPolicy> {
  static constexpr std::string_view kind = "algorithm policy";
  static constexpr std::array<std::string_view, 4> names{"unknown", "heuristic", "find", "fixed"};
};

/// How a time was taken.
enum class Protocol : std::uint8_t {
  host_clock,
  device_events,
  imported_host_overhead,
  virtual_clock
};
template <>
struct EnumNames<Protocol> {
  static constexpr std::string_view kind = "protocol";
  static constexpr std::array<std::string_view, 4> names{"host_clock", "device_events",
                                                         "imported_host_overhead", "virtual_clock"};
};

/// The one outcome of a measurement. Only `ok` rows train a model.
enum class Status : std::uint8_t {
  ok,
  unsupported,
  skipped_memory,
  out_of_memory,
  throttled,
  shared,
  implausible,
  timeout,
  crashed,
  failed
};
template <>
struct EnumNames<Status> {
  static constexpr std::string_view kind = "status";
  static constexpr std::array<std::string_view, 10> names{
      "ok",     "unsupported", "skipped_memory", "out_of_memory", "throttled",
      "shared", "implausible", "timeout",        "crashed",       "failed"};
};
/// Crashed, failed or timed out: these count towards exit code 5.
constexpr bool counts_as_failure(Status status) {
  return status == Status::timeout || status == Status::crashed || status == Status::failed;
}

/// Why sampling ended (MEASURING.md rule 6).
enum class StopReason : std::uint8_t { none, precise, noise_stable, time_budget, sample_budget };
template <>
struct EnumNames<StopReason> {
  static constexpr std::string_view kind = "stop reason";
  static constexpr std::array<std::string_view, 5> names{"none", "precise", "noise_stable",
                                                         "time_budget", "sample_budget"};
};

/// An activation fused into a layer.
enum class Activation : std::uint8_t { none, relu, tanh, sigmoid };
template <>
struct EnumNames<Activation> {
  static constexpr std::string_view kind = "activation";
  static constexpr std::array<std::string_view, 4> names{"none", "relu", "tanh", "sigmoid"};
};

/// Between which memories a task's bytes move, and so at which of a device's rates.
enum class Traffic : std::uint8_t { memory, host_link, interconnect };

/// Layers of a family are limited alike; what a model is told of them is up to its schemas.
enum class Family : std::uint8_t {
  gemm,
  convolution,
  memory_bound,
  recurrent,
  attention,
  collective
};
template <>
struct EnumNames<Family> {
  static constexpr std::string_view kind = "family";
  static constexpr std::array<std::string_view, 6> names{"gemm",      "convolution", "memory_bound",
                                                         "recurrent", "attention",   "collective"};
};

}  // namespace forecost
