#include "train/dataset.hpp"

#include <string>

#include <unistd.h>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "tests/card.hpp"

namespace forecost {
namespace {

namespace fs = std::filesystem;

class Datasets : public testing::Test {
 protected:
  void SetUp() override {
    directory = fs::temp_directory_path() / ("forecost-dataset-" + std::to_string(::getpid()));
    fs::create_directories(directory);
  }
  void TearDown() override { fs::remove_all(directory); }

  /// A corpus of one row: what a run measured of an all-reduce over a group of devices.
  fs::path corpus_of(const std::string& run, const std::string& members, double median_s) {
    Corpus corpus;
    corpus.devices = {card("u1")};
    corpus.environments = {{{{"library", "1.0"}}}};
    corpus.groups = {{{{"members", members}}}};
    corpus.runs = {{run, {}}};
    Measurement row{
        .task = {.layer = Layer("allreduce", {{"batch", 1}, {"elements", 1000}, {"ranks", 2}})}};
    row.device_class = corpus.devices[0].device_class;
    row.device_id = corpus.devices[0].id();
    row.environment_id = corpus.environments[0].id();
    row.group_id = corpus.groups[0].id();
    row.run_id = run;
    row.time = summarize({median_s, median_s, median_s});
    corpus.rows = {row};
    const fs::path file = directory / (run + ".h5");
    write_corpus(corpus, file);
    return file;
  }
  fs::path directory;
};

TEST_F(Datasets, AnotherGroupOfDevicesIsNoContradiction) {
  const fs::path one = corpus_of("a", "u1 u2", 1e-3), other = corpus_of("b", "u1 u3", 2e-3);
  EXPECT_EQ(load_dataset({one, other}, "default").examples.size(), 2U);
}

TEST_F(Datasets, ARowThatContradictsIsCountedOnce) {
  const fs::path one = corpus_of("a", "u1 u2", 1e-3), other = corpus_of("b", "u1 u2", 2e-3);
  EXPECT_EQ(load_dataset({one, one}, "default").examples.size(), 1U);
  try {
    load_dataset({one, other, other, one}, "default");
    ADD_FAILURE() << "nothing was refused";
  } catch (const DataError& error) {
    const std::string told = error.what();
    EXPECT_NE(told.find("run a has 0.001 s, run b has 0.002 s; "), std::string::npos) << told;
  }
}

}  // namespace
}  // namespace forecost
