#include "collect/reference/references.hpp"

namespace forecost {

Operands transfer_reference(const Task& /*task*/, const Operands& operands) {
  return {{"dst", operands.at("src")}};
}

}  // namespace forecost
