#include "train/cuda/nccl_collective.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

#include <fmt/format.h>

namespace forecost {

namespace {

/// Rank 0's new id, on all ranks: told byte by byte, since that is what a collective can tell.
cuda::CommunicatorId agreed_id(TrainingDevice& device, Collective& collective) {
  cuda::CommunicatorId id{};
  // Where it fails there is an id of zeros, with which nobody can open anything.
  if (collective.rank() == 0) (void)device.table().communicator_id(&id);
  std::vector<float> bytes;
  for (const char byte : id.bytes) bytes.push_back(static_cast<float>(byte));
  collective.broadcast(bytes, 0);
  std::transform(bytes.begin(), bytes.end(), id.bytes,
                 [](float byte) { return static_cast<char>(byte); });
  return id;
}

}  // namespace

NcclCollective::NcclCollective(TrainingDevice& device, const World& world,
                               const std::vector<int>& ranks, double timeout_s)
    : device_(device), timeout_s_(timeout_s) {
  const auto by_mpi = make_collective(world, ranks, timeout_s);
  rank_ = by_mpi->rank();
  size_ = by_mpi->size();
  const cuda::CommunicatorId id = agreed_id(device, *by_mpi);
  ask("opening a communicator of NCCL",
      device.table().open_communicator(device.context(), &id, rank_, size_, timeout_s,
                                       &communicator_));
}

NcclCollective::~NcclCollective() {
  if (communicator_ != nullptr) device_.table().close_communicator(communicator_);
}

void NcclCollective::ask(const char* what, const cuda::Outcome& outcome) const {
  if (outcome.code == cuda::Code::peer_lost) {
    throw RankLost(fmt::format("{} on {} GPUs: {}; --resume goes on from a --checkpoint", what,
                               size_, outcome.message));
  }
  device_.ask(what, outcome);
}

void NcclCollective::sum(std::span<float> values) {
  combine("sum", values.data(), values.size(), cuda::Element::f32, cuda::Combine::sum);
}
void NcclCollective::sum(std::span<double> values) {
  combine("sum", values.data(), values.size(), cuda::Element::f64, cuda::Combine::sum);
}
void NcclCollective::sum(std::span<std::int64_t> values) {
  combine("sum", values.data(), values.size(), cuda::Element::i64, cuda::Combine::sum);
}
void NcclCollective::max(std::span<double> values) {
  combine("max", values.data(), values.size(), cuda::Element::f64, cuda::Combine::max);
}

void NcclCollective::broadcast(std::span<float> values, int root) {
  check_same("broadcast", values.size(), cuda::Element::f32);
  ask("broadcast", device_.table().broadcast(communicator_, values.data(),
                                             static_cast<std::int64_t>(values.size_bytes()), root));
}

void NcclCollective::combine(const char* what, void* values, std::size_t count,
                             cuda::Element element, cuda::Combine how) const {
  check_same(what, count, element);
  ask(what, device_.table().combine(communicator_, values, element,
                                    static_cast<std::int64_t>(count), how));
}

/// NCCL would hang or add wrong elements. Every call is checked: these are few, once an epoch.
void NcclCollective::check_same(const char* what, std::size_t count, cuda::Element element) const {
  const auto n = static_cast<std::int64_t>(count), type = static_cast<std::int64_t>(element);
  std::array<std::int64_t, 4> extremes{n, -n, type, -type};
  ask(what,
      device_.table().combine(communicator_, extremes.data(), cuda::Element::i64,
                              static_cast<std::int64_t>(extremes.size()), cuda::Combine::max));
  if (extremes[0] == -extremes[1] && extremes[2] == -extremes[3]) return;
  throw std::logic_error(
      fmt::format("collective {} with different sizes: {} elements here, {} to {} over all ranks, "
                  "or elements of different types",
                  what, n, -extremes[1], extremes[0]));
}

CollectiveFactory nccl_collectives(TrainingDevice& device) {
  return [&device](const World& world, const std::vector<int>& ranks,
                   double timeout_s) -> std::unique_ptr<Collective> {
    if (ranks.size() == 1) return make_collective(world, ranks, timeout_s);
    return std::make_unique<NcclCollective>(device, world, ranks, timeout_s);
  };
}

}  // namespace forecost
