#include <algorithm>
#include <cstdlib>
#include <limits>
#include <stdexcept>

#include <fmt/format.h>
#include <mpi.h>

#include "core/error.hpp"
#include "mpi/launch.hpp"
#include "mpi/polite_wait.hpp"
#include "mpi/world.hpp"

namespace forecost {

namespace {

void wait(MPI_Request request) {
  PoliteWait politely;
  for (int done = 0; done == 0;) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done == 0) politely.pause();
  }
}

int count_of(std::size_t bytes) {
  if (bytes > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    throw std::length_error(fmt::format("{} bytes are too many for one MPI message", bytes));
  }
  return static_cast<int>(bytes);
}

}  // namespace

World::World(int& argc, char**& argv) : host_(host_name()) {
  const Launch launch = read_launch([](const char* name) { return std::getenv(name); });
  if (launch.has_peers) {
    int provided = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    owns_mpi_ = true;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    MPI_Comm node = MPI_COMM_NULL;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &local_rank_);
    MPI_Comm_size(node, &local_size_);
    MPI_Comm_free(&node);
  }
  try {
    check_world_size(launch, size_);
  } catch (...) {
    // Every rank finds the same and leaves with its own exit code; an abort would hide it.
    if (owns_mpi_) MPI_Finalize();
    throw;
  }
}

World::~World() {
  if (owns_mpi_) MPI_Finalize();
}

void World::barrier() const {
  if (size_ == 1) return;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  wait(request);
}

std::vector<std::string> World::all_gather(std::string_view text) const {
  if (size_ == 1) return {std::string(text)};
  const auto ranks = static_cast<std::size_t>(size_);
  const int own = count_of(text.size());
  std::vector<int> counts(ranks), offsets(ranks, 0);
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallgather(&own, 1, MPI_INT, counts.data(), 1, MPI_INT, MPI_COMM_WORLD, &request);
  wait(request);
  std::size_t total = 0;
  for (std::size_t i = 0; i < ranks; ++i) {
    offsets[i] = count_of(total);
    total += static_cast<std::size_t>(counts[i]);
  }
  std::string all(std::max<std::size_t>(total, 1), '\0');
  count_of(total);
  MPI_Iallgatherv(text.data(), own, MPI_BYTE, all.data(), counts.data(), offsets.data(), MPI_BYTE,
                  MPI_COMM_WORLD, &request);
  wait(request);
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < ranks; ++i) {
    texts.push_back(
        all.substr(static_cast<std::size_t>(offsets[i]), static_cast<std::size_t>(counts[i])));
  }
  return texts;
}

std::string World::broadcast(std::string_view text, int root) const {
  if (size_ == 1) return std::string(text);
  unsigned long long length = rank_ == root ? text.size() : 0;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibcast(&length, 1, MPI_UNSIGNED_LONG_LONG, root, MPI_COMM_WORLD, &request);
  wait(request);
  std::string all(text);
  all.resize(length);
  MPI_Ibcast(all.data(), count_of(length), MPI_BYTE, root, MPI_COMM_WORLD, &request);
  wait(request);
  return all;
}

int World::all_max(int value) const {
  if (size_ == 1) return value;
  int largest = value;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallreduce(&value, &largest, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD, &request);
  wait(request);
  return largest;
}

void World::abort(int code) const {
  if (owns_mpi_) MPI_Abort(MPI_COMM_WORLD, code);
  std::_Exit(code);
}

}  // namespace forecost
