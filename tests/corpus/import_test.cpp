#include "data/corpus/import.hpp"

#include <cmath>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "core/file.hpp"
#include "data/corpus/import_expression.hpp"
#include "data/operators/conv2d.hpp"

namespace forecost {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

// --- CSV ---

struct ReadRow {
  std::int64_t line, last_line;
  std::vector<std::string> fields;
  bool operator==(const ReadRow&) const = default;
};
void PrintTo(const ReadRow& row, std::ostream* out) {
  *out << row.line << "-" << row.last_line << ":" << testing::PrintToString(row.fields);
}

std::vector<ReadRow> rows_of(std::string_view text, const CsvDialect& dialect = {}) {
  std::vector<ReadRow> rows;
  read_csv(text, "t.csv", dialect, [&](const CsvRow& row) {
    rows.push_back({row.line, row.last_line, {row.fields.begin(), row.fields.end()}});
  });
  return rows;
}

using Rows = std::vector<ReadRow>;

TEST(ImportCsv, LinesAreCountedWhateverEndsThem) {
  EXPECT_EQ(rows_of("a,b\n1,2\n3,4"),
            (Rows{{1, 1, {"a", "b"}}, {2, 2, {"1", "2"}}, {3, 3, {"3", "4"}}}));
  EXPECT_EQ(rows_of("a\r\n\r\n1\r\n\n\n2\r\n"),
            (Rows{{1, 1, {"a"}}, {3, 3, {"1"}}, {6, 6, {"2"}}}));
  EXPECT_EQ(rows_of("a\r1\r\r2"), (Rows{{1, 1, {"a"}}, {2, 2, {"1"}}, {4, 4, {"2"}}}));
}

TEST(ImportCsv, QuotesHoldDelimitersLineEndsAndQuotes) {
  EXPECT_EQ(rows_of("a,b\n\"1,\"\"x\"\"\n\r\ny\",2\n3,4\n"),
            (Rows{{1, 1, {"a", "b"}}, {2, 4, {"1,\"x\"\n\r\ny", "2"}}, {5, 5, {"3", "4"}}}));
  // A quote in the first field that spans lines: the row begins where the quote does.
  EXPECT_EQ(rows_of("\n\"a\n\nb\"\nc\n"), (Rows{{2, 4, {"a\n\nb"}}, {5, 5, {"c"}}}));
  EXPECT_EQ(rows_of("15\" screen, x y ,\n"), (Rows{{1, 1, {"15\" screen", "x y", ""}}}));
}

TEST(ImportCsv, AnOpenQuoteAtTheEndIsDamage) {
  try {
    rows_of("a\n1\n\"2\n3\n");
    FAIL();
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr("t.csv:3: a quote in this row is never closed"));
  }
}

TEST(ImportCsv, MarksNulsAndUtf16) {
  EXPECT_EQ(rows_of("\xEF\xBB\xBF"
                    "a\n1\n"),
            (Rows{{1, 1, {"a"}}, {2, 2, {"1"}}}));
  EXPECT_EQ(rows_of(std::string_view("a\n1\0002\n", 6)),
            (Rows{{1, 1, {"a"}}, {2, 2, {std::string("1\0002", 3)}}}));
  EXPECT_THROW(rows_of(std::string_view("\xFF\xFE"
                                        "a\0",
                                        4)),
               DataError);
  EXPECT_EQ(rows_of(""), Rows{});
  EXPECT_EQ(rows_of("\n\n"), Rows{});
}

TEST(ImportCsv, WhatIsNoTextIsToldFromATable) {
  const auto error = [](std::string_view text, const CsvDialect& dialect = {}) -> std::string {
    try {
      rows_of(text, dialect);
      return "no error";
    } catch (const DataError& e) {
      return e.what();
    }
  };
  EXPECT_EQ(error("\x1F\x8B\x08 ,\n"), "t.csv:1: this is compressed with gzip: gunzip it first");
  EXPECT_THAT(error("PK\x03\x04"), HasSubstr("a ZIP archive or a spreadsheet"));
  EXPECT_THAT(error("\x89HDF\r\n"), HasSubstr("an HDF5 file"));
  EXPECT_THAT(error("\x7F"
                    "ELF\x02\n"),
              HasSubstr("t.csv:1: this is not a text table"));
  EXPECT_EQ(error("t\xE4gig,\"a\tb\"\r\n1,2\n"), "no error");  // Latin-1
  EXPECT_EQ(error("a\x01"
                  "b\n",
                  {.delimiter = '\x01'}),
            "no error");
}

