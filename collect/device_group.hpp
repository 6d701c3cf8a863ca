#pragma once

#include <string>
#include <vector>

#include "collect/backend.hpp"
#include "mpi/world.hpp"

namespace forecost {

/// The devices of all ranks, the same on every rank.
struct DeviceGroup {
  struct Member {
    std::string host;
    bool has_device = false;
    Device device;                ///< uuid, class and attributes; names are left out
    std::vector<int> processors;  ///< of the host, where the device is made of them
  };
  std::vector<Member> members;  ///< by rank

  /// One device of each class, in the order of ranks.
  std::vector<Device> classes() const;
  int devices() const;
  /// The first rank with a device of the class, -1 if there is none.
  int first_of(const std::string& device_class) const;
  /// Ranks other than `rank` that measure on the same host.
  int neighbours(int rank) const;
};

/// `backend` is null on a rank without a device. Throws AgreedError of an environment if
/// no rank has a device, or if two ranks of a host share one (host, ranks and UUID are named).
DeviceGroup gather_devices(const World& world, const TimingBackend* backend);

/// One device of each class among those of all ranks, in the order of ranks; on every rank.
std::vector<Device> gather_classes(const World& world, const std::vector<Device>& own);

/// Warns on rank 0 of what all ranks have to tell, a line each. All ranks call it.
void warn_together(const World& world, const std::vector<std::string>& lines);

/// The check of gather_devices.
void refuse_shared_devices(const DeviceGroup& group);

}  // namespace forecost
