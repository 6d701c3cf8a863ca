#include <algorithm>
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "tests/cuda/standin/kernels.hpp"
#include "tests/cuda/standin/memory.hpp"
#include "tests/cuda/standin/numbers.hpp"
#include "tests/cuda/standin/report.hpp"
#include "tests/cuda/standin/state.hpp"

// The stand-in for the CUDA libraries: right sequences of calls leave an empty report, each mistake
// that is planted here is caught, each fault happens when it is to.

extern "C" {
void __cudaRegisterFunction(void**, const char*, char*, const char*, int, uint3*, uint3*, dim3*,
                            dim3*, int*);
int nvmlInit_v2();
int nvmlShutdown();
int nvmlDeviceGetHandleByUUID(const char*, void**);
int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long*);
int nvmlDeviceGetClockInfo(void*, unsigned, unsigned*);
struct NvmlProcess {
  unsigned pid;
  unsigned long long bytes;
  unsigned gpu_instance, compute_instance;
};
int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned*, NvmlProcess*);
}

namespace {

using namespace forecost::standin;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

constexpr float one = 1, zero = 0;

#define GOOD(call) ASSERT_EQ(static_cast<int>(call), 0)

class Standin : public testing::Test {
 protected:
  void SetUp() override {
    forget_violations();
    state().sticky = cudaSuccess;
    state().last_error = cudaSuccess;
    state().config = read_config();
    state().visible = {0};
    state().faults_since.reset();
    leaks_before_ = leaks().size();
    GOOD(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    GOOD(cudaEventCreateWithFlags(&start_, cudaEventDefault));
    GOOD(cudaEventCreateWithFlags(&stop_, cudaEventDefault));
  }
  void TearDown() override {
    state().sticky = cudaSuccess;
    cudaEventDestroy(start_);
    cudaEventDestroy(stop_);
    cudaStreamDestroy(stream_);
    EXPECT_EQ(leaks().size(), leaks_before_) << "this test left something";
    EXPECT_THAT(violations(), IsEmpty()) << "not expected by the test";
  }

  /// That there was this one, and nothing else.
  static void expect_only(const std::string& kind, const std::string& words) {
    const std::vector<std::string> all = violations();
    ASSERT_EQ(all.size(), 1U) << testing::PrintToString(all);
    EXPECT_THAT(all.front(), StartsWith(kind + ": "));
    EXPECT_THAT(all.front(), HasSubstr(words));
    forget_violations();
  }

  std::byte* allocate(std::size_t bytes) {
    void* memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, bytes), cudaSuccess);
    return static_cast<std::byte*>(memory);
  }

  /// Between events recorded on the given streams.
  double timed(const std::function<void()>& work, cudaStream_t start_on, cudaStream_t stop_on) {
    EXPECT_EQ(cudaEventRecord(start_, start_on), cudaSuccess);
    work();
    EXPECT_EQ(cudaEventRecord(stop_, stop_on), cudaSuccess);
    EXPECT_EQ(cudaEventSynchronize(stop_), cudaSuccess);
    float milliseconds = 0;
    EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start_, stop_), cudaSuccess);
    return milliseconds * 1e-3;
  }
  double timed(const std::function<void()>& work) { return timed(work, stream_, stream_); }

  cudaStream_t stream_ = nullptr;
  cudaEvent_t start_ = nullptr, stop_ = nullptr;

 private:
  std::size_t leaks_before_ = 0;
};

/// A convolution of 1 x 2 x 4 x 4 with 3 filters of 3 x 3, padded by 1.
class StandinConvolution : public Standin {
 protected:
  void SetUp() override {
    Standin::SetUp();
    GOOD(cudnnCreate(&handle_));
    GOOD(cudnnSetStream(handle_, stream_));
    GOOD(cudnnCreateTensorDescriptor(&x_));
    GOOD(cudnnCreateTensorDescriptor(&y_));
    GOOD(cudnnCreateFilterDescriptor(&w_));
    GOOD(cudnnCreateConvolutionDescriptor(&convolution_));
    GOOD(cudnnSetTensor4dDescriptor(x_, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 2, 4, 4));
    GOOD(cudnnSetTensor4dDescriptor(y_, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 3, 4, 4));
    GOOD(cudnnSetFilter4dDescriptor(w_, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 3, 2, 3, 3));
    GOOD(cudnnSetConvolution2dDescriptor(convolution_, 1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION,
                                         CUDNN_DATA_FLOAT));
    GOOD(cudnnSetConvolutionMathType(convolution_, CUDNN_FMA_MATH));
    GOOD(cudnnGetConvolutionForwardWorkspaceSize(handle_, x_, w_, convolution_, y_, algorithm,
                                                 &workspace_bytes_));
    in_ = allocate(32 * 4);
    filter_ = allocate(54 * 4);
    out_ = allocate(48 * 4);
    workspace_ = allocate(workspace_bytes_);
    std::vector<float> ones(54, 1);
    GOOD(cudaMemcpy(in_, ones.data(), 32 * 4, cudaMemcpyHostToDevice));
    GOOD(cudaMemcpy(filter_, ones.data(), 54 * 4, cudaMemcpyHostToDevice));
  }
  void TearDown() override {
    state().sticky = cudaSuccess;
    for (void* memory : {in_, filter_, out_, workspace_}) cudaFree(memory);
    cudnnDestroyTensorDescriptor(x_);
    cudnnDestroyTensorDescriptor(y_);
    cudnnDestroyFilterDescriptor(w_);
    cudnnDestroyConvolutionDescriptor(convolution_);
    cudnnDestroy(handle_);
    Standin::TearDown();
  }
  cudnnStatus_t run() { return run(workspace_, workspace_bytes_); }
  cudnnStatus_t run(void* workspace, std::size_t bytes) {
    return cudnnConvolutionForward(handle_, &one, x_, in_, w_, filter_, convolution_, algorithm,
                                   workspace, bytes, &zero, y_, out_);
  }

