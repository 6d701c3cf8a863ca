#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "cuda/module/counter_hash.hpp"
#include "tests/cuda/module_process.hpp"

// The core of the CUDA module, through its table and over the stand-in, which also watches the
// protocol: what is left over, out of place or between the events of a sample fails a test.

namespace forecost::cuda::tests {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

constexpr Element floating[] = {Element::f32, Element::f16, Element::bf16};
/// Half the distance between neighbouring numbers around 1.
double rounding_of(Element element) {
  return element == Element::f32 ? 0x1p-24 : element == Element::f16 ? 0x1p-11 : 0x1p-8;
}

Primitive empty() { return Primitive{.kind = Kind::empty, .copy = {}}; }

Gemm product(std::int64_t m, std::int64_t n, std::int64_t k) {
  return {.element = Element::f32,
          .tf32 = 0,
          .batch = 1,
          .m = m,
          .n = n,
          .k = k,
          .transpose_a = 0,
          .transpose_b = 0,
          .alpha = 1,
          .epilogue = Epilogue::none,
          .policy = Policy::heuristic,
          .fixed_algorithm = 0,
          .workspace_limit_bytes = 32 << 20};
}
Primitive primitive_of(const Gemm& gemm) { return {.kind = Kind::gemm, .gemm = gemm}; }

Outcome planned(const ModuleTable& module, Context* context, const Primitive& primitive,
                PlanInfo& info) {
  Plan* plan = nullptr;
  const Outcome outcome = module.plan(context, &primitive, &plan, &info);
  if (plan != nullptr) module.drop_plan(plan);
  return outcome;
}

// --- devices ---

TEST(Module, TellsWhatDevicesThereAre) {
  const json standin{{"devices",
                      {{{"name", "NVIDIA A"},
                        {"uuid", "GPU-00112233-4455-6677-8899-aabbccddeeff"},
                        {"pci", "0000:1B:00.0"},
                        {"multiprocessors", 77},
                        {"capability", {8, 6}},
                        {"l2_bytes", 1 << 20},
                        {"bus_width_bits", 384},
                        {"clock_hz", 1.5e9},
                        {"memory_clock_hz", 2e9},
                        {"memory_bytes", 1 << 30},
                        {"ecc", false}},
                       {{"name", "NVIDIA A MIG 1g.5gb"},
                        {"uuid", "MIG-10112233-4455-6677-8899-aabbccddeeff"},
                        {"parent", "GPU-00112233-4455-6677-8899-aabbccddeeff"}}}}};
  expect_clean(
      [](const ModuleTable& module) {
        std::int32_t count = 0;
        ASSERT_EQ(failure_of(module.count_devices(&count)), "");
        ASSERT_EQ(count, 2);
        DeviceFacts first{}, second{}, none{};
        ASSERT_EQ(failure_of(module.describe_device(0, &first)), "");
        EXPECT_STREQ(first.name, "NVIDIA A");
        EXPECT_STREQ(first.uuid, "GPU-00112233-4455-6677-8899-aabbccddeeff");
        EXPECT_STREQ(first.pci, "0000:1b:00.0");
        EXPECT_EQ(first.capability_major, 8);
        EXPECT_EQ(first.capability_minor, 6);
        EXPECT_EQ(first.multiprocessors, 77);
        EXPECT_EQ(first.l2_bytes, 1 << 20);
        EXPECT_EQ(first.bus_width_bits, 384);
        EXPECT_EQ(first.memory_bytes, 1 << 30);
        EXPECT_DOUBLE_EQ(first.clock_hz, 1.5e9);
        EXPECT_DOUBLE_EQ(first.memory_clock_hz, 2e9);
        EXPECT_EQ(first.ecc, 0);
        ASSERT_EQ(failure_of(module.describe_device(1, &second)), "");
        EXPECT_STREQ(second.uuid, "MIG-10112233-4455-6677-8899-aabbccddeeff");
        EXPECT_EQ(module.describe_device(2, &none).code, Code::no_device);
      },
      standin);
}

TEST(Module, SaysWhyThereIsNoDevice) {
  const auto code_with = [](const json& standin, Code code) {
    const Ended ended = in_process(standin, [code](const ModuleTable& module) {
      std::int32_t count = 7;
      const Outcome outcome = module.count_devices(&count);
      EXPECT_EQ(outcome.code, code);
      EXPECT_STRNE(outcome.message, "");
      EXPECT_EQ(count, 0);
      Context* context = nullptr;
      EXPECT_EQ(module.open(0, &context).code, code);
      EXPECT_EQ(context, nullptr);
      Versions versions{};
      module.versions(&versions);
      EXPECT_GT(versions.runtime, 0);
    });
    EXPECT_EQ(ended.status, 0);
  };
  code_with({{"driver_version", 0}}, Code::no_driver);
  code_with({{"driver_version", 11000}}, Code::no_driver);
  code_with({{"devices", json::array()}}, Code::no_device);
}

TEST(Module, TellsVersions) {
  expect_clean([](const ModuleTable& module) {
    EXPECT_EQ(module.interface_version, interface_version);
    EXPECT_STRNE(module.build, "");
    Versions versions{};
    module.versions(&versions);
    EXPECT_EQ(versions.runtime / 1000, FORECOST_CUDA_MAJOR);
    EXPECT_GE(versions.driver, versions.runtime);
    EXPECT_EQ(versions.cudnn / 10000, 9);
    EXPECT_EQ(versions.cudnn_headers / 10000, 9);
    EXPECT_GT(versions.cublas_lt, 0);
    EXPECT_GT(versions.nccl, 0);
    EXPECT_GE(versions.lowest_capability, 50);
  });
}

TEST(Module, OpensCublasLtLate) {
  expect_clean([](const ModuleTable& module) {
    const std::string name = "libcublasLt.so." + std::to_string(FORECOST_CUDA_MAJOR);
    Device device(module);
    device.run(empty(), {});
    EXPECT_EQ(dlopen(name.c_str(), RTLD_NOW | RTLD_NOLOAD), nullptr);
    device.plan(primitive_of(product(4, 4, 4)));
    EXPECT_NE(dlopen(name.c_str(), RTLD_NOW | RTLD_NOLOAD), nullptr);
  });
}

// --- memory ---

TEST(Module, FillsWithTheSameNumbersEverywhere) {
  expect_clean([](const ModuleTable& module) {
    Device device(module);
    constexpr std::int64_t count = 1000;
    for (const Element element : floating) {
      const auto values = device.values(device.random(element, count, 5, -2, 3), element, count);
      for (std::int64_t i = 0; i < count; ++i) {
        const double expected = counter_uniform(5, static_cast<std::uint64_t>(i), -2, 3);
        ASSERT_NEAR(values[static_cast<std::size_t>(i)], expected,
                    rounding_of(element) * std::max(std::abs(expected), 1e-3) * 1.01)
            << "element " << static_cast<int>(element) << ", place " << i;
      }
    }
    void* const ids = device.allocate(8 * count);
    ASSERT_EQ(failure_of(module.fill_indices(device.context(), ids, count, 10, 3)), "");
    const auto values = device.values(ids, Element::i64, count);
    EXPECT_EQ(std::set<double>(values.begin(), values.end()).size(), 10U);
    for (const double value : values) ASSERT_TRUE(value >= 0 && value < 10);
    EXPECT_EQ(module.fill_indices(device.context(), ids, count, 0, 3).code, Code::failed);
    EXPECT_EQ(module.fill_uniform(device.context(), ids, Element::u8, count, 0, 1, 3).code,
              Code::failed);

    ASSERT_EQ(failure_of(module.zero(device.context(), ids, 8 * count)), "");
    EXPECT_EQ(device.values(ids, Element::i64, count), std::vector<double>(count, 0.0));
  });
}

TEST(CounterHash, IsSplitMix) {
  // The first numbers of the published generator from seed 1234567.
  EXPECT_EQ(counter_hash(1234567, 0), 6457827717110365317U);
  EXPECT_EQ(counter_hash(1234567, 1), 3203168211198807973U);
  EXPECT_EQ(counter_hash(1234567, 2), 9817491932198370423U);
}

TEST(Module, SumsInAFixedOrder) {
  expect_clean([](const ModuleTable& module) {
    Device device(module);
    const auto sum_of = [&](const void* memory, Element element, std::int64_t count) {
      Sums sums{-1, -1};
      EXPECT_EQ(failure_of(module.sum(device.context(), memory, element, count, &sums)), "");
      return sums;
    };
    for (const Element element : floating) {
      for (const std::int64_t count : {1, 255, 257, 40000}) {
        void* const memory = device.random(element, count, 9);
        Sums expected{};
        for (const double value : device.values(memory, element, count)) {
          expected.total += value;
          expected.magnitude += std::fabs(value);
        }
        const Sums sums = sum_of(memory, element, count);
        EXPECT_NEAR(sums.total, expected.total, 1e-12 * static_cast<double>(count));
        EXPECT_NEAR(sums.magnitude, expected.magnitude, 1e-12 * static_cast<double>(count));
        EXPECT_EQ(sums.total, sum_of(memory, element, count).total);
      }
    }
    EXPECT_EQ(sum_of(device.of(Element::i64, {1, 2, 1e15}), Element::i64, 3).total, 1e15 + 3);
    EXPECT_EQ(sum_of(device.of(Element::f64, {0.1, -0.3}), Element::f64, 2).magnitude, 0.1 + 0.3);
    EXPECT_EQ(sum_of(device.of(Element::u8, {1, 2, 255}), Element::u8, 3).total, 258);
    std::vector<double> spoilt(5000, 1.0);
    spoilt[4321] = std::numeric_limits<double>::quiet_NaN();
    EXPECT_TRUE(std::isnan(sum_of(device.of(Element::f32, spoilt), Element::f32, 5000).total));
    spoilt[4321] = std::numeric_limits<double>::infinity();
    EXPECT_TRUE(std::isinf(sum_of(device.of(Element::f16, spoilt), Element::f16, 5000).total));
    spoilt[17] = -spoilt[4321];
    EXPECT_FALSE(
        std::isfinite(sum_of(device.of(Element::bf16, spoilt), Element::bf16, 5000).total));
  });
}

TEST(Module, ReadsAndCopiesBetweenDeviceAndHost) {
  expect_clean([](const ModuleTable& module) {
    Device device(module);
    for (const Element element : floating) {
      EXPECT_EQ(device.values(device.of(element, {1, -0.5, 0.25}), element, 3),
                (std::vector<double>{1, -0.5, 0.25}));
    }
    // More than is staged at once.
    constexpr std::int64_t count = (1 << 20) + 3;
    void* const many = device.random(Element::f16, count, 1);
    const auto values = device.values(many, Element::f16, count);
    EXPECT_NEAR(values.back(), counter_uniform(1, count - 1, -1, 1), 1e-3);

    PlanInfo info{};
    const Primitive read{.kind = Kind::read, .read = {.bytes = 1 << 16, .repeats = 3}};
    info = device.run(read, {device.random(Element::f32, 1 << 14, 2), device.allocate(8)});
    EXPECT_STREQ(info.implementation, "forecost:read");
    const Primitive odd{.kind = Kind::read, .read = {.bytes = 100, .repeats = 3}};
    EXPECT_EQ(planned(module, device.context(), odd, info).code, Code::failed);

    std::int64_t before = 0, after = 0;
    ASSERT_EQ(failure_of(module.free_memory(device.context(), &before)), "");
    device.allocate(1 << 24);
    ASSERT_EQ(failure_of(module.free_memory(device.context(), &after)), "");
    EXPECT_GE(before - after, 1 << 24);
  });
}

// --- products ---

std::vector<double> product_by_hand(const Gemm& gemm, const std::vector<double>& a,
                                    const std::vector<double>& b, const std::vector<double>& bias) {
  std::vector<double> c;
  const auto at = [](const std::vector<double>& of, std::int64_t i) {
    return of[static_cast<std::size_t>(i)];
  };
  for (std::int64_t batch = 0; batch < gemm.batch; ++batch) {
    const std::int64_t first_a = batch * gemm.m * gemm.k, first_b = batch * gemm.k * gemm.n;
    for (std::int64_t i = 0; i < gemm.m; ++i) {
      for (std::int64_t j = 0; j < gemm.n; ++j) {
        double sum = 0;
        for (std::int64_t l = 0; l < gemm.k; ++l) {
          sum += at(a, first_a + (gemm.transpose_a != 0 ? l * gemm.m + i : i * gemm.k + l)) *
                 at(b, first_b + (gemm.transpose_b != 0 ? j * gemm.k + l : l * gemm.n + j));
        }
        sum *= gemm.alpha;
        if (gemm.epilogue == Epilogue::bias || gemm.epilogue == Epilogue::relu_bias) {
          sum += at(bias, j);
        }
        if (gemm.epilogue == Epilogue::relu || gemm.epilogue == Epilogue::relu_bias) {
          sum = std::max(sum, 0.0);
        }
        c.push_back(sum);
      }
    }
  }
  return c;
}

void expect_product(Device& device, const Gemm& gemm) {
  const std::int64_t a_count = gemm.batch * gemm.m * gemm.k, b_count = gemm.batch * gemm.k * gemm.n,
                     c_count = gemm.batch * gemm.m * gemm.n;
  void* const a = device.random(gemm.element, a_count, 1);
  void* const b = device.random(gemm.element, b_count, 2);
  void* const bias = device.random(gemm.element, gemm.n, 3);
  void* const c = device.allocate(c_count * 4);
  device.run(primitive_of(gemm), {a, b, c, bias});
  const auto expected = product_by_hand(gemm, device.values(a, gemm.element, a_count),
                                        device.values(b, gemm.element, b_count),
                                        device.values(bias, gemm.element, gemm.n));
  const auto values = device.values(c, gemm.element, c_count);
  // Of operands rounded once more, and of a result rounded.
  const double tolerance = (gemm.tf32 != 0 ? 0x1p-11 : rounding_of(gemm.element)) * 3 *
                           std::sqrt(static_cast<double>(gemm.k));
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_NEAR(values[i], expected[i], tolerance)
        << "place " << i << ", transposed " << gemm.transpose_a << gemm.transpose_b << ", epilogue "
        << static_cast<int>(gemm.epilogue) << ", element " << static_cast<int>(gemm.element);
  }
}

