#include <array>

#include "cli/verb.hpp"

namespace forecost::cli {

// One file each, cli/verb_NAME.cpp.
// extern const Verb NAME_verb;

std::span<const Verb> verbs() {
  static const std::vector<Verb> all{
  };
  return all;
}

}  // namespace forecost::cli
