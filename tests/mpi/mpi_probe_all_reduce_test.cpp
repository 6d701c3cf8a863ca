#include "collect/probe_all_reduce.hpp"

#include <chrono>

#include <gtest/gtest.h>

#include "mpi_main.hpp"

namespace forecost {
namespace {

/// A device that has a clock and nothing else.
class ClockBackend final : public TimingBackend {
 public:
  std::string_view name() const override { return "clock"; }
  Protocol protocol() const override { return Protocol::host_clock; }
  const Device& device() const override { return device_; }
  void set_probed(Attribute attribute, double value) override { device_.set(attribute, value); }
  Environment environment() const override { return {}; }
  double free_memory_bytes() const override { return 0; }
  std::optional<std::string> unsupported(const Task&) const override { return "all"; }
  std::unique_ptr<PreparedCase> prepare(const Task&, std::uint64_t) override { return nullptr; }
  double now_s() const override {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
  void spin(double) override {}

 private:
  Device device_;
};

TEST(ProbeAllReduce, FindsOneFigureOnAllRanks) {
  ClockBackend backend;
  const auto spread = probe_all_reduce(test_world(), &backend, 0.01);
  const bool has = backend.device().has(Attribute::probed_allreduce_bytes_per_s);
  EXPECT_EQ(spread.has_value(), test_world().size() > 1);
  EXPECT_EQ(has, test_world().size() > 1);
}

// Ranks that went on would wait for the others for ever.
TEST(ProbeAllReduce, EndsOnAllRanksOnceOneMustStop) {
  ClockBackend backend;
  int asked = 0;
  const bool stops = test_world().rank() == test_world().size() - 1;
  const auto spread =
      probe_all_reduce(test_world(), &backend, 5, [&] { return stops && ++asked == 6; });
  EXPECT_FALSE(spread);
  EXPECT_FALSE(backend.device().has(Attribute::probed_allreduce_bytes_per_s));
  EXPECT_EQ(asked, test_world().size() > 1 && stops ? 6 : 0);
  test_world().barrier();
}

}  // namespace
}  // namespace forecost