TEST(Module, MultipliesMatrices) {
  expect_clean([](const ModuleTable& module) {
    Device device(module);
    for (const Epilogue epilogue :
         {Epilogue::none, Epilogue::bias, Epilogue::relu, Epilogue::relu_bias}) {
      for (const int transposed : {0, 1, 2, 3}) {
        Gemm gemm = product(5, 7, 9);
        gemm.batch = transposed == 1 ? 3 : 1;
        gemm.transpose_a = transposed & 1;
        gemm.transpose_b = transposed >> 1;
        gemm.epilogue = epilogue;
        gemm.alpha = 0.5;
        expect_product(device, gemm);
      }
    }
    for (const Element element : floating) {
      Gemm gemm = product(33, 12, 40);
      gemm.element = element;
      gemm.epilogue = Epilogue::bias;
      expect_product(device, gemm);
    }
    Gemm gemm = product(1, 1, 30);
    gemm.tf32 = 1;
    expect_product(device, gemm);
  });
}

TEST(Module, RecordsTheAlgorithmOfAProductThatRuns) {
  expect_clean([](const ModuleTable& module) {
    Device device(module);
    PlanInfo info{};
    Gemm gemm = product(64, 64, 64);
    const auto name_with = [&] {
      EXPECT_EQ(failure_of(planned(module, device.context(), primitive_of(gemm), info)), "");
      return std::string(info.implementation);
    };
    const std::string heuristic = name_with();
    EXPECT_THAT(heuristic, MatchesRegex("cublaslt:algo_[0-9]+_tile_[0-9]+_stages_[0-9]+_splitk_"
                                        "[0-9]+:fma"));
    gemm.policy = Policy::fixed;
    EXPECT_EQ(name_with(), heuristic);
    gemm.fixed_algorithm = 1;
    EXPECT_NE(name_with(), heuristic);
    gemm.fixed_algorithm = 1000;
    const Outcome outcome = planned(module, device.context(), primitive_of(gemm), info);
    EXPECT_EQ(outcome.code, Code::unsupported);
    EXPECT_THAT(outcome.message, HasSubstr("none of rank 1000"));

    gemm = product(64, 64, 64);
    gemm.tf32 = 1;
    EXPECT_THAT(name_with(), ::testing::EndsWith(":tf32"));
    gemm.element = Element::bf16;
    EXPECT_THAT(name_with(), ::testing::EndsWith(":bf16"));
    gemm.element = Element::f16;
    EXPECT_THAT(name_with(), ::testing::EndsWith(":f16"));
    gemm.element = Element::i64;
    EXPECT_EQ(planned(module, device.context(), primitive_of(gemm), info).code, Code::unsupported);
  });
}

