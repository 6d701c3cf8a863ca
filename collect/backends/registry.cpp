#include <fmt/format.h>
#include <fmt/ranges.h>

#include "collect/backend.hpp"
#include "collect/backends/cuda/cuda_backend.hpp"
#include "collect/backends/replay/replay_backend.hpp"
#ifdef FORECOST_HAVE_ONEDNN
#include "collect/backends/cpu/cpu_backend.hpp"
#endif

namespace forecost {

const std::vector<BackendInfo>& backends() {
  // One line each, the best first: `auto` takes the first real device that opens.
  static const std::vector<BackendInfo> built{
      cuda_backend,
#ifdef FORECOST_HAVE_ONEDNN
      cpu_backend,
#endif
      replay_backend,
  };
  return built;
}

namespace {

/// Of the backends that Forecost has, those that this build lacks, and why.
struct Missing {
  std::string_view name, why;
};
const std::vector<Missing> missing_backends = {
#ifndef FORECOST_HAVE_ONEDNN
    {"cpu", "it was built without oneDNN; FORECOST_ONEDNN=ON"},
#endif
};

}  // namespace

std::unique_ptr<TimingBackend> open_backend(std::string_view name, const DeviceRequest& request,
                                            std::vector<std::string>* warnings) {
  std::vector<std::string> known{"auto"};
  std::string why, unusable;
  for (const BackendInfo& backend : backends()) {
    known.emplace_back(backend.name);
    if (backend.name == name) return backend.open(request);
    // A rehearsal is never what `auto` means: its times are not this machine's.
    if (name != "auto" || backend.name == replay_backend.name) continue;
    try {
      auto opened = backend.open(request);
      if (!unusable.empty() && warnings != nullptr) {
        warnings->push_back(
            fmt::format("the backend is {}, although there is a GPU: {}", backend.name, unusable));
      }
      return opened;
    } catch (const EnvironmentError& error) {
      if (dynamic_cast<const UnusableDevice*>(&error) != nullptr) unusable = error.what();
      why += fmt::format("; {}: {}", backend.name, error.what());
    }
  }
  for (const Missing& missing : missing_backends) {
    if (missing.name == name) {
      throw EnvironmentError(fmt::format("no backend '{}' in this build ({}); built are: {}", name,
                                         missing.why, fmt::join(known, ", ")));
    }
    why += fmt::format("; {}: {}", missing.name, missing.why);
  }
  if (name != "auto") throw UsageError(unknown_name("backend", name, known));
  throw EnvironmentError("no backend of this build has a device here" + why +
                         "; --replay v100 rehearses without one");
}

}  // namespace forecost
