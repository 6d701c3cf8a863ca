#include "train/cuda/training_device.hpp"

#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/units.hpp"
#include "mpi/agree.hpp"

namespace forecost {

TrainingDevice::TrainingDevice(const cuda::OpenableDevice& device)
    : module_(device.module), facts_(device.facts) {
  ask("opening it", table().open(device.index, &context_));
}

void TrainingDevice::ask(const char* what, const cuda::Outcome& outcome) const {
  if (outcome.code == cuda::Code::ok) return;
  const char* advice = "";
  if (outcome.code == cuda::Code::out_of_memory) {
    advice =
        "; give it smaller steps (--batch), share them between more ranks, or train with "
        "--device cpu";
  } else if (outcome.code == cuda::Code::poisoned) {
    advice =
        "; look at the driver's log, leave the GPU out (CUDA_VISIBLE_DEVICES), and go on from a "
        "--checkpoint with --resume";
  }
  throw EnvironmentError(
      fmt::format("{} ({}): {}: {}{}", facts_.name, facts_.uuid, what, outcome.message, advice));
}

TrainingDevice::~TrainingDevice() { table().close(context_); }

std::unique_ptr<TrainingDevice> open_training_device(const World& world) {
  std::unique_ptr<TrainingDevice> device;
  agree(world, [&] {
    const auto devices = cuda::openable_devices(cuda::module_folder());
    const int index = cuda::device_of_rank(static_cast<int>(devices.size()), world.local_rank());
    if (index < 0) {
      throw EnvironmentError(fmt::format(
          "rank {} on {} has no GPU to train on: {} for {} there; start one rank for each GPU",
          world.rank(), world.host(), format_counted(static_cast<double>(devices.size()), "GPU"),
          format_counted(world.local_size(), "rank")));
    }
    const auto& found = devices[static_cast<std::size_t>(index)];
    if (!found.module) {
      throw EnvironmentError(fmt::format("{} ({}): no CUDA module here was built for it",
                                         found.facts.name, found.facts.uuid));
    }
    device = std::make_unique<TrainingDevice>(found);
  });
  const auto uuids = world.all_gather(device->facts().uuid);
  const auto hosts = world.all_gather(world.host());
  agree(world, [&] {
    std::map<std::pair<std::string, std::string>, std::size_t> owners;
    for (std::size_t rank = 0; rank < uuids.size(); ++rank) {
      const auto [owner, is_new] = owners.try_emplace({hosts[rank], uuids[rank]}, rank);
      if (is_new) continue;
      throw EnvironmentError(
          fmt::format("ranks {} and {} on {} would train on the same GPU {}: give each rank a GPU "
                      "of its own",
                      owner->second, rank, hosts[rank], uuids[rank]));
    }
  });
  return device;
}

}  // namespace forecost