TEST(Module, FindsTheFastestAlgorithmOfAProduct) {
  expect_clean(
      [](const ModuleTable& module) {
        Device device(module);
        const auto seconds = [&](const Gemm& gemm, PlanInfo& info) {
          Step step{.plan = device.plan(primitive_of(gemm), &info), .tensors = {}};
          step.tensors[0] = device.random(gemm.element, gemm.m * gemm.k, 1);
          step.tensors[1] = device.random(gemm.element, gemm.k * gemm.n, 2);
          step.tensors[2] = device.allocate(gemm.m * gemm.n * 4);
          step.tensors[3] = device.random(gemm.element, gemm.n, 3);
          Sequence* const sequence = device.prepare({step}, info.workspace_bytes);
          Timing timing{};
          EXPECT_EQ(failure_of(module.run(sequence, 1, Launch::direct, 1, &timing)), "");
          return timing.device_s;
        };
        Gemm gemm = product(2048, 2048, 2048);
        gemm.epilogue = Epilogue::bias;
        double best_s = std::numeric_limits<double>::infinity();
        PlanInfo info{};
        gemm.policy = Policy::fixed;
        std::set<std::string> names;
        for (gemm.fixed_algorithm = 0; gemm.fixed_algorithm < 2; ++gemm.fixed_algorithm) {
          best_s = std::min(best_s, seconds(gemm, info));
          names.insert(info.implementation);
        }
        EXPECT_EQ(names.size(), 2U);
        gemm.policy = Policy::find;
        EXPECT_LE(seconds(gemm, info), best_s * 1.0001);

        // Within the limit of what a workspace may be.
        gemm.workspace_limit_bytes = 0;
        seconds(gemm, info);
        EXPECT_EQ(info.workspace_bytes, 0);
        EXPECT_THAT(info.implementation, StartsWith("cublaslt:algo_"));
      },
      {{"devices", {{{"memory_bytes", std::int64_t{1} << 30}}}}});
}

