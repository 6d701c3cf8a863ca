#include <cmath>
#include <iostream>
#include <typeinfo>

#include <fmt/format.h>

#include "cli/verb.hpp"

namespace forecost::cli {

namespace {

/// Boost's own words, but for a value of the wrong type: those do not tell what was expected.
std::string complaint(const po::error& error, const po::options_description& options) {
  const auto* invalid = dynamic_cast<const po::invalid_option_value*>(&error);
  if (invalid == nullptr) return error.what();
  std::string name = invalid->get_option_name();
  name.erase(0, name.find_first_not_of('-'));
  const auto* option = options.find_nothrow(name, false);
  const auto* value = option == nullptr
                          ? nullptr
                          : dynamic_cast<const po::typed_value_base*>(option->semantic().get());
  if (value == nullptr) return error.what();
  const bool number = value->value_type() == typeid(double);
  return fmt::format("{}: expected {}", error.what(), number ? "a number" : "an integer");
}

}  // namespace

bool parse(const World& world, const Help& help, const po::options_description& options,
           int max_positional, const std::vector<std::string>& arguments,
           po::variables_map& values) {
  po::options_description visible = options;
  visible.add_options()("help,h", "show this help");
  po::options_description all;
  all.add(visible);
  all.add_options()("positional", po::value<std::vector<std::string>>());
  po::positional_options_description positional;
  positional.add("positional", -1);

  try {
    po::store(
        po::command_line_parser(arguments)
            .options(all)
            .positional(positional)
            // An abbreviated option would change its meaning when another one is added.
            .style(po::command_line_style::default_style & ~po::command_line_style::allow_guessing)
            .run(),
        values);
    if (values.count("help") > 0) {
      if (world.rank() == 0) {
        std::cout << fmt::format("usage: {}\n\n{}\n\nOptions:\n", help.usage, help.about) << visible
                  << fmt::format("\nExamples:\n{}\n", help.examples);
      }
      return false;
    }
    po::notify(values);
  } catch (const po::error& error) {
    // Up to the first word that is no name: "forecost corpus merge".
    const auto end = help.usage.find_first_not_of("abcdefghijklmnopqrstuvwxyz ");
    std::string_view verb = help.usage.substr(0, end);
    verb = verb.substr(0, verb.find_last_not_of(' ') + 1);
    throw UsageError(fmt::format("{}; see '{} --help'", complaint(error, all), verb));
  }
  const auto given = positionals(values);
  if (max_positional >= 0 && given.size() > static_cast<std::size_t>(max_positional)) {
    throw UsageError(fmt::format("unexpected argument '{}'; usage: {}",
                                 given[static_cast<std::size_t>(max_positional)], help.usage));
  }
  return true;
}

double positive_number(const po::variables_map& values, const char* name) {
  const double value = values[name].as<double>();
  if (!(value > 0) || std::isinf(value)) {
    throw UsageError(fmt::format("--{} {}: expected a finite positive number", name, value));
  }
  return value;
}

std::int64_t count_of(const po::variables_map& values, const char* name, std::int64_t least) {
  const auto value = values[name].as<std::int64_t>();
  if (value < least)
    throw UsageError(fmt::format("--{} {}: expected {} or more", name, value, least));
  return value;
}

std::string backend_of(const std::string& backend, const std::string& replay) {
  if (replay.empty() || backend == "replay") return backend;
  if (backend == "auto") return "replay";
  throw UsageError(fmt::format("--replay contradicts --backend {}", backend));
}

int cores_of(const po::variables_map& values) {
  const int cores = values["cores"].as<int>();
  if (cores < 0) throw UsageError(fmt::format("--cores {}: expected 0 or more", cores));
  if (cores > 0 && values.count("backend") > 0 && values["backend"].as<std::string>() == "cuda") {
    throw UsageError(
        fmt::format("--cores {}: of a CPU device, and --backend cuda has none", cores));
  }
  return cores;
}

std::string layout_of(const po::variables_map& values, const std::string& backend) {
  if (values["layout"].defaulted()) return {};
  const auto layout = values["layout"].as<std::string>();
  if (layout != "nchw" && layout != "nhwc") {
    throw UsageError(fmt::format("--layout {}: expected nchw or nhwc", layout));
  }
  if (backend == "cpu" || backend == "replay") {
    throw UsageError(
        fmt::format("--layout {}: of images on a GPU, not by the {} backend", layout, backend));
  }
  return layout;
}

std::vector<std::int64_t> batches_of(const po::variables_map& values) {
  constexpr std::int64_t most = 1 << 20;
  if (values.count("batch") == 0) {
    throw UsageError("--batch is missing: expected one or more, such as --batch 32");
  }
  auto batches = values["batch"].as<std::vector<std::int64_t>>();
  for (const auto batch : batches) {
    if (batch < 1 || batch > most) {
      throw UsageError(fmt::format("--batch {}: expected 1 to {}", batch, most));
    }
  }
  return batches;
}

std::vector<std::string> positionals(const po::variables_map& values) {
  return values.count("positional") > 0 ? values["positional"].as<std::vector<std::string>>()
                                        : std::vector<std::string>{};
}

}  // namespace forecost::cli
