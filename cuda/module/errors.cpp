#include "cuda/module/context.hpp"

namespace forecost::cuda {

namespace {

Code code_of(cudaError_t status) {
  switch (status) {
    case cudaSuccess:
      return Code::ok;
    case cudaErrorMemoryAllocation:
      return Code::out_of_memory;
    case cudaErrorStubLibrary:
    case cudaErrorInsufficientDriver:
    case cudaErrorCallRequiresNewerDriver:
    case cudaErrorSystemNotReady:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorCompatNotSupportedOnDevice:
      return Code::no_driver;
    case cudaErrorDevicesUnavailable:
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
      return Code::no_device;
    case cudaErrorInvalidKernelImage:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
    case cudaErrorNotSupported:
      return Code::unsupported;
    // Those of which the runtime's documentation says that the process must be launched again.
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorContextIsDestroyed:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorExternalDevice:
    case cudaErrorMpsClientTerminated:
    // What a crash of the driver looks like from here.
    case cudaErrorUnknown:
      return Code::poisoned;
    default:
      break;
  }
  // cudaErrorContained and cudaErrorTensorMemoryLeak, which CUDA 12.4 has no names for.
  const int number = static_cast<int>(status);
  return number == 226 || number == 721 ? Code::poisoned : Code::failed;
}

/// A library that fails says less than the runtime below it, where that has something to say.
Code with_pending_error(Code code) {
  const Code pending = code_of(cudaGetLastError());
  return pending == Code::out_of_memory || pending == Code::poisoned ? pending : code;
}

std::string message(const char* what, const std::string& said) { return what + (": " + said); }

}  // namespace

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // or the next call that asks would be told of this one
  throw Failure(code_of(status),
                message(what, cudaGetErrorString(status)) + " (" + cudaGetErrorName(status) + ")");
}

void check(cudnnStatus_t status, const char* what) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  Code code = Code::failed;
  if (status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
      status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED) {
    code = Code::out_of_memory;
  } else if (CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED) {
    code = Code::unsupported;
  }
  char details[200] = {};
  cudnnGetLastErrorString(details, sizeof details);
  std::string said = cudnnGetErrorString(status);
  if (details[0] != '\0') said += std::string(" (") + details + ")";
  throw Failure(with_pending_error(code), message(what, said));
}

void check(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  Code code = Code::failed;
  if (status == CUBLAS_STATUS_ALLOC_FAILED) {
    code = Code::out_of_memory;
  } else if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_ARCH_MISMATCH) {
    code = Code::unsupported;
  }
  throw Failure(with_pending_error(code), message(what, cublas_lt().status_string(status)));
}

}  // namespace forecost::cuda
