#include <limits>
#include <stdexcept>

#include <fmt/format.h>
#include <mpi.h>

#include "mpi/gang.hpp"

namespace forecost {

namespace {

class MpiGang final : public Gang {
 public:
  explicit MpiGang(const std::vector<int>& ranks) {
    MPI_Group world = MPI_GROUP_NULL, members = MPI_GROUP_NULL;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, static_cast<int>(ranks.size()), ranks.data(), &members);
    constexpr int tag = 0;
    MPI_Comm_create_group(MPI_COMM_WORLD, members, tag, &comm_);
    MPI_Group_free(&members);
    MPI_Group_free(&world);
    if (comm_ == MPI_COMM_NULL) throw std::logic_error("a rank made a gang that it is not in");
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
  }
  ~MpiGang() override { MPI_Comm_free(&comm_); }
  MpiGang(const MpiGang&) = delete;
  MpiGang& operator=(const MpiGang&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void barrier() override { MPI_Barrier(comm_); }
  std::int64_t broadcast(std::int64_t value) override {
    MPI_Bcast(&value, 1, MPI_INT64_T, 0, comm_);
    return value;
  }
  double max(double value) override {
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_MAX, comm_);
    return value;
  }
  void all_reduce(std::span<const float> from, std::span<float> to) override {
    if (from.size() != to.size() ||
        from.size() > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
      throw std::length_error(fmt::format(
          "an all-reduce of {} elements into {}: MPI takes 2^31 - 1", from.size(), to.size()));
    }
    MPI_Allreduce(from.data(), to.data(), static_cast<int>(from.size()), MPI_FLOAT, MPI_SUM, comm_);
  }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
};

}  // namespace

std::unique_ptr<Gang> make_gang(const World&, const std::vector<int>& ranks) {
  return std::make_unique<MpiGang>(ranks);
}

}  // namespace forecost
