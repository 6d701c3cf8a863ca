#include "collect/backends/cpu/host_state.hpp"

#include <filesystem>
#include <fstream>

#include <unistd.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace forecost::cpu {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr double mib = 1024 * 1024;

/// A host of four cores, made of files. Processors 0 and 1 are the device.
class Host : public testing::Test {
 protected:
  void SetUp() override {
    root = fs::temp_directory_path() / fmt::format("forecost-host-{}", ::getpid());
    set("proc/cpuinfo", "processor : 0\nflags\t\t: fpu sse avx2\n");
    set("proc/loadavg", "0.10 0.20 0.30 1/200 4711\n");
    set_busy({0, 0, 0, 0});
  }
  void TearDown() override { fs::remove_all(root); }

  void set(const fs::path& file, const std::string& text) {
    fs::create_directories((root / file).parent_path());
    std::ofstream(root / file) << text;
  }
  void set_cpu(int processor, const std::string& file, const std::string& text) {
    set(fmt::format("sys/devices/system/cpu/cpu{}/{}", processor, file), text + "\n");
  }
  /// Each processor has had 1000 ticks, and has 50 more when the moment is over, of which it was
  /// busy in so many.
  void set_busy(const std::vector<int>& of_50, int stolen = 0) { busy = of_50, steal = stolen; }
  void write_ticks(bool after) {
    std::string text = "cpu  1 2 3 4 5 6 7 8 9 10\n";
    for (std::size_t i = 0; i < busy.size(); ++i) {
      const int worked = after ? busy[i] : 0, idle = after ? 50 - worked : 0;
      // user nice system idle iowait irq softirq steal guest guest_nice
      text += fmt::format("cpu{} {} 50 50 {} 100 10 20 {} 30 0\n", i, 100 + worked,
                          670 - steal + idle, steal);
    }
    set("proc/stat", text + "intr 5\nprocs_running 1\n");
  }
  HostState watch(const std::vector<int>& device = {0, 1}) {
    write_ticks(false);
    HostState host = watch_host(root, device, [&] { write_ticks(true); });
    host.llc_bytes = 32 * mib;
    host.llc_cores = 4;
    return host;
  }
  std::vector<std::string> warnings() { return warnings_of(watch()); }

  fs::path root;
  std::vector<int> busy;
  int steal = 0;
};

TEST_F(Host, QuietOneGivesNoWarning) {
  for (int processor = 0; processor < 4; ++processor) {
    set_cpu(processor, "cpufreq/scaling_governor", "performance");
    set_cpu(processor, "topology/thread_siblings_list", std::to_string(processor));
  }
  set("sys/devices/system/cpu/intel_pstate/no_turbo", "1\n");
  set("sys/fs/cgroup/cpu.max", "max 100000\n");
  EXPECT_THAT(warnings(), IsEmpty());
  EXPECT_EQ(watch().online, 4);
  EXPECT_EQ(watch().turbo, false);
}

TEST_F(Host, WhereNothingIsToldNothingIsWarnedOf) {
  fs::remove_all(root);
  HostState host = watch_host(root, std::vector<int>{0}, [] {});
  host.llc_bytes = mib;
  EXPECT_THAT(warnings_of(host), IsEmpty());
}

TEST_F(Host, GovernorsOfTheDeviceAreNamed) {
  set_cpu(0, "cpufreq/scaling_governor", "powersave");
  set_cpu(1, "cpufreq/scaling_governor", "powersave");
  set_cpu(2, "cpufreq/scaling_governor", "schedutil");  // not the device's
  EXPECT_THAT(warnings(), ElementsAre(HasSubstr("processors 0-1: their frequency governor is "
                                                "powersave")));
  set_cpu(1, "cpufreq/scaling_governor", "performance");
  EXPECT_THAT(warnings(), ElementsAre(HasSubstr("processors 0: their frequency governor")));
}

TEST_F(Host, TurboIsToldByEitherDriver) {
  set("sys/devices/system/cpu/cpufreq/boost", "1\n");
  EXPECT_THAT(warnings(), ElementsAre(HasSubstr("turbo is on")));
  set("sys/devices/system/cpu/cpufreq/boost", "0\n");
  EXPECT_THAT(warnings(), IsEmpty());
  set("sys/devices/system/cpu/intel_pstate/no_turbo", "0\n");
  EXPECT_THAT(warnings(), ElementsAre(HasSubstr("turbo is on")));
}

