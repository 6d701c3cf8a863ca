#pragma once

#include "collect/backend.hpp"

namespace forecost {

/// The registry line of the oneDNN backend: one device is the set of cores that a rank is bound to,
/// or the `cores` of them that the request asks for.
extern const BackendInfo cpu_backend;

}  // namespace forecost