  static constexpr auto algorithm = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
  cudnnHandle_t handle_ = nullptr;
  cudnnTensorDescriptor_t x_ = nullptr, y_ = nullptr;
  cudnnFilterDescriptor_t w_ = nullptr;
  cudnnConvolutionDescriptor_t convolution_ = nullptr;
  std::byte *in_ = nullptr, *filter_ = nullptr, *out_ = nullptr, *workspace_ = nullptr;
  std::size_t workspace_bytes_ = 0;
};

// --- what is right ---

TEST_F(StandinConvolution, AMeasurementLeavesAnEmptyReport) {
  GOOD(run());
  GOOD(cudaStreamSynchronize(stream_));
  const double seconds = timed([&] { GOOD(run()); });
  EXPECT_GT(seconds, 1e-6);
  EXPECT_LT(seconds, 1e-4);
  std::vector<float> result(48);
  GOOD(cudaMemcpy(result.data(), out_, 48 * 4, cudaMemcpyDeviceToHost));
  EXPECT_EQ(result[0], 2 * 4);  // a corner sees 2 x 2 of two channels
  EXPECT_EQ(result[5], 2 * 9);
}

TEST_F(StandinConvolution, AGraphRepeatsWhatWasCapturedWithoutGaps) {
  constexpr int runs = 50;
  const double direct = timed([&] {
    for (int i = 0; i < runs; ++i) GOOD(run());
  });
  GOOD(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < runs; ++i) GOOD(run());
  cudaGraph_t graph = nullptr;
  GOOD(cudaStreamEndCapture(stream_, &graph));
  cudaGraphExec_t executable = nullptr;
  GOOD(cudaGraphInstantiate(&executable, graph, 0));
  GOOD(cudaMemset(out_, 0, 48 * 4));
  const double launched = timed([&] { GOOD(cudaGraphLaunch(executable, stream_)); });
  EXPECT_LT(launched, direct);
  float corner = 0;
  GOOD(cudaMemcpy(&corner, out_, 4, cudaMemcpyDeviceToHost));
  EXPECT_EQ(corner, 8);
  GOOD(cudaGraphExecDestroy(executable));
  GOOD(cudaGraphDestroy(graph));
}

TEST_F(StandinConvolution, FindRanksByTimeAndGetByExpectation) {
  int count = 0;
  std::vector<cudnnConvolutionFwdAlgoPerf_t> found(8);
  GOOD(cudnnGetConvolutionForwardAlgorithm_v7(handle_, x_, w_, convolution_, y_, 8, &count,
                                              found.data()));
  EXPECT_EQ(found[0].algo, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM);
  EXPECT_LT(found[0].time, 0);
  GOOD(cudnnFindConvolutionForwardAlgorithm(handle_, x_, w_, convolution_, y_, 8, &count,
                                            found.data()));
  ASSERT_GE(count, 3);
  for (int i = 1; i < count; ++i) EXPECT_LE(found[i - 1].time, found[i].time);
}

TEST_F(Standin, MatrixProductIsRightWithBiasAndRelu) {
  // Column-major, 2 x 2 x 3: D = max(A B + bias, 0).
  const std::vector<float> a{1, 4, 2, 5, 3, 6}, b{1, 0, 0, -1, -1, -1}, bias{1, -100};
  std::byte* memory = allocate(4 * 1024);
  float* device = reinterpret_cast<float*>(memory);
  GOOD(cudaMemcpy(device, a.data(), 24, cudaMemcpyHostToDevice));
  GOOD(cudaMemcpy(device + 64, b.data(), 24, cudaMemcpyHostToDevice));
  GOOD(cudaMemcpy(device + 192, bias.data(), 8, cudaMemcpyHostToDevice));
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t layout_a = nullptr, layout_b = nullptr, layout_d = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  GOOD(cublasLtCreate(&handle));
  GOOD(cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_RELU_BIAS;
  const float* bias_at = device + 192;
  GOOD(cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, 4));
  GOOD(cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias_at, 8));
  GOOD(cublasLtMatrixLayoutCreate(&layout_a, CUDA_R_32F, 2, 3, 2));
  GOOD(cublasLtMatrixLayoutCreate(&layout_b, CUDA_R_32F, 3, 2, 3));
  GOOD(cublasLtMatrixLayoutCreate(&layout_d, CUDA_R_32F, 2, 2, 2));
  GOOD(cublasLtMatmulPreferenceCreate(&preference));
  const auto heuristic = [&](cublasLtMatrixLayout_t d, cublasLtMatmulHeuristicResult_t* result) {
    int count = 0;
    return cublasLtMatmulAlgoGetHeuristic(handle, product, layout_a, layout_b, d, d, preference, 1,
                                          result, &count);
  };
  cublasLtMatmulHeuristicResult_t result{};
  GOOD(heuristic(layout_d, &result));
  EXPECT_EQ(result.workspaceSize, 0U) << "none was granted";
  GOOD(cublasLtMatmul(handle, product, &one, device, layout_a, device + 64, layout_b, &zero,
                      device + 128, layout_d, device + 128, layout_d, &result.algo, nullptr, 0,
                      stream_));
  std::vector<float> d(4);
  GOOD(cudaMemcpy(d.data(), device + 128, 16, cudaMemcpyDeviceToHost));
  EXPECT_THAT(d, testing::ElementsAre(2, 0, 0, 0));  // 1 + 1, 4 - 100, -6 + 1, -15 - 100

  // and shapes that do not agree are noticed
  cublasLtMatrixLayout_t wrong = nullptr;
  GOOD(cublasLtMatrixLayoutCreate(&wrong, CUDA_R_32F, 3, 2, 3));
  EXPECT_EQ(heuristic(wrong, &result), CUBLAS_STATUS_INVALID_VALUE);
  expect_only("descriptor", "shapes");

  for (const auto each : {layout_a, layout_b, layout_d, wrong})
    GOOD(cublasLtMatrixLayoutDestroy(each));
  GOOD(cublasLtMatmulPreferenceDestroy(preference));
  GOOD(cublasLtMatmulDescDestroy(product));
  GOOD(cublasLtDestroy(handle));
  GOOD(cudaFree(memory));
}