TEST(ImportCsv, DelimiterAndComments) {
  EXPECT_EQ(rows_of("# c\na;b\n#\n\"x\n# y\";2\n", {.delimiter = ';', .comment = "#"}),
            (Rows{{2, 2, {"a", "b"}}, {4, 5, {"x\n# y", "2"}}}));
  EXPECT_EQ(rows_of("a\t\tb\n", {.delimiter = '\t'}), (Rows{{1, 1, {"a", "", "b"}}}));
}

TEST(ImportCsv, WrittenLinesAreReadBack) {
  const std::vector<std::string> fields{"a,b", "", "say \"x\"\n", "1"};
  EXPECT_EQ(rows_of(csv_line(fields)), (Rows{{1, 2, fields}}));
}

// --- expressions ---

double value_of(const std::string& text, std::vector<double> values = {}) {
  Expression expression(text);
  EXPECT_EQ(expression.variables().size(), values.size());
  std::copy(values.begin(), values.end(), expression.values().begin());
  return expression();
}

TEST(ImportExpression, Evaluates) {
  EXPECT_EQ(value_of("b * a + 1", {2, 3}), 7);
  EXPECT_EQ(value_of("a == 2 && a <= 2 ? floor(2.7) + mod(7, 4) : 0", {2}), 5);
  EXPECT_TRUE(std::isinf(value_of("1 / a", {0})));
  EXPECT_TRUE(std::isnan(value_of("sqrt(0 - a)", {1})));
  EXPECT_EQ(value_of("_pi + max", {3, 4}), 7);  // columns may be called so
  Expression first("a + 1");
  Expression moved = std::move(first);
  moved.values()[0] = 41;
  EXPECT_EQ(moved(), 42);
}

TEST(ImportExpression, RefusesWhatIsNoFormula) {
  for (const char* text : {"a +", "a = 2", "a, 2", "nothing(a)", "(a", "\"a\""}) {
    EXPECT_THROW(Expression{text}, UsageError) << text;
  }
}

TEST(ImportExpression, SaysWhatIsWrongInALine) {
  const auto error = [](const std::string& text) -> std::string {
    try {
      Expression{text};
      return "no error";
    } catch (const UsageError& e) {
      return e.what();
    }
  };
  EXPECT_EQ(error("1e400 * a"),
            "'1e400 * a': expected a finite decimal number or a column, found '1e400'");
  EXPECT_LT(error(std::string(20000, '(')).size(), 400U);
  EXPECT_LT(error("a " + std::string(20000, 'b')).size(), 400U);
  EXPECT_THAT(error("a\n+"), HasSubstr("'a\\x0a+': "));
}

TEST(ImportExpression, NamesColumns) {
  EXPECT_EQ(identifier_of("Grid x"), "Grid_x");
  EXPECT_EQ(identifier_of("2nd (ms)"), "_2nd__ms_");
}

// --- mappings ---

const std::string base_mapping = R"([import]
name = "made-up"
operator = "conv2d"
[parameters]
batch = {column = "batch"}
side = {column = "side"}
kernel = {column = "kernel"}
in_channels = {expression = "groups * 2"}
out_channels = 8
groups = {column = "groups"}
padding = {column = "pad", values = {0 = "valid", 1 = "same", two = 2}}
bias = false
[task]
pass = {column = "opt", values = {none = "forward"}, otherwise = "training_step"}
dtype = "f32"
optimizer = {column = "opt"}
[time]
median_s = {column = "time", unit = "ms"}
[measurement]
protocol = "host_clock"
[environment]
framework = "f"
driver = {column = "driver"}
)";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  if (at == std::string::npos) throw std::logic_error("no such text: " + from);
  return text.replace(at, from.size(), to);
}

std::string error_of(const std::string& mapping) {
  try {
    (void)parse_import_mapping(mapping, "m.toml");
    return "no error";
  } catch (const UsageError& error) {
    return error.what();
  }
}

