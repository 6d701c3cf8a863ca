#include <cmath>
#include <filesystem>
#include <set>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "data/corpus/corpus.hpp"
#include "data/corpus/fields.hpp"
#include "data/corpus/records.hpp"
#include "data/h5/h5.hpp"
#include "tests/card.hpp"

namespace forecost {
namespace {

TEST(Columns, NoParameterHasTheNameOfAnotherColumnOfItsGroup) {
  const Measurement row{.task = unusual_task()};
  std::set<std::string> fields{"row", "sample", "sample_begin", "samples_s"};
  visit_fields(row, [&](const char* name, const char*, const auto&) { fields.insert(name); });
  for (const Operator* op : operators()) {
    for (const ParameterInfo& parameter : op->parameters) {
      EXPECT_FALSE(fields.contains(std::string(parameter.name)))
          << op->name << ": " << parameter.name;
    }
  }
}

// A field that hardly any row knows costs readers nothing, and is there as soon as one row has it.
TEST(Columns, SparseOnesAreThereWhereARowKnowsThem) {
  const auto file = std::filesystem::path(testing::TempDir()) / "sparse_columns_test.h5";
  const auto columns = [&](const Corpus& corpus) {
    write_corpus(corpus, file);
    const auto names = h5::File::open(file).group("conv2d").datasets();
    return std::set<std::string>(names.begin(), names.end());
  };
  Corpus corpus;
  corpus.rows = {Measurement{.task = unusual_task()}, Measurement{.task = unusual_task()}};
  corpus.rows[1].replicate = 1;
  const auto without = columns(corpus);
  EXPECT_TRUE(std::isnan(read_corpus(file).rows[0].power_w));
  visit_fields(corpus.rows[0], [&](const char* name, const char*, const auto&) {
    EXPECT_EQ(without.contains(name), !is_sparse(name)) << name;
  });
  corpus.rows[1].power_w = 250;
  auto with = columns(corpus);
  EXPECT_EQ(with.erase("power_w"), 1U);
  EXPECT_EQ(with, without);
  const Corpus read = read_corpus(file);
  EXPECT_TRUE(std::isnan(read.rows[0].power_w));
  EXPECT_EQ(read.rows[1].power_w, 250);
}

TEST(Columns, JournalsOfBeforeKeepTheirSampleCounts) {
  Measurement row{.task = unusual_task()};
  row.time.n = 17;
  auto record = nlohmann::json::from_cbor(encode(row));
  ASSERT_EQ(record.at("sample_count"), 17);
  record["n"] = 18;
  record.erase("sample_count");
  std::string bytes;
  nlohmann::json::to_cbor(record, bytes);
  Corpus corpus;
  decode_into(corpus, static_cast<char>(RecordKind::row), bytes, "test");
  ASSERT_EQ(corpus.rows.size(), 1U);
  EXPECT_EQ(corpus.rows[0].time.n, 18);
}

}  // namespace
}  // namespace forecost