TEST_F(Standin, ASpinTakesItsTime) {
  static char function;
  __cudaRegisterFunction(nullptr, &function, nullptr, "_ZN8forecost4cuda11spin_kernelEm", -1,
                         nullptr, nullptr, nullptr, nullptr, nullptr);
  unsigned long nanoseconds = 5'000'000;
  void* arguments[] = {&nanoseconds};
  const double seconds =
      timed([&] { GOOD(cudaLaunchKernel(&function, dim3(1), dim3(32), arguments, 0, stream_)); });
  EXPECT_NEAR(seconds, 5e-3, 0.02 * 5e-3);
}

// --- mistakes: the window ---

TEST_F(StandinConvolution, AnEventOnTheWrongStreamIsCaught) {
  timed([&] { GOOD(run()); }, nullptr, nullptr);
  const std::vector<std::string> all = violations();
  EXPECT_THAT(all, Contains(HasSubstr("no work between start and stop")));
  EXPECT_THAT(all, Contains(HasSubstr("on a stream they were not recorded on")));
  forget_violations();
}

TEST_F(StandinConvolution, EventsOnTwoStreamsAreCaught) {
  timed([&] { GOOD(run()); }, nullptr, stream_);
  expect_only("stream", "different streams");
}

TEST_F(StandinConvolution, WorkOnAnotherStreamInsideIsCaught) {
  timed([&] {
    GOOD(run());
    GOOD(cudaMemsetAsync(workspace_, 0, 4, nullptr));
  });
  expect_only("stream", "not recorded on");
}

TEST_F(StandinConvolution, AskingForATimeBeforeWaitingIsCaught) {
  GOOD(cudaEventRecord(start_, stream_));
  GOOD(run());
  GOOD(cudaEventRecord(stop_, stream_));
  float milliseconds = 0;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start_, stop_), cudaErrorNotReady);
  expect_only("event", "before the stop event was waited for");
}

TEST_F(StandinConvolution, APlanInsideTheWindowIsCaught) {
  timed([&] {
    int count = 0;
    cudnnConvolutionFwdAlgoPerf_t found{};
    GOOD(cudnnGetConvolutionForwardAlgorithm_v7(handle_, x_, w_, convolution_, y_, 1, &count,
                                                &found));
    GOOD(run());
  });
  expect_only("window", "cudnnGetConvolutionForwardAlgorithm_v7 between start and stop");
}

TEST_F(StandinConvolution, AnAllocationInsideTheWindowIsCaught) {
  void* memory = nullptr;
  timed([&] {
    GOOD(cudaMalloc(&memory, 64));
    GOOD(run());
  });
  expect_only("window", "cudaMalloc between start and stop");
  GOOD(cudaFree(memory));
}

TEST_F(StandinConvolution, WaitingInsideTheWindowIsCaught) {
  timed([&] {
    GOOD(run());
    GOOD(cudaStreamSynchronize(stream_));
  });
  expect_only("window", "cudaStreamSynchronize");
}

TEST_F(StandinConvolution, CapturingInsideTheWindowIsCaught) {
  timed([&] {
    GOOD(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed));
    cudaGraph_t graph = nullptr;
    GOOD(cudaStreamEndCapture(stream_, &graph));
    GOOD(cudaGraphDestroy(graph));
    GOOD(run());
  });
  EXPECT_EQ(violations().size(), 3U);
  EXPECT_THAT(violations(), Contains(HasSubstr("cudaStreamBeginCapture")));
  forget_violations();
}

TEST_F(StandinConvolution, AnAllocationSpoilsAStrictCapture) {
  GOOD(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal));
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 64), cudaErrorStreamCaptureUnsupported);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaErrorStreamCaptureInvalidated);
}

// --- mistakes: what is made and released ---

TEST_F(Standin, ALeakedDescriptorIsSeen) {
  const std::vector<std::string> before = leaks();
  cudnnTensorDescriptor_t descriptor = nullptr;
  GOOD(cudnnCreateTensorDescriptor(&descriptor));
  EXPECT_THAT(leaks(),
              Contains("tensor descriptor of cudnnCreateTensorDescriptor was not released"));
  GOOD(cudnnDestroyTensorDescriptor(descriptor));
  EXPECT_EQ(leaks(), before);
}

