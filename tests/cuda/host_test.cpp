#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "collect/backends/cuda/cuda_backend.hpp"
#include "collect/backends/cuda/nvml.hpp"
#include "core/error.hpp"
#include "cuda/module.hpp"

// The program's side of the CUDA module, as far as it needs neither module nor GPU.

namespace forecost::cuda {
namespace {

namespace fs = std::filesystem;

class Folder {
 public:
  Folder() {
    path_ = fs::temp_directory_path() /
            ("forecost-cuda-" +
             std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::remove_all(path_);
    fs::create_directory(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  fs::path operator/(const std::string& name) const { return path_ / name; }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

std::string message_of(const fs::path& folder) {
  try {
    openable_devices(folder);
  } catch (const EnvironmentError& error) {
    return error.what();
  }
  return "it opened";
}

TEST(DeviceOfRank, IsTheRanksOwnNumberWhereAllAreVisible) {
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(device_of_rank(4, rank), rank);
}

TEST(DeviceOfRank, IsTheOneThatTheLauncherGave) {
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(device_of_rank(1, rank), 0);
}

TEST(DeviceOfRank, IsNoneForRanksBeyondTheDevices) {
  EXPECT_EQ(device_of_rank(2, 1), 1);
  EXPECT_EQ(device_of_rank(2, 2), -1);
  EXPECT_EQ(device_of_rank(2, 3), -1);
}

TEST(ModuleFiles, AreTheNewestMajorFirstAndNothingElse) {
  const Folder folder;
  for (const char* name :
       {"forecost-cuda12.so", "forecost-cuda13.so", "forecost-cuda9.so", "forecost-cuda.so",
        "forecost-cuda13.so.bak", "libx.so", "forecost-cudax13.so"}) {
    std::ofstream(folder / name) << "x";
  }
  const auto files = module_files(folder.path());
  ASSERT_EQ(files.size(), 3U);
  EXPECT_EQ(files[0].filename(), "forecost-cuda13.so");
  EXPECT_EQ(files[1].filename(), "forecost-cuda12.so");
  EXPECT_EQ(files[2].filename(), "forecost-cuda9.so");
  EXPECT_TRUE(module_files(folder / "absent").empty());
}

TEST(OpenableDevices, SayWhereTheModuleWasLookedFor) {
  const Folder folder;
  const std::string message = message_of(folder.path());
  EXPECT_NE(message.find(folder.path().string()), std::string::npos) << message;
  EXPECT_NE(message.find("no CUDA module"), std::string::npos) << message;
}

TEST(OpenableDevices, SayThatAModuleDoesNotOpenInOneLine) {
  const Folder folder;
  std::ofstream(folder / "forecost-cuda13.so") << "no library";
  const std::string message = message_of(folder.path());
  EXPECT_NE(message.find("forecost-cuda13.so"), std::string::npos) << message;
  EXPECT_NE(message.find("cannot be opened"), std::string::npos) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
}

// Opening one by the loader alone would end the process.
TEST(OpenableDevices, SayThatAModuleIsCutOff) {
  const Folder folder;
  const fs::path module = folder / "forecost-cuda13.so";
  fs::copy_file(fs::read_symlink("/proc/self/exe"), module);
  fs::resize_file(module, fs::file_size(module) * 2 / 3);
  const std::string message = message_of(folder.path());
  EXPECT_NE(message.find("forecost-cuda13.so is cut off ("), std::string::npos) << message;
}

TEST(ForeignProcesses, AreAllButThisOne) {
  using Processes = std::vector<std::uint32_t>;
  EXPECT_EQ(without_this_process({7, 42, 9}, 42, true), (Processes{7, 9}));
  EXPECT_EQ(without_this_process({7}, 42, true), (Processes{7}));  // it has no work there yet
  // A container's own numbers.
  EXPECT_EQ(without_this_process({7, 9}, 42, false), (Processes{7}));
  EXPECT_EQ(without_this_process({}, 42, false), Processes{});
  EXPECT_EQ(without_this_process({42, 9}, 42, false), (Processes{9}));
}

TEST(GpuClass, IsTheShippedDevicesWhereOneHasTheName) {
  EXPECT_EQ(gpu_class("NVIDIA H100 80GB HBM3", 700, 700, false), "h100");
  EXPECT_EQ(gpu_class("Tesla V100-SXM2-16GB", 300, 300, false), "v100");
  EXPECT_EQ(gpu_class("Tesla T4", 70, 70, false), "t4");
}

TEST(GpuClass, IsTheNameInShortWhereNoneHas) {
  EXPECT_EQ(gpu_class("NVIDIA RTX A6000", 0, 0, false), "rtx-a6000");
  EXPECT_EQ(gpu_class("NVIDIA GeForce RTX 4090", 0, 0, false), "rtx-4090");
  EXPECT_EQ(gpu_class("Tesla V100-SXM2-32GB", 0, 0, false), "v100-sxm2-32gb");
}

TEST(GpuClass, TellsWhatMakesACardAnotherOne) {
  EXPECT_EQ(gpu_class("NVIDIA H100 80GB HBM3", 450, 700, false), "h100-450w");
  EXPECT_EQ(gpu_class("NVIDIA H100 80GB HBM3", 0, 700, false), "h100");  // not told
  EXPECT_EQ(gpu_class("NVIDIA A100-SXM4-40GB MIG 1g.5gb", 400, 400, false), "a100-40gb-mig-1g-5gb");
  EXPECT_EQ(gpu_class("Tesla T4", 70, 70, true), "t4-noecc");
}

TEST(GpuClass, OfAllShippedDevicesIsTheirOwn) {
  for (const std::string& name : shipped_devices()) {
    for (const std::string& cuda_name : find_device(name).cuda_names) {
      EXPECT_EQ(gpu_class(cuda_name, 0, 0, false), name) << cuda_name;
    }
  }
}

TEST(ShippedGpu, OfTwoFilesIsRefusedWithBoth) {
  const Folder folder;
  fs::create_directory(folder / "devices");
  for (const char* name : {"a", "b"}) {
    std::ofstream(folder / "devices" / (name + std::string(".toml")))
        << "name = \"N\"\nkind = \"gpu\"\nclass = \"" << name << "\"\ncuda_names = [\"One\", \""
        << name << "\"]\n";
  }
  ASSERT_EQ(setenv("FORECOST_CONFIGS", folder.path().c_str(), 1), 0);
  EXPECT_EQ(shipped_gpu("a"), "a");
  EXPECT_EQ(shipped_gpu("None"), std::nullopt);
  try {
    gpu_class("One", 0, 0, false);
    ADD_FAILURE() << "two files have it";
  } catch (const UsageError& error) {
    for (const char* name : {"a.toml", "b.toml", "\"One\""}) {
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
  }
  unsetenv("FORECOST_CONFIGS");
}

}  // namespace
}  // namespace forecost::cuda
