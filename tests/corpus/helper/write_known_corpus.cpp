// Writes a corpus whose values readers_test.py knows: what C++ wrote is what Python must see.

#include "data/corpus/corpus.hpp"
#include "tests/card.hpp"

using namespace forecost;

int main(int, char** arguments) {
  Corpus corpus;
  Device device;
  device.name = "Card µ";
  device.kind = "gpu";
  device.device_class = "card";
  device.uuid = "u1";
  device.set(Attribute::clock_hz, 1.5e9);
  corpus.devices = {device};
  corpus.environments = {{{{"library", "1.0 ü"}}}};
  corpus.runs = {{"r1", {}}};
  const auto add = [&](Measurement row) {
    row.device_class = device.device_class;
    row.device_id = device.id();
    row.environment_id = corpus.environments[0].id();
    row.run_id = "r1";
    corpus.rows.push_back(row);
  };
  for (const std::int64_t batch : {1, 2}) {
    const double unit = 0.1 * static_cast<double>(batch);  // no float has this value
    Measurement row{
        .task = {.layer =
                     Layer("dense", {{"batch", batch}, {"in_features", 3}, {"out_features", 4}})}};
    row.time = summarize({unit, 2 * unit, 4 * unit});
    row.samples_s = {0.5F, static_cast<float>(batch)};
    row.samples_s.resize(static_cast<std::size_t>(batch) + 1, 0.25F);
    row.seed = 0xFFFFFFFFFFFFFFFFULL;
    add(row);
  }
  Measurement failed{.task = unusual_task()};
  failed.status = Status::skipped_memory;
  failed.reason = "needs 3 GB";
  add(failed);
  write_corpus(corpus, arguments[1]);
}
