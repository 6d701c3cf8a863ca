#include "train/dataset.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include "data/corpus/corpus.hpp"
#include "data/corpus/merge.hpp"

#include "core/error.hpp"
#include "core/hash.hpp"

namespace forecost {

namespace {

/// Sums of passes: what the 2018 paper measured.
std::vector<Example> summed(const std::vector<Example>& examples) {
  struct Passes {
    double forward_s = 0, data_s = 0, weights_s = 0;
    std::map<Optimizer, double> update_s;
    Query query;
  };
  std::map<std::string, Passes> layers;
  for (const Example& example : examples) {
    Task task = example.query.task;
    const Pass pass = task.pass;
    const Optimizer optimizer = task.optimizer;
    task.pass = Pass::forward;
    task.optimizer = Optimizer::none;
    const std::string key = task_key(task, example.query.device->id());
    Passes& passes =
        layers.try_emplace(key, Passes{.query = {task, example.query.device}}).first->second;
    switch (pass) {
      case Pass::forward:
        passes.forward_s = example.seconds;
        break;
      case Pass::backward_data:
        passes.data_s = example.seconds;
        break;
      case Pass::backward_weights:
        passes.weights_s = example.seconds;
        break;
      case Pass::update:
        passes.update_s[optimizer] = example.seconds;
        break;
      case Pass::backward:
      case Pass::training_step:
        break;
    }
  }
  std::vector<Example> sums;
  for (const auto& [key, p] : layers) {
    if (p.forward_s > 0) sums.push_back({p.query, p.forward_s});
    if (!(p.forward_s > 0 && p.data_s > 0 && p.weights_s > 0)) continue;
    for (const auto& [optimizer, update_s] : p.update_s) {
      Query query = p.query;
      query.task.pass = Pass::training_step;
      query.task.optimizer = optimizer;
      sums.push_back({query, p.forward_s + p.data_s + p.weights_s + update_s});
    }
  }
  return sums;
}

void add(Dataset& dataset, const Corpus& corpus, std::string_view preset) {
  std::map<std::string, const Device*> devices;
  for (const Device& device : corpus.devices) {
    dataset.devices.push_back(device);
    devices[device.id()] = &dataset.devices.back();
  }
  std::vector<Example> examples;
  for (const Measurement& row : corpus.rows) {
    // A zero or negative time (a damaged import, say) must never reach a logarithm; repeats of a
    // planned measurement would count its layer twice.
    if (row.status != Status::ok || !(row.time.median_s > 0) || row.replicate != 0) continue;
    const auto device = devices.find(row.device_id);
    if (device == devices.end()) corpus.device(row.device_id);  // throws
    examples.push_back({{row.task, device->second}, row.time.median_s});
  }
  if (preset == "justus2018") examples = summed(examples);
  dataset.examples.insert(dataset.examples.end(), examples.begin(), examples.end());
}

}  // namespace

Dataset make_dataset(const Corpus& corpus, std::string_view preset) {
  Dataset dataset;
  add(dataset, corpus, preset);
  return dataset;
}

Dataset load_dataset(const std::vector<std::filesystem::path>& corpora, std::string_view preset) {
  // Merged, so that a row that is in two of them counts once.
  Corpus all;
  Merger merger(all);
  std::vector<std::string> hashes;
  for (const auto& given : corpora) {
    merger.add(read_corpus(given, false));
    std::string hash = sha256_hex_of_file(corpus_file(given));
    if (std::find(hashes.begin(), hashes.end(), hash) == hashes.end()) {
      hashes.push_back(std::move(hash));
    }
  }
  if (const auto conflicts = merger.finish(); !conflicts.empty()) {
    throw DataError(fmt::format(
        "the corpora contradict each other: {}{}", conflicts.front(),
        conflicts.size() == 1 ? "" : fmt::format(" (and {} more)", conflicts.size() - 1)));
  }
  Dataset dataset = make_dataset(all, preset);
  dataset.corpus_hashes = std::move(hashes);
  return dataset;
}

}  // namespace forecost
