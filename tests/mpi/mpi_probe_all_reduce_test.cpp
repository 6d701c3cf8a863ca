#include "collect/probe_all_reduce.hpp"

#include <chrono>

#include <gtest/gtest.h>

#include "mpi_main.hpp"

namespace forecost {
namespace {

/// A sum over a gang, by the host's clock.
class GangCase final : public PreparedCase {
 public:
  explicit GangCase(Gang& gang) : gang_(gang) {}
  const CaseInfo& info() const override { return info_; }
  Sample run(std::int64_t) override {
    const auto begin = std::chrono::steady_clock::now();
    gang_.all_reduce(from_, to_);
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return {.device_s = seconds, .host_s = seconds};
  }
  void make_cold() override {}
  double checksum() override { return 0; }

 private:
  Gang& gang_;
  CaseInfo info_;
  std::vector<float> from_ = std::vector<float>(1000, 1), to_ = from_;
};

/// A device that has a clock, sums, and nothing else.
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
  std::unique_ptr<PreparedCase> prepare_collective(const Task&, std::uint64_t,
                                                   Gang& gang) override {
    if (refuses) throw CaseRefused(Status::failed, "not today");
    return std::make_unique<GangCase>(gang);
  }
  double now_s() const override {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
  void spin(double) override {}

  bool refuses = false;

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

// One of them.
TEST(ProbeAllReduce, StaysUnknownWhereARankCannot) {
  ClockBackend backend;
  backend.refuses = test_world().rank() == test_world().size() - 1;
  EXPECT_FALSE(probe_all_reduce(test_world(), &backend, 0.01));
  EXPECT_FALSE(backend.device().has(Attribute::probed_allreduce_bytes_per_s));
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