TEST_F(Standin, ALeakedEventAndMemoryAreSeen) {
  const std::size_t before = leaks().size();
  cudaEvent_t event = nullptr;
  GOOD(cudaEventCreate(&event));
  std::byte* memory = allocate(123);
  EXPECT_EQ(leaks().size(), before + 2);
  EXPECT_THAT(leaks(), Contains("123 bytes of cudaMalloc was not freed"));
  GOOD(cudaEventDestroy(event));
  GOOD(cudaFree(memory));
}

TEST_F(Standin, ReleasingTwiceIsCaught) {
  cudaEvent_t event = nullptr;
  GOOD(cudaEventCreate(&event));
  GOOD(cudaEventDestroy(event));
  EXPECT_NE(cudaEventDestroy(event), cudaSuccess);
  expect_only("handle",
              "event that was released (or is another kind of handle), given to cudaEventDestroy");

  std::byte* memory = allocate(64);
  GOOD(cudaFree(memory));
  EXPECT_NE(cudaFree(memory), cudaSuccess);
  expect_only("double free", "freed already");
}

TEST_F(StandinConvolution, ACallOnADestroyedDescriptorIsCaught) {
  cudnnTensorDescriptor_t gone = nullptr;
  GOOD(cudnnCreateTensorDescriptor(&gone));
  GOOD(cudnnDestroyTensorDescriptor(gone));
  EXPECT_NE(cudnnConvolutionForward(handle_, &one, gone, in_, w_, filter_, convolution_, algorithm,
                                    workspace_, workspace_bytes_, &zero, y_, out_),
            CUDNN_STATUS_SUCCESS);
  expect_only("handle", "tensor descriptor that was released");
}

// --- mistakes: memory ---

TEST_F(StandinConvolution, UseAfterFreeIsCaughtAndPoisonsTheDevice) {
  GOOD(cudaFree(in_));
  GOOD(run());
  expect_only("use after free", "x of cudnnConvolutionForward");
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress) << "it sticks";
  in_ = nullptr;
}

TEST_F(StandinConvolution, AWorkspaceOverrunIsCaught) {
  std::byte* small = allocate(64);
  run(small, workspace_bytes_);  // says that it granted more than is there
  expect_only("overrun", "workspace of cudnnConvolutionForward");
  state().sticky = cudaSuccess;
  EXPECT_NE(run(small, 64), CUDNN_STATUS_SUCCESS);
  expect_only("workspace", "was said to need");
  GOOD(cudaFree(small));
}

TEST_F(Standin, WritingBehindAnAllocationIsCaught) {
  std::byte* memory = allocate(100);
  memory[100] = std::byte{1};  // as a kernel would
  GOOD(cudaFree(memory));
  expect_only("overrun", "written behind 100 bytes");
}

TEST_F(Standin, AnOperandThatIsTooSmallIsCaught) {
  std::byte* memory = allocate(100);
  GOOD(cudaMemsetAsync(memory + 50, 0, 51, stream_));
  expect_only("overrun", "51 bytes, but only 50 are left");
  state().sticky = cudaSuccess;
  GOOD(cudaFree(memory));
}

TEST_F(Standin, AKernelOnFreedMemoryIsCaught) {
  static char function;
  __cudaRegisterFunction(nullptr, &function, nullptr, "_Z9my_kernelPKfPfl", -1, nullptr, nullptr,
                         nullptr, nullptr, nullptr);
  std::byte *from = allocate(64), *to = allocate(64);
  GOOD(cudaFree(from));
  long count = 16;
  void* arguments[] = {&from, &to, &count};
  GOOD(cudaLaunchKernel(&function, dim3(1), dim3(32), arguments, 0, stream_));
  expect_only("use after free", "an argument of my_kernel");
  state().sticky = cudaSuccess;
  GOOD(cudaFree(to));
}

TEST_F(Standin, NewMemoryIsNotANumber) {
  std::byte* memory = allocate(4);
  float value = 0;
  GOOD(cudaMemcpy(&value, memory, 4, cudaMemcpyDeviceToHost));
  EXPECT_TRUE(std::isnan(value));
  GOOD(cudaFree(memory));
}

// --- mistakes: descriptors ---

TEST_F(StandinConvolution, InconsistentDescriptorsAreCaught) {
  GOOD(cudnnSetTensor4dDescriptor(y_, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 3, 5, 4));
  EXPECT_EQ(run(), CUDNN_STATUS_BAD_PARAM);
  expect_only("descriptor", "extent of y");
  GOOD(cudnnSetTensor4dDescriptor(y_, CUDNN_TENSOR_NCHW, CUDNN_DATA_HALF, 1, 3, 4, 4));
  EXPECT_EQ(run(), CUDNN_STATUS_BAD_PARAM);
  expect_only("descriptor", "data types");
  GOOD(cudnnSetTensor4dDescriptor(y_, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 3, 4, 4));
  GOOD(cudnnSetConvolutionGroupCount(convolution_, 2));
  EXPECT_EQ(run(), CUDNN_STATUS_BAD_PARAM);
  expect_only("descriptor", "groups");
}

TEST_F(Standin, StridesThatOverlapAreCaught) {
  cudnnTensorDescriptor_t descriptor = nullptr;
  GOOD(cudnnCreateTensorDescriptor(&descriptor));
  const int dims[] = {2, 3, 4}, strides[] = {12, 3, 1};
  EXPECT_NE(cudnnSetTensorNdDescriptor(descriptor, CUDNN_DATA_FLOAT, 3, dims, strides),
            CUDNN_STATUS_SUCCESS);
  expect_only("descriptor", "strides that overlap");
  GOOD(cudnnDestroyTensorDescriptor(descriptor));
}

