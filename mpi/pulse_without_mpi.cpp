#include "mpi/pulse.hpp"

namespace forecost {

struct Pulse::Exchange {};

Pulse::Pulse(const World& /*world*/, std::size_t /*values*/, double /*timeout_s*/) {}
Pulse::~Pulse() = default;
std::optional<std::vector<double>> Pulse::beat(std::span<const double> own) {
  return std::vector<double>(own.begin(), own.end());
}

}  // namespace forecost
