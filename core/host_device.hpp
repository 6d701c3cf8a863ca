#pragma once

/// Of a function that a kernel may call too: formulas that are the same on every device are written
/// once. Such a function allocates nothing, throws nothing and calls nothing but its like and the
/// standard library's mathematics.
#if defined(__CUDACC__)
#define FORECOST_HOST_DEVICE __host__ __device__
#else
#define FORECOST_HOST_DEVICE
#endif
