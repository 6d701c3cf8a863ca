#include "cuda/module/context.hpp"

namespace forecost::cuda {

Context::Context(int device_index) : device(device_index) {
  use();
  check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  owned_stream_ = make_stream();
  stream = owned_stream_.get();
}

Context::~Context() {
  if (cublas_ != nullptr) cublas_lt().destroy(cublas_);
  if (cudnn_ != nullptr) cudnnDestroy(cudnn_);
}

void Context::use() { check(cudaSetDevice(device), "cudaSetDevice"); }

void Context::wait() { check(cudaStreamSynchronize(stream), "cudaStreamSynchronize"); }

cudnnHandle_t Context::cudnn() {
  if (cudnn_ == nullptr) {
    check(cudnnCreate(&cudnn_), "cudnnCreate");
    check(cudnnSetStream(cudnn_, stream), "cudnnSetStream");
  }
  return cudnn_;
}

cublasLtHandle_t Context::cublas() {
  if (cublas_ == nullptr) check(cublas_lt().create(&cublas_), "cublasLtCreate");
  return cublas_;
}

}  // namespace forecost::cuda