TEST(ImportMappings, EveryMistakeIsToldWithItsLine) {
  struct Mistake {
    const char *from, *to, *error;
  };
  const Mistake mistakes[] = {
      {"[import]", "[imports]", "m.toml:1: unknown key 'imports'; known: import, csv, parameters"},
      {"name = \"made-up\"\n", "", "m.toml:1: 'import': expected a key 'name' here"},
      {"\"made-up\"", "\"\"", "m.toml:2: 'name': expected a text, found an empty one"},
      {"\"conv2d\"", "\"conv3d\"", "m.toml:3: 'operator': unknown operator 'conv3d'; known: "},
      {"batch = {column = \"batch\"}\n", "",
       "m.toml:4: 'parameters': conv2d: expected parameter batch here"},
      {"batch = {column = \"batch\"}", "batches = 1", "m.toml:5: unknown key 'batches'"},
      {"{column = \"batch\"}", "0",
       "m.toml:5: 'batch': expected an integer from 1 to 1048576, found 0"},
      {"{column = \"batch\"}", "{columns = \"batch\"}",
       "m.toml:5: unknown key 'columns'; known: column, values, otherwise, expression "
       "(did you mean 'column'?)"},
      {"{column = \"batch\"}", "{values = {0 = 1}}",
       "m.toml:5: 'batch': expected one of 'column' and 'expression'"},
      {"{column = \"batch\"}", "{column = \"\"}",
       "m.toml:5: 'column': expected a text, found an empty one"},
      {"{column = \"batch\"}", "{column = \"batch\", values = {}}",
       "m.toml:5: 'values': expected at least one text = value"},
      {"{column = \"batch\"}", "{column = \"batch\", values = {0 = 0}}",
       "m.toml:5: '0': expected an integer from 1 to 1048576, found 0"},
      {"{column = \"batch\"}", "{column = \"batch\", otherwise = 1}",
       "m.toml:5: 'batch': expected 'values' beside 'otherwise'"},
      {"made-up", "made\\nup",
       "m.toml:2: 'name': expected a text of one line, found 'made\\x0aup'"},
      {"operator = ", "source = \"a\\u001Bb\"\noperator = ",
       "m.toml:3: 'source': expected a text of one line, found 'a\\x1bb'"},
      {"\"f\"", "\"f\\tg\"",
       "m.toml:22: 'framework': expected a text of one line, found 'f\\x09g'"},
      {"framework = \"f\"", "\"a\\nb\" = \"f\"",
       "m.toml:22: 'a\\x0ab': expected a name of one line"},
      {"groups * 2", "", "m.toml:8: 'expression': expected a text, found an empty one"},
      {"groups * 2", "groups * ",
       "m.toml:8: 'expression': 'groups * ': Unexpected end of expression"},
      {"{expression = \"groups * 2\"}", "{expression = \"2\", otherwise = 1}",
       "m.toml:8: 'in_channels': expected 'values' and 'otherwise' with a column, found an "
       "expression"},
      {"bias = false", "bias = false\nkernel_h = 3",
       "m.toml:13: 'kernel_h': sets kernel_h, which 'kernel' sets too"},
      {"bias = false", "pad_top = 0",
       "m.toml:12: 'pad_top': sets pad_top, which 'padding' sets too"},
      {"bias = false", "activation = {expression = \"1\"}",
       "m.toml:12: unknown key 'expression'; known: column, values, otherwise"},
      {"two = 2", "two = \"full\"",
       "m.toml:11: 'two': expected \"same\", \"valid\" or a number, found \"full\""},
      {"none = \"forward\"", "none = \"foreward\"", "m.toml:14: 'none': unknown pass 'foreward'"},
      {"pass = {column = \"opt\", values = {none = \"forward\"}, otherwise = \"training_step\"}\n",
       "", "m.toml:13: 'task': expected a key 'pass' here"},
      {"pass = {column = \"opt\", values = {none = \"forward\"}, otherwise = \"training_step\"}",
       "pass = \"backward\"", "m.toml:14: 'pass': conv2d has no pass backward"},
      {"dtype = \"f32\"", "dtype = \"f31\"", "m.toml:15: 'dtype': unknown dtype 'f31'"},
      {", unit = \"ms\"", "",
       "m.toml:18: 'median_s': the unit of column 'time' is missing: expected unit = one of s, ms, "
       "us, ns"},
      {"column = \"time\", unit = \"ms\"", "expression = \"2 * t\"",
       "m.toml:18: 'median_s': the unit of the expression '2 * t' is missing"},
      {"\"ms\"", "\"msec\"", "m.toml:18: 'unit': unknown unit 'msec'; known: s, ms, us, ns"},
      {"median_s", "max_s", "m.toml:17: 'time': expected median_s or mean_s here"},
      {"median_s", "median_ms", "m.toml:18: unknown key 'median_ms'; known: min_s, "},
      {"protocol = \"host_clock\"\n", "",
       "m.toml:19: 'measurement': expected a key 'protocol' here"},
      {"[environment]", "memory_bytes = {column = \"m\", unit = \"M\"}\n[environment]",
       "m.toml:21: 'unit': unknown unit 'M'; known: B, kB, MB, GB, KiB, MiB, GiB"},
      {"[environment]", "sample_count = 0\n[environment]",
       "m.toml:21: 'sample_count': expected an integer from 1"},
      {"[environment]", "[device]\nname = \"v1oo\"\n[environment]",
       "m.toml:22: 'name': unknown device 'v1oo'; known: "},
      {"[environment]", "[device]\nclass = \"v100\"\n[environment]",
       "m.toml:22: unknown key 'class'; known: name, uuid, host"},
      {"framework = \"f\"", "framework = 1.5",
       "m.toml:22: 'framework': expected a text in quotes, found a number"},
      {"[environment]", "[repeats]\nnumber = \"in order\"\n[environment]",
       "m.toml:22: 'number': expected \"refuse\", \"in_order\" or {column = \"...\"}, found \"in "
       "order\""},
      {"[environment]", "[filter]\nexpression = \"groups = 1\"\n[environment]",
       "m.toml:22: 'expression': 'groups = 1': expected ==, found ="},
      {"[environment]", "[filter]\ncolumns = {groups = []}\n[environment]",
       "m.toml:22: 'groups': expected at least one item"},
      {"[environment]", "[csv]\ndelimiter = \"ab\"\n[environment]",
       "m.toml:22: 'delimiter': expected one character"},
  };
  ASSERT_EQ(error_of(base_mapping), "no error");
  for (const auto& [from, to, error] : mistakes) {
    EXPECT_THAT(error_of(replaced(base_mapping, from, to)), testing::StartsWith(error))
        << from << " -> " << to;
  }
}

