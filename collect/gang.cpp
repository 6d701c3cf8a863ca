#include "collect/gang.hpp"

#include <algorithm>
#include <cmath>
#include <exception>
#include <functional>
#include <limits>
#include <map>
#include <set>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "collect/protocol.hpp"
#include "core/units.hpp"
#include "data/operators/allreduce.hpp"

namespace forecost {

namespace {

/// What rank 0 asks the other members for: a number of runs, or one of these.
enum Command : std::int64_t { end = 0, make_cold = -1, checksum = -2 };

/// Of a member whose run failed.
constexpr Sample no_sample{.device_s = std::numeric_limits<double>::infinity(),
                           .host_s = std::numeric_limits<double>::infinity()};

/// The slowest member's of one run on all of them; no_sample if any failed.
Sample slowest(Gang& gang, const Sample& own) {
  return {gang.max(own.device_s), gang.max(own.host_s), gang.max(own.throttled ? 1 : 0) > 0};
}

/// Rank 0's case: does everything on all members.
class LeaderCase final : public PreparedCase {
 public:
  LeaderCase(std::unique_ptr<PreparedCase> own, Gang& gang) : own_(std::move(own)), gang_(gang) {}
  ~LeaderCase() override { gang_.broadcast(Command::end); }
  LeaderCase(const LeaderCase&) = delete;
  LeaderCase& operator=(const LeaderCase&) = delete;

  const CaseInfo& info() const override { return own_->info(); }
  Sample run(std::int64_t runs) override {
    gang_.broadcast(runs);
    gang_.barrier();
    Sample own = no_sample;
    std::exception_ptr error;
    try {
      own = own_->run(runs);
    } catch (...) {
      error = std::current_exception();
    }
    const Sample all = slowest(gang_, own);
    if (error) std::rethrow_exception(error);
    if (!std::isfinite(all.device_s)) {
      throw CaseRefused(Status::failed, "another member of the gang failed; its log tells why");
    }
    return all;
  }
  void make_cold() override {
    gang_.broadcast(Command::make_cold);
    own_->make_cold();
  }
  double checksum() override {
    gang_.broadcast(Command::checksum);
    return own_->checksum();
  }
  double checksum_tolerance() const override { return own_->checksum_tolerance(); }

 private:
  std::unique_ptr<PreparedCase> own_;
  Gang& gang_;
};

/// Whether all members could prepare; each tells, and none waits for one that could not.
bool all_ready(Gang& gang, bool ready) { return gang.max(ready ? 0 : 1) == 0; }

/// Does what rank 0 asks for, to the end. A member that fails warns of it and from then on takes
/// part without doing anything.
void follow(PreparedCase& own, Gang& gang, const Task& task) {
  bool failed = false;
  const auto attempt = [&](const std::function<void()>& act) {
    if (failed) return;
    try {
      act();
    } catch (const CaseRefused& refused) {
      spdlog::warn("{}: {}", task_text(task), refused.what());
      failed = true;
    }
  };
  for (;;) {
    const std::int64_t command = gang.broadcast(0);
    switch (command) {
      case Command::end:
        return;
      case Command::make_cold:
        attempt([&] { own.make_cold(); });
        break;
      case Command::checksum:
        attempt([&] { (void)own.checksum(); });
        break;
      default: {
        Sample sample = no_sample;
        gang.barrier();
        attempt([&] { sample = own.run(command); });
        slowest(gang, sample);
      }
    }
  }
}

}  // namespace

std::unique_ptr<PreparedCase> TimingBackend::prepare_collective(const Task& task, std::uint64_t,
                                                                Gang&) {
  throw CaseRefused(Status::unsupported, fmt::format("the {} backend has no collective {}", name(),
                                                     task.layer.op().name));
}

bool is_collective(const Task& task) {
  return family_of(task.layer.op(), task.pass) == Family::collective;
}

GangMembers gang_members(const DeviceGroup& group, const std::string& device_class,
                         const Task& task) {
  const AllreduceShape shape = allreduce_shape(task.layer);
  std::vector<std::string> hosts;  // in the order of ranks
  std::map<std::string, std::vector<int>> on_host;
  std::int64_t found = 0;
  for (std::size_t rank = 0; rank < group.members.size(); ++rank) {
    const DeviceGroup::Member& member = group.members[rank];
    if (!member.has_device || member.device.device_class != device_class) continue;
    auto& ranks = on_host[member.host];
    if (ranks.empty()) hosts.push_back(member.host);
    ranks.push_back(static_cast<int>(rank));
    ++found;
  }
  const std::int64_t each = shape.ranks / shape.nodes;
  GangMembers members;
  std::int64_t nodes = 0;
  for (const std::string& host : hosts) {
    const auto& ranks = on_host[host];
    if (nodes == shape.nodes || static_cast<std::int64_t>(ranks.size()) < each) continue;
    members.ranks.insert(members.ranks.end(), ranks.begin(), ranks.begin() + each);
    ++nodes;
  }
  if (nodes < shape.nodes) {
    members.ranks.clear();
    members.why_not = fmt::format(
        "it takes {} with such a device on {}; here are {} on {}", format_counted(each, "rank"),
        shape.nodes == 1 ? "one node" : fmt::format("each of {} nodes", shape.nodes), found,
        format_counted(hosts.size(), "node"));
  }
  return members;
}

std::unique_ptr<Gang> meet_gang(const World& world, const std::vector<int>& ranks,
                                TimingBackend& backend) {
  auto gang = make_gang(world, ranks);
  backend.meet(*gang);
  return gang;
}

GangRecord gang_record(const DeviceGroup& group, const std::vector<int>& ranks) {
  std::string members, hosts;
  std::set<std::string> nodes;
  for (const int rank : ranks) {
    const DeviceGroup::Member& member = group.members[static_cast<std::size_t>(rank)];
    const char* space = members.empty() ? "" : " ";
    members += space + member.device.id();
    hosts += space + member.host;
    nodes.insert(member.host);
  }
  return {{{"members", members}, {"hosts", hosts}, {"nodes", std::to_string(nodes.size())}}};
}

std::optional<Measurement> measure_in_gang(TimingBackend& backend, Gang& gang, const Task& task,
                                           const MeasureRules& rules, std::uint64_t seed) {
  if (gang.rank() == 0) {
    bool told = false;
    const Prepare prepare = [&](const Task& what,
                                std::uint64_t own_seed) -> std::unique_ptr<PreparedCase> {
      told = true;
      std::unique_ptr<PreparedCase> own;
      try {
        own = backend.prepare_collective(what, own_seed, gang);
      } catch (...) {
        all_ready(gang, false);
        throw;
      }
      if (!all_ready(gang, true)) {
        throw CaseRefused(Status::failed,
                          "another member of the gang could not prepare it; its log tells why");
      }
      return std::make_unique<LeaderCase>(std::move(own), gang);
    };
    auto row = measure(backend, task, rules, seed, prepare);
    // The others wait for a word in any case.
    if (!told) all_ready(gang, false);
    return row;
  }
  std::unique_ptr<PreparedCase> own;
  try {
    // Operands of its own, so that no member sums zeros.
    own = backend.prepare_collective(task, seed + static_cast<std::uint64_t>(gang.rank()), gang);
  } catch (const std::exception& error) {  // rank 0 has the row, which tells of this log
    spdlog::warn("{}: {}", task_text(task), error.what());
    all_ready(gang, false);
    return std::nullopt;
  }
  if (all_ready(gang, true)) follow(*own, gang, task);
  return std::nullopt;
}

}  // namespace forecost
