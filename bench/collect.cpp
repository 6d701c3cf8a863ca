// Configurations per hour and duty cycle of a sweep, from the run directory it was collected into:
//   bench_collect RUN_DIR
// Where the rest of the time went stands beside it. Runs that were resumed count their pauses.
#include <fmt/format.h>

#include <cmath>
#include <iostream>
#include <map>

#include "core/error.hpp"
#include "core/table.hpp"
#include "core/units.hpp"
#include "data/corpus/corpus.hpp"

namespace {

using namespace forecost;

double or_zero(double value) { return std::isnan(value) ? 0 : value; }

void report(const Corpus& corpus) {
  double begin = 1e300, end = 0, allocate = 0, plan = 0, reorder = 0, first = 0, warmup = 0,
         sampling = 0;
  std::int64_t ok = 0, precise = 0;
  std::map<std::string, bool> devices;
  for (const Measurement& row : corpus.rows) {
    const double phases = or_zero(row.allocate_s) + or_zero(row.plan_s) + or_zero(row.reorder_s) +
                          or_zero(row.first_run_s) + or_zero(row.warmup_s) +
                          or_zero(row.sampling_s);
    begin = std::min(begin, row.started_unix_s);
    end = std::max(end, row.started_unix_s + phases);
    allocate += or_zero(row.allocate_s);
    plan += or_zero(row.plan_s);
    reorder += or_zero(row.reorder_s);
    first += or_zero(row.first_run_s);
    warmup += or_zero(row.warmup_s);
    sampling += or_zero(row.sampling_s);
    ok += row.status == Status::ok ? 1 : 0;
    precise += row.stop_reason == StopReason::precise ? 1 : 0;
    devices[row.device_id] = true;
  }
  if (corpus.rows.empty()) throw DataError("the corpus has no rows");
  const auto rows = static_cast<double>(corpus.rows.size());
  const auto device_count = static_cast<double>(devices.size());
  const double wall = (end - begin) * device_count;  // device seconds
  TextTable table({"phase", ">device time", ">share", ">per configuration"});
  const auto line = [&](const char* name, double seconds) {
    table.add({name, format_seconds(seconds), format_percent(seconds / wall),
               format_seconds(seconds / rows)});
  };
  line("samples and flushes (duty cycle)", sampling);
  line("warm-up", first + warmup);
  line("planning", plan);
  line("allocation and operands", allocate + reorder);
  line("checks, journal, waiting", wall - sampling - first - warmup - plan - allocate - reorder);
  table.rule();
  line("all", wall);
  std::cout << fmt::format(
      "{} configurations ({} ok, {} of them to the asked-for precision) on {} device(s): {} per "
      "hour "
      "and device\n{}",
      corpus.rows.size(), ok, precise, devices.size(), format_count(3600 * rows / wall),
      table.str());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 2) throw UsageError("usage: bench_collect RUN_DIR");
    report(read_corpus(std::filesystem::path(argv[1]) / "corpus.h5", false));
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "bench_collect: " << error.what() << "\n";
    return static_cast<int>(exit_code_of(error));
  }
}