TEST(ImportMappings, APoolingNeedsItsKernel) {
  const std::string mapping =
      replaced(replaced(replaced(base_mapping, "\"conv2d\"", "\"pool2d\""),
                        "in_channels = {expression = \"groups * 2\"}\nout_channels = 8\n"
                        "groups = {column = \"groups\"}\n",
                        "channels = 8\nmode = \"max\"\n"),
               "bias = false\n", "");
  EXPECT_EQ(error_of(mapping), "no error");
  EXPECT_THAT(error_of(replaced(mapping, "kernel = {column = \"kernel\"}\n", "")),
              testing::StartsWith("m.toml:4: 'parameters': pool2d: expected a key 'kernel'"));
}

TEST(ImportMappings, AllShippedOnesAreSound) {
  const auto names = shipped_names("import");
  EXPECT_GE(names.size(), 2U);
  for (const auto& name : names) {
    const ImportMapping mapping = find_import_mapping(name);
    EXPECT_FALSE(mapping.source.empty()) << name;
    EXPECT_FALSE(mapping.licence.empty()) << name;
  }
}

// --- rows ---

class Imports : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = fs::temp_directory_path() / fmt::format("import_test-{}", ::getpid());
    fs::create_directories(directory_);
  }
  void TearDown() override { fs::remove_all(directory_); }

  fs::path file(const std::string& name, const std::string& content) {
    replace_text(directory_ / name, content);
    return directory_ / name;
  }

  static void append(const Corpus& batch, Corpus& all) {
    const auto add = [](const auto& from, auto& to) {
      to.insert(to.end(), from.begin(), from.end());
    };
    add(batch.devices, all.devices);
    add(batch.environments, all.environments);
    add(batch.runs, all.runs);
    add(batch.rows, all.rows);
  }

  /// Imports tables of the columns of the base mapping.
  Corpus import(const std::vector<std::string>& tables, const std::string& mapping = base_mapping,
                ImportOptions options = {.device = find_device("v100")}) {
    refused_.clear();
    counts_.clear();
    options.on_refused = [&](const RefusedRow& row) {
      refused_.push_back(row.text().substr(directory_.string().size() + 1));
    };
    Importer importer(parse_import_mapping(mapping, directory_ / "m.toml"), options);
    Corpus all;
    for (std::size_t i = 0; i < tables.size(); ++i) {
      counts_.push_back(importer.add(file(fmt::format("{}.csv", i), tables[i]),
                                     [&](Corpus batch) { append(batch, all); }));
      const ImportCounts& counts = counts_.back();
      EXPECT_EQ(counts.rows, counts.imported + counts.refused + counts.filtered);
    }
    return all;
  }
  Corpus import_rows(const std::string& rows, const std::string& mapping = base_mapping) {
    return import({header_ + rows}, mapping);
  }

  const std::string header_ = "side,kernel,batch,groups,pad,opt,time,driver,unused\n";
  fs::path directory_;
  std::vector<std::string> refused_;
  std::vector<ImportCounts> counts_;
};

