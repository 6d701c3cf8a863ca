#include "data/corpus/corpus.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace forecost {

const Device& Corpus::device(const std::string& id) const {
  const auto found = std::find_if(devices.begin(), devices.end(),
                                  [&](const Device& device) { return device.id() == id; });
  if (found == devices.end()) throw DataError(fmt::format("device '{}' is not in the corpus", id));
  return *found;
}

}  // namespace forecost
