#pragma once

#include "mpi/world.hpp"

/// The world that main() opened; every rank runs the same tests in the same order.
const forecost::World& test_world();
