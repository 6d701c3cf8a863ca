// Measures tasks as forecost collect does, one line of task text in, one line of JSON out, so that a
// script can take turns with another program on the same cores (bench/operators_torch.py).
//   bench_operators [CORES] [BUDGET_S]
#include <cstdlib>
#include <iostream>
#include <string>

#include <nlohmann/json.hpp>

#include "collect/protocol.hpp"
#include "core/error.hpp"
#include "core/hash.hpp"

int main(int argc, char** argv) {
  using namespace forecost;
  const int cores = argc > 1 ? std::atoi(argv[1]) : 1;
  MeasureRules rules;
  rules.budget_s = argc > 2 ? std::atof(argv[2]) : 1;
  rules.warmup_budget_s = rules.budget_s / 2;
  const auto backend = open_backend("cpu", {.cores = cores});
  backend->probe(false);
  std::cout << nlohmann::json{{"processors", backend->processors()},
                              {"class", backend->device().device_class}}
                   .dump()
            << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    nlohmann::json answer{{"task", line}};
    try {
      const auto row = measure(*backend, parse_task(line), rules, hash64(line));
      answer["status"] = row ? name_of(row->status) : "stopped";
      if (row && row->time.n > 0) {
        answer["median_s"] = row->time.median_s;
        answer["n"] = row->time.n;
      }
      answer["reason"] = row ? row->reason : "";
      answer["implementation"] = row ? row->implementation : "";
    } catch (const Error& error) {
      answer["status"] = "usage";
      answer["reason"] = error.what();
    }
    std::cout << answer.dump() << std::endl;
  }
}
