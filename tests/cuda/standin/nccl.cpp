#include <nccl.h>

#include "tests/cuda/standin/state.hpp"

// NCCL: libnccl.so.2, as far as the module calls it.

extern "C" ncclResult_t ncclGetVersion(int* version) {
  const forecost::standin::Call call("ncclGetVersion");
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
