#include <chrono>
#include <cstdlib>
#include <ctime>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "mpi_main.hpp"

namespace forecost {
namespace {

TEST(World, is_as_large_as_the_launcher_says) {
  const char* announced = std::getenv("OMPI_COMM_WORLD_SIZE");
  EXPECT_EQ(test_world().size(), announced == nullptr ? 1 : std::atoi(announced));
  EXPECT_LT(test_world().rank(), test_world().size());
  EXPECT_EQ(test_world().local_size(), test_world().size());  // one host here
  EXPECT_EQ(test_world().local_rank(), test_world().rank());
  EXPECT_FALSE(test_world().host().empty());
}

TEST(World, gathers_texts_of_any_length_and_content) {
  const World& world = test_world();
  const auto text_of = [](int rank) {
    return rank == 0 ? std::string()
                     : std::string(static_cast<std::size_t>(rank) * 1000, '\0') + "z";
  };
  const auto all = world.all_gather(text_of(world.rank()));
  ASSERT_EQ(all.size(), static_cast<std::size_t>(world.size()));
  for (int i = 0; i < world.size(); ++i) EXPECT_EQ(all[static_cast<std::size_t>(i)], text_of(i));
}

TEST(World, broadcasts_from_any_root) {
  const World& world = test_world();
  for (int root = 0; root < world.size(); ++root) {
    const std::string text = std::string(static_cast<std::size_t>(root) * 100000, 'x') + "end";
    const auto mine = world.rank() == root ? text : std::string("something of another length");
    EXPECT_EQ(world.broadcast(mine, root), text);
  }
}

TEST(World, takes_the_largest_value) {
  EXPECT_EQ(test_world().all_max(10 - test_world().rank()), 10);
  EXPECT_EQ(test_world().all_max(test_world().rank()), test_world().size() - 1);
}

TEST(World, sleeps_while_it_waits) {
  const World& world = test_world();
  world.barrier();
  const std::clock_t before = std::clock();
  if (world.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(500));
  world.barrier();
  const double cpu_s = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
  EXPECT_LT(cpu_s, 0.25);  // a spinning wait takes 0.5 s of processor time
}

}  // namespace
}  // namespace forecost
