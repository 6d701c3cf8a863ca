#pragma once

#include <optional>
#include <string>
#include <vector>

#include "collect/backend.hpp"
#include "collect/device_group.hpp"
#include "collect/sweep.hpp"
#include "mpi/gang.hpp"

// Collectives: tasks that several devices do together. One member of a gang measures by the
// protocol of all other tasks, and tells the others what to do with it.

namespace forecost {

/// Whether a task needs a gang.
bool is_collective(const Task& task);

/// Who takes part: `ranks` devices of the class, the same number on each of `nodes` hosts, the
/// first ones in the order of ranks.
struct GangMembers {
  std::vector<int> ranks;  ///< of the world; empty if there are too few
  std::string why_not;
};
GangMembers gang_members(const DeviceGroup& group, const std::string& device_class,
                         const Task& task);

/// A gang of these ranks, whose devices reach each other; see make_gang(). `backend` is this
/// rank's.
std::unique_ptr<Gang> meet_gang(const World& world, const std::vector<int>& ranks,
                                TimingBackend& backend);

/// What a corpus keeps of its members.
GangRecord gang_record(const DeviceGroup& group, const std::vector<int>& ranks);

/// measure() on all members at once; called by each of them, and by no other rank. The row, as far
/// as measure() fills it in, comes back on rank 0 of the gang; the others get nullopt. A sample's
/// time is the slowest member's.
std::optional<Measurement> measure_in_gang(TimingBackend& backend, Gang& gang, const Task& task,
                                           const MeasureRules& rules, std::uint64_t seed);

}  // namespace forecost
