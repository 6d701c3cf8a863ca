#include "mpi/collective.hpp"

namespace forecost {

std::unique_ptr<Collective> make_collective(const World& /*world*/, double /*timeout_s*/) {
  return make_local_collective();
}
std::unique_ptr<Collective> make_collective(const World& /*world*/,
                                            const std::vector<int>& /*ranks*/,
                                            double /*timeout_s*/) {
  return make_local_collective();
}

}  // namespace forecost
