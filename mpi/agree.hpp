#pragma once

#include <functional>

#include "core/error.hpp"
#include "mpi/world.hpp"

namespace forecost {

/// A failure that every rank knows of and throws: no rank waits for another one, so the program can
/// end in order, with the code and one message from rank 0, instead of aborting the world.
class AgreedError : public Error {
 public:
  using Error::Error;
};

/// Runs `step` on every rank; if it throws on any, throws AgreedError on all, with the code and
/// message of the first rank that failed. The step itself must not wait for other ranks.
void agree(const World& world, const std::function<void()>& step);

}  // namespace forecost