TEST_F(StandinConvolution, AMathTypeThatWasNotAnsweredIsCaught) {
  GOOD(cudnnSetConvolutionMathType(convolution_, CUDNN_DEFAULT_MATH));
  GOOD(cudnnSetTensor4dDescriptor(x_, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 2, 2, 4, 4));
  GOOD(cudnnSetTensor4dDescriptor(y_, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 2, 3, 4, 4));
  int count = 0;
  cudnnConvolutionFwdAlgoPerf_t found{};
  GOOD(
      cudnnGetConvolutionForwardAlgorithm_v7(handle_, x_, w_, convolution_, y_, 1, &count, &found));
  GOOD(cudnnSetConvolutionMathType(convolution_, CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION));
  std::byte *in = allocate(64 * 4), *out = allocate(96 * 4);
  GOOD(cudnnConvolutionForward(handle_, &one, x_, in, w_, filter_, convolution_, found.algo,
                               workspace_, workspace_bytes_, &zero, y_, out));
  expect_only("math type", "algorithm 1");
  GOOD(cudaFree(in));
  GOOD(cudaFree(out));
}

// --- faults ---

TEST_F(Standin, TheNthAllocationIsRefused) {
  state().config.faults.allocation = state().counts.allocations + 2;
  std::byte* first = allocate(64);
  void* second = nullptr;
  EXPECT_EQ(cudaMalloc(&second, 64), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "it does not stick";
  GOOD(cudaMalloc(&second, 64));
  GOOD(cudaFree(first));
  GOOD(cudaFree(second));
}

TEST_F(Standin, MoreThanADeviceHasIsRefused) {
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, std::size_t{5} << 30), cudaErrorMemoryAllocation);
  state().config.faults.allocation_above = 1000;
  EXPECT_EQ(cudaMalloc(&memory, 1001), cudaErrorMemoryAllocation);
}

TEST_F(StandinConvolution, WhatIsNotToBeSupportedIsNot) {
  state().config.faults.unsupported = {"convolution"};
  EXPECT_EQ(run(), CUDNN_STATUS_NOT_SUPPORTED);
  char words[200];
  cudnnGetLastErrorString(words, sizeof words);
  EXPECT_THAT(words, HasSubstr("convolution is not to be supported"));
}

TEST_F(StandinConvolution, AnErrorSticksFromTheNthLaunch) {
  state().config.faults.sticky_launch = state().counts.launches + 2;
  GOOD(run());
  GOOD(cudaStreamSynchronize(stream_));
  GOOD(run());
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorIllegalAddress);
  EXPECT_NE(run(), CUDNN_STATUS_SUCCESS);
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 4), cudaErrorIllegalAddress);
}

TEST_F(StandinConvolution, FaultsCanWaitForACall) {
  state().config.faults.after = "ConvolutionForward";
  state().config.faults.allocation = 1;
  state().config.faults.allocation_above = 1000;
  state().config.faults.throttled_samples = 1;
  std::byte* before = allocate(2000);
  EXPECT_FALSE(state().throttled());
  GOOD(run());
  EXPECT_TRUE(state().throttled());
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 10), cudaErrorMemoryAllocation) << "the first since";
  std::byte* after = allocate(10);
  EXPECT_EQ(cudaMalloc(&memory, 2000), cudaErrorMemoryAllocation);
  GOOD(cudaFree(before));
  GOOD(cudaFree(after));
}

TEST_F(StandinConvolution, AFaultOnceIsNotThereForAnotherProcess) {
  const std::string file = testing::TempDir() + "standin-once-" + std::to_string(getpid());
  state().config.faults.once = file;
  state().config.faults.sticky_launch = state().counts.launches + 1;
  GOOD(run());
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorIllegalAddress);
  state().sticky = cudaSuccess;
  state().config.faults.sticky_launch = state().counts.launches + 1;
  GOOD(run());
  GOOD(cudaStreamSynchronize(stream_));
  std::filesystem::remove(file);
}

TEST_F(StandinConvolution, ThrottledSamplesAreSlowerAndSaySo) {
  void* device = nullptr;
  EXPECT_EQ(nvmlInit_v2(), 0);
  EXPECT_EQ(nvmlDeviceGetHandleByUUID(state().device().uuid.c_str(), &device), 0);
  unsigned long long reasons = 0;
  unsigned clock = 0, full = 0;
  EXPECT_EQ(nvmlDeviceGetClockInfo(device, 1, &full), 0);
  const auto sample = [&] {
    return timed([&] {
      for (int i = 0; i < 20; ++i) GOOD(run());
    });
  };
  const double before = sample();
  state().config.faults.throttled_after = state().counts.samples;
  state().config.faults.throttled_samples = 1;
  EXPECT_EQ(nvmlDeviceGetCurrentClocksThrottleReasons(device, &reasons), 0);
  EXPECT_EQ(reasons, 0x20U);
  EXPECT_EQ(nvmlDeviceGetClockInfo(device, 1, &clock), 0);
  EXPECT_EQ(clock, full / 2);
  EXPECT_GT(sample(), 1.2 * before);
  EXPECT_EQ(nvmlDeviceGetCurrentClocksThrottleReasons(device, &reasons), 0);
  EXPECT_EQ(reasons, 0U);
  EXPECT_NEAR(sample(), before, 0.05 * before);
  EXPECT_EQ(nvmlShutdown(), 0);
}

