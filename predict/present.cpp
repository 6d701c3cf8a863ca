#include "predict/present.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/table.hpp"
#include "core/units.hpp"

namespace forecost {

namespace {

using Json = nlohmann::ordered_json;

/// Seconds of a pass; null where the mode has no such pass.
Json pass_json(const NetworkTime& time, double seconds) {
  return time.mode == Mode::training ? Json(seconds) : Json(nullptr);
}

std::string pass_text(const NetworkTime& time, double seconds) {
  return time.mode == Mode::training ? format_seconds(seconds) : "-";
}

/// Of items per second: without prefixes, which nobody expects below 1.
std::string rate_text(double rate) {
  return rate < 1000 ? fmt::format("{:.3g}", rate) : format_count(std::round(rate));
}

Json prediction_json(const PresentedTime& presented) {
  const NetworkTime& t = presented.time;
  Json json{{"network", t.network},
            {"device", t.device_class},
            {"batch", t.batch},
            {"mode", name_of(t.mode)},
            {"dtype", name_of(t.dtype)},
            {"optimizer", t.mode == Mode::training ? Json(name_of(t.optimizer)) : Json(nullptr)},
            {"total_s", t.total_s},
            {"low_s", t.low_s},
            {"high_s", t.high_s},
            {"passes",
             {{"forward_s", t.forward_s},
              {"backward_s", pass_json(t, t.backward_s)},
              {"update_s", pass_json(t, t.update_s)}}},
            {"outside_training_range", t.outside_training_range},
            {"uncosted", Json::object()},
            {"layers", Json::array()}};
  for (const auto& [op, count] : t.uncosted) json["uncosted"][op] = count;
  for (const LayerTime& layer : t.layers) {
    json["layers"].push_back({{"name", layer.name},
                              {"op", layer.op},
                              {"forward_s", layer.forward_s},
                              {"backward_s", pass_json(t, layer.backward_s)},
                              {"update_s", pass_json(t, layer.update_s)},
                              {"total_s", layer.total_s()},
                              {"launch_s", layer.launch_s},
                              {"outside_training_range", layer.outside_training_range}});
  }
  if (const auto& run = presented.run) {
    json["run"] = {{"steps_per_epoch", run->steps_per_epoch},
                   {"epochs", run->epochs},
                   {"epoch_s", run->epoch_s},
                   {"epoch_low_s", run->epoch_low_s},
                   {"epoch_high_s", run->epoch_high_s},
                   {"run_s", run->run_s},
                   {"run_low_s", run->run_low_s},
                   {"run_high_s", run->run_high_s}};
  }
  return json;
}

int layers_uncosted(const NetworkTime& time) {
  int count = 0;
  for (const auto& [op, layers] : time.uncosted) count += layers;
  return count;
}

/// "8 of 11 layers"; empty where all are counted.
std::string not_counted(const NetworkTime& time) {
  const int missing = layers_uncosted(time);
  if (missing == 0) return {};
  return fmt::format("{} of {}", missing,
                     format_counted(missing + static_cast<double>(time.layers.size()), "layer"));
}

std::string range(double low, double high) {
  return format_seconds(low) + " .. " + format_seconds(high);
}

}  // namespace

std::string predictions_json(std::span<const PresentedTime> predictions) {
  Json json{{"predictions", Json::array()}};
  for (const auto& prediction : predictions) {
    json["predictions"].push_back(prediction_json(prediction));
  }
  return json.dump(2) + "\n";
}

std::string totals_table(std::span<const PresentedTime> predictions) {
  const bool runs = std::any_of(predictions.begin(), predictions.end(),
                                [](const PresentedTime& p) { return p.run.has_value(); });
  // A part of a network must not look like all of it.
  const bool parts =
      std::any_of(predictions.begin(), predictions.end(),
                  [](const PresentedTime& p) { return layers_uncosted(p.time) > 0; });
  std::vector<std::string> headings{"network", "device", ">batch", "mode", ">step"};
  if (parts) headings.insert(headings.end(), ">not counted");
  headings.insert(headings.end(), {"90 % interval", ">forward", ">backward", ">update", ">items/s",
                                   ">outside training range"});
  if (runs) headings.insert(headings.end(), {">epoch", ">run", "90 % interval of the run"});
  TextTable table(headings);
  for (const auto& [t, run] : predictions) {
    const std::string missing = not_counted(t);
    const std::string at_least = missing.empty() ? "" : "> ", at_most = missing.empty() ? "" : "< ";
    std::vector<std::string> cells{
        t.network, t.device_class, std::to_string(t.batch),
        t.mode == Mode::training ? fmt::format("training ({})", name_of(t.optimizer)) : "inference",
        at_least + format_seconds(t.total_s)};
    if (parts) cells.push_back(missing.empty() ? "-" : missing);
    cells.insert(cells.end(), {range(t.low_s, t.high_s), format_seconds(t.forward_s),
                               pass_text(t, t.backward_s), pass_text(t, t.update_s),
                               at_most + rate_text(static_cast<double>(t.batch) / t.total_s),
                               format_percent(t.outside_training_range)});
    if (runs) {
      cells.insert(cells.end(), {run ? at_least + format_seconds(run->epoch_s) : "-",
                                 run ? at_least + format_seconds(run->run_s) : "-",
                                 run ? range(run->run_low_s, run->run_high_s) : "-"});
    }
    table.add(std::move(cells));
  }
  std::string text = table.str();
  if (parts)
    text += "not counted: layers that the model was not trained on; the figures lack them\n";
  return text;
}

std::string layers_table(const NetworkTime& time, std::size_t most) {
  std::vector<std::size_t> shown(time.layers.size());
  std::iota(shown.begin(), shown.end(), std::size_t{0});
  if (most > 0 && most < shown.size()) {
    std::stable_sort(shown.begin(), shown.end(), [&](std::size_t a, std::size_t b) {
      return time.layers[a].total_s() > time.layers[b].total_s();
    });
    shown.resize(most);
    std::sort(shown.begin(), shown.end());
  }
  TextTable table({"layer", "op", ">forward", ">backward", ">update", ">total", ">share", ""});
  double rest_s = time.total_s, rest_forward_s = time.forward_s, rest_backward_s = time.backward_s,
         rest_update_s = time.update_s;
  for (const std::size_t index : shown) {
    const LayerTime& layer = time.layers[index];
    rest_s -= layer.total_s();
    rest_forward_s -= layer.forward_s;
    rest_backward_s -= layer.backward_s;
    rest_update_s -= layer.update_s;
    table.add({layer.name, layer.op, format_seconds(layer.forward_s),
               pass_text(time, layer.backward_s), pass_text(time, layer.update_s),
               format_seconds(layer.total_s()), format_percent(layer.total_s() / time.total_s),
               layer.outside_training_range ? "outside training range" : ""});
  }
  if (shown.size() < time.layers.size()) {
    table.add({format_counted(time.layers.size() - shown.size(), "other"), "",
               format_seconds(std::max(rest_forward_s, 0.0)),
               pass_text(time, std::max(rest_backward_s, 0.0)),
               pass_text(time, std::max(rest_update_s, 0.0)), format_seconds(rest_s),
               format_percent(rest_s / time.total_s), ""});
  }
  table.rule();
  const std::string missing = not_counted(time);
  table.add({missing.empty() ? "total" : fmt::format("total without {}", missing), "",
             format_seconds(time.forward_s), pass_text(time, time.backward_s),
             pass_text(time, time.update_s), format_seconds(time.total_s), "100.0 %", ""});
  std::string text = table.str();
  if (!time.uncosted.empty()) {
    text += "not counted, since the model was not trained on them:";
    std::string separator = " ";
    for (const auto& [op, count] : time.uncosted) {
      text += fmt::format("{}{} {}", separator, count, op);
      separator = ", ";
    }
    text += "\n";
  }
  return text;
}

}  // namespace forecost