// --- sequences ---

Step step_of(Plan* plan) { return {.plan = plan, .tensors = {}}; }

TEST(Module, TimesRunsDirectlyAndAsAGraph) {
  constexpr double kernel_s = 20e-6, launch_s = 1e-6;
  expect_clean(
      [](const ModuleTable& module) {
        Device device(module);
        Plan* const plan = device.plan(empty());
        Sequence* const sequence = device.prepare({step_of(plan), step_of(plan)});
        ASSERT_NE(sequence, nullptr);
        for (const Launch launch : {Launch::direct, Launch::graph}) {
          for (const std::int64_t runs : {1, 10, 10, 3}) {
            Timing timing{};
            ASSERT_EQ(failure_of(module.run(sequence, runs, launch, 0, &timing)), "");
            EXPECT_EQ(timing.launch, launch);
            EXPECT_NEAR(timing.device_s, 2 * static_cast<double>(runs) * kernel_s, 3 * launch_s);
            EXPECT_GT(timing.host_s, 0);
          }
        }
        Timing timing{};
        EXPECT_EQ(module.run(sequence, 0, Launch::direct, 0, &timing).code, Code::failed);
      },
      {{"devices", {{{"model", {{"kernel_s", kernel_s}, {"launch_s", launch_s}}}}}}});
}

