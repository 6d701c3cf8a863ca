// Prints, one a line and sorted, what the end-to-end tests compare.
//   keys plan SWEEP.toml CLASS...    the task keys that a sweep plans for some device classes
//   keys corpus FILE.h5              those that a corpus holds
//   keys journals RUN_DIR            or a run directory's journals
//   keys rows FILE.h5|RUN_DIR        every row of a corpus or of journals as a JSON object, whole
//   keys content FILE.h5|RUN_DIR     the same, and devices, environments, sweeps and runs

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "collect/sweep.hpp"
#include "data/corpus/corpus.hpp"
#include "data/corpus/journal.hpp"
#include "data/corpus/records.hpp"

namespace {

using namespace forecost;

Corpus read_any(const std::string& path) {
  return std::filesystem::is_directory(path) ? read_journals(path) : read_corpus(path);
}

template <class Records>
void add_records(const Records& records, std::vector<std::string>& lines) {
  for (const auto& record : records)
    lines.push_back(nlohmann::json::from_cbor(encode(record)).dump());
}

void add_rows(const Corpus& corpus, std::vector<std::string>& lines) {
  for (const Measurement& row : corpus.rows) {
    auto json = nlohmann::json::from_cbor(encode(row));
    json["task_key"] = task_key(row.task, row.device_class);
    json["samples_s"] = row.samples_s;
    lines.push_back(json.dump());
  }
}

void add_keys(const Corpus& corpus, std::vector<std::string>& lines) {
  for (const Measurement& row : corpus.rows) {
    if (row.replicate == 0) lines.push_back(task_key(row.task, row.device_class));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  try {
    std::vector<std::string> lines;
    const std::string& what = arguments.at(0);
    if (what == "plan") {
      const Plan plan = load_plan(arguments.at(1));
      for (std::size_t i = 2; i < arguments.size(); ++i) {
        for (const Task& task : plan.tasks) lines.push_back(task_key(task, arguments[i]));
      }
    } else if (what == "corpus" || what == "journals") {
      add_keys(read_any(arguments.at(1)), lines);
    } else if (what == "rows") {
      add_rows(read_any(arguments.at(1)), lines);
    } else if (what == "content") {
      const Corpus corpus = read_any(arguments.at(1));
      add_rows(corpus, lines);
      add_records(corpus.devices, lines);
      add_records(corpus.environments, lines);
      add_records(corpus.sweeps, lines);
      add_records(corpus.runs, lines);
    } else {
      throw std::invalid_argument("plan, corpus, journals, rows or content");
    }
    std::sort(lines.begin(), lines.end());
    for (const std::string& line : lines) std::cout << line << "\n";
  } catch (const std::exception& error) {
    std::cerr << "keys: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
