#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "mpi/collective.hpp"
#include "mpi/pulse.hpp"
#include "mpi_main.hpp"

namespace forecost {
namespace {

void nap() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

// Ranks that beat at paces of their own hear the same news, in which nobody is left out.
TEST(Pulse, TellsEveryoneTheSame) {
  const World& world = test_world();
  Pulse pulse(world, 2, 60);
  std::vector<std::vector<double>> heard;
  double beats = 0;
  while (heard.size() < 20) {
    const std::vector<double> own{double(world.rank()), ++beats};
    if (auto news = pulse.beat(own)) heard.push_back(*news);
    for (int i = 0; i < world.rank(); ++i) nap();
  }
  for (const auto& news : heard) {
    ASSERT_EQ(news.size(), 2U * static_cast<std::size_t>(world.size()));
    std::string text;
    for (std::size_t r = 0; 2 * r < news.size(); ++r) EXPECT_EQ(news[2 * r], r);
    for (const double value : news) text += std::to_string(value) + " ";
    EXPECT_EQ(text, world.broadcast(text));
  }
}

TEST(Pulse, MissesASilentRank) {
  const World& world = test_world();
  if (world.size() == 1) return;
  Pulse pulse(world, 1, 0.3);
  const std::vector<double> own{1};
  if (world.rank() != 0) {
    EXPECT_THROW(
        for (;;) {
          pulse.beat(own);
          nap();
        },
        RankLost);
  }
  world.barrier();
}

}  // namespace
}  // namespace forecost
