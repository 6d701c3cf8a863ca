#include "data/corpus/reasons.hpp"

#include <gtest/gtest.h>

namespace forecost {
namespace {

Measurement row_of(Status status, const std::string& reason) {
  Measurement row{
      .task = {Layer("dense", {{"batch", 1}, {"in_features", 2}, {"out_features", 3}})}};
  row.status = status;
  row.reason = reason;
  return row;
}

TEST(Reasons, ThatDifferInNumbersAloneAreOne) {
  const std::vector<Measurement> rows{
      row_of(Status::ok, ""),
      row_of(Status::unsupported, "no bf16 here, nor 5x5"),
      row_of(Status::shared, "took 99.5 % of a core's time"),
      row_of(Status::shared, "took 100 % of a core's time"),
      row_of(Status::shared, "took 100 % of a core's time"),
      row_of(Status::failed, "took 100 % of a core's time"),
      row_of(Status::unsupported, "no bf32 here, nor 5x5"),
      row_of(Status::skipped_memory, "1,000 B, 7e-3"),
      row_of(Status::skipped_memory, "999 B, 7e-3"),
  };
  const auto counts = count_reasons(rows);
  ASSERT_EQ(counts.size(), 5U);
  EXPECT_EQ(counts[0].status, Status::shared);
  EXPECT_EQ(counts[0].reason, "took 99.5 to 100 % of a core's time");
  EXPECT_EQ(counts[0].rows, 3);
  EXPECT_EQ(counts[1].reason, "999 to 1,000 B, 7e-3");
  EXPECT_EQ(counts[1].rows, 2);
  for (std::size_t i = 2; i < 5; ++i) EXPECT_EQ(counts[i].rows, 1);
}

}  // namespace
}  // namespace forecost
