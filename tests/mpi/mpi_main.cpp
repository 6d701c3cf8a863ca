#include "mpi_main.hpp"

#include <iostream>

#include <gtest/gtest.h>

#include "core/stop.hpp"

namespace {

const forecost::World* g_world = nullptr;

/// Ranks other than 0 print their failures only.
class FailuresOnly : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::cerr << "rank " << g_world->rank() << ": " << result.file_name() << ":"
              << result.line_number() << ": " << result.message() << "\n";
  }
};

}  // namespace

const forecost::World& test_world() { return *g_world; }

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  forecost::install_stop_handlers();
  const forecost::World world(argc, argv);
  g_world = &world;
  if (world.rank() != 0) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailuresOnly);
  }
  const int code = world.all_max(RUN_ALL_TESTS());
  world.barrier();
  return code;
}
