#include "data/corpus/export.hpp"

#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/file.hpp"
#include "data/corpus/corpus.hpp"
#include "data/corpus/fields.hpp"
#include "tests/card.hpp"

namespace forecost {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::StartsWith;

Measurement dense_row(std::int64_t batch) {
  Measurement row{
      .task = {.layer =
                   Layer("dense", {{"batch", batch}, {"in_features", 3}, {"out_features", 4}})}};
  row.device_class = "card";
  row.device_id = card("u1").id();
  row.time = summarize({0.1, 0.1 + 0.2, 0.7});  // 0.30000000000000004 has 17 digits
  row.samples_s = {0.1F, 0.3F, 0.7F};
  row.seed = 0xFFFFFFFFFFFFFFFFULL;
  return row;
}

class Export : public testing::Test {
 protected:
  void SetUp() override {
    directory = fs::temp_directory_path() / fmt::format("forecost-export-{}", ::getpid());
    fs::remove_all(directory);
    fs::create_directories(directory);
    corpus.devices = {card("u1")};
    Measurement failed{.task = unusual_task()};
    failed.device_class = "card";
    failed.device_id = corpus.devices[0].id();
    failed.status = Status::skipped_memory;
    failed.reason = "needs 3 GB, has \"2\"\nor µ less";
    corpus.rows = {failed, dense_row(1), dense_row(2)};
  }
  void TearDown() override { fs::remove_all(directory); }

