#include <set>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "data/corpus/corpus.hpp"
#include "data/corpus/fields.hpp"
#include "data/corpus/records.hpp"
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
