// What scripts/gpu-check.sh runs: whether the CUDA backend computes and times rightly on this
// machine's first GPU. Prints tables for people on the standard error, one JSON object on the
// standard output; exit code 0 if all is well, 5 if something is not, 3 without a GPU.
//   gpu_check [--quick] [--skip-rates]      --quick: one layout; --skip-rates: no large tasks

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "collect/backend.hpp"
#include "collect/backends/cuda/cuda_backend.hpp"
#include "collect/protocol.hpp"
#include "core/error.hpp"
#include "core/statistics.hpp"
#include "core/table.hpp"
#include "core/units.hpp"
#include "tests/cuda/training_rows.hpp"
#include "tests/small_layers.hpp"
#include "train/cuda/cuda_engine.hpp"
#include "train/ensemble_trainer.hpp"

namespace forecost {
namespace {

using Json = nlohmann::ordered_json;

struct Check {
  std::unique_ptr<TimingBackend> backend;
  Json report = Json::object();
  int failures = 0;

  void expect(bool holds, const std::string& what) {
    if (holds) return;
    ++failures;
    report["failures"].push_back(what);
    std::cerr << "FAILED " << what << "\n";
  }
};

/// Every operator and pass, in each dtype and layout, beside the plain reference.
void check_results(Check& check, const std::string& layout) {
  struct Count {
    int right = 0, wrong = 0, unsupported = 0;
    double worst = 0;
  };
  std::map<std::string, Count> counts;
  std::set<std::string> reasons;
  for (const DType dtype : {DType::f32, DType::tf32, DType::f16, DType::bf16}) {
    for (const char* text : small_layers) {
      const Layer layer = Layer::parse(text);
      for (const Pass pass : layer.op().passes) {
        const Task task{layer, pass, dtype};
        if (!has_reference(task)) continue;
        Count& count = counts[fmt::format("{} {}", layer.op().name, name_of(dtype))];
        const std::string name = fmt::format("{} {}", layout, task_text(task));
        if (const auto why = check.backend->unsupported(task)) {
          ++count.unsupported;
          reasons.insert(*why);
          continue;
        }
        try {
          const auto prepared = check.backend->prepare(task, 42);
          prepared->run(1);
          prepared->run(2);  // a pass overwrites its result, it does not add to it
          prepared->run(2);  // the third call is held, and a graph where it is short
          const Deviation deviation = deviation_from_reference(task, prepared->operands());
          count.worst = std::max(count.worst, deviation.relative);
          const bool right = deviation.relative <= reference_tolerance(dtype);
          ++(right ? count.right : count.wrong);
          check.expect(right, fmt::format("{}: {} is off by {:.2g} ({})", name, deviation.result,
                                          deviation.relative, prepared->info().implementation));
        } catch (const CaseRefused& refused) {
          const bool unsupported = refused.status() == Status::unsupported;
          ++(unsupported ? count.unsupported : count.wrong);
          if (unsupported) reasons.insert(refused.what());
          check.expect(unsupported, fmt::format("{}: {}", name, refused.what()));
        } catch (const std::exception& error) {
          ++count.wrong;
          check.expect(false, fmt::format("{}: {}", name, error.what()));
        }
        if (check.backend->poisoned()) {
          check.expect(false, fmt::format("{} left the device unusable: stopped there", name));
          return;
        }
      }
    }
  }
  TextTable table(
      {"operator, dtype (" + layout + ")", ">right", ">wrong", ">unsupported", ">worst deviation"});
  for (const auto& [name, count] : counts) {
    table.add({name, std::to_string(count.right), std::to_string(count.wrong),
               std::to_string(count.unsupported), fmt::format("{:.1e}", count.worst)});
    check.report["results"][layout][name] = {{"right", count.right},
                                             {"wrong", count.wrong},
                                             {"unsupported", count.unsupported},
                                             {"worst_deviation", count.worst}};
    check.expect(count.right > 0 || count.unsupported > 0, name + " was not tried");
  }
  for (const auto& reason : reasons) check.report["unsupported"][layout].push_back(reason);
  std::cerr << table.str() << "\n";
}

/// A kernel that spins for 5 ms by the device's own clock, through the timing path.
void check_clock(Check& check) {
  constexpr double asked_s = 5e-3;
  std::vector<double> seconds;
  for (int i = 0; i < 9; ++i) seconds.push_back(cuda::timed_spin(*check.backend, asked_s));
  const double middle = median(seconds), off = middle / asked_s - 1;
  check.report["spin"] = {{"asked_s", asked_s}, {"median_s", middle}};
  std::cerr << fmt::format("5 ms spin: {} ({:+.2f} %)\n", format_seconds(middle), 100 * off);
  check.expect(std::abs(off) <= 0.02, fmt::format("a spin of 5 ms was timed as {} s", middle));
}

void check_rates(Check& check) {
  const ProbeReport probed = check.backend->probe(10, {});
  const Device& device = check.backend->device();
  TextTable table({"figure", ">probed", ">of nominal", ">spread"});
  const auto shipped = shipped_devices();
  const bool known =
      std::find(shipped.begin(), shipped.end(), device.device_class) != shipped.end();
  const Device nominal = known ? find_device(device.device_class) : device;
  const std::pair<Attribute, Attribute> pairs[] = {
      {Attribute::probed_f32_flops, Attribute::peak_f32_flops},
      {Attribute::probed_tf32_flops, Attribute::peak_tf32_flops},
      {Attribute::probed_f16_flops, Attribute::peak_f16_flops},
      {Attribute::probed_bf16_flops, Attribute::peak_bf16_flops},
      {Attribute::probed_bandwidth_bytes_per_s, Attribute::bandwidth_bytes_per_s},
      {Attribute::probed_host_link_bytes_per_s, Attribute::host_link_bytes_per_s},
      {Attribute::probed_launch_latency_s, Attribute::launch_latency_s}};
  for (const auto& [attribute, counterpart] : pairs) {
    const std::string name(attribute_table()[static_cast<std::size_t>(attribute)].name);
    const double value = device[attribute], share = value / nominal[counterpart];
    if (std::isnan(value)) continue;
    const auto spread = probed.spread.at(attribute);
    table.add({name, fmt::format("{:.4g}", value),
               std::isnan(share) ? "-" : fmt::format("{:.0f} %", 100 * share),
               format_percent(spread)});
    check.report["rates"][name] = {{"value", value},
                                   {"of_nominal", std::isnan(share) ? Json() : Json(share)},
                                   {"spread", spread}};
    const bool latency = attribute == Attribute::probed_launch_latency_s;
    check.expect(
        latency || std::isnan(share) || (share > 0.4 && share < 1.1),
        fmt::format("{} is {:.0f} % of what the device is said to have", name, 100 * share));
  }
  std::cerr << table.str() << "\n";
}

/// Twenty tasks by the protocol, twice: how far the medians are apart.
void check_repeatability(Check& check) {
  MeasureRules rules;
  rules.budget_s = 0.5;
  std::vector<double> apart;
  TextTable table({"task", ">median", ">apart", "implementation"});
  const char* tasks[] = {
      "forward f32 none cold heuristic conv2d batch=8 in_channels=64 out_channels=64 in_h=56 "
      "in_w=56 "
      "kernel_h=3 kernel_w=3 pad_top=1 pad_bottom=1 pad_left=1 pad_right=1",
      "forward f16 none cold heuristic conv2d batch=32 in_channels=256 out_channels=256 in_h=14 "
      "in_w=14 kernel_h=3 kernel_w=3 pad_top=1 pad_bottom=1 pad_left=1 pad_right=1",
      "backward_data f32 none cold heuristic conv2d batch=8 in_channels=64 out_channels=64 in_h=56 "
      "in_w=56 kernel_h=3 kernel_w=3 pad_top=1 pad_bottom=1 pad_left=1 pad_right=1",
      "backward_weights f32 none cold heuristic conv2d batch=8 in_channels=64 out_channels=64 "
      "in_h=56 in_w=56 kernel_h=3 kernel_w=3 pad_top=1 pad_bottom=1 pad_left=1 pad_right=1",
      "forward f32 none cold heuristic dense batch=64 in_features=1024 out_features=4096",
      "forward f16 none hot heuristic dense batch=512 in_features=4096 out_features=4096",
      "backward_weights f16 none cold heuristic dense batch=512 in_features=1024 out_features=4096",
      "forward f16 none hot heuristic matmul batch=96 m=128 n=128 k=64",
      "forward f32 none cold heuristic layer_norm batch=8 rows=512 features=768",
      "backward f32 none cold heuristic layer_norm batch=8 rows=512 features=768",
      "forward f16 none hot heuristic softmax batch=96 rows=128 features=128",
      "forward f32 none cold heuristic batch_norm batch=32 channels=64 height=56 width=56",
      "forward f32 none hot heuristic activation batch=32 features=100000 function=gelu",
      "forward f32 none cold heuristic elementwise batch=32 features=100000 operation=add",
      "forward f16 none cold heuristic attention batch=8 heads=12 query_length=128 key_length=128 "
      "head_features=64",
      "forward f32 none cold heuristic rnn batch=32 steps=64 in_features=256 hidden_features=256 "
      "cell=lstm",
      "forward f32 none cold heuristic pool2d batch=32 channels=64 in_h=112 in_w=112 kernel_h=3 "
      "kernel_w=3 stride_h=2 stride_w=2 mode=max",
      "forward f32 none cold heuristic embedding batch=32 length=128 entries=30000 features=768",
      "update f32 adam cold heuristic dense batch=1 in_features=1024 out_features=4096",
      "forward f32 none cold heuristic transfer batch=1 features=4000000 "
      "direction=host_to_device pinned=1"};
  for (const char* text : tasks) {
    const Task task = parse_task(text);
    std::vector<double> medians;
    std::string implementation;
    for (int repeat = 0; repeat < 2; ++repeat) {
      const auto row = measure(*check.backend, task, rules, 42);
      if (!row) return;
      implementation = row->implementation;
      const bool measured = row->status == Status::ok || row->status == Status::throttled ||
                            row->status == Status::shared;
      check.expect(measured || row->status == Status::unsupported,
                   fmt::format("{}: {} ({})", text, name_of(row->status), row->reason));
      if (measured) medians.push_back(row->time.median_s);
      check.report["timings"].push_back({{"task", text},
                                         {"status", name_of(row->status)},
                                         {"reason", row->reason},
                                         {"implementation", row->implementation},
                                         {"median_s", measured ? Json(row->time.median_s) : Json()},
                                         {"host_s", measured ? Json(row->host_s) : Json()},
                                         {"runs_per_sample", row->runs_per_sample},
                                         {"samples", row->time.n}});
    }
    if (medians.size() < 2) continue;
    apart.push_back(std::abs(medians[0] - medians[1]) / std::min(medians[0], medians[1]));
    table.add({std::string(text).substr(0, 60), format_seconds(medians[0]),
               format_percent(apart.back()), implementation.substr(0, 60)});
  }
  std::cerr << table.str();
  const double middle = median(apart);
  check.report["repeatability"] = {{"median_apart", middle}, {"tasks", apart.size()}};
  std::cerr << fmt::format("median of the differences: {}\n", format_percent(middle));
  check.expect(middle <= 0.03, fmt::format("two measurements are {:.1f} % apart", 100 * middle));
}

/// The predictor's networks, trained on the GPU and on this CPU: how far they are apart after 20
/// steps, and how fast each is. `small`: networks that a stand-in computes in seconds.
void check_training(Check& check, const World& world, bool small) {
  const auto device = open_training_device(world);
  const auto alone = make_local_collective();
  Recipe recipe = recipe_of("default");
  if (small) recipe.hidden = {16, 16};
  constexpr std::int64_t inputs = 24;
  const std::int64_t batch = small ? 32 : recipe.batch;
  const TrainingRows rows(20 * batch, inputs);
  EnsembleTask task{.recipe = recipe,
                    .shape = MlpShape(inputs, recipe.hidden),
                    .x = rows.x,
                    .y = rows.y,
                    .epochs = 6,
                    .batch = batch,
                    .seed = 1,
                    .sharing = Sharing::fast,
                    .members = {}};
  for (int member = 0; member < recipe.members; ++member) task.members.push_back(member);

  TextTable table({"trained on", ">steps/s", ">apart from the CPU"});
  EnsembleState expected;
  const auto train = [&](const std::string& where, const EngineFactory& engine, double allowed) {
    EnsembleTrainer trainer(task, engine, *alone);
    trainer.run_epoch();
    const EnsembleState state = trainer.state();
    if (expected.parameters.empty()) expected = state;
    const double apart = largest_difference(state.parameters, expected.parameters);
    const auto begin = std::chrono::steady_clock::now();
    const int epochs = small ? 1 : task.epochs - 1;
    for (int epoch = 0; epoch < epochs; ++epoch) trainer.run_epoch();
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    const double steps_per_s = 20 * epochs / seconds;
    table.add({where, fmt::format("{:.0f}", steps_per_s), fmt::format("{:.1e}", apart)});
    check.report["training"][where] = {{"apart_after_20_steps", apart},
                                       {"steps_per_s", steps_per_s}};
    check.expect(apart <= allowed,
                 fmt::format("parameters trained on {} are {} from the CPU's", where, apart));
  };
  train("cpu", make_cpu_engine, 0);
  // Adam's first steps have the sign of a gradient, and so a whole learning rate of 3e-3 in them: a
  // parameter whose gradient is as good as zero may go either way.
  train("cuda f32", cuda_engines(*device, cuda::Precision::f32), 1e-3);
  train("cuda tf32", cuda_engines(*device, cuda::Precision::tf32), 0.1);
  train("cuda bf16", cuda_engines(*device, cuda::Precision::bf16), 0.1);
  std::cerr << table.str() << "\n";
}

int run(const World& world, const std::set<std::string>& options) {
  Check check;
  check.report["failures"] = Json::array();
  for (const char* layout : {"nchw", "nhwc"}) {
    DeviceRequest request;
    request.layout = layout;
    check.backend.reset();  // one context at a time
    check.backend = cuda_backend.open(request);
    check_results(check, layout);
    if (options.contains("--quick")) break;
  }
  if (!check.backend->poisoned()) check_clock(check);
  if (!check.backend->poisoned() && !options.contains("--skip-rates")) {
    check_rates(check);
    check_repeatability(check);
  }
  const Device device = check.backend->device();
  check.report["device"] = {{"name", device.name}, {"class", device.device_class}};
  check.report["environment"] = check.backend->environment().facts;
  check.report["warnings"] = check.backend->warnings();
  if (!check.backend->poisoned()) {
    check.backend.reset();
    check_training(check, world, options.contains("--skip-rates"));
  }
  std::cout << check.report.dump(2) << "\n";
  return check.failures == 0 ? 0 : 5;
}

}  // namespace
}  // namespace forecost

int main(int argc, char** argv) {
  const std::set<std::string> options(argv + 1, argv + argc);
  for (const auto& option : options) {
    if (option != "--quick" && option != "--skip-rates") {
      std::cerr << "gpu_check [--quick] [--skip-rates]\n";
      return 2;
    }
  }
  try {
    const forecost::World world(argc, argv);
    return forecost::run(world, options);
  } catch (const forecost::EnvironmentError& error) {
    std::cerr << error.what() << "\n";
    return 3;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 70;
  }
}
