// Speed and size of the corpus; bench/corpus.sh runs all of it beside peers.
//   bench_corpus journal ROWS DIR        append to a journal, and read it back
//   bench_corpus make ROWS FILE          write a corpus of made-up rows, without raw samples
//   bench_corpus merge FILE...           merge corpora in memory
//   bench_corpus scan FILE [COLUMN...]   read columns with a filter, in bounded memory
#include <sys/resource.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <iostream>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/random.hpp"
#include "core/units.hpp"
#include "data/corpus/journal.hpp"
#include "data/corpus/merge.hpp"
#include "data/corpus/reader.hpp"

namespace {

using namespace forecost;
namespace fs = std::filesystem;

constexpr int devices = 8;

double seconds_of(const auto& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void report(const char* what, double rows, double seconds) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::cout << fmt::format("{:<28} {:>10.2f} s {:>12} rows/s   at most {:>5.0f} MB\n", what,
                           seconds, format_count(rows / seconds),
                           static_cast<double>(usage.ru_maxrss) / 1e3)
            << std::flush;
}

Device device_of(int index) {
  Device device;
  device.name = fmt::format("card {}", index);
  device.kind = "gpu";
  device.device_class = fmt::format("card-{}", index / 2);
  device.uuid = fmt::format("bench-{}", index);
  return device;
}

/// Row `index` of a sweep over convolutions and dense layers: distributions as a collector finds
/// them, so that the file compresses as a real one does.
Measurement row_of(std::uint64_t index, const Corpus& corpus, const std::vector<std::string>& ids) {
  Random random(2026, index);
  const auto draw = [&](double low, double high) {
    return static_cast<std::int64_t>(std::exp(random.uniform(std::log(low), std::log(high))));
  };
  const std::size_t device = random.below(corpus.devices.size());
  const Layer layer = random.uniform() < 0.5 ? Layer("dense", {{"batch", draw(1, 256)},
                                                               {"in_features", draw(1, 8192)},
                                                               {"out_features", draw(1, 8192)}})
                                             : Layer("conv2d", {{"batch", draw(1, 64)},
                                                                {"in_channels", draw(1, 2048)},
                                                                {"out_channels", draw(1, 2048)},
                                                                {"in_h", draw(8, 512)},
                                                                {"in_w", draw(8, 512)},
                                                                {"kernel_h", 3},
                                                                {"kernel_w", 3}});
  constexpr Pass passes[] = {Pass::forward, Pass::backward_data, Pass::backward_weights};
  Measurement row{.task = {.layer = layer, .pass = passes[random.below(3)]}};
  row.device_class = corpus.devices[device].device_class;
  row.device_id = ids[device];
  row.environment_id = ids.back();
  row.run_id = corpus.runs[0].id;
  row.replicate = static_cast<std::int64_t>(index);  // no key twice
  const double median_s = std::exp(random.uniform(std::log(1e-6), std::log(1e-1)));
  std::vector<double> samples;
  for (int i = 0; i < 10; ++i) samples.push_back(median_s * std::exp(0.02 * random.normal()));
  row.time = summarize(std::move(samples));
  row.host_s = row.time.median_s * 1.01;
  row.started_unix_s = 1.8e9 + static_cast<double>(index) * 0.07;
  row.plan_s = random.uniform() * 1e-3;
  row.memory_bytes = row.task.work().bytes();
  row.implementation = random.uniform() < 0.5 ? "brg:avx512_core" : "jit:avx512_core";
  row.checksum = random.normal();
  return row;
}

Corpus corpus_of(std::uint64_t rows) {
  Corpus corpus;
  for (int i = 0; i < devices; ++i) corpus.devices.push_back(device_of(i));
  corpus.environments.push_back({{{"library", "1.0"}}});
  corpus.runs.push_back({"bench-1of1", {}});
  std::vector<std::string> ids;  // of the devices, and of the environment
  for (const Device& device : corpus.devices) ids.push_back(device.id());
  ids.push_back(corpus.environments[0].id());
  corpus.rows.reserve(rows);
  for (std::uint64_t i = 0; i < rows; ++i) corpus.rows.push_back(row_of(i, corpus, ids));
  return corpus;
}

void journal(std::uint64_t rows, const fs::path& directory) {
  Corpus corpus = corpus_of(rows);
  const fs::path file = directory / "journal-0";
  const double write_s = seconds_of([&] {
    Journal journal(file);
    for (const Measurement& row : corpus.rows) journal.append(row);
    journal.sync();
  });
  report("journal, written", static_cast<double>(rows), write_s);
  const double read_s = seconds_of([&] { corpus = read_journal(file); });
  report("journal, read", static_cast<double>(corpus.rows.size()), read_s);
  std::cout << fmt::format("journal: {:.0f} bytes per row\n",
                           static_cast<double>(fs::file_size(file)) / static_cast<double>(rows));
}

void make(std::uint64_t rows, const fs::path& file) {
  const Corpus corpus = corpus_of(rows);
  const double write_s = seconds_of([&] { write_corpus(corpus, file); });
  report("corpus, written", static_cast<double>(rows), write_s);
  std::cout << fmt::format("corpus: {:.1f} bytes per row\n",
                           static_cast<double>(fs::file_size(file)) / static_cast<double>(rows));
}

void merge(const std::vector<std::string>& files) {
  Corpus all;
  double rows = 0;
  std::size_t kept = 0;
  const double seconds = seconds_of([&] {
    Merger merger(all);
    for (const fs::path file : files) {
      Corpus one = read_corpus(file);
      rows += static_cast<double>(one.rows.size());
      merger.add(std::move(one));
    }
    merger.finish();
    kept = all.rows.size();
  });
  report("read and merged", rows, seconds);
  std::cout << fmt::format("{} rows kept\n", format_count(static_cast<double>(kept)));
}

void scan(const fs::path& file, std::vector<std::string> columns) {
  if (columns.empty()) columns = {"median_s", "memory_bytes"};
  std::size_t found = 0;
  double rows = 0, sum_s = 0, open_s = 0;
  const double seconds = seconds_of([&] {
    const CorpusReader* reader = nullptr;
    std::optional<CorpusReader> opened;
    open_s = seconds_of([&] { reader = &opened.emplace(file); });
    rows = static_cast<double>(reader->rows());
    reader->scan({.columns = columns,
                  .where = [](const Measurement& row) { return row.task.pass == Pass::forward; },
                  .where_columns = {"pass"}},
                 [&](Measurement& row, std::size_t) {
                   ++found;
                   sum_s += row.time.median_s;
                 });
  });
  report("scan, with the digest", rows, seconds);
  std::cout << fmt::format(
      "pass and {}: {} rows of pass forward, {:.6g} s in all; {:.2f} s of the scan "
      "went into the digest\n",
      fmt::join(columns, ", "), format_count(static_cast<double>(found)), sum_s, open_s);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    const auto usage = [] {
      return UsageError(
          "usage: bench_corpus journal ROWS DIR | make ROWS FILE | merge FILE... | "
          "scan FILE [COLUMN...]");
    };
    if (arguments.size() < 2) throw usage();
    const std::vector<std::string> rest(arguments.begin() + 1, arguments.end());
    if (arguments[0] == "merge") {
      merge(rest);
    } else if (arguments[0] == "scan") {
      scan(rest[0], {rest.begin() + 1, rest.end()});
    } else if (rest.size() == 2 && arguments[0] == "journal") {
      journal(std::stoull(rest[0]), rest[1]);
    } else if (rest.size() == 2 && arguments[0] == "make") {
      make(std::stoull(rest[0]), rest[1]);
    } else {
      throw usage();
    }
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "bench_corpus: " << error.what() << "\n";
    return static_cast<int>(exit_code_of(error));
  }
}
