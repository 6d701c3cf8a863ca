#include <filesystem>
#include <fstream>
#include <new>
#include <set>

#include <unistd.h>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "core/file.hpp"
#include "core/hash.hpp"
#include "core/random.hpp"
#include "core/table.hpp"
#include "core/units.hpp"

namespace forecost {
namespace {

namespace fs = std::filesystem;

TEST(ExitCodes, OneTableFromExceptions) {
  EXPECT_EQ(exit_code_of(UsageError("x")), ExitCode::usage);
  EXPECT_EQ(exit_code_of(EnvironmentError("x")), ExitCode::environment);
  EXPECT_EQ(exit_code_of(DataError("x")), ExitCode::data);
  EXPECT_EQ(exit_code_of(Error(ExitCode::stopped, "x")), ExitCode::stopped);
  EXPECT_EQ(exit_code_of(std::bad_alloc()), ExitCode::environment);
  EXPECT_EQ(exit_code_of(fs::filesystem_error("x", std::error_code())), ExitCode::environment);
  EXPECT_EQ(exit_code_of(std::logic_error("x")), ExitCode::internal);
  EXPECT_EQ(static_cast<int>(ExitCode::internal), 70);
}

TEST(UnknownName, ListsAndGuesses) {
  const std::vector<std::string> known{"collect", "corpus", "train", "predict"};
  EXPECT_EQ(
      unknown_name("verb", "colect", known),
      "unknown verb 'colect'; known: collect, corpus, train, predict (did you mean 'collect'?)");
  EXPECT_EQ(unknown_name("verb", "zzz", known),
            "unknown verb 'zzz'; known: collect, corpus, train, predict");
}

TEST(UnknownName, GuessesNamesAsPeopleRememberThem) {
  const std::vector<std::string> known{"resnet50", "bert-base", "mobilenet-v2", "vgg16", "v100"};
  const auto meant = [&](std::string_view name) {
    const std::string text = unknown_name("network", name, known);
    const auto at = text.find(" (did you mean '");
    return at == std::string::npos ? "" : text.substr(at + 16, text.find('\'', at + 16) - at - 16);
  };
  EXPECT_EQ(meant("resnet5"), "resnet50");
  EXPECT_EQ(meant("ResNet-50"), "resnet50");
  EXPECT_EQ(meant("BERT"), "bert-base");
  EXPECT_EQ(meant("mobilenet"), "mobilenet-v2");
  EXPECT_EQ(meant("v1000"), "v100");
  EXPECT_EQ(meant("vg"), "") << "half of it is no name";
  EXPECT_EQ(meant("x"), "");
  EXPECT_EQ(meant("densenet"), "");
}

TEST(Units, ThreeDigitsAndAUnit) {
  EXPECT_EQ(format_seconds(0.0012345), "1.23 ms");
  EXPECT_EQ(format_seconds(999.6e-6), "1.00 ms");
  EXPECT_EQ(format_seconds(45.64e-6), "45.6 us");
  EXPECT_EQ(format_seconds(0), "0 s");
  EXPECT_EQ(format_seconds(12.34), "12.3 s");
  EXPECT_EQ(format_seconds(125), "2 min 05 s");
  EXPECT_EQ(format_seconds(7500), "2 h 05 min");
  EXPECT_EQ(format_seconds(180 * 3600.0), "7 d 12 h");
  EXPECT_EQ(format_seconds(std::nan("")), "-");
  EXPECT_EQ(format_bytes(1.5e9), "1.50 GB");
  EXPECT_EQ(format_bytes(12), "12.0 B");
  EXPECT_EQ(format_si(2.1e11, "FLOP/s"), "210 GFLOP/s");
  EXPECT_EQ(format_percent(0.1234), "12.3 %");
  EXPECT_EQ(format_count(138357544), "138,357,544");
  EXPECT_EQ(format_count(-1000), "-1,000");
  EXPECT_EQ(format_count(12), "12");
  EXPECT_EQ(format_counted(1, "core"), "1 core");
  EXPECT_EQ(format_counted(std::size_t{0}, "core"), "0 cores");
  EXPECT_EQ(format_counted(2713.0, "core"), "2,713 cores");
  EXPECT_EQ(format_counted(1, "corpus", "corpora"), "1 corpus");
  EXPECT_EQ(format_counted(2, "corpus", "corpora"), "2 corpora");
}

TEST(Table, AlignsAndTrims) {
  TextTable table({"name", ">time", "note"});
  table.add({"a", "1 s", ""});
  table.rule();
  table.add({"longer", "100 ms", "µ"});
  EXPECT_EQ(table.str(),
            "name      time  note\n"
            "--------------------\n"
            "a          1 s\n"
            "--------------------\n"
            "longer  100 ms  µ\n");
  EXPECT_THROW(table.add({"too few"}), std::logic_error);
}

// Test vectors: FIPS 180-2 for SHA-256 ("abc"), the CRC-32 check value of "123456789".
TEST(Hash, PublishedVectors) {
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(short_id("abc"), "ba7816bf8f01");
  EXPECT_EQ(hash64("abc"), 0xba7816bf8f01cfeaULL);
  EXPECT_EQ(crc32_of("123456789"), 0xCBF43926U);
}

TEST(Random, IsTheSameEverywhereAndUniform) {
  Random random(1, 2), again(1, 2), other(1, 3);
  EXPECT_EQ(random.bits(), again.bits());
  EXPECT_NE(random.bits(), other.bits());
  double sum = 0, squares = 0;
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 10000; ++i) {
    const double x = random.normal();
    sum += x;
    squares += x * x;
    seen.insert(random.below(7));
  }
  EXPECT_NEAR(sum / 10000, 0, 0.04);
  EXPECT_NEAR(squares / 10000, 1, 0.06);
  EXPECT_EQ(seen.size(), 7U);
}

class Files : public testing::Test {
 protected:
  void SetUp() override {
    directory = fs::temp_directory_path() / ("forecost-core-" + std::to_string(::getpid()));
    fs::create_directories(directory);
  }
  void TearDown() override { fs::remove_all(directory); }
  std::size_t entries() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(directory), fs::directory_iterator()));
  }
  fs::path directory;
};

TEST_F(Files, ReplacesWholeOrNotAtAll) {
  const fs::path file = directory / "f";
  replace_text(file, "one");
  replace_text(file, "two");
  EXPECT_EQ(read_text(file), "two");
  EXPECT_EQ(sha256_hex_of_file(file), sha256_hex("two"));
  EXPECT_THROW(replace_file(file,
                            [](const fs::path& temporary) {
                              std::ofstream(temporary) << "half";
                              throw std::runtime_error("killed");
                            }),
               std::runtime_error);
  EXPECT_EQ(read_text(file), "two");
  EXPECT_EQ(entries(), 1U);  // no temporary file is left
}

TEST_F(Files, UnwritableAndUnreadableAreEnvironmentErrorsAndAnotherKindIsAUsageError) {
  std::ofstream(directory / "file") << "x";
  EXPECT_THROW(replace_text(directory / "file" / "below", "x"), EnvironmentError);
  EXPECT_THROW(read_text(directory / "absent"), EnvironmentError);
  EXPECT_THROW(read_text(directory), UsageError);
  EXPECT_THROW(check_output(directory), UsageError);
  EXPECT_THROW(check_output(directory / "absent" / "f"), EnvironmentError);
  EXPECT_THROW(sha256_hex_of_file(directory / "absent"), EnvironmentError);
}

}  // namespace
}  // namespace forecost