TEST_F(Imports, AColumnIsFoundByNameAndTranslated) {
  const Corpus corpus = import_rows(
      "7,3,4,1,1,none,8.578712,390.30,x\n"
      "7,3.0,+4,1,two,\"adam\",2,\"390.30\",\n");
  ASSERT_EQ(corpus.rows.size(), 2U);
  const Measurement& row = corpus.rows[0];
  EXPECT_EQ(row.task.layer.text(),
            "conv2d batch=4 in_channels=2 out_channels=8 in_h=7 in_w=7 kernel_h=3 kernel_w=3 "
            "pad_top=1 pad_bottom=1 pad_left=1 pad_right=1 bias=0");
  EXPECT_EQ(row.task.pass, Pass::forward);
  EXPECT_EQ(row.task.optimizer, Optimizer::none);
  EXPECT_EQ(row.task.cache, CacheState::unknown);
  EXPECT_EQ(row.task.policy, AlgorithmPolicy::unknown);
  EXPECT_EQ(row.time.median_s, 8.578712 / 1e3);  // another double than 8.578712 * 1e-3
  EXPECT_EQ(row.time.n, 1);
  EXPECT_TRUE(std::isnan(row.time.min_s));
  EXPECT_EQ(row.source_line, 2);
  EXPECT_EQ(row.device_class, "v100");
  EXPECT_EQ(row.device_id, corpus.devices.at(0).id());
  EXPECT_EQ(corpus.environments.at(0).facts,
            (std::map<std::string, std::string>{
                {"table", "made-up"}, {"framework", "f"}, {"driver", "390.30"}}));
  EXPECT_EQ(row.environment_id, corpus.environments[0].id());
  EXPECT_EQ(corpus.rows[1].task.pass, Pass::training_step);
  EXPECT_EQ(corpus.rows[1].task.optimizer, Optimizer::adam);
  EXPECT_EQ(conv2d_shape(corpus.rows[1].task.layer).pad_left, 2);
  ASSERT_EQ(corpus.runs.size(), 1U);
  EXPECT_EQ(row.run_id, corpus.runs[0].id);
  EXPECT_EQ(corpus.runs[0].facts.at("file"), "0.csv");
  EXPECT_EQ(corpus.runs[0].facts.at("imported"), "2");
  EXPECT_TRUE(refused_.empty());
}

TEST_F(Imports, ABadRowIsToldWithFileLineAndReason) {
  const Corpus corpus = import_rows(
      "7,3,4,1,1,none,1,d,\n"
      ",3,4,1,1,none,1,d,\n"
      "7,3,0,1,1,none,1,d,\n"
      "7,3.5,4,1,1,none,1,d,\n"
      "7,3,4,1,3,none,1,d,\n"
      "7,3,4,1,1,lion,1,d,\n"
      "7,3,4,1,1,none,,d,\n"
      "7,3,4,1,1,none,-1,d,\n"
      "7,3,4,1,1,none,0,d,\n"
      "7,3,4,1,1,none,inf,d,\n"
      "7,3,4,1,1,none,1 ms,d,\n"
      "7,3,4,1,1,none,1\n"
      "7,3,4,1,1,none,1,d,,\n"
      "2,3,4,1,0,none,1,d,\n"
      "7,3,4,x,1,none,1,d,\n"
      "7,3,4,1e9,1,none,1,d,\n"
      "7,3,4,5,1,none,1,d,\n"
      "7,3,4,1,1,none,1,\"a\nb\",\n"
      "7,3,4,1,1,none,1,\xFF,\n"
      "7,3,9,1,1,none,1,d,\n");
  EXPECT_THAT(
      refused_,
      ElementsAre(
          "0.csv:3: column 'side' = '': expected an integer 1 to 65536",
          "0.csv:4: column 'batch' = '0': expected an integer 1 to 1048576",
          "0.csv:5: column 'kernel' = '3.5': expected an integer 1 to 4096",
          "0.csv:6: column 'pad' = '3': expected one of '0', '1', 'two'",
          "0.csv:7: column 'opt' = 'lion': expected one of 'none', 'sgd', 'momentum', 'adagrad', "
          "'adadelta', 'rmsprop', 'adam', 'adamw'",
          "0.csv:8: column 'time' = '': expected a time above 0",
          "0.csv:9: column 'time' = '-1': expected a number of at least 0",
          "0.csv:10: column 'time' = '0': expected a time above 0",
          "0.csv:11: column 'time' = 'inf': expected a finite decimal number, such as 1.5 or 2e-3",
          "0.csv:12: column 'time' = '1 ms': expected a finite decimal number, such as 1.5 or 2e-3",
          "0.csv:13: expected 9 fields, as the first row has, found 7",
          "0.csv:14: expected 9 fields, as the first row has, found 10",
          "0.csv:15: conv2d: a kernel of 3x3 does not fit into a padded input of "
          "2x2",
          "0.csv:16: column 'groups' = 'x': expected a finite decimal number, such as 1.5 or 2e-3",
          "0.csv:17: expression 'groups * 2' = 2000000000: expected an integer 1 to 1048576",
          "0.csv:18: conv2d: in_channels=10 and out_channels=8 must be multiples of groups=5",
          "0.csv:19: column 'driver' = 'a\\x0ab': expected UTF-8 text of one line (by its quotes, "
          "the row goes on to line 20)",
          testing::StartsWith("0.csv:21: column 'driver' = '")));
  EXPECT_EQ(counts_[0].rows, 20);
  EXPECT_EQ(counts_[0].imported, 2);
  EXPECT_EQ(counts_[0].refused, 18);
  EXPECT_EQ(counts_[0].reasons.at("column 'time': expected a number of at least 0"), 1);
  EXPECT_EQ(counts_[0].reasons.at("expression 'groups * 2': expected an integer 1 to 1048576"), 1);
  EXPECT_EQ(counts_[0].reasons.at("expected # fields, as the first row has, found #"), 2);
  EXPECT_EQ(corpus.rows.size(), 2U);
}

