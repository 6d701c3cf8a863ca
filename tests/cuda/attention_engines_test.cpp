#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "cuda/module/attention_graph.hpp"
#include "cuda/module/cudnn_descriptors.hpp"

// Whether the real cuDNN has engines for our graphs of fused attention, without a device: the
// library plans for a device that is described to it. An engine that cannot be loaded here, for
// want of a driver, has been found and compiled.

namespace forecost::cuda {
namespace {

struct Described {
  const char* name;
  int capability, multiprocessors, shared_bytes;
};

/// In the format in which cuDNN 9.19 writes and reads the properties of a device.
std::string json_of(const Described& d) {
  return R"({"deviceName": ")" + std::string(d.name) + R"(", "deviceVer": )" +
         std::to_string(d.capability) + R"(, "multiProcessorCount": )" +
         std::to_string(d.multiprocessors) + R"(, "maxSharedMemoryPerBlockOptin": )" +
         std::to_string(d.shared_bytes) +
         R"(, "cudaDeviceId": 0, "driverVer": 13000, "totalGlobalMem": 42949672960,
            "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
            "regsPerBlock": 65536, "warpSize": 32, "maxSharedMemoryPerBlock": 49152,
            "reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536, "maxCtasPerSM": 32,
            "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "pciDeviceId": 0,
            "isTccDriver": 0, "supportCoopLaunch": 1, "smClockRateKHz": 1500000,
            "memClockRateKHz": 1500000, "l2CacheSize": 41943040})";
}

constexpr std::array devices{
    Described{"NVIDIA A100", 800, 108, 166912}, Described{"NVIDIA L40S", 890, 142, 101376},
    Described{"NVIDIA H100", 900, 132, 232448}, Described{"NVIDIA B200", 1000, 148, 232448}};

class Device {
 public:
  explicit Device(const Described& described) : device_(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR) {
    const std::string json = json_of(described);
    check(cudnnBackendSetAttribute(device_.get(), CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                   CUDNN_TYPE_CHAR, static_cast<std::int64_t>(json.size()),
                                   json.data()),
          "describing a device to cuDNN");
    device_.finalize("describing a device to cuDNN");
  }

  /// As CompiledGraph asks for them, of the described device.
  std::vector<GraphDescriptor> engines(const Attention& attention) {
    OperationGraph graph = attention_graph(attention, cudnnGetVersion());
    GraphDescriptor operations(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    operations.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, graph.operations());
    operations.finalize("a graph of attention");
    GraphDescriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, operations);
    heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_HEUR_MODE_A);
    heuristics.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, device_);
    heuristics.finalize("heuristics for a graph of attention");
    std::vector<GraphDescriptor> found;
    found.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    cudnnBackendDescriptor_t first = found[0].get();
    std::int64_t count = 0;
    check(cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                   CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &first),
          "asking for engines of attention");
    if (count == 0) found.clear();
    return found;
  }

  cudnnStatus_t compile(const GraphDescriptor& engine) {
    GraphDescriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engine);
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, device_);
    return plan.try_finalize();
  }

 private:
  GraphDescriptor device_;
};

class AttentionEngines : public testing::TestWithParam<Described> {};

constexpr Attention base{Direction::forward, Element::f16, 0, 2, 4, 512, 512, 64, 0};

Attention with(auto... changes) {
  Attention attention = base;
  (changes(attention), ...);
  return attention;
}

constexpr auto training = [](Attention& a) { a.training = 1; };
constexpr auto backward = [](Attention& a) { a.direction = Direction::backward; };
constexpr auto causal = [](Attention& a) { a.causal = 1; };
constexpr auto bf16 = [](Attention& a) { a.element = Element::bf16; };
/// Keys before the first query, as when a text is continued.
constexpr auto longer_keys = [](Attention& a) { a.key_length = 1024; };
/// Of a vision transformer.
constexpr auto odd = [](Attention& a) { a.query_length = a.key_length = 197; };
constexpr auto wide = [](Attention& a) { a.head_features = 128; };

TEST_P(AttentionEngines, ThereIsOneForEachPass) {
  Device device(GetParam());
  for (const Attention& attention :
       {base, with(training), with(backward), with(causal), with(training, causal),
        with(backward, causal), with(causal, longer_keys), with(training, causal, longer_keys),
        with(backward, causal, longer_keys), with(bf16, training, odd), with(bf16, backward, odd),
        with(wide, training), with(wide, backward)}) {
    EXPECT_EQ(device.engines(attention).size(), 1)
        << (attention.direction == Direction::forward ? "forward" : "backward") << ", training "
        << attention.training << ", causal " << attention.causal << ", " << attention.query_length
        << " x " << attention.key_length << " x " << attention.head_features;
  }
}

TEST_P(AttentionEngines, ThereIsNoneForHeadsThatAreNoMultipleOfEight) {
  EXPECT_TRUE(Device(GetParam()).engines(with([](Attention& a) { a.head_features = 60; })).empty());
}

TEST(AttentionGraph, CompilesToKernels) {
  Device device(devices[2]);
  for (const Attention& attention : {with(training, causal), with(backward, causal)}) {
    const auto found = device.engines(attention);
    ASSERT_EQ(found.size(), 1);
    const cudnnStatus_t status = device.compile(found[0]);
    EXPECT_TRUE(status == CUDNN_STATUS_SUCCESS ||
                status == CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER)
        << words_of(status);
  }
}

TEST(AttentionGraph, IsRefusedWhereOldLibrariesHaveNone) {
  EXPECT_NO_THROW(attention_graph(with(causal, odd, longer_keys), 90600));
  EXPECT_THROW(attention_graph(with(causal, odd, longer_keys), 90500), Failure);
  EXPECT_NO_THROW(attention_graph(with(backward, odd), 91600));
  EXPECT_THROW(attention_graph(with(backward, odd), 91500), Failure);
  EXPECT_THROW(attention_graph(with([](Attention& a) { a.element = Element::f32; }), 91900),
               Failure);
}

INSTANTIATE_TEST_SUITE_P(Devices, AttentionEngines, testing::ValuesIn(devices),
                         [](const auto& device) {
                           return "sm_" + std::to_string(device.param.capability / 10);
                         });

}  // namespace
}  // namespace forecost::cuda