TEST_F(StandinConvolution, ResultsCanBeMadeNaN) {
  state().config.faults.nan = {"ConvolutionForward"};
  GOOD(run());
  float value = 0;
  GOOD(cudaMemcpy(&value, out_, 4, cudaMemcpyDeviceToHost));
  EXPECT_TRUE(std::isnan(value));
}

TEST_F(Standin, ForeignProcessesAreSeen) {
  state().config.devices[0].foreign_processes = {4242};
  void* device = nullptr;
  EXPECT_EQ(nvmlInit_v2(), 0);
  EXPECT_EQ(nvmlDeviceGetHandleByUUID(state().device().uuid.c_str(), &device), 0);
  unsigned count = 4;
  NvmlProcess found[4]{};
  EXPECT_EQ(nvmlDeviceGetComputeRunningProcesses_v3(device, &count, found), 0);
  ASSERT_GE(count, 1U);  // this process too, once it has a stream
  EXPECT_TRUE(std::any_of(found, found + count, [](const auto& each) { return each.pid == 4242; }));
  EXPECT_EQ(nvmlShutdown(), 0);
}

TEST_F(Standin, NoDriverAndNoDevice) {
  int count = 7;
  state().config.driver_version = 0;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorInsufficientDriver);
  EXPECT_EQ(count, 7) << "as the real one, it leaves the count as it was";
  EXPECT_NE(nvmlInit_v2(), 0);
  state().config.driver_version = 99000;
  state().visible.clear();
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorNoDevice);
  EXPECT_EQ(count, 0);
  state().visible = {0};
}

// --- beyond the limits ---

TEST_F(StandinConvolution, WorkBeyondTheLimitTakesItsTimeAndLeavesZeros) {
  GOOD(run());
  state().config.compute_limit_flops = 10;
  EXPECT_GT(timed([&] { GOOD(run()); }), 1e-6);
  float value = 1;
  GOOD(cudaMemcpy(&value, out_, 4, cudaMemcpyDeviceToHost));
  EXPECT_EQ(value, 0);
}

TEST_F(StandinConvolution, TheSameWorkIsComputedOnceForTheSameContents) {
  GOOD(run());
  const std::int64_t computed = state().computed;
  GOOD(run());
  EXPECT_EQ(state().computed, computed);
  const float two = 2;
  GOOD(cudaMemcpyAsync(in_, &two, 4, cudaMemcpyHostToDevice, stream_));
  GOOD(run());
  EXPECT_EQ(state().computed, computed + 2);
  float corner = 0;
  GOOD(cudaMemcpy(&corner, out_, 4, cudaMemcpyDeviceToHost));
  EXPECT_EQ(corner, 9);
}

// --- cuBLAS ---

class StandinCublas : public Standin {
 protected:
  void SetUp() override {
    Standin::SetUp();
    GOOD(cublasCreate(&handle_));
    GOOD(cublasSetStream(handle_, stream_));
    workspace_ = allocate(workspace_bytes);
    GOOD(cublasSetWorkspace(handle_, workspace_, workspace_bytes));
    a_ = allocate(bytes);
    b_ = allocate(bytes);
    c_ = allocate(bytes);
  }
  void TearDown() override {
    state().sticky = cudaSuccess;
    if (handle_ != nullptr) {
      GOOD(cublasDestroy(handle_));
    }
    for (std::byte* memory : {a_, b_, c_, workspace_}) GOOD(cudaFree(memory));
    Standin::TearDown();
  }

  /// Small enough for results that all types hold, and without a period that hides a wrong place.
  static std::vector<float> integers(int seed) {
    std::vector<float> values(bytes / 4);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(((static_cast<int>(i) + seed) * static_cast<int>(i)) % 7 - 3);
    return values;
  }
  static void put(std::byte* to, Type type, const std::vector<float>& values) {
    std::vector<std::byte> elements(values.size() * size_of(type));
    for (std::size_t i = 0; i < values.size(); ++i) store(type, elements.data(), i, values[i]);
    GOOD(cudaMemcpy(to, elements.data(), std::min(elements.size(), bytes), cudaMemcpyHostToDevice));
  }
  /// 2 x 2 x 2 of ones, in f32.
  cublasStatus_t simple(int ldc = 2) {
    return cublasGemmEx(handle_, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, &one, a_, CUDA_R_32F, 2, b_,
                        CUDA_R_32F, 2, &zero, c_, CUDA_R_32F, ldc, CUBLAS_COMPUTE_32F,
                        CUBLAS_GEMM_DEFAULT);
  }
  void fill_simple() {
    put(a_, Type::f32, std::vector<float>(bytes / 4, 1));
    put(b_, Type::f32, std::vector<float>(bytes / 4, 1));
    put(c_, Type::f32, std::vector<float>(bytes / 4, 9));
  }
  float result(std::size_t at) {
    float value = -1;
    EXPECT_EQ(cudaMemcpy(&value, c_ + 4 * at, 4, cudaMemcpyDeviceToHost), cudaSuccess);
    return value;
  }

  static constexpr std::size_t bytes = 4096, workspace_bytes = 1 << 16;
  cublasHandle_t handle_ = nullptr;
  std::byte *a_ = nullptr, *b_ = nullptr, *c_ = nullptr, *workspace_ = nullptr;
};