TEST_F(Imports, NumbersAreFiniteAndDecimal) {
  import_rows(
      "7,3,4,1,1,none,\"1,5\",d,\n7,3,4,1,1,none,1e400,d,\n7,3,4,1,1,none,0x10,d,\n"
      "7,3,4,\"1,0\",1,none,1,d,\n7,3,4,inf,1,none,1,d,\n");
  constexpr const char* decimal = "expected a finite decimal number, such as 1.5 or 2e-3";
  EXPECT_THAT(refused_, ElementsAre("0.csv:2: column 'time' = '1,5': expected a decimal point, "
                                    "found a comma",
                                    fmt::format("0.csv:3: column 'time' = '1e400': {}", decimal),
                                    fmt::format("0.csv:4: column 'time' = '0x10': {}", decimal),
                                    "0.csv:5: column 'groups' = '1,0': expected a decimal point, "
                                    "found a comma",
                                    fmt::format("0.csv:6: column 'groups' = 'inf': {}", decimal)));
}

TEST_F(Imports, AFilterWithoutAValueRefuses) {
  for (const char* expression : {"1 / 0", "1 / (kernel - 3)", "sqrt(0 - side)"}) {
    import_rows("7,3,4,1,1,none,1,d,\n",
                replaced(base_mapping, "[environment]",
                         fmt::format("[filter]\nexpression = \"{}\"\n[environment]", expression)));
    ASSERT_EQ(refused_.size(), 1U) << expression;
    EXPECT_THAT(refused_[0], testing::EndsWith(": expected a finite number to filter by"));
    EXPECT_EQ(counts_[0].reasons.count(fmt::format(
                  "expression '{}': expected a finite number to filter by", expression)),
              1U);
  }
}

TEST_F(Imports, AStrayQuoteIsToldWithTheLinesItSwallowed) {
  import_rows(
      "7,3,4,1,1,none,1,\"d,\n7,3,5,1,1,none,1,d,\n7,3,6,1,1,none,1,d\"\n7,3,7,1,1,none,1,d,\n");
  EXPECT_THAT(refused_, ElementsAre("0.csv:2: expected 9 fields, as the first row has, found 8 (by "
                                    "its quotes, the row goes on to line 4)"));
  EXPECT_EQ(counts_[0].imported, 1);
}

TEST_F(Imports, StrictStopsAtTheFirst) {
  try {
    import({header_ + "7,3,4,1,1,none,1,d,\n7,3,0,1,1,none,1,d,\n7,0,4,1,1,none,1,d,\n"},
           base_mapping, {.device = find_device("v100"), .strict = true});
    FAIL();
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr("0.csv:3: column 'batch' = '0': expected an integer"));
  }
  EXPECT_EQ(refused_.size(), 1U);
}

TEST_F(Imports, AFileWithoutItsColumnsIsRefused) {
  const auto error = [&](const std::string& table) -> std::string {
    try {
      import({table});
      return "no error";
    } catch (const DataError& e) {
      return e.what();
    }
  };
  EXPECT_THAT(error(""), HasSubstr("0.csv:1: the file is empty: expected the names of columns"));
  EXPECT_THAT(error("\nsides,kernel,batch,groups,pad,opt,time,driver\n"),
              HasSubstr("0.csv:2: unknown column 'side'; known: sides, kernel, batch, groups, pad, "
                        "opt, time, driver (did you mean 'sides'?), asked for by " +
                        (directory_ / "m.toml").string() + ":6"));
  EXPECT_THAT(error("side,kernel,batch,batch,groups,pad,opt,time,driver\n"),
              HasSubstr("0.csv:1: expected one column 'batch'"));
  EXPECT_THAT(error("side,kernel,batch,pad,opt,time,driver\n"),
              HasSubstr("unknown column 'groups'"));
  EXPECT_EQ(error(header_), "no error");
  EXPECT_EQ(counts_[0].rows, 0);
}