TEST(Module, RunsDirectlyWhatCannotBeCaptured) {
  expect_clean(
      [](const ModuleTable& module) {
        Device device(module);
        Sequence* const sequence = device.prepare({step_of(device.plan(empty()))});
        ASSERT_NE(sequence, nullptr);
        for (const std::int64_t runs : {5, 5, 2}) {
          Timing timing{};
          ASSERT_EQ(failure_of(module.run(sequence, runs, Launch::graph, 1, &timing)), "");
          EXPECT_EQ(timing.launch, Launch::direct);
          EXPECT_NEAR(timing.device_s, static_cast<double>(runs) * 20e-6, 1e-7);
        }
      },
      {{"devices", {{{"model", {{"kernel_s", 20e-6}}}}}},
       {"faults", {{"unsupported", {"capture"}}}}});
}

TEST(Module, HoldsTheStreamUntilAllIsQueued) {
  // A device that is done long before the host can say the next.
  expect_clean(
      [](const ModuleTable& module) {
        Device device(module);
        Sequence* const sequence = device.prepare({step_of(device.plan(empty()))});
        ASSERT_NE(sequence, nullptr);
        Timing timing{};
        ASSERT_EQ(failure_of(module.run(sequence, 20, Launch::direct, 0, &timing)), "");
        EXPECT_GT(timing.device_s, 19 * 5e-6);
        ASSERT_EQ(failure_of(module.run(sequence, 20, Launch::direct, 1, &timing)), "");
        EXPECT_NEAR(timing.device_s, 20 * 1e-6, 1e-7);
        ASSERT_EQ(failure_of(module.run(sequence, 20, Launch::graph, 1, &timing)), "");
        EXPECT_NEAR(timing.device_s, 20 * 1e-6, 1e-7);
      },
      {{"devices", {{{"model", {{"kernel_s", 1e-6}, {"launch_s", 5e-6}}}}}}});
}

