// Rows per second of `forecost corpus import`, on a table in the layout of a shipped mapping that
// it makes up, beside what reading the bytes and splitting them into fields take alone:
//   bench_import [ROWS]            1,000,000 unless told
#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <ctime>
#include <iostream>

#include <unistd.h>

#include "core/error.hpp"
#include "core/file.hpp"
#include "core/random.hpp"
#include "core/table.hpp"
#include "core/units.hpp"
#include "data/corpus/import.hpp"
#include "data/corpus/merge.hpp"

namespace {

using namespace forecost;
namespace fs = std::filesystem;

/// Like justus_conv_*.csv, drawn as their authors drew them.
std::string made_up_table(std::int64_t rows) {
  std::string text =
      "batchsize,matsize,kernelsize,channels_in,channels_out,strides,padding,precision,"
      "activation_fct,use_bias,optimizer,gpu,timeUsed_median,timeUsed_min,timeUsed_max,"
      "timeUsed_std\n";
  Random random(1);
  const auto draw = [&](std::int64_t least, std::int64_t most) {
    return least +
           static_cast<std::int64_t>(random.uniform() * static_cast<double>(most - least + 1));
  };
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t side = draw(1, 512), most = std::max<std::int64_t>(1, 10000 / side - 1);
    const double median_ms = 0.1 + 200 * random.uniform();
    text += fmt::format("{},{},{},{},{},{},{},32,{},{},{},0,{:.9g},{:.9g},{:.9g},{:.9g}\n",
                        draw(1, 64), side, draw(1, std::min<std::int64_t>(7, side)), draw(1, most),
                        draw(1, most), draw(1, 4), draw(0, 1), draw(0, 3), draw(0, 1), draw(0, 6),
                        median_ms, 0.99 * median_ms, 1.02 * median_ms, 0.01 * median_ms);
  }
  return text;
}

/// Everything here runs on one core, so that CPU time tells more on a busy machine.
struct Instant {
  double wall_s =
      std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  double cpu_s = static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
};

void run(std::int64_t rows) {
  const fs::path directory = fs::temp_directory_path() / fmt::format("bench_import-{}", ::getpid());
  fs::create_directory(directory);
  const fs::path table = directory / "table.csv";
  replace_text(table, made_up_table(rows));
  const auto bytes = static_cast<double>(fs::file_size(table));

  TextTable out({"step", ">time", ">CPU time", ">rows per s of CPU", ">bytes per s of CPU"});
  const auto step = [&](const char* name, const Instant& since) {
    const double cpu_s = Instant().cpu_s - since.cpu_s;
    out.add({name, format_seconds(Instant().wall_s - since.wall_s), format_seconds(cpu_s),
             format_si(static_cast<double>(rows) / cpu_s, "rows/s"),
             format_si(bytes / cpu_s, "B/s")});
  };
  Instant start;
  const std::string text = read_text(table);
  step("reading the bytes, alone", start);
  start = Instant();
  std::int64_t fields = 0;
  read_csv(text, "table", {}, [&](const CsvRow& row) { fields += std::ssize(row.fields); });
  step("splitting them into fields, alone", start);
  start = Instant();
  const auto import_into = [&](const std::function<void(Corpus)>& batch,
                               const std::function<void(std::size_t)>& expect) {
    Importer importer(find_import_mapping("justus2018-conv"), {.device = find_device("v100")});
    return importer.add(table, batch, expect);
  };
  const ImportCounts counts = import_into([](const Corpus&) {}, {});
  step("the rows of a corpus, alone", start);
  start = Instant();
  merge_into_file(directory / "corpus.h5", "imported", [&](Merger& merger) {
    import_into([&](Corpus batch) { merger.add(std::move(batch)); },
                [&](std::size_t most) { merger.expect(most); });
    step("import and merge", start);
  });
  step("all of it, to the file", start);
  fs::remove_all(directory);
  std::cout << fmt::format("{} rows of {} fields, {}; {} imported, {} refused\n", rows,
                           fields / (rows + 1), format_bytes(bytes), counts.imported,
                           counts.refused)
            << out.str();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    std::int64_t rows = 1'000'000;
    if (argc > 2) throw UsageError("usage: bench_import [ROWS]");
    if (argc == 2) {
      const std::string_view text = argv[1];
      const auto [end, error] = std::from_chars(text.begin(), text.end(), rows);
      if (error != std::errc() || end != text.end() || rows < 1) {
        throw UsageError(fmt::format("{}: expected a number of rows", text));
      }
    }
    run(rows);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "bench_import: " << error.what() << "\n";
    return static_cast<int>(exit_code_of(error));
  }
}
