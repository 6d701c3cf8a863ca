#include "cli/verb.hpp"

namespace forecost::cli {

// One file each, cli/verb_NAME.cpp.
extern const Verb devices_verb;
extern const Verb probe_verb;
extern const Verb collect_verb;
extern const Verb corpus_verb;
extern const Verb train_verb;
extern const Verb evaluate_verb;
extern const Verb predict_verb;
extern const Verb measure_verb;
extern const Verb networks_verb;

std::span<const Verb> verbs() {
  static const std::vector<Verb> all{
      devices_verb,  probe_verb,   collect_verb, corpus_verb,   train_verb,
      evaluate_verb, predict_verb, measure_verb, networks_verb,
  };
  return all;
}

}  // namespace forecost::cli
