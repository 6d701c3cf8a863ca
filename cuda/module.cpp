#include "cuda/module.hpp"

#include <dlfcn.h>
#include <elf.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.hpp"
#include "core/file.hpp"

namespace forecost::cuda {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view prefix = "forecost-cuda", suffix = ".so";

/// 13 of "forecost-cuda13.so"; 0 of another name.
int major_of(const fs::path& file) {
  const std::string name = file.filename();
  if (name.size() <= prefix.size() + suffix.size() || !name.starts_with(prefix) ||
      !name.ends_with(suffix)) {
    return 0;
  }
  int major = 0;
  const char *begin = name.data() + prefix.size(), *end = name.data() + name.size() - suffix.size();
  const auto parsed = std::from_chars(begin, end, major);
  return parsed.ec == std::errc() && parsed.ptr == end ? major : 0;
}

/// What is wrong with the driver that cannot run a module of these versions. Within a major of CUDA
/// drivers run what is newer (CUDA Compatibility, "Minor Version Compatibility").
std::string driver_fault(const Versions& versions) {
  const int major = versions.runtime / 1000;
  // CUDA Toolkit Release Notes, "CUDA Toolkit and Minimum Required Driver Version for CUDA Minor
  // Version Compatibility".
  const int driver = major == 12 ? 525 : major == 13 ? 580 : 0;
  const std::string needed = fmt::format("the module needs one for CUDA {}{}", major,
                                         driver > 0 ? fmt::format(", {} or newer", driver) : "");
  if (versions.driver <= 0) return "there is no NVIDIA driver: " + needed;
  const std::string here =
      fmt::format("CUDA {}.{}", versions.driver / 1000, versions.driver % 1000 / 10);
  return versions.driver / 1000 < major
             ? fmt::format("the NVIDIA driver is for {}, too old: {}", here, needed)
             : fmt::format("the NVIDIA driver, for {}, does not answer", here);
}

/// The loader maps what was copied by half without a word; the first access behind its end would
/// end the process. A file that is none of the loader's at all is left to it.
void refuse_cut_off(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  Elf64_Ehdr header{};
  if (!in.read(reinterpret_cast<char*>(&header), sizeof header) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
    return;
  }
  // The table of sections comes last.
  const auto whole = static_cast<std::uintmax_t>(header.e_shoff) +
                     std::uintmax_t{header.e_shnum} * header.e_shentsize;
  if (const auto found = fs::file_size(file); found < whole) {
    throw EnvironmentError(
        fmt::format("{} is cut off ({} of {} bytes): copy it again", file.string(), found, whole));
  }
}

}  // namespace

void ask(const Outcome& outcome) {
  if (outcome.code != Code::ok) throw ModuleError(outcome.code, outcome.message);
}

Module::Module(const fs::path& file) : file_(file) {
  refuse_cut_off(file);
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    // "libcudnn.so.9: cannot open shared object file": the loader names the missing one first.
    throw EnvironmentError(
        fmt::format("{} cannot be opened ({}): are the libraries that it was "
                    "built with on the library path?",
                    file.string(), dlerror()));
  }
  const auto entry =
      reinterpret_cast<decltype(&forecost_cuda_module)>(dlsym(library, module_symbol));
  table_ = entry == nullptr ? nullptr : entry(interface_version);
  if (table_ == nullptr || table_->build != std::string_view(FORECOST_CUDA_BUILD)) {
    throw EnvironmentError(
        fmt::format("{} was not built with this program (it is {}, expected {}): build and install "
                    "both from the same sources",
                    file.string(), table_ == nullptr ? "of another interface" : table_->build,
                    FORECOST_CUDA_BUILD));
  }
}

Versions Module::versions() const {
  Versions versions{};
  table_->versions(&versions);
  return versions;
}

fs::path module_folder() { return (program_directory() / FORECOST_MODULES).lexically_normal(); }

std::vector<fs::path> module_files(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (major_of(entry.path()) > 0) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end(),
            [](const fs::path& a, const fs::path& b) { return major_of(a) > major_of(b); });
  return files;
}

std::vector<OpenableDevice> openable_devices(const fs::path& folder) {
  const auto files = module_files(folder);
  if (files.empty()) {
    throw EnvironmentError(
        fmt::format("there is no CUDA module: looked for {}*{} in {}; a build with the CUDA "
                    "Toolkit, cuDNN and NCCL has one (FORECOST_CUDA=ON)",
                    prefix, suffix, folder.string()));
  }
  std::vector<OpenableDevice> devices;
  std::vector<std::string> why;
  bool sees_none = false;
  for (const fs::path& file : files) {
    std::shared_ptr<const Module> module;
    try {
      module = std::make_shared<const Module>(file);
      std::int32_t count = 0;
      ask(module->table().count_devices(&count));
      devices.resize(static_cast<std::size_t>(std::max(count, 0)));
      for (std::int32_t index = 0; index < count; ++index) {
        OpenableDevice& device = devices[static_cast<std::size_t>(index)];
        if (device.module) continue;  // a newer module runs it
        DeviceFacts facts{};
        ask(module->table().describe_device(index, &facts));
        const int capability = 10 * facts.capability_major + facts.capability_minor;
        device = {nullptr, index, facts};
        const int lowest = module->versions().lowest_capability;
        if (capability < lowest) {
          why.push_back(fmt::format("{}: {} has compute capability {}.{}, the module needs {}.{}",
                                    file.filename().string(), facts.name, facts.capability_major,
                                    facts.capability_minor, lowest / 10, lowest % 10));
          continue;
        }
        device.module = module;
      }
    } catch (const ModuleError& error) {
      sees_none = sees_none || error.code() == Code::no_device;
      const std::string cause = error.code() == Code::no_driver   ? driver_fault(module->versions())
                                : error.code() == Code::no_device ? "there is no GPU"
                                                                  : "";
      why.push_back(
          fmt::format("{}: {}", file.filename().string(),
                      cause.empty() ? error.what() : fmt::format("{} ({})", cause, error.what())));
    } catch (const EnvironmentError& error) {
      why.emplace_back(error.what());  // names the file
    }
  }
  if (std::none_of(devices.begin(), devices.end(),
                   [](const auto& device) { return device.module != nullptr; })) {
    const std::string reasons = fmt::format("{}", fmt::join(why, "; "));
    if (!devices.empty()) throw UnusableGpu(reasons);
    if (sees_none) throw NoGpu(reasons);
    throw EnvironmentError(why.empty() ? "there is no GPU here" : reasons);
  }
  return devices;
}

int device_of_rank(int visible, int local_rank) {
  if (visible == 1) return 0;
  return local_rank < visible ? local_rank : -1;
}

}  // namespace forecost::cuda
