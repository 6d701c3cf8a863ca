#include "train/dataset.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "data/corpus/merge.hpp"
#include "data/corpus/reader.hpp"
#include "data/corpus/row_key.hpp"

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
  std::vector<Example> sums;
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
      case Pass::training_step:  // of an imported table: a sum already
        sums.push_back(example);
        break;
      case Pass::backward:
        break;
    }
  }
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

/// Whether a row is an example: a zero or negative time (a damaged import, say) must never reach a
/// logarithm; repeats of a planned measurement would count its layer twice.
bool trains(const Measurement& row) {
  return row.status == Status::ok && std::isfinite(row.time.median_s) && row.time.median_s > 0 &&
         row.replicate == 0;
}

/// Collects examples row by row.
class Builder {
 public:
  explicit Builder(const std::vector<Device>& devices) {
    for (const Device& device : devices) {
      dataset_.devices.push_back(device);
      devices_[device.id()] = &dataset_.devices.back();
    }
  }

  void add(const Measurement& row) {
    const auto device = devices_.find(row.device_id);
    if (device == devices_.end()) {
      throw DataError(fmt::format("device '{}' is not in the corpus", row.device_id));
    }
    dataset_.examples.push_back({{row.task, device->second}, row.time.median_s});
  }
  std::size_t size() const { return dataset_.examples.size(); }
  Example& example(std::size_t index) { return dataset_.examples[index]; }

  Dataset finish(std::string_view preset) {
    if (preset == "justus2018") dataset_.examples = summed(dataset_.examples);
    return std::move(dataset_);
  }

 private:
  Dataset dataset_;
  std::unordered_map<std::string, const Device*> devices_;
};

/// Finds rows that are in several corpora: the same one counts once.
class Repeats {
 public:
  /// Whether the row is the first of its key; else its example may get the later time of one run.
  bool is_first(const Measurement& row, Builder& builder) {
    const auto [found, added] = known_.try_emplace(
        row_key_hash(row), Known{builder.size(), row.started_unix_s, row.run_id});
    if (added) return true;
    Known& known = found->second;
    Example& example = builder.example(known.example);
    if (example.seconds == row.time.median_s) return false;
    if (known.run_id != row.run_id) {
      if (std::exchange(known.contradicted, true)) return false;
      if (conflicts_++ == 0) first_ = conflict_line(row, known.run_id, example.seconds);
    } else if (row.started_unix_s > known.started_unix_s) {
      example.seconds = row.time.median_s;
      known.started_unix_s = row.started_unix_s;
    }
    return false;
  }

  void refuse_conflicts() const {
    if (conflicts_ == 0) return;
    throw DataError(fmt::format(
        "the corpora contradict each other: {}{}; 'forecost corpus merge --on-conflict' settles it",
        first_, conflicts_ == 1 ? "" : fmt::format(" (and {} more)", conflicts_ - 1)));
  }

 private:
  struct Known {
    std::size_t example;
    double started_unix_s;
    std::string run_id;
    bool contradicted = false;
  };
  std::unordered_map<Hash128, Known, HashOfHash128> known_;
  std::size_t conflicts_ = 0;
  std::string first_;
};

}  // namespace

Dataset make_dataset(const Corpus& corpus, std::string_view preset) {
  Builder builder(corpus.devices);
  for (const Measurement& row : corpus.rows) {
    if (trains(row)) builder.add(row);
  }
  return builder.finish(preset);
}

Dataset load_dataset(const std::vector<std::filesystem::path>& corpora, std::string_view preset) {
  std::vector<CorpusReader> readers;
  std::vector<std::string> hashes;
  Corpus tables;
  Merger merger(tables);
  for (const auto& given : corpora) {
    readers.emplace_back(given);
    merger.add(readers.back().tables());
    const std::string& hash = readers.back().sha256();
    if (std::find(hashes.begin(), hashes.end(), hash) == hashes.end()) hashes.push_back(hash);
  }
  merger.finish();

  Builder builder(tables.devices);
  Repeats repeats;
  const CorpusReader::Scan scan{
      .columns = {"layer", "pass", "dtype", "optimizer", "cache_state", "algorithm_policy",
                  "device_class", "device_id", "environment_id", "run_id", "group_id", "protocol",
                  "started_unix_s"},
      .where = trains,
      .where_columns = {"status", "replicate", "median_s"}};
  for (const CorpusReader& reader : readers) {
    reader.scan(scan, [&](Measurement& row, std::size_t) {
      if (readers.size() == 1 || repeats.is_first(row, builder)) builder.add(row);
    });
  }
  repeats.refuse_conflicts();
  Dataset dataset = builder.finish(preset);
  dataset.corpus_hashes = std::move(hashes);
  return dataset;
}

}  // namespace forecost
