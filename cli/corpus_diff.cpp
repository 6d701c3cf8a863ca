#include <cmath>
#include <iostream>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/verb.hpp"
#include "data/corpus/diff.hpp"
#include "data/corpus/reader.hpp"

namespace forecost::cli {
namespace {

namespace fs = std::filesystem;
using Arguments = std::vector<std::string>;

ExitCode run(const World& world, const Arguments& arguments) {
  po::options_description options;
  auto add = options.add_options();
  add("tolerance", po::value<double>()->default_value(0.02, "0.02"),
      "ratios within 1 + this are the same, however small the noise");
  add("any-class", "compare across device classes: each side must hold one");
  add("top", po::value<std::int64_t>(), "list so many differences (20; with --json all)");
  add("json", "print one JSON object");
  po::variables_map values;
  if (!parse(
          world,
          {"forecost corpus diff A B [options]",
           "Compares two corpora or run directories task by task: the ratio of medians, B over A,\n"
           "and whether it is beyond noise. Rows of one task, device class and protocol are\n"
           "pooled. Exit code 0, whatever differs.",
           "  forecost corpus diff before/corpus.h5 after/corpus.h5\n"
           "  forecost corpus diff v100.h5 a100.h5 --any-class --json"},
          options, 2, arguments, values)) {
    return ExitCode::done;
  }
  const Arguments sides = positionals(values);
  if (sides.size() != 2) {
    throw UsageError("corpus diff: expected two corpus files or run directories");
  }
  DiffOptions diff_options;
  diff_options.tolerance = values["tolerance"].as<double>();
  if (!(diff_options.tolerance >= 0) || !std::isfinite(diff_options.tolerance)) {
    throw UsageError(fmt::format("--tolerance {}: expected a number of at least 0, such as 0.02",
                                 diff_options.tolerance));
  }
  diff_options.any_class = values.count("any-class") > 0;
  const bool json = values.count("json") > 0;
  std::size_t most = json ? std::numeric_limits<std::size_t>::max() : 20;
  if (values.count("top") > 0) most = static_cast<std::size_t>(count_of(values, "top", 0));

  CorpusComparison comparison(diff_options);
  for (const auto side : {CorpusComparison::a, CorpusComparison::b}) {
    const CorpusReader reader(sides[side]);
    reader.scan({.columns = CorpusComparison::columns()},
                [&](const Measurement& row, std::size_t) { comparison.add(side, row); });
  }
  const CorpusDiff diff = comparison.finish();
  if (json) {
    std::cout << diff_json(diff, diff_options, sides[0], sides[1], most) << "\n";
    return ExitCode::done;
  }
  std::cout << fmt::format("A: {}\nB: {}\n\n", sides[0], sides[1])
            << diff_text(diff, diff_options, most);
  const auto& a = comparison.classes(CorpusComparison::a);
  const auto& b = comparison.classes(CorpusComparison::b);
  if (diff.all.n == 0 && !diff_options.any_class && a != b) {
    std::cout << fmt::format(
        "A holds the device classes {}; B {}. --any-class compares one class with another.\n",
        fmt::join(a, ", "), fmt::join(b, ", "));
  }
  return ExitCode::done;
}

}  // namespace

extern const Verb corpus_diff{"diff", "compare two corpora task by task", &run};

}  // namespace forecost::cli
