#include <iostream>

#include <fmt/format.h>

#include "cli/verb.hpp"
#include "core/units.hpp"
#include "data/corpus/export.hpp"

namespace forecost::cli {
namespace {

namespace fs = std::filesystem;
using Arguments = std::vector<std::string>;

Arguments all_of(const po::variables_map& values, const char* name) {
  return values.count(name) > 0 ? values[name].as<Arguments>() : Arguments{};
}

Arguments split(const std::string& list) {
  Arguments names;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    names.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return names;
}

ExitCode run(const World& world, const Arguments& arguments) {
  po::options_description options;
  auto add = options.add_options();
  add("output,o", po::value<std::string>()->required(), "the table; - is the standard output");
  add("format", po::value<std::string>(), "csv or jsonl; by the ending of FILE unless told");
  add("operator", po::value<Arguments>(), "rows of this operator only; may be repeated");
  add("status", po::value<Arguments>(), "rows of this status only; may be repeated");
  add("class", po::value<Arguments>(), "rows of this device class only; may be repeated");
  add("columns", po::value<std::string>(), "these columns only, in this order: a,b,c");
  add("samples", "the raw samples too");
  po::variables_map values;
  if (!parse(world,
             {"forecost corpus export CORPUS.h5|RUN_DIR -o FILE|- [options]",
              "Writes a corpus as CSV or JSON Lines, one row per measurement in the order of the\n"
              "corpus; docs/corpus.md describes the columns. Numbers read back as the same bits.\n"
              "An existing file is replaced if it is an earlier export.",
              "  forecost corpus export run -o run.csv\n"
              "  forecost corpus export run/corpus.h5 --operator dense --status ok -o dense.jsonl\n"
              "  forecost corpus export run --columns in_features,median_s -o - | head"},
             options, 1, arguments, values)) {
    return ExitCode::done;
  }
  if (positionals(values).empty())
    throw UsageError("corpus export: expected a corpus file or run directory");
  const fs::path corpus = positionals(values)[0];
  const std::string output = values["output"].as<std::string>();
  const bool to_stdout = output == "-";

  ExportOptions table;
  if (values.count("format") > 0) {
    table.format = parse_enum<TableFormat>(values["format"].as<std::string>());
  } else if (!to_stdout) {
    table.format = table_format_of(output);
  }
  table.operators = all_of(values, "operator");
  table.device_classes = all_of(values, "class");
  for (const std::string& name : all_of(values, "status")) {
    table.statuses.push_back(parse_enum<Status>(name));
  }
  if (values.count("columns") > 0) table.columns = split(values["columns"].as<std::string>());
  table.samples = values.count("samples") > 0;

  if (to_stdout) {
    export_corpus(corpus, table, [](std::string_view bytes) { std::cout << bytes; });
    return ExitCode::done;
  }
  check_export_output(output);
  const ExportCount count = export_corpus(corpus, table, fs::path(output));
  std::cout << fmt::format("{}: {}, {}\n", output,
                           format_counted(static_cast<double>(count.rows), "row"),
                           format_counted(static_cast<double>(count.columns), "column"));
  return ExitCode::done;
}

}  // namespace

extern const Verb corpus_export{"export", "write a corpus as CSV or JSON Lines", &run};

}  // namespace forecost::cli