TEST_F(Imports, UnitsAndStatistics) {
  const std::string mapping =
      replaced(base_mapping, "median_s = {column = \"time\", unit = \"ms\"}",
               "mean_s = {column = \"time\", unit = \"us\"}\n"
               "max_s = {expression = \"time * 2\", unit = \"us\"}\n"
               "min_s = {column = \"unused\", unit = \"ns\"}\nwarmup_s = 2");
  const Corpus corpus = import_rows(
      "7,3,4,1,1,none,3,d,nan\n7,3,5,1,1,none,3,d,4000\n7,3,6,1,1,none,3,d,1\n", mapping);
  ASSERT_EQ(corpus.rows.size(), 2U);
  EXPECT_EQ(corpus.rows[0].time.mean_s, 3 / 1e6);
  EXPECT_EQ(corpus.rows[0].time.median_s, 3 / 1e6);
  EXPECT_EQ(corpus.rows[0].time.max_s, 6 / 1e6);
  EXPECT_EQ(corpus.rows[0].warmup_s, 2);
  EXPECT_TRUE(std::isnan(corpus.rows[0].time.min_s));
  EXPECT_EQ(corpus.rows[1].time.min_s, 1 / 1e9);
  EXPECT_EQ(corpus.environments[0].facts.at("statistic"), "mean");
  EXPECT_THAT(refused_, ElementsAre(HasSubstr("0.csv:3: min, quartiles and max are not in order")));
}

TEST_F(Imports, RowsAreFilteredOutNotRefused) {
  const std::string mapping = replaced(base_mapping, "[environment]",
                                       "[filter]\ncolumns = {opt = [\"none\", \"sgd\"], groups = "
                                       "1}\nexpression = \"side - kernel > 3\"\n[environment]");
  const Corpus corpus = import_rows(
      "7,3,4,1,1,none,1,d,\n7,3,4,2,1,none,1,d,\n7,3,4,1,1,adam,bad,d,\n6,3,4,1,1,none,1,d,\n"
      "x,3,4,1,1,none,1,d,\n,3,4,1,1,none,1,d,\n",
      mapping);
  EXPECT_EQ(counts_[0].rows, 6);
  EXPECT_EQ(counts_[0].imported, 1);
  EXPECT_EQ(counts_[0].filtered, 4);
  EXPECT_THAT(
      refused_,
      ElementsAre(
          "0.csv:6: column 'side' = 'x': expected a finite decimal number, such as 1.5 or 2e-3"));
}

TEST_F(Imports, RepeatsAreRefusedOrNumbered) {
  const std::string row = "7,3,4,1,1,none,1,d,0\n", again = "7,3,4,1,1,none,2,d,1\n",
                    other = "7,3,5,1,1,none,2,d,0\n";
  const auto replicates = [](const Corpus& corpus) {
    std::vector<std::pair<std::int64_t, std::int64_t>> found;
    for (const Measurement& m : corpus.rows) found.emplace_back(m.source_line, m.replicate);
    return found;
  };
  using Pairs = std::vector<std::pair<std::int64_t, std::int64_t>>;
  EXPECT_EQ(replicates(import({header_ + row + other + again})), (Pairs{{2, 0}, {3, 0}}));
  EXPECT_THAT(refused_,
              ElementsAre("0.csv:4: repeats the task, device, environment and protocol of " +
                          (directory_ / "0.csv").string() +
                          ":2; [repeats] of the mapping can number such rows"));
  EXPECT_EQ(counts_[0].reasons.size(), 1U);

  const std::string in_order = base_mapping + "[repeats]\nnumber = \"in_order\"\n";
  EXPECT_EQ(replicates(import({header_ + row + other + again, header_ + again + row}, in_order)),
            (Pairs{{2, 0}, {3, 0}, {4, 1}, {2, 2}, {3, 3}}));
  EXPECT_TRUE(refused_.empty());

  const std::string by_column = base_mapping + "[repeats]\nnumber = {column = \"unused\"}\n";
  EXPECT_EQ(replicates(import({header_ + again + row + row}, by_column)), (Pairs{{2, 1}, {3, 0}}));
  EXPECT_THAT(refused_, ElementsAre(HasSubstr("0.csv:4: repeats")));
}

TEST_F(Imports, ATableGivenTwiceIsRefused) {
  const std::string table = header_ + "7,3,4,1,1,none,1,d,0\n";
  EXPECT_THROW(import({table, table}), UsageError);
}

