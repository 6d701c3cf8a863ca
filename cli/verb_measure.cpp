#include <fmt/format.h>

#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/verb.hpp"
#include "core/table.hpp"
#include "core/units.hpp"
#include "data/networks/network.hpp"
#include "predict/compose.hpp"
#include "train/model/model.hpp"
#ifdef FORECOST_HAVE_ONEDNN
#include "collect/backends/cpu/network_runner.hpp"
#endif

namespace forecost::cli {
namespace {

constexpr Help help{
    "forecost measure NETWORK|FILE.toml ... --batch N ...",
    "Runs whole networks on this machine's CPU, as one oneDNN sequence with real data flow, and\n"
    "prints how long a batch takes; with --model, the predicted time beside it. Sequential "
    "networks\n"
    "of conv2d, dense, pool2d and flatten only.",
    "  forecost measure vgg-small --batch 8 32\n"
    "  forecost measure vgg-small --batch 8 --mode training --optimizer adam --model model.h5"};

po::options_description options() {
  po::options_description all;
  // clang-format off
  all.add_options()
      ("batch", po::value<std::vector<std::int64_t>>()->multitoken()->composing(), "items per step")
      ("mode", po::value<std::string>()->default_value("inference"), "inference or training")
      ("optimizer", po::value<std::string>()->default_value("adam"), "of training")
      ("dtype", po::value<std::string>()->default_value("f32"), "f32 or bf16")
      ("cores", po::value<int>()->default_value(0), "cores to use; 0: all this process is bound to")
      ("model", po::value<std::string>(), "predict the same with this model")
      ("json", po::bool_switch(), "print one JSON object");
  // clang-format on
  return all;
}

#ifdef FORECOST_HAVE_ONEDNN

struct Row {
  const Network* network;
  NetworkRun run;
  NetworkTimes measured;
  std::optional<NetworkTime> predicted;

