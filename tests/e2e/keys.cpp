// Prints task keys, one a line, sorted: what a sweep plans for some device classes, or what a
// corpus or a run directory's journals hold. The end-to-end tests compare the lists.
//   keys plan SWEEP.toml CLASS...     keys corpus FILE.h5     keys journals RUN_DIR

#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include "collect/sweep.hpp"
#include "data/corpus/corpus.hpp"
#include "data/corpus/journal.hpp"

int main(int argc, char** argv) {
  using namespace forecost;
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  try {
    std::vector<std::string> keys;
    const auto add_rows = [&](const Corpus& corpus) {
      for (const Measurement& row : corpus.rows) {
        if (row.replicate == 0) keys.push_back(task_key(row.task, row.device_class));
      }
    };
    if (arguments.at(0) == "plan") {
      const Plan plan = load_plan(arguments.at(1));
      for (std::size_t i = 2; i < arguments.size(); ++i) {
        for (const Task& task : plan.tasks) keys.push_back(task_key(task, arguments[i]));
      }
    } else if (arguments.at(0) == "corpus") {
      add_rows(read_corpus(arguments.at(1), false));
    } else if (arguments.at(0) == "journals") {
      add_rows(read_journals(arguments.at(1)));
    } else {
      throw std::invalid_argument("plan, corpus or journals");
    }
    std::sort(keys.begin(), keys.end());
    for (const std::string& key : keys) std::cout << key << "\n";
  } catch (const std::exception& error) {
    std::cerr << "keys: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