TEST(Module, RefusesAWorkspaceThatIsTooSmall) {
  expect_clean([](const ModuleTable& module) {
    Device device(module);
    Gemm gemm = product(256, 256, 256);
    gemm.policy = Policy::fixed;
    PlanInfo info{};
    // One that wants a workspace.
    Plan* plan = nullptr;
    for (; plan == nullptr || info.workspace_bytes == 0; ++gemm.fixed_algorithm) {
      plan = device.plan(primitive_of(gemm), &info);
      ASSERT_NE(plan, nullptr);
    }
    const Step step = step_of(plan);
    Sequence* sequence = nullptr;
    const Outcome outcome =
        module.prepare(device.context(), &step, 1, nullptr, info.workspace_bytes - 1, &sequence);
    EXPECT_EQ(outcome.code, Code::failed);
    EXPECT_THAT(outcome.message, HasSubstr("workspace of " + std::to_string(info.workspace_bytes)));
    EXPECT_EQ(sequence, nullptr);
  });
}

TEST(Module, SpinsForAsLongAsItIsTold) {
  expect_clean([](const ModuleTable& module) {
    Device device(module);
    for (const double seconds : {5e-3, 0.5}) {
      double device_s = 0;
      ASSERT_EQ(failure_of(module.spin(device.context(), seconds, &device_s)), "");
      EXPECT_NEAR(device_s, seconds, 0.02 * seconds);
    }
    for (const std::int64_t bytes : {0, 1 << 20, 1 << 10, 1 << 21}) {
      EXPECT_EQ(failure_of(module.flush(device.context(), bytes)), "");
    }
  });
}

// --- faults ---

TEST(Module, SaysThatMemoryIsOutAndGoesOn) {
  expect_clean(
      [](const ModuleTable& module) {
        Device device(module);
        void* memory = nullptr;
        const Outcome outcome = module.allocate(device.context(), Space::device, 1 << 20, &memory);
        EXPECT_EQ(outcome.code, Code::out_of_memory);
        EXPECT_THAT(outcome.message, HasSubstr("cudaMalloc"));
        EXPECT_EQ(memory, nullptr);
        device.run(empty(), {});
        device.allocate(1 << 10);
        // Half-way through a plan: what it had is given back.
        Gemm gemm = product(2048, 64, 64);
        gemm.policy = Policy::find;
        PlanInfo info{};
        EXPECT_EQ(planned(module, device.context(), primitive_of(gemm), info).code,
                  Code::out_of_memory);
      },
      {{"faults", {{"allocation_above", 100 << 10}}}});
}