  std::string exported(const ExportOptions& options) {
    write_corpus(corpus, directory / "c.h5");
    std::string text;
    export_corpus(directory / "c.h5", options, [&](std::string_view bytes) { text += bytes; });
    return text;
  }
  std::string refusal(const ExportOptions& options) {
    try {
      exported(options);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "nothing was refused";
  }

  fs::path directory;
  Corpus corpus;
};

TEST_F(Export, WritesCsv) {
  EXPECT_EQ(
      exported({.columns = {"operator", "kernel_h", "batch", "out_features", "activation",
                            "median_s", "host_s", "runs_per_sample", "seed", "status", "reason"}}),
      "operator,kernel_h,batch,out_features,activation,median_s,host_s,runs_per_sample,seed,status,"
      "reason\n"
      "dense,,1,4,none,0.30000000000000004,,1,18446744073709551615,ok,\n"
      "dense,,2,4,none,0.30000000000000004,,1,18446744073709551615,ok,\n"
      "conv2d,3,1,,tanh,,,1,0,skipped_memory,\"needs 3 GB, has \"\"2\"\"\nor µ less\"\n");
}

TEST_F(Export, WritesJsonLines) {
  corpus.rows.pop_back();
  EXPECT_EQ(exported({.format = TableFormat::jsonl,
                      .columns = {"operator", "kernel_h", "batch", "out_features", "activation",
                                  "median_s", "runs_per_sample", "seed", "reason"},
                      .samples = true}),
            "{\"operator\":\"dense\",\"batch\":1,\"out_features\":4,\"activation\":\"none\","
            "\"median_s\":0.30000000000000004,\"runs_per_sample\":1,\"seed\":18446744073709551615,"
            "\"reason\":\"\",\"samples_s\":[0.1,0.3,0.7]}\n"
            "{\"operator\":\"conv2d\",\"kernel_h\":3,\"batch\":1,\"activation\":\"tanh\","
            "\"median_s\":null,\"runs_per_sample\":1,\"seed\":0,"
            "\"reason\":\"needs 3 GB, has \\\"2\\\"\\nor µ less\",\"samples_s\":[]}\n");
}

TEST_F(Export, QuotesWhatNeedsIt) {
  corpus.rows.erase(corpus.rows.begin() + 1, corpus.rows.end());
  for (const auto& [reason, field] : std::map<std::string, std::string>{{"a,b", "\"a,b\""},
                                                                        {"a\"b", "\"a\"\"b\""},
                                                                        {"a\nb", "\"a\nb\""},
                                                                        {"a\rb", "\"a\rb\""},
                                                                        {"a b;'\tµ", "a b;'\tµ"},
                                                                        {"", ""}}) {
    corpus.rows[0].reason = reason;
    EXPECT_EQ(exported({.columns = {"reason", "replicate"}}),
              "reason,replicate\n" + field + ",0\n");
  }
}

TEST_F(Export, SamplesOfARowAreOneField) {
  EXPECT_EQ(exported({.operators = {"dense"}, .columns = {"batch"}, .samples = true}),
            "batch,samples_s\n1,\"0.1 0.3 0.7\"\n2,\"0.1 0.3 0.7\"\n");
  EXPECT_EQ(exported({.operators = {"dense"}, .columns = {"samples_s", "batch"}}),
            "samples_s,batch\n\"0.1 0.3 0.7\",1\n\"0.1 0.3 0.7\",2\n");
}

TEST_F(Export, WhatIsNotFiniteStaysStrictJson) {
  corpus.rows = {dense_row(1)};
  corpus.rows[0].checksum = std::numeric_limits<double>::infinity();
  const std::vector<std::string> columns{"checksum", "host_s"};
  EXPECT_EQ(exported({.format = TableFormat::jsonl, .columns = columns}),
            "{\"checksum\":null,\"host_s\":null}\n");
  EXPECT_EQ(exported({.columns = columns}), "checksum,host_s\ninf,\n");
}

TEST_F(Export, HasAColumnForEachParameterAndField) {
  std::string header = exported({});
  header = header.substr(0, header.find('\n'));
  EXPECT_THAT(header, StartsWith("operator,batch,in_features,out_features,"));
  EXPECT_THAT(header, HasSubstr(",kernel_h,"));
  EXPECT_THAT(header, HasSubstr(",median_s,"));
  EXPECT_THAT(header, testing::Not(HasSubstr("samples_s")));
  EXPECT_THAT(exported({.operators = {"dense"}}), testing::Not(HasSubstr("kernel_h")));
}

TEST_F(Export, TakesEveryOperator) {
  std::map<std::string, const Operator*> by_name;
  std::set<std::string> all_parameters;
  corpus.rows.clear();
  for (const Operator* op : operators()) {
    std::vector<std::int64_t> values;
    for (const ParameterInfo& parameter : op->parameters) {
      values.push_back(parameter.default_value.value_or(parameter.min));
      all_parameters.emplace(parameter.name);
    }
    Measurement row{.task = {.layer = Layer::of_values(*op, values), .pass = op->passes[0]}};
    row.device_class = "card";
    row.device_id = corpus.devices[0].id();
    corpus.rows.push_back(row);
    by_name[std::string(op->name)] = op;
  }
  std::istringstream lines(exported({.format = TableFormat::jsonl}));
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const auto row = nlohmann::json::parse(line);
    const Operator& op = *by_name.at(row["operator"]);
    for (const std::string& name : all_parameters) {
      const auto index = op.index_of(name);
      ASSERT_EQ(row.contains(name), index.has_value()) << op.name << " " << name;
      if (!index) continue;
      const ParameterInfo& parameter = op.parameters[*index];
      const std::int64_t value = parameter.default_value.value_or(parameter.min);
      if (parameter.value_names.empty()) {
        EXPECT_EQ(row[name], value);
      } else {
        EXPECT_EQ(row[name], parameter.value_names[static_cast<std::size_t>(value)]);
      }
    }
  }
  EXPECT_EQ(count, operators().size());
}

TEST_F(Export, AParameterIsNotNamedLikeAField) {
  // Both are columns of one group and of one table.
  std::set<std::string> fields{"operator", "samples_s", "sample_begin"};
  for_each_field([&](const char* name, auto&&...) { fields.insert(name); });
  for (const Operator* op : operators()) {
    for (const ParameterInfo& parameter : op->parameters) {
      EXPECT_EQ(fields.count(std::string(parameter.name)), 0U) << op->name << " " << parameter.name;
    }
  }
}

TEST_F(Export, ChoosesRows) {
  const std::vector<std::string> columns{"operator", "status"};
  EXPECT_EQ(exported({.columns = columns, .statuses = {Status::skipped_memory}}),
            "operator,status\nconv2d,skipped_memory\n");
  EXPECT_EQ(exported({.columns = columns, .statuses = {Status::failed}}), "operator,status\n");
  corpus.rows[1].device_class = "other";
  corpus.devices.push_back(card("u2"));
  corpus.devices[1].device_class = "other";
  EXPECT_EQ(exported({.columns = columns, .device_classes = {"other"}}),
            "operator,status\ndense,ok\n");
}

TEST_F(Export, RefusesUnknownNamesWithTheKnownOnes) {
  EXPECT_THAT(refusal({.operators = {"dance"}}), HasSubstr("known: dense, conv2d"));
  EXPECT_THAT(refusal({.columns = {"batch", "median_ms"}}),
              testing::AllOf(HasSubstr("unknown column 'median_ms'; known: operator, batch"),
                             HasSubstr("did you mean 'median_s'?")));
  EXPECT_THAT(refusal({.operators = {"dense"}, .columns = {"kernel_h"}}),
              HasSubstr("unknown column 'kernel_h'"));
  EXPECT_THAT(refusal({.columns = {"batch", "batch"}}), HasSubstr("batch is asked for twice"));
  EXPECT_THAT(refusal({.columns = {""}}), HasSubstr("unknown column ''"));
  EXPECT_THAT(refusal({.device_classes = {"cart"}}), HasSubstr("known: card"));
}

TEST_F(Export, FormatFollowsTheEnding) {
  EXPECT_EQ(table_format_of("a.csv"), TableFormat::csv);
  EXPECT_EQ(table_format_of("a.b/c.jsonl"), TableFormat::jsonl);
  for (const char* name : {"a.txt", "csv", "a.csv.gz", ""}) {
    EXPECT_THROW(table_format_of(name), UsageError) << name;
  }
}

TEST_F(Export, ReplacesEarlierExportsOnly) {
  write_corpus(corpus, directory / "c.h5");
  const fs::path csv = directory / "t.csv", jsonl = directory / "t.jsonl";
  check_export_output(csv);
  export_corpus(directory / "c.h5", {}, csv);
  check_export_output(csv);
  export_corpus(directory / "c.h5", {.format = TableFormat::jsonl, .samples = true}, jsonl);
  check_export_output(jsonl);
  const ExportCount count = export_corpus(directory / "c.h5", {.columns = {"batch"}}, csv);
  EXPECT_EQ(count.rows, 3U);
  EXPECT_EQ(count.columns, 1U);
  EXPECT_EQ(read_text(csv), "batch\n1\n2\n1\n");
  check_export_output(csv);

  for (const char* text : {"batch,time_ms\n1,2\n", "{\"batch\":1,\"time\":2}\n",
                           "{\"batch\":", "notes\n", "\n", "{}x\n"}) {
    std::ofstream(csv) << text;
    EXPECT_THROW(check_export_output(csv), UsageError) << text;
  }
  std::ofstream(csv, std::ios::trunc);
  check_export_output(csv);  // an empty file was made to be filled
  EXPECT_THROW(check_export_output(directory / "c.h5"), UsageError);
  EXPECT_THROW(check_export_output(directory), UsageError);
  EXPECT_THROW(check_export_output("/dev/null"), UsageError);
  EXPECT_THROW(check_export_output(directory / "absent" / "t.csv"), EnvironmentError);
}

TEST_F(Export, AFailureLeavesTheOldFile) {
  write_corpus(corpus, directory / "c.h5");
  const fs::path csv = directory / "t.csv";
  export_corpus(directory / "c.h5", {.columns = {"batch"}}, csv);
  EXPECT_THROW(export_corpus(directory / "c.h5", {.columns = {"x"}}, csv), UsageError);
  EXPECT_THROW(export_corpus(directory / "absent.h5", {}, csv), EnvironmentError);
  EXPECT_EQ(read_text(csv), "batch\n1\n2\n1\n");
  std::size_t files = 0;
  for (const auto& entry : fs::directory_iterator(directory)) {
    files += entry.path().filename().string().starts_with("t.csv") ? 1 : 0;
  }
  EXPECT_EQ(files, 1U);
}

}  // namespace
}  // namespace forecost