TEST_F(Host, HardwareThreadsOfTheSameCoresAreNamedWithTheirLoad) {
  set_cpu(0, "topology/thread_siblings_list", "0,2");
  set_cpu(1, "topology/thread_siblings_list", "1,3");
  EXPECT_THAT(warnings(), ElementsAre(HasSubstr("processors 2-3: second hardware threads of the "
                                                "device's cores, 0 % busy")));
  set_busy({0, 0, 50, 0});
  EXPECT_THAT(warnings(), ElementsAre(HasSubstr("50 % busy")));
  set_cpu(0, "topology/thread_siblings_list", "0-1");  // both are the device's
  set_cpu(1, "topology/thread_siblings_list", "0-1");
  set_busy({0, 0, 0, 0});
  EXPECT_THAT(warnings(), IsEmpty());
}

TEST_F(Host, OtherLoadIsToldWhereItIs) {
  set_busy({2, 3, 0, 0});  // 5 %
  EXPECT_THAT(warnings(), IsEmpty());
  set_busy({50, 10, 0, 0});
  EXPECT_DOUBLE_EQ(watch().device_busy, 0.6);
  EXPECT_THAT(warnings(), ElementsAre(HasSubstr("processors 0-1: 60 % busy with other work, load "
                                                "average 0.1")));
  set_busy({0, 0, 50, 30});
  EXPECT_THAT(warnings(), ElementsAre(HasSubstr("the host's other processors: 80 % busy")));
  set_busy({0, 0, 0, 0});
  set("proc/loadavg", "4.50 0.20 0.30 1/200 4711\n");
  EXPECT_THAT(warnings(), ElementsAre(HasSubstr("the load average is 4.5 on 4 processors")));
}

TEST_F(Host, VirtualMachinesAndWhatTheirHostTookAreTold) {
  set("proc/cpuinfo", "flags : fpu hypervisor avx2\n");
  EXPECT_THAT(warnings(), IsEmpty()) << "nothing was stolen";
  set_busy({0, 0, 0, 0}, 100);
  const double share = 100.0 / 1050;
  EXPECT_DOUBLE_EQ(watch().stolen, share);
  EXPECT_THAT(warnings(), ElementsAre(HasSubstr("this is a virtual machine, 9.5 % of whose time")));
  set("proc/cpuinfo", "flags : fpu avx2\n");
  EXPECT_THAT(warnings(), IsEmpty());
  set("sys/hypervisor/type", "xen\n");
  EXPECT_THAT(warnings(), ElementsAre(HasSubstr("virtual machine")));
}

TEST_F(Host, AQuotaBelowTheDeviceIsTold) {
  set("sys/fs/cgroup/cpu.max", "150000 100000\n");
  EXPECT_THAT(warnings(), ElementsAre(HasSubstr("may use 1.50 processors' time")));
  set("sys/fs/cgroup/cpu.max", "200000 100000\n");
  EXPECT_THAT(warnings(), IsEmpty());
}

TEST_F(Host, CachesThatNoCpuHasAreTold) {
  HostState host = watch();
  host.llc_bytes = 508 * mib;
  host.llc_cores = 2;
  EXPECT_THAT(warnings_of(host), ElementsAre(HasSubstr("533 MB for 2 cores, which no CPU has")));
  host.llc_cores = 16;
  EXPECT_THAT(warnings_of(host), IsEmpty());
  host.llc_bytes = 0;
  EXPECT_THAT(warnings_of(host), ElementsAre(HasSubstr("tells no cache sizes")));
}

TEST(Pinning, IsMissingWhereAProcessMayRunOutsideItsDevice) {
  const std::vector<int> all{0, 1, 2, 3}, device{3, 2};
  EXPECT_EQ(pinning_warning(device, device, 1), "");
  EXPECT_THAT(pinning_warning(all, device, 1),
              HasSubstr("this process may run on 4 cores, and its device is 2 of them (2-3)"));
  EXPECT_THAT(pinning_warning(all, device, 1), HasSubstr("taskset -c 2-3"));
  EXPECT_THAT(pinning_warning(all, device, 2), HasSubstr("mpirun --bind-to core --map-by "
                                                         "slot:PE=2"));
}

}  // namespace
}  // namespace forecost::cpu
