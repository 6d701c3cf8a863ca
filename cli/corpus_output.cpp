#include "cli/corpus_output.hpp"

#include <iostream>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "core/units.hpp"

namespace forecost::cli {

void add_on_conflict(po::options_description& options) {
  options.add_options()("on-conflict", po::value<std::string>()->default_value("refuse"),
                        "which of rows that contradict each other to keep: newest, median, "
                        "keep-first; or refuse");
}

OnConflict on_conflict_of(const po::variables_map& values) {
  return parse_enum<OnConflict>(values["on-conflict"].as<std::string>());
}

MergeOutcome add_to_corpus(const std::filesystem::path& output, std::string_view what,
                           const std::function<void(Merger&)>& inputs,
                           const MergeOptions& options) {
  check_corpus_output(output);
  const MergeOutcome merge = merge_into_file(output, what, inputs, options);
  if (merge.busy) {
    throw EnvironmentError(
        fmt::format("{}: another merge into it has not ended in {:.0f} s; nothing was done: wait "
                    "for it, then try again",
                    output.string(), options.wait_s));
  }
  const auto conflicts = format_counted(static_cast<double>(merge.conflicts.size()), "conflict");
  if (!merge.conflicts.empty() && options.on_conflict == OnConflict::refuse) {
    for (const std::string& conflict : merge.conflicts) std::cerr << conflict << "\n";
    throw DataError(fmt::format("{}; nothing was written: see --on-conflict, or leave an input out",
                                conflicts));
  }
  for (const std::string& change : merge.device_changes) {
    spdlog::warn("{}: {}", output.string(), change);
  }
  if (!merge.conflicts.empty()) {
    spdlog::warn("{}: {} settled by --on-conflict {}", output.string(), conflicts,
                 name_of(options.on_conflict));
  }
  const auto count = [](std::size_t rows) { return format_count(static_cast<double>(rows)); };
  std::cout << fmt::format(
      "{}: {}{}\n", output.string(), format_counted(static_cast<double>(merge.rows), "row"),
      !merge.written           ? ", nothing new"
      : merge.rows_before == 0 ? ""
      : merge.rows < merge.rows_before
          ? fmt::format(", {} superseded", count(merge.rows_before - merge.rows))
          : fmt::format(", {} of them new", count(merge.rows - merge.rows_before)));
  return merge;
}

}  // namespace forecost::cli
