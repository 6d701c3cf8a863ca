#include <chrono>

#include <mpi.h>

#include "mpi/collective.hpp"
#include "mpi/pulse.hpp"

namespace forecost {

struct Pulse::Exchange {
  using Clock = std::chrono::steady_clock;
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  std::vector<double> own, all;
  double timeout_s;
  Clock::time_point told;
};

Pulse::Pulse(const World& world, std::size_t values, double timeout_s) {
  if (world.size() == 1) return;
  exchange_ = std::make_unique<Exchange>();
  exchange_->own.resize(values);
  exchange_->all.resize(values * static_cast<std::size_t>(world.size()));
  exchange_->timeout_s = timeout_s;
  MPI_Comm_dup(MPI_COMM_WORLD, &exchange_->comm);
}

Pulse::~Pulse() {
  if (!exchange_) return;
  if (exchange_->request != MPI_REQUEST_NULL) {
    // An exchange that was given up: what arrives yet must find its buffers.
    exchange_.release();
    return;
  }
  MPI_Comm_free(&exchange_->comm);
}

std::optional<std::vector<double>> Pulse::beat(std::span<const double> own) {
  if (!exchange_) return std::vector<double>(own.begin(), own.end());
  Exchange& e = *exchange_;
  if (e.request == MPI_REQUEST_NULL) {
    e.own.assign(own.begin(), own.end());
    const int count = static_cast<int>(e.own.size());
    MPI_Iallgather(e.own.data(), count, MPI_DOUBLE, e.all.data(), count, MPI_DOUBLE, e.comm,
                   &e.request);
    e.told = Exchange::Clock::now();
  }
  int done = 0;
  MPI_Test(&e.request, &done, MPI_STATUS_IGNORE);
  if (done != 0) return e.all;
  const double waited_s = std::chrono::duration<double>(Exchange::Clock::now() - e.told).count();
  if (waited_s > e.timeout_s) {
    int ranks = 0;
    MPI_Comm_size(e.comm, &ranks);
    throw RankLost("exchange of progress", ranks, e.timeout_s);
  }
  return std::nullopt;
}

}  // namespace forecost
