#include "data/corpus/diff.hpp"

#include <cmath>

#include <nlohmann/json.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.hpp"
#include "core/random.hpp"

namespace forecost {
namespace {

using testing::HasSubstr;
constexpr double nan = TimingSummary::nan;

struct Given {
  std::int64_t batch = 1;
  double median_s = 1e-3;
  double iqr_s = 0;    ///< NaN: quartiles unknown
  double stdev_s = 0;  ///< looked at where quartiles are unknown
  std::int64_t n = 100;
  std::string device_class = "card";
  std::string device_id = "d1";
  Pass pass = Pass::forward;
};

Measurement row_of(const Given& given) {
  Measurement row{
      .task = {.layer = Layer("dense",
                              {{"batch", given.batch}, {"in_features", 3}, {"out_features", 4}}),
               .pass = given.pass}};
  row.device_class = given.device_class;
  row.device_id = given.device_id;
  row.time.n = given.n;
  row.time.median_s = given.median_s;
  row.time.q1_s = given.median_s - given.iqr_s / 2;
  row.time.q3_s = given.median_s + given.iqr_s / 2;
  row.time.stdev_s = given.stdev_s;
  return row;
}

Measurement failed(std::int64_t batch, Status status, const std::string& reason) {
  Measurement row = row_of({.batch = batch});
  row.status = status;
  row.reason = reason;
  row.time = {};
  return row;
}

using Rows = std::vector<Measurement>;

CorpusDiff diff_of(const Rows& a, const Rows& b, DiffOptions options = {}) {
  CorpusComparison comparison(options);
  for (const auto& row : a) comparison.add(CorpusComparison::a, row);
  for (const auto& row : b) comparison.add(CorpusComparison::b, row);
  return comparison.finish();
}

DiffRow row_between(const Rows& a, const Rows& b, DiffOptions options = {}) {
  const CorpusDiff diff = diff_of(a, b, options);
  EXPECT_EQ(diff.rows.size(), 1U);
  return diff.rows.at(0);
}

TEST(Diff, IdenticalCorporaAreTheSame) {
  Rows rows;
  for (std::int64_t batch = 1; batch <= 20; ++batch) {
    rows.push_back(row_of({.batch = batch, .median_s = 1e-4 * static_cast<double>(batch)}));
  }
  rows.push_back(failed(21, Status::failed, "no"));
  const CorpusDiff diff = diff_of(rows, rows, {.tolerance = 0});
  EXPECT_EQ(diff.all.n, 20U);
  EXPECT_EQ(diff.all.same, 20U);
  EXPECT_EQ(diff.all.failed_in_both, 1U);
  EXPECT_EQ(diff.all.geomean_ratio, 1);
  EXPECT_EQ(diff.all.p5_ratio, 1);
  EXPECT_EQ(diff.all.p95_ratio, 1);
  EXPECT_EQ(diff.all.only_in_a + diff.all.only_in_b + diff.all.status_changes, 0U);
  for (const DiffRow& row : diff.rows) EXPECT_EQ(row.ratio, 1);
}

TEST(Diff, ToleranceIsAFloorUnderTheNoise) {
  const Rows a{row_of({.median_s = 1.0})};
  EXPECT_EQ(row_between(a, {row_of({.median_s = 1.019})}).verdict, Verdict::same);
  EXPECT_EQ(row_between(a, {row_of({.median_s = 1.021})}).verdict, Verdict::slower);
  EXPECT_EQ(row_between(a, {row_of({.median_s = 1 / 1.019})}).verdict, Verdict::same);
  EXPECT_EQ(row_between(a, {row_of({.median_s = 1 / 1.021})}).verdict, Verdict::faster);
  EXPECT_EQ(row_between(a, {row_of({.median_s = 1.021})}, {.tolerance = 0.1}).verdict,
            Verdict::same);
  const DiffRow row = row_between(a, {row_of({.median_s = 2.0})});
  EXPECT_EQ(row.ratio, 2);
  EXPECT_EQ(row.noise, 0);
}

TEST(Diff, NoiseIsThatOfTheMedians) {
  // One median of n = 100 and IQR = 1.35 stdev has an error of 1.2533 stdev / 10.
  const double half_width = 1.96 * std::hypot(1.2533 * 0.1 / 10, 1.2533 * 0.2 / 10);
  const Rows a{row_of({.median_s = 1.0, .iqr_s = 1.35 * 0.1})};
  const auto b = [](double median_s) {
    return Rows{row_of({.median_s = median_s, .iqr_s = 1.35 * 0.2 * median_s})};
  };
  EXPECT_NEAR(row_between(a, b(1)).noise, half_width, 1e-12);
  EXPECT_EQ(row_between(a, b(std::exp(half_width * 0.99))).verdict, Verdict::same);
  EXPECT_EQ(row_between(a, b(std::exp(half_width * 1.01))).verdict, Verdict::slower);
  EXPECT_EQ(row_between(a, b(std::exp(-half_width * 1.01))).verdict, Verdict::faster);
  // The standard deviation serves where quartiles are unknown, and only there.
  const Rows mean_only{row_of({.median_s = 1.0, .iqr_s = nan, .stdev_s = 0.1})};
  EXPECT_NEAR(row_between(mean_only, b(1)).noise, half_width, 1e-12);
  const Rows both{row_of({.median_s = 1.0, .iqr_s = 1.35 * 0.1, .stdev_s = 9})};
  EXPECT_NEAR(row_between(both, b(1)).noise, half_width, 1e-12);
}

TEST(Diff, OneInTwentyIsBeyondNoiseWhereNothingDiffers) {
  Random random(7);
  const auto measured = [&](std::int64_t batch) {
    Measurement row = row_of({.batch = batch});
    std::vector<double> samples_s;
    for (int i = 0; i < 50; ++i) samples_s.push_back(1 + 0.05 * random.normal());
    row.time = summarize(samples_s);
    return row;
  };
  Rows a, b;
  for (std::int64_t batch = 1; batch <= 2000; ++batch) {
    a.push_back(measured(batch));
    b.push_back(measured(batch));
  }
  const CorpusDiff diff = diff_of(a, b, {.tolerance = 0});
  EXPECT_NEAR(static_cast<double>(diff.all.same) / 2000, 0.95, 0.02);
}

TEST(Diff, UnknownSpreadIsJudgedByTheToleranceAndCounted) {
  const Rows known{row_of({.median_s = 1.0, .iqr_s = 0.5})};
  for (const Given& unknown :
       {Given{.median_s = 1.03, .iqr_s = nan, .stdev_s = nan}, Given{.median_s = 1.03, .n = 1},
        Given{.median_s = 1.03, .iqr_s = nan, .stdev_s = 0.1, .n = 0}}) {
    const CorpusDiff diff = diff_of(known, {row_of(unknown)});
    EXPECT_TRUE(std::isnan(diff.rows.at(0).noise));
    EXPECT_EQ(diff.rows.at(0).verdict, Verdict::slower);
    EXPECT_EQ(diff.all.unknown_spread, 1U);
    EXPECT_EQ(diff.all.slower, 1U);
  }
}

TEST(Diff, RowsOfAKeyArePooled) {
  const Rows a{row_of({.median_s = 1.0}), row_of({.median_s = 1.1, .device_id = "d2"}),
               row_of({.median_s = 1.4, .device_id = "d3"})};
  const DiffRow row = row_between(a, {row_of({.median_s = 2.2})});
  EXPECT_EQ(row.a_s, 1.1);
  EXPECT_EQ(row.a_rows, 3U);
  EXPECT_EQ(row.b_rows, 1U);
  EXPECT_EQ(row.ratio, 2);
  // Their distance from each other is noise, also where each by itself seems precise.
  const double stdev = summarize({std::log(1.0), std::log(1.1), std::log(1.4)}).stdev_s;
  EXPECT_NEAR(row.noise, 1.96 * 1.2533 * stdev / std::sqrt(3), 1e-12);
  // Rows that agree by chance are as noisy as each is by itself, by the root of their number.
  const Rows two{row_of({.median_s = 1.0, .iqr_s = 0.135}),
                 row_of({.median_s = 1.0, .iqr_s = 0.135, .device_id = "d2"})};
  EXPECT_NEAR(row_between(two, {row_of({.median_s = 1.0})}).noise,
              1.96 * 1.2533 * 0.1 / 10 / std::sqrt(2), 1e-12);
}

TEST(Diff, GroupsSummariseRatios) {
  Rows a, b;
  for (std::int64_t batch = 1; batch <= 101; ++batch) {
    a.push_back(row_of({.batch = batch, .median_s = 1.0}));
    b.push_back(row_of({.batch = batch, .median_s = std::exp(0.01 * static_cast<double>(batch))}));
  }
  a.push_back(row_of({.batch = 1, .median_s = 1.0, .pass = Pass::update}));
  b.push_back(row_of({.batch = 1, .median_s = 0.5, .pass = Pass::update}));
  a.push_back(row_of({.batch = 500}));
  b.push_back(row_of({.batch = 501}));
  b.push_back(row_of({.batch = 502, .device_class = "other"}));
  const CorpusDiff diff = diff_of(a, b, {.tolerance = 0.02});
  ASSERT_EQ(diff.groups.size(), 3U);
  const DiffGroup &forward = diff.groups[0], &other = diff.groups[1], &update = diff.groups[2];
  EXPECT_EQ(forward.pass, "forward");
  EXPECT_EQ(forward.device_class, "card");
  EXPECT_EQ(forward.n, 101U);
  EXPECT_EQ(forward.only_in_a, 1U);
  EXPECT_EQ(forward.only_in_b, 1U);
  EXPECT_NEAR(forward.geomean_ratio, std::exp(0.51), 1e-12);
  EXPECT_NEAR(forward.p5_ratio, std::exp(0.06), 1e-12);
  EXPECT_NEAR(forward.median_ratio, std::exp(0.51), 1e-12);
  EXPECT_NEAR(forward.p95_ratio, std::exp(0.96), 1e-12);
  EXPECT_EQ(forward.same, 1U);
  EXPECT_EQ(forward.slower, 100U);
  EXPECT_EQ(other.device_class, "other");
  EXPECT_EQ(other.n, 0U);
  EXPECT_TRUE(std::isnan(other.geomean_ratio));
  EXPECT_EQ(update.faster, 1U);
  EXPECT_EQ(diff.all.n, 102U);
  EXPECT_EQ(diff.all.only_in_b, 2U);
  // The largest difference is first.
  EXPECT_NEAR(diff.rows[0].ratio, std::exp(1.01), 1e-12);
  EXPECT_EQ(diff.rows.back().verdict, Verdict::same);
  for (const std::size_t most : {std::size_t{1}, std::size_t{1000}}) {
    const std::string text = diff_text(diff, {}, most);
    EXPECT_THAT(text, HasSubstr("The largest of 101 differences beyond noise"));
    EXPECT_EQ(text.find("dense batch=100 ") != std::string::npos, most > 1);
  }
}

TEST(Diff, DifferencesBeyondNoiseComeFirst) {
  const Rows a{row_of({.batch = 1, .median_s = 1.0}), row_of({.batch = 2, .median_s = 1.0})};
  const Rows b{row_of({.batch = 1, .median_s = 3.0, .iqr_s = 100}),
               row_of({.batch = 2, .median_s = 1.5})};
  const CorpusDiff diff = diff_of(a, b);
  EXPECT_EQ(diff.rows[0].ratio, 1.5);
  EXPECT_EQ(diff.rows[1].verdict, Verdict::same);
}

TEST(Diff, ChangedStatusesAreListed) {
  Rows a{row_of({.batch = 1}), failed(2, Status::out_of_memory, "no room"), row_of({.batch = 3})};
  Rows b{failed(1, Status::timeout, "60 s"), row_of({.batch = 2}), row_of({.batch = 3})};
  b[2].time = {};  // ok, but without a time: none to compare, and said so
  const CorpusDiff diff = diff_of(a, b);
  ASSERT_EQ(diff.changes.size(), 3U);
  EXPECT_EQ(diff.changes[0].a + " " + diff.changes[0].b, "ok timeout");
  EXPECT_EQ(diff.changes[0].reason, "60 s");
  EXPECT_EQ(diff.changes[1].a + " " + diff.changes[1].b, "out_of_memory ok");
  EXPECT_EQ(diff.changes[1].reason, "no room");
  EXPECT_EQ(diff.changes[2].reason, "its median is no positive finite time");
  EXPECT_EQ(diff.all.status_changes, 3U);
  EXPECT_EQ(diff.all.n, 0U);
  EXPECT_THAT(diff_text(diff, {}, 20), HasSubstr("out_of_memory  ok"));
  // A failure beside an ok row of the key changes nothing.
  const Rows ok{row_of({.batch = 1}), failed(1, Status::timeout, "60 s")};
  EXPECT_EQ(diff_of(ok, ok).all.n, 1U);
}

TEST(Diff, HardwareAgainstHardware) {
  const Rows a{row_of({.median_s = 2.0, .device_class = "old"})};
  const Rows b{row_of({.median_s = 1.0, .device_class = "new"})};
  EXPECT_EQ(diff_of(a, b).all.n, 0U);
  const CorpusDiff diff = diff_of(a, b, {.any_class = true});
  EXPECT_EQ(diff.rows.at(0).ratio, 0.5);
  EXPECT_EQ(diff.groups.at(0).device_class, "old -> new");
  Rows mixed = b;
  mixed.push_back(row_of({.batch = 9, .device_class = "newer"}));
  try {
    diff_of(a, mixed, {.any_class = true});
    ADD_FAILURE() << "nothing was refused";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("B holds the device classes new, newer"));
  }
}

TEST(Diff, JsonHoldsEverything) {
  const Rows a{row_of({.batch = 1, .median_s = 1.0}), row_of({.batch = 2}), row_of({.batch = 4})};
  const Rows b{row_of({.batch = 1, .median_s = 1.5, .n = 1}), row_of({.batch = 2}),
               row_of({.batch = 3, .pass = Pass::update})};
  const CorpusDiff diff = diff_of(a, b);
  const auto json = nlohmann::json::parse(diff_json(diff, {}, "a.h5", "b.h5", 100));
  EXPECT_EQ(json["a"], "a.h5");
  EXPECT_EQ(json["keys_in_both"], 2);
  EXPECT_EQ(json["only_in_a"], 1);
  EXPECT_EQ(json["only_in_b"], 1);
  EXPECT_EQ(json["groups"][0]["op"], "dense");
  EXPECT_EQ(json["groups"][0]["class"], "card");
  EXPECT_EQ(json["groups"][0]["n"], 2);
  EXPECT_TRUE(json["groups"][1]["geomean_ratio"].is_null());
  ASSERT_EQ(json["rows"].size(), 2U);
  EXPECT_EQ(json["rows"][0]["ratio"], 1.5);
  EXPECT_TRUE(json["rows"][0]["noise"].is_null());
  EXPECT_EQ(json["rows"][0]["verdict"], "slower");
  EXPECT_THAT(json["rows"][0]["key"].get<std::string>(),
              HasSubstr("dense batch=1 in_features=3 out_features=4 @ card host_clock"));
  EXPECT_EQ(nlohmann::json::parse(diff_json(diff, {}, "a", "b", 1))["rows"].size(), 1U);
}

}  // namespace
}  // namespace forecost
