#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "mpi/collective.hpp"
#include "train/cuda/training_device.hpp"

namespace forecost {

/// Sums by NCCL over ranks that have a GPU each. What these calls take lies in the host's memory;
/// gradients, which lie on the devices, are summed by the engine through the same communicator.
/// RankLost also where NCCL itself tells of a lost rank.
class NcclCollective final : public Collective {
 public:
  /// Of these ranks of the world, two at least, which call it at the same time. The device outlives
  /// this. Throws RankLost, and EnvironmentError where NCCL refuses.
  NcclCollective(TrainingDevice& device, const World& world, const std::vector<int>& ranks,
                 double timeout_s);
  ~NcclCollective() override;
  NcclCollective(const NcclCollective&) = delete;
  NcclCollective& operator=(const NcclCollective&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void sum(std::span<float> values) override;
  void sum(std::span<double> values) override;
  void sum(std::span<std::int64_t> values) override;
  void max(std::span<double> values) override;
  void broadcast(std::span<float> values, int root) override;

  /// What the module answered to a call of the engine; RankLost where that tells of a lost rank.
  void ask(const char* what, const cuda::Outcome& outcome) const;
  cuda::Communicator* communicator() const { return communicator_; }

 private:
  void combine(const char* what, void* values, std::size_t count, cuda::Element element,
               cuda::Combine how) const;
  void check_same(const char* what, std::size_t count, cuda::Element element) const;

  TrainingDevice& device_;
  cuda::Communicator* communicator_ = nullptr;
  int rank_ = 0, size_ = 1;
  double timeout_s_;
};

/// Collectives of this device: NCCL's, or of a group of one rank one that has nothing to sum.
CollectiveFactory nccl_collectives(TrainingDevice& device);

}  // namespace forecost