TEST_F(StandinCublas, ProductsAreThoseOfPlainLoops) {
  constexpr int m = 3, n = 4, k = 5, batch = 3, ld = 6;
  constexpr long long stride = 40;
  const float alpha = 2, beta = -3;
  struct Types {
    cudaDataType in, out;
    Type load, store;
  };
  for (const Types& types : {Types{CUDA_R_32F, CUDA_R_32F, Type::f32, Type::f32},
                             Types{CUDA_R_16F, CUDA_R_16F, Type::f16, Type::f16},
                             Types{CUDA_R_16F, CUDA_R_32F, Type::f16, Type::f32},
                             Types{CUDA_R_16BF, CUDA_R_16BF, Type::bf16, Type::bf16},
                             Types{CUDA_R_16BF, CUDA_R_32F, Type::bf16, Type::f32}}) {
    for (const cublasOperation_t op_a : {CUBLAS_OP_N, CUBLAS_OP_T}) {
      for (const cublasOperation_t op_b : {CUBLAS_OP_N, CUBLAS_OP_T}) {
        const std::vector<float> a = integers(1), b = integers(2), c = integers(3);
        put(a_, types.load, a);
        put(b_, types.load, b);
        put(c_, types.store, c);
        GOOD(cublasGemmStridedBatchedEx(handle_, op_a, op_b, m, n, k, &alpha, a_, types.in, ld,
                                        stride, b_, types.in, ld, stride, &beta, c_, types.out, ld,
                                        stride, batch, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
        std::vector<float> expected = c;
        for (int i = 0; i < m; ++i)
          for (int j = 0; j < n; ++j)
            for (std::size_t s = 0; s < batch; ++s) {
              const std::size_t at = s * stride;
              float sum = 0;
              for (int l = 0; l < k; ++l)
                sum +=
                    a[at +
                      static_cast<std::size_t>(op_a == CUBLAS_OP_N ? l * ld + i : i * ld + l)] *
                    b[at + static_cast<std::size_t>(op_b == CUBLAS_OP_N ? j * ld + l : l * ld + j)];
              float& to = expected[at + static_cast<std::size_t>(j * ld + i)];
              to = alpha * sum + beta * to;
            }
        std::vector<std::byte> found(bytes);
        GOOD(cudaMemcpy(found.data(), c_, bytes, cudaMemcpyDeviceToHost));
        for (std::size_t i = 0; i < batch * stride; ++i)
          ASSERT_EQ(load(types.store, found.data(), i), expected[i])
              << "element " << i << ", " << types.in << " to " << types.out << ", " << op_a << op_b;
      }
    }
  }
}

TEST_F(StandinCublas, ModesRoundAndAreFaster) {
  fill_simple();
  const std::vector<float> fine(4, 1 + 0x1p-9F);  // tf32 holds it, bf16 does not
  put(a_, Type::f32, std::vector<float>(4, 1 + 0x1p-12F));
  const auto multiply = [&](cublasComputeType_t compute) {
    GOOD(cublasGemmEx(handle_, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, &one, a_, CUDA_R_32F, 2, b_,
                      CUDA_R_32F, 2, &zero, c_, CUDA_R_32F, 2, compute, CUBLAS_GEMM_DEFAULT));
  };
  const auto product = [&](cublasComputeType_t compute) {
    multiply(compute);
    return result(0);
  };
  EXPECT_EQ(product(CUBLAS_COMPUTE_32F), 2 + 0x1p-11F);
  EXPECT_EQ(product(CUBLAS_COMPUTE_32F_FAST_TF32), 2);
  GOOD(cublasSetMathMode(handle_, CUBLAS_TF32_TENSOR_OP_MATH));
  EXPECT_EQ(product(CUBLAS_COMPUTE_32F), 2);
  EXPECT_EQ(product(CUBLAS_COMPUTE_32F_PEDANTIC), 2 + 0x1p-11F);
  cublasMath_t mode = CUBLAS_DEFAULT_MATH;
  GOOD(cublasGetMathMode(handle_, &mode));
  EXPECT_EQ(mode, CUBLAS_TF32_TENSOR_OP_MATH);
  put(a_, Type::f32, fine);
  EXPECT_EQ(product(CUBLAS_COMPUTE_32F_FAST_TF32), 2 + 0x1p-8F);
  EXPECT_EQ(product(CUBLAS_COMPUTE_32F_FAST_16BF), 2);

  state().config.devices[0].model.f32_flops = 1e6;
  const double slow = timed([&] { multiply(CUBLAS_COMPUTE_32F_PEDANTIC); });
  const double fast = timed([&] { multiply(CUBLAS_COMPUTE_32F_FAST_TF32); });
  EXPECT_GT(slow, fast + 1e-5);
}

TEST_F(StandinCublas, WhatLiesBetweenTheColumnsOfAResultStays) {
  fill_simple();
  GOOD(simple(3));
  EXPECT_EQ(result(0), 2);
  EXPECT_EQ(result(2), 9);
  const float other = 5;
  GOOD(cudaMemcpy(c_ + 8, &other, 4, cudaMemcpyHostToDevice));
  GOOD(simple(3));
  EXPECT_EQ(result(2), 5) << "nor does the same product bring back what lay there before";
}

TEST_F(StandinCublas, MatricesBeyondTheirMemoryAreCaught) {
  // The last of a batch begins inside, and ends outside.
  GOOD(cublasGemmStridedBatchedEx(handle_, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, &one, a_, CUDA_R_32F,
                                  2, 341, b_, CUDA_R_32F, 2, 4, &zero, c_, CUDA_R_32F, 2, 4, 4,
                                  CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
  expect_only("overrun", "A of cublasGemmStridedBatchedEx");
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorIllegalAddress);
}

TEST_F(StandinCublas, LeadingDimensionsAndStridesAreChecked) {
  EXPECT_EQ(simple(1), CUBLAS_STATUS_INVALID_VALUE);
  expect_only("descriptor", "leading dimension below its rows");
  EXPECT_EQ(
      cublasGemmStridedBatchedEx(handle_, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, &one, a_, CUDA_R_32F,
                                 2, 0, b_, CUDA_R_32F, 2, 0, &zero, c_, CUDA_R_32F, 2, 3, 4,
                                 CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
      CUBLAS_STATUS_INVALID_VALUE);
  expect_only("descriptor", "results of a batch overlap");
  EXPECT_EQ(cublasSetWorkspace(handle_, workspace_ + 8, 256), CUBLAS_STATUS_INVALID_VALUE);
}

TEST_F(StandinCublas, AllocatingForAWorkspaceIsCaught) {
  fill_simple();
  timed([&] { GOOD(simple()); });
  const auto captured = [&] {
    GOOD(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
    GOOD(simple());
    cudaGraph_t graph = nullptr;
    GOOD(cudaStreamEndCapture(stream_, &graph));
    GOOD(cudaGraphDestroy(graph));
  };
  captured();
  EXPECT_THAT(violations(), IsEmpty());
  GOOD(cublasSetStream(handle_, stream_));  // takes the workspace back
  timed([&] { GOOD(simple()); });
  expect_only("window", "an allocation of cuBLAS");
  captured();
  expect_only("workspace", "cublasGemmEx allocates inside a capture");
}

TEST_F(StandinCublas, TheWorkspaceIsWrittenTo) {
  fill_simple();
  GOOD(cudaMemset(workspace_, 0, 4));
  GOOD(simple());
  float value = 0;
  GOOD(cudaMemcpy(&value, workspace_, 4, cudaMemcpyDeviceToHost));
  EXPECT_TRUE(std::isnan(value));
}

TEST_F(StandinCublas, HandlesAreWatchedAndProductsCanBeUnsupported) {
  EXPECT_THAT(leaks(), Contains("cuBLAS handle of cublasCreate_v2 was not released"));
  state().config.faults.unsupported = {"gemm"};
  EXPECT_EQ(simple(), CUBLAS_STATUS_NOT_SUPPORTED);
  GOOD(cublasDestroy(handle_));
  EXPECT_EQ(simple(), CUBLAS_STATUS_NOT_INITIALIZED);
  expect_only("handle", "cuBLAS handle that was released");
  handle_ = nullptr;
}

// --- configuration and report ---

TEST(StandinDevices, VisibleByIndexAndUuid) {
  Config config;
  for (const char* uuid : {"GPU-aaaa", "GPU-bbbb", "MIG-cccc"}) {
    Device device;
    device.uuid = uuid;
    config.devices.push_back(device);
  }
  using testing::ElementsAre;
  EXPECT_THAT(visible_devices(config, nullptr), ElementsAre(0, 1, 2));
  EXPECT_THAT(visible_devices(config, "1"), ElementsAre(1));
  EXPECT_THAT(visible_devices(config, "2,0"), ElementsAre(2, 0));
  EXPECT_THAT(visible_devices(config, "GPU-bbbb"), ElementsAre(1));
  EXPECT_THAT(visible_devices(config, "GPU-bb,MIG-cccc"), ElementsAre(1, 2));
  EXPECT_THAT(visible_devices(config, "0,7,1"), ElementsAre(0)) << "what follows is not seen";
  EXPECT_THAT(visible_devices(config, ""), IsEmpty());
  EXPECT_THAT(visible_devices(config, "-1"), IsEmpty());
}

TEST(StandinConfig, IsReadFromAFile) {
  const std::string path = testing::TempDir() + "standin-config-" + std::to_string(getpid());
  std::ofstream(path) << R"({"devices": [{"name": "A"}, {"uuid": "GPU-b", "capability": [7, 5],
      "model": {"bandwidth": 1e12}}], "faults": {"allocation": 3, "unsupported": ["gemm"]}})";
  setenv("FORECOST_STANDIN", path.c_str(), 1);
  const Config config = read_config();
  unsetenv("FORECOST_STANDIN");
  std::filesystem::remove(path);
  ASSERT_EQ(config.devices.size(), 2U);
  EXPECT_EQ(config.devices[0].name, "A");
  EXPECT_THAT(config.devices[0].uuid, StartsWith("GPU-"));
  EXPECT_EQ(config.devices[1].uuid, "GPU-b");
  EXPECT_EQ(config.devices[1].capability_minor, 5);
  EXPECT_EQ(config.devices[1].model.bandwidth, 1e12);
  EXPECT_EQ(config.faults.allocation, 3);
  EXPECT_THAT(config.faults.unsupported, testing::ElementsAre("gemm"));
}

TEST_F(Standin, AViolationIsInTheReportFileAtOnce) {
  state().config.report = testing::TempDir() + "standin-report";
  const std::string path = state().config.report + "-" + std::to_string(getpid()) + ".txt";
  EXPECT_NE(cudaEventDestroy(nullptr), cudaSuccess);
  std::ifstream file(path);
  std::string line;
  ASSERT_TRUE(std::getline(file, line));
  EXPECT_THAT(line, HasSubstr("handle: event that was never made, given to cudaEventDestroy"));
  std::filesystem::remove(path);
  forget_violations();
}

}  // namespace