TEST(Module, SaysThatAProductIsNotSupported) {
  expect_clean(
      [](const ModuleTable& module) {
        Device device(module);
        PlanInfo info{};
        const Outcome outcome =
            planned(module, device.context(), primitive_of(product(4, 4, 4)), info);
        EXPECT_EQ(outcome.code, Code::unsupported);
        EXPECT_THAT(outcome.message, HasSubstr("cublasLtMatmulAlgoGetHeuristic"));
        device.run(empty(), {});
      },
      {{"faults", {{"unsupported", {"gemm"}}}}});
}

TEST(Module, TellsOneFailureFromTheNext) {
  // The runtime remembers that memory was out, which is not why the product is refused.
  expect_clean(
      [](const ModuleTable& module) {
        Device device(module);
        void* memory = nullptr;
        EXPECT_EQ(module.allocate(device.context(), Space::device, 1 << 20, &memory).code,
                  Code::out_of_memory);
        PlanInfo info{};
        EXPECT_EQ(planned(module, device.context(), primitive_of(product(4, 4, 4)), info).code,
                  Code::unsupported);
      },
      {{"faults", {{"allocation_above", 1 << 10}, {"unsupported", {"gemm"}}}}});
}

TEST(Module, SaysThatAnErrorSticksWhereALibraryMeetsIt) {
  // The first product spoils the device, the second is what is told of it.
  const Ended ended =
      in_process({{"faults", {{"sticky_launch", 1}}}}, [](const ModuleTable& module) {
        Device device(module);
        PlanInfo info{};
        Step step{.plan = device.plan(primitive_of(product(4, 4, 4)), &info), .tensors = {}};
        for (int i = 0; i < 3; ++i) step.tensors[i] = device.allocate(64);
        Sequence* const sequence = device.prepare({step}, info.workspace_bytes);
        ASSERT_NE(sequence, nullptr);
        Timing timing{};
        const Outcome outcome = module.run(sequence, 2, Launch::direct, 0, &timing);
        EXPECT_EQ(outcome.code, Code::poisoned);
        EXPECT_THAT(outcome.message, HasSubstr("cublasLtMatmul"));
      });
  EXPECT_EQ(ended.status, 0);
  EXPECT_EQ(ended.violations, std::vector<std::string>{});
}

TEST(Module, SaysThatAnErrorSticks) {
  const Ended ended =
      in_process({{"faults", {{"sticky_launch", 3}}}}, [](const ModuleTable& module) {
        Device device(module);
        Sequence* const sequence = device.prepare({step_of(device.plan(empty()))});
        ASSERT_NE(sequence, nullptr);
        Timing timing{};
        ASSERT_EQ(failure_of(module.run(sequence, 2, Launch::direct, 0, &timing)), "");
        const Outcome outcome = module.run(sequence, 1, Launch::direct, 0, &timing);
        EXPECT_EQ(outcome.code, Code::poisoned);
        EXPECT_THAT(outcome.message, HasSubstr("cudaErrorIllegalAddress"));
        EXPECT_EQ(module.run(sequence, 1, Launch::graph, 0, &timing).code, Code::poisoned);
        void* memory = nullptr;
        EXPECT_EQ(module.allocate(device.context(), Space::device, 8, &memory).code,
                  Code::poisoned);
        PlanInfo info{};
        EXPECT_EQ(planned(module, device.context(), primitive_of(product(4, 4, 4)), info).code,
                  Code::poisoned);
      });
  EXPECT_EQ(ended.status, 0);
  EXPECT_EQ(ended.violations, std::vector<std::string>{});
}

}  // namespace
}  // namespace forecost::cuda::tests