TEST_F(Imports, DevicesOfTheTable) {
  const std::string by_column =
      replaced(base_mapping, "[environment]",
               "[device]\nname = {column = \"driver\", values = {V = \"v100\", K = "
               "\"mine.toml\"}}\nuuid = {column = \"unused\"}\n[environment]");
  Device mine = find_device("k80");
  mine.device_class = "mine";
  file("mine.toml", device_toml(mine));
  const std::string rows =
      "7,3,4,1,1,none,1,V,0\n7,3,4,1,1,none,1,V,1\n7,3,4,1,1,none,1,K,0\n7,3,4,1,1,none,1,X,0\n";
  const Corpus corpus = import({header_ + rows}, by_column, {});
  ASSERT_EQ(corpus.devices.size(), 3U);
  EXPECT_EQ(corpus.devices[1].uuid, "1");
  EXPECT_EQ(corpus.rows.at(2).device_class, "mine");
  EXPECT_THAT(refused_, ElementsAre("0.csv:5: column 'driver' = 'X': expected one of 'V', 'K'"));
  EXPECT_THROW(import({header_ + rows}, by_column), UsageError);  // and --device
  for (auto text : {&Device::device_class, &Device::name}) {
    Device odd = mine;
    odd.*text = "mi\nne";
    EXPECT_THROW(load_device(file("odd.toml", device_toml(odd))), UsageError);
  }
  EXPECT_THROW(import({header_ + rows}, base_mapping, {}), UsageError);  // and no --device

  const std::string our_names = replaced(base_mapping, "[environment]",
                                         "[device]\nname = {column = \"driver\"}\n[environment]");
  EXPECT_EQ(import({header_ + "7,3,4,1,1,none,1,t4,0\n"}, our_names, {}).devices.at(0).device_class,
            "t4");
}

TEST_F(Imports, FactsOfTheCommandLinePrecede) {
  const Corpus corpus = import(
      {header_ + "7,3,4,1,1,none,1,a,\n7,3,5,1,1,none,1,b,\n7,3,6,1,1,none,1,,\n"}, base_mapping,
      {.device = find_device("v100"), .facts = {{"framework", "g"}, {"host", "h"}}});
  ASSERT_EQ(corpus.environments.size(), 3U);
  EXPECT_EQ(corpus.environments[1].facts,
            (std::map<std::string, std::string>{
                {"table", "made-up"}, {"framework", "g"}, {"driver", "b"}, {"host", "h"}}));
  EXPECT_FALSE(corpus.environments[2].facts.contains("driver"));
}

TEST_F(Imports, FailuresOfTheTableAreData) {
  const std::string mapping =
      replaced(base_mapping, "[environment]",
               "status = {column = \"unused\", values = {oom = \"out_of_memory\", \"\" = \"ok\"}}\n"
               "sample_count = "
               "{expression = \"side + 0\"}\nreason = {column = \"driver\"}\n[environment]");
  const Corpus corpus = import_rows(
      "7,3,4,1,1,none,1,d,\n7,3,5,1,1,none,,no memory,oom\n7,3,6,1,1,none,,,oom\n", mapping);
  ASSERT_EQ(corpus.rows.size(), 3U);
  EXPECT_EQ(corpus.rows[0].time.n, 7);
  EXPECT_EQ(corpus.rows[1].status, Status::out_of_memory);
  EXPECT_EQ(corpus.rows[1].reason, "no memory");
  EXPECT_EQ(corpus.rows[1].time.n, 0);
  EXPECT_EQ(corpus.rows[2].reason, "out_of_memory in the imported table");
}

TEST_F(Imports, OneTableOfSeveralOperators) {
  const std::string mapping = R"([import]
name = "mixed"
operator = {column = "op", values = {fc = "dense", conv = "conv2d"}}
[parameters]
batch = {column = "b"}
in_features = {column = "x"}
out_features = {column = "y"}
in_channels = {column = "x"}
out_channels = {column = "y"}
side = 4
kernel = 1
[task]
pass = "forward"
dtype = "f32"
[time]
median_s = {column = "t", unit = "s"}
[measurement]
protocol = "device_events"
)";
  const Corpus corpus = import({"op,b,x,y,t\nfc,1,2,3,1\nconv,1,2,3,1\nrnn,1,2,3,1\n"}, mapping);
  ASSERT_EQ(corpus.rows.size(), 2U);
  EXPECT_EQ(corpus.rows[0].task.layer.text(), "dense batch=1 in_features=2 out_features=3");
  EXPECT_EQ(corpus.rows[1].task.layer["in_channels"], 2);
  EXPECT_THAT(refused_,
              ElementsAre(HasSubstr("column 'op' = 'rnn': expected one of 'fc', 'conv'")));
}

TEST_F(Imports, WhatIsImportedIsValid) {
  Corpus corpus = import_rows("7,3,4,1,1,none,1,d,\n7,3,4,1,1,sgd,1,d,\n");
  write_corpus(corpus, directory_ / "c.h5");
  EXPECT_EQ(validate_corpus(directory_ / "c.h5"), std::vector<std::string>{});
  // A measured row may lack nothing.
  corpus.rows[0].source_line = 0;
  EXPECT_THAT(row_fault(corpus.rows[0]), HasSubstr("is not a positive finite time"));
}

}  // namespace
}  // namespace forecost