  double seconds() const { return measured.times.time.median_s; }
};

using Json = nlohmann::ordered_json;

Json to_json(const Row& row, const Device& device) {
  const TimingSummary& time = row.measured.times.time;
  Json json{{"network", row.network->name},
            {"device", device.device_class},
            {"batch", row.run.batch},
            {"mode", row.run.training ? "training" : "inference"},
            {"optimizer", nullptr},
            {"dtype", name_of(row.run.dtype)},
            {"measured_s", time.median_s},
            {"q1_s", time.q1_s},
            {"q3_s", time.q3_s},
            {"samples", time.n},
            {"memory_bytes", row.measured.memory_bytes},
            {"primitives", row.measured.primitives},
            {"reorders", row.measured.reorders},
            {"predicted_s", nullptr},
            {"low_s", nullptr},
            {"high_s", nullptr},
            {"ratio", nullptr},
            {"uncosted", Json::object()}};
  if (row.run.training) json["optimizer"] = name_of(row.run.optimizer);
  if (row.predicted) {
    json["predicted_s"] = row.predicted->total_s;
    json["low_s"] = row.predicted->low_s;
    json["high_s"] = row.predicted->high_s;
    json["ratio"] = row.predicted->total_s / row.seconds();
    for (const auto& [op, count] : row.predicted->uncosted) json["uncosted"][op] = count;
  }
  return json;
}

std::string to_table(const std::vector<Row>& rows, const Device& device) {
  const bool predicted = !rows.empty() && rows.front().predicted.has_value();
  std::vector<std::string> headings{"network", ">batch",    "mode",
                                    "dtype",   ">measured", ">quartiles"};
  if (predicted)
    headings.insert(headings.end(), {">predicted", ">90 % interval", ">predicted/measured"});
  TextTable table(headings);
  std::string notes;
  for (const Row& row : rows) {
    const TimingSummary& time = row.measured.times.time;
    const auto interval = [](double low, double high) {
      return fmt::format("{} .. {}", format_seconds(low), format_seconds(high));
    };
    const std::string mode =
        row.run.training ? fmt::format("training ({})", name_of(row.run.optimizer)) : "inference";
    std::vector<std::string> cells{row.network->name,
                                   std::to_string(row.run.batch),
                                   mode,
                                   std::string(name_of(row.run.dtype)),
                                   format_seconds(time.median_s),
                                   interval(time.q1_s, time.q3_s)};
    if (predicted) {
      cells.insert(cells.end(), {format_seconds(row.predicted->total_s),
                                 interval(row.predicted->low_s, row.predicted->high_s),
                                 fmt::format("{:.2f}", row.predicted->total_s / row.seconds())});
    }
    table.add(cells);
    if (!predicted) continue;
    for (const auto& [op, count] : row.predicted->uncosted) {
      notes += fmt::format("{}: {} {} measured, but not predicted\n", row.network->name, count, op);
    }
  }
  return fmt::format("On {}:\n{}{}", device.device_class, table.str(), notes);
}

ExitCode run(const World& world, const std::vector<std::string>& arguments) {
  po::variables_map values;
  if (!parse(world, help, options(), -1, arguments, values)) return ExitCode::done;
  if (world.size() > 1) {
    throw UsageError("measure runs networks on one device: start it without mpirun or srun");
  }
  const auto names = positionals(values);
  if (names.empty()) throw UsageError(fmt::format("no NETWORK given; usage: {}", help.usage));
  const auto batches = batches_of(values);
  const int cores = cores_of(values);
  const auto mode = parse_enum<Mode>(values["mode"].as<std::string>());
  const auto dtype = parse_enum<DType>(values["dtype"].as<std::string>());
  const auto optimizer = parse_enum<Optimizer>(values["optimizer"].as<std::string>());
  if (mode == Mode::training && optimizer == Optimizer::none) {
    throw UsageError("--optimizer none: training updates the parameters; expected sgd, adam, ...");
  }

  std::vector<Network> networks;
  for (const auto& name : names) networks.push_back(find_network(name));
  std::optional<Model> model;
  if (values.count("model") > 0) model = load_model(values["model"].as<std::string>());

  NetworkRunner runner(cores);
  const Device& device = runner.device();
  std::optional<Device> known;  // with what was probed when the model's corpus was made
  if (model) {
    try {
      known = resolve_device(*model, device.device_class);
    } catch (const UsageError& error) {
      throw UsageError(
          fmt::format("{}; --cores chooses how many cores this device has", error.what()));
    }
  }

  MeasureRules rules;
  rules.short_kernel_s = 0;  // a step is timed as it is, however short
  std::vector<Row> rows;
  for (const Network& network : networks) {
    for (const std::int64_t batch : batches) {
      Row row{&network, {&network, batch, mode == Mode::training, dtype, optimizer}, {}, {}};
      try {
        row.measured = runner.measure(row.run, rules);
      } catch (const CaseRefused& refused) {
        throw EnvironmentError(
            fmt::format("{}, batch {}: {}", network.name, batch, refused.what()));
      } catch (const StopAsked&) {
        return ExitCode::stopped;
      }
      if (model)
        row.predicted = compose(*model, {&network, &*known, batch, mode, dtype, optimizer});
      rows.push_back(std::move(row));
    }
  }
  if (values["json"].as<bool>()) {
    Json json{{"measurements", Json::array()}};
    for (const Row& row : rows) json["measurements"].push_back(to_json(row, device));
    std::cout << json.dump(2) << "\n";
  } else {
    std::cout << to_table(rows, device);
  }
  return ExitCode::done;
}

#else

ExitCode run(const World& world, const std::vector<std::string>& arguments) {
  po::variables_map values;
  if (!parse(world, help, options(), -1, arguments, values)) return ExitCode::done;
  throw EnvironmentError("this program was built without oneDNN; build it with FORECOST_ONEDNN=ON");
}

#endif

}  // namespace

extern const Verb measure_verb;
const Verb measure_verb{"measure", "run whole networks here, beside their prediction", &run};

}  // namespace forecost::cli
