#include <iostream>
#include <optional>

#include <fmt/format.h>

#include "cli/verb.hpp"
#include "predict/compose.hpp"
#include "predict/present.hpp"
#include "train/model/model.hpp"

namespace forecost::cli {
namespace {

constexpr Help help{
    "forecost predict MODEL --network NAME|FILE.toml ... --device CLASS|FILE.toml ... --batch N "
    "...",
    "Predicts how long networks take on devices: every network on every device at every batch "
    "size.\n"
    "A device is a class that the model was trained on, a shipped one or a TOML file.",
    "  forecost predict model.h5 --network vgg16 --device amd-epyc-2c --batch 1 8\n"
    "  forecost predict model.h5 --network resnet50 --device amd-epyc-2c --batch 32 --mode "
    "training \\\n"
    "      --optimizer momentum --dataset-size 1281167 --epochs 90\n"
    "  forecost predict model.h5 --network my-network.toml --device my-node.toml --batch 16 "
    "--json"};

using Names = std::vector<std::string>;

Names required(const po::variables_map& values, const std::string& option,
               std::string_view example) {
  if (values.count(option) == 0) {
    throw UsageError(fmt::format("--{} is missing: expected one or more, such as --{} {}", option,
                                 option, example));
  }
  return values[option].as<Names>();
}

ExitCode run(const World& world, const std::vector<std::string>& arguments) {
  po::options_description options;
  // clang-format off
  options.add_options()
      ("network", po::value<Names>()->multitoken()->composing(), "names (forecost networks) or TOML files")
      ("device", po::value<Names>()->multitoken()->composing(), "classes, shipped devices or TOML files")
      ("batch", po::value<std::vector<std::int64_t>>()->multitoken()->composing(), "items per step")
      ("mode", po::value<std::string>()->default_value("inference"), "inference or training")
      ("optimizer", po::value<std::string>()->default_value("adam"), "of training")
      ("dtype", po::value<std::string>()->default_value("f32"), "of all layers")
      ("dataset-size", po::value<std::int64_t>(), "items per epoch: adds the time of an epoch")
      ("epochs", po::value<std::int64_t>()->default_value(1), "of the run")
      ("gpus", po::value<std::int64_t>()->default_value(1), "devices; only 1 in this version")
      ("layers", po::bool_switch(), "list all layers, not only the most expensive ones")
      ("json", po::bool_switch(), "print one JSON object");
  // clang-format on
  po::variables_map values;
  if (!parse(world, help, options, 1, arguments, values)) return ExitCode::done;

  const auto files = positionals(values);
  if (files.empty()) throw UsageError(fmt::format("no MODEL given; usage: {}", help.usage));
  const auto network_names = required(values, "network", "vgg16");
  const auto device_names = required(values, "device", "amd-epyc-2c");
  const auto batches = batches_of(values);
  if (count_of(values, "gpus", 1) > 1) {
    throw UsageError("--gpus: this version predicts one device; expected 1");
  }
  const std::int64_t epochs = count_of(values, "epochs", 1);
  std::optional<std::int64_t> dataset_size;
  if (values.count("dataset-size") > 0) dataset_size = count_of(values, "dataset-size", 1);
  if (!dataset_size && !values["epochs"].defaulted()) {
    throw UsageError("--epochs needs --dataset-size, the items of an epoch");
  }
  constexpr std::int64_t most_items = 1'000'000'000'000, most_epochs = 1'000'000;
  if (dataset_size.value_or(0) > most_items || epochs > most_epochs) {
    throw UsageError(fmt::format("--dataset-size and --epochs: expected at most {} and {}",
                                 most_items, most_epochs));
  }
  const auto mode = parse_enum<Mode>(values["mode"].as<std::string>());
  const auto dtype = parse_enum<DType>(values["dtype"].as<std::string>());
  const auto optimizer = parse_enum<Optimizer>(values["optimizer"].as<std::string>());

  const Model model = load_model(files.front());
  std::vector<Network> networks;
  for (const auto& name : network_names) networks.push_back(find_network(name));
  std::vector<Device> devices;
  for (const auto& name : device_names) devices.push_back(resolve_device(model, name));

  std::vector<PresentedTime> predictions;
  for (const Network& network : networks) {
    for (const Device& device : devices) {
      for (const std::int64_t batch : batches) {
        const auto time = compose(model, {&network, &device, batch, mode, dtype, optimizer});
        predictions.push_back({time, std::nullopt});
        if (dataset_size) predictions.back().run = run_time(time, *dataset_size, epochs);
      }
    }
  }
  if (world.rank() != 0) return ExitCode::done;
  if (values["json"].as<bool>()) {
    std::cout << predictions_json(predictions);
    return ExitCode::done;
  }
  constexpr std::size_t most_expensive = 10;
  for (const auto& [time, run_time] : predictions) {
    std::cout << fmt::format("{} on {}, batch {}, {}, {}\n\n", time.network, time.device_class,
                             time.batch, name_of(time.mode), name_of(time.dtype))
              << layers_table(time, values["layers"].as<bool>() ? 0 : most_expensive) << "\n";
  }
  std::cout << totals_table(predictions);
  return ExitCode::done;
}

}  // namespace

extern const Verb predict_verb;
const Verb predict_verb{"predict", "predict what networks cost on devices", &run};

}  // namespace forecost::cli
