#pragma once

#include "mpi/world.hpp"

namespace forecost {

/// The world of a test that mpirun did not start: one rank.
inline const World& alone() {
  static int argc = 0;
  static char** argv = nullptr;
  static const World world(argc, argv);
  return world;
}

}  // namespace forecost
