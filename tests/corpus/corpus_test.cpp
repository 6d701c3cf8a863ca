#include "data/corpus/corpus.hpp"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <fstream>
#include <set>
#include <thread>

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "core/digest.hpp"
#include "core/file.hpp"
#include "core/random.hpp"
#include "data/corpus/fields.hpp"
#include "data/corpus/frames.hpp"
#include "data/corpus/journal.hpp"
#include "data/corpus/layout.hpp"
#include "data/corpus/merge.hpp"
#include "data/corpus/reader.hpp"
#include "data/h5/h5.hpp"
#include "tests/card.hpp"

namespace forecost {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> merge_into(Corpus& into, const Corpus& from,
                                    OnConflict on_conflict = OnConflict::refuse) {
  Merger merger(into, on_conflict);
  merger.add(from);
  merger.finish();
  return merger.conflicts();
}

Measurement row_of(std::int64_t batch, const std::string& run = "r1") {
  Measurement row{
      .task = {.layer =
                   Layer("dense", {{"batch", batch}, {"in_features", 3}, {"out_features", 4}})}};
  const Device device = card("u1");
  row.device_class = device.device_class;
  row.device_id = device.id();
  row.environment_id = Environment{{{"library", "1.0"}}}.id();
  row.run_id = run;
  row.samples_s = {1e-3F, 2e-3F, 4e-3F};
  row.time = summarize({1e-3, 2e-3, 4e-3});
  row.implementation = "impl:" + std::to_string(batch);
  row.stop_reason = StopReason::precise;
  row.seed = 0xFFFFFFFFFFFFFFFFULL;
  return row;
}

Corpus small_corpus() {
  Corpus corpus;
  corpus.devices = {card("u1")};
  corpus.devices[0].set_bandwidth_curve({{65536, 3e11}, {1e9, 2e10}});
  corpus.environments = {{{{"library", "1.0"}}}};
  corpus.groups = {{{{"members", "a b"}, {"nodes", "1"}}}};
  corpus.sweeps = {{"s1", "sweep", "[sweep]\nname = \"ü\"\n"}};
  corpus.runs = {{"r1", {{"command", "forecost collect"}}}};
  for (const std::int64_t batch : {3, 1, 2}) corpus.rows.push_back(row_of(batch));
  Measurement conv{.task = unusual_task()};
  conv.device_class = "card";
  conv.device_id = corpus.devices[0].id();
  conv.environment_id = corpus.environments[0].id();
  conv.run_id = "r1";
  conv.group_id = corpus.groups[0].id();
  conv.status = Status::skipped_memory;
  conv.reason = "needs 3 GB";
  corpus.rows.push_back(conv);
  corpus.history = {"first", "second"};
  return corpus;
}

/// Every field as text, NaN included.
std::string text_of(const Measurement& row) {
  std::string text = row.task.layer.text();
  visit_fields(row, [&](const char* name, const char*, const auto& member) {
    using Value = std::decay_t<decltype(member)>;
    text += std::string(" ") + name + "=";
    if constexpr (std::is_enum_v<Value>) {
      text += name_of(member);
    } else if constexpr (std::is_same_v<Value, std::string>) {
      text += member;
    } else {
      text += fmt::format("{}", member);  // every digit: a double kept as float must not pass
    }
  });
  for (const float sample : row.samples_s) text += fmt::format(" {}", sample);
  return text;
}

std::vector<std::string> texts_of(const Corpus& corpus) {
  std::vector<std::string> texts;
  for (const Measurement& row : corpus.rows) texts.push_back(text_of(row));
  std::sort(texts.begin(), texts.end());
  return texts;
}

class CorpusFiles : public testing::Test {
 protected:
  void SetUp() override {
    directory = fs::temp_directory_path() / ("forecost-corpus-" + std::to_string(::getpid()));
    fs::remove_all(directory);
    fs::create_directories(directory);
  }
  void TearDown() override { fs::remove_all(directory); }
  fs::path write_journal(const std::string& name, int rows) {
    const fs::path file = directory / name;
    Journal journal(file);
    journal.append(card("u1"));
    journal.append(Environment{{{"library", "1.0"}}});
    journal.append(forecost::Run{"r1", {}});
    for (int i = 1; i <= rows; ++i) journal.append(row_of(i));
    return file;
  }
  /// A journal of a run directory.
  void write_run_journal(const std::string& run, const Rows& rows) {
    fs::create_directories(directory / "runs" / run);
    Journal journal(directory / "runs" / run / "journal-0");
    journal.append(card("u1"));
    journal.append(Environment{{{"library", "1.0"}}});
    journal.append(forecost::Run{run, {}});
    for (const Measurement& row : rows) journal.append(row);
  }
  /// In place: a file that is truncated and written again is flushed to the disk by some file
  /// systems, and damage is tried by the thousand.
  void overwrite(const fs::path& file, const std::string& bytes) {
    if (!fs::exists(file)) std::ofstream{file};
    std::fstream(file, std::ios::binary | std::ios::in | std::ios::out)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    fs::resize_file(file, bytes.size());
  }
  fs::path directory;
};

TEST_F(CorpusFiles, FileHoldsEverything) {
  const Corpus corpus = small_corpus();
  write_corpus(corpus, directory / "c.h5");
  const Corpus again = read_corpus(directory / "c.h5");
  EXPECT_EQ(texts_of(again), texts_of(corpus));
  EXPECT_EQ(again.devices[0].name, "Card µ");
  EXPECT_EQ(again.devices[0], corpus.devices[0]);
  EXPECT_EQ(again.devices[0][Attribute::clock_hz], 1.5e9);
  EXPECT_FALSE(again.devices[0].has(Attribute::memory_bytes));
  EXPECT_EQ(again.environments[0].facts, corpus.environments[0].facts);
  EXPECT_EQ(again.groups.at(0).facts, corpus.groups[0].facts);
  EXPECT_EQ(again.sweeps[0].text, corpus.sweeps[0].text);
  EXPECT_EQ(again.runs[0].facts, corpus.runs[0].facts);
  EXPECT_EQ(again.history, corpus.history);
  EXPECT_TRUE(read_corpus(directory / "c.h5", false).rows[0].samples_s.empty());
  EXPECT_EQ(validate_corpus(directory / "c.h5"), std::vector<std::string>{});
  // An empty corpus is one too: nothing was measured yet.
  write_corpus({}, directory / "empty.h5");
  EXPECT_TRUE(read_corpus(directory / "empty.h5").rows.empty());
}

TEST_F(CorpusFiles, JournalHoldsEverything) {
  const Corpus corpus = small_corpus();
  {
    Journal journal(directory / "journal-0");
    for (const auto& device : corpus.devices) journal.append(device);
    for (const auto& environment : corpus.environments) journal.append(environment);
    for (const auto& group : corpus.groups) journal.append(group);
    for (const auto& sweep : corpus.sweeps) journal.append(sweep);
    for (const auto& run : corpus.runs) journal.append(run);
    for (const auto& row : corpus.rows) journal.append(row);
  }
  const Corpus again = read_journal(directory / "journal-0");
  EXPECT_EQ(texts_of(again), texts_of(corpus));
  EXPECT_EQ(again.devices.at(0), corpus.devices[0]);
  EXPECT_EQ(again.devices[0].id(), corpus.devices[0].id());
  EXPECT_EQ(again.environments.at(0).facts, corpus.environments[0].facts);
  EXPECT_EQ(again.groups.at(0).facts, corpus.groups[0].facts);
  EXPECT_EQ(again.sweeps.at(0).text, corpus.sweeps[0].text);
  EXPECT_EQ(again.runs.at(0).facts, corpus.runs[0].facts);
}

TEST_F(CorpusFiles, DamageIsFoundBeforeTheLibraryOpensTheFile) {
  write_corpus(small_corpus(), directory / "c.h5");
  const std::string bytes = read_text(directory / "c.h5");
  Random random(1);
  for (int i = 0; i < 100; ++i) {
    std::string damaged = bytes;
    damaged[random.below(bytes.size())] ^= static_cast<char>(1 + random.below(255));
    overwrite(directory / "c.h5", damaged);
    EXPECT_THROW(read_corpus(directory / "c.h5"), DataError);
  }
  overwrite(directory / "c.h5", bytes.substr(0, bytes.size() / 2));
  EXPECT_THROW(read_corpus(directory / "c.h5"), DataError);
  overwrite(directory / "c.h5", bytes);
  fs::remove(directory / "c.h5.sha256");
  EXPECT_THROW(read_corpus(directory / "c.h5"), DataError);
  EXPECT_THROW(read_corpus(directory / "absent.h5"), EnvironmentError);
  std::ofstream(directory / "file") << "x";
  EXPECT_THROW(write_corpus(small_corpus(), directory / "file" / "c.h5"), EnvironmentError);
}

TEST_F(CorpusFiles, ATornTailLosesOnlyTheLastRecord) {
  const fs::path file = write_journal("journal-0", 3);
  const std::string bytes = read_text(file);
  const std::string without = read_text(write_journal("journal-1", 2));
  ASSERT_EQ(bytes.substr(0, without.size()), without);
  for (std::size_t size = without.size(); size < bytes.size(); ++size) {
    overwrite(file, bytes.substr(0, size));
    ASSERT_EQ(read_journal(file).rows.size(), 2U) << "cut to " << size;
  }
  overwrite(file, bytes);
  EXPECT_EQ(read_journal(file).rows.size(), 3U);
  EXPECT_THROW(Journal{file}, EnvironmentError);                // never appended to a second time
  EXPECT_THROW(Journal{file / "journal-0"}, EnvironmentError);  // below a regular file
}

TEST_F(CorpusFiles, AChangedByteInAJournalNeverGivesAnotherNumber) {
  const fs::path file = write_journal("journal-0", 3);
  const std::string bytes = read_text(file);
  const auto whole = texts_of(read_journal(file));
  int found = 0;
  for (std::size_t i = 0; i < 3 * bytes.size(); ++i) {
    const std::size_t at = i / 3;
    const char pattern = static_cast<char>(i % 3 == 0 ? 0xFF : i % 3 == 1 ? 0x80 : 1 << (at % 7));
    std::string damaged = bytes;
    damaged[at] ^= pattern;
    overwrite(file, damaged);
    try {
      for (const std::string& text : texts_of(read_journal(file))) {
        ASSERT_NE(std::find(whole.begin(), whole.end(), text), whole.end()) << "byte " << at;
      }
    } catch (const DataError& error) {
      ++found;
      EXPECT_NE(std::string(error.what()).find("journal-0"), std::string::npos);
    }
  }
  EXPECT_EQ(found, static_cast<int>(3 * bytes.size()));
}

TEST_F(CorpusFiles, ZerosAfterAPowerFailureAreATornTail) {
  const fs::path file = write_journal("journal-0", 2);
  const std::string bytes = read_text(file);
  overwrite(file, bytes + std::string(4096, '\0'));
  EXPECT_EQ(read_journal(file).rows.size(), 2U);
  std::string half = bytes;
  std::fill(half.end() - 40, half.end(), '\0');
  overwrite(file, half);
  EXPECT_EQ(read_journal(file).rows.size(), 1U);
  // In the middle they are damage, and so is a record of a newer version's kind.
  overwrite(file, half + frame('M', "x"));
  EXPECT_THROW(read_journal(file), DataError);
  overwrite(file, bytes + frame('?', "x"));
  EXPECT_THROW(read_journal(file), DataError);
}

/// No file of this process grows beyond a size, as on a disk that is full: the write that meets it
/// is cut short, the next one fails.
class FullDisk {
 public:
  explicit FullDisk(std::size_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const struct rlimit full { bytes, before_.rlim_max };
    ::setrlimit(RLIMIT_FSIZE, &full);
  }
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  struct rlimit before_ {};
  void (*handler_)(int);
};

TEST_F(CorpusFiles, AFullDiskIsToldAndLosesNothing) {
  const fs::path whole = write_journal("journal-whole", 3);
  const std::size_t three = fs::file_size(whole),
                    two = fs::file_size(write_journal("journal-2", 2));
  // The disk is full within the third row: its header, its payload, its checksum, and right before.
  for (const std::size_t bytes : {two, two + 1, two + 9, (two + three) / 2, three - 3, three - 1}) {
    const fs::path file = directory / fmt::format("journal-{}", bytes);
    {
      Journal journal(file);
      journal.append(card("u1"));
      journal.append(Environment{{{"library", "1.0"}}});
      journal.append(forecost::Run{"r1", {}});
      journal.append(row_of(1));
      journal.append(row_of(2));
      {
        const FullDisk full(bytes);
        for (int attempt = 0; attempt < 2; ++attempt) {
          try {
            journal.append(row_of(3));
            ADD_FAILURE() << "nothing was refused";
          } catch (const EnvironmentError& error) {
            const std::string told = error.what();
            EXPECT_NE(told.find(file.filename().string()), std::string::npos) << told;
            EXPECT_NE(told.find("earlier ones are safe"), std::string::npos) << told;
          }
          EXPECT_EQ(read_journal(file).rows.size(), 2U);
        }
      }
      journal.append(row_of(3));  // space was made: the journal goes on, without half a record
    }
    EXPECT_TRUE(read_text(file) == read_text(whole)) << bytes;
  }
}

TEST_F(CorpusFiles, AFullDiskLeavesTheOldCorpus) {
  const fs::path file = directory / "c.h5";
  Corpus corpus = small_corpus();
  write_corpus(corpus, file);
  const std::string before = read_text(file);
  corpus.rows.push_back(row_of(4));
  for (const std::size_t bytes : {std::size_t{10}, before.size() / 2}) {  // less than the digest
    const FullDisk full(bytes);
    EXPECT_THROW(write_corpus(corpus, file), EnvironmentError) << bytes;
  }
  EXPECT_TRUE(read_text(file) == before);
  EXPECT_EQ(read_corpus(file).rows.size(), 4U);
  for (const auto& entry : fs::directory_iterator(directory)) {
    EXPECT_EQ(entry.path().string().find(".tmp-"), std::string::npos) << entry.path();
  }
}

TEST_F(CorpusFiles, TheSameRowsGiveTheSameFile) {
  Corpus corpus = small_corpus();
  write_corpus(corpus, directory / "a.h5");
  std::reverse(corpus.rows.begin(), corpus.rows.end());
  write_corpus(corpus, directory / "b.h5");
  EXPECT_EQ(read_text(directory / "a.h5"), read_text(directory / "b.h5"));
}

TEST_F(CorpusFiles, RaggedSamplesStayWithTheirRows) {
  Corpus corpus = small_corpus();
  corpus.rows.clear();
  std::vector<std::vector<float>> kept;
  for (const std::size_t samples : {0U, 3U, 0U, 0U, 20000U, 1U, 0U}) {
    Measurement row = row_of(static_cast<std::int64_t>(kept.size()) + 1);
    row.samples_s.clear();
    for (std::size_t i = 0; i < samples; ++i) {
      row.samples_s.push_back(static_cast<float>(1000 * kept.size() + i));
    }
    kept.push_back(row.samples_s);
    corpus.rows.push_back(row);
  }
  write_corpus(corpus, directory / "c.h5");
  const Corpus again = read_corpus(directory / "c.h5");
  ASSERT_EQ(again.rows.size(), kept.size());
  for (std::size_t i = 0; i < kept.size(); ++i) {
    EXPECT_EQ(again.rows[i].task.layer["batch"], static_cast<std::int64_t>(i) + 1);
    EXPECT_TRUE(again.rows[i].samples_s == kept[i]) << "row " << i;
  }
}

TEST_F(CorpusFiles, ALongHistoryKeepsItsBeginningAndEnd) {
  Corpus corpus = small_corpus();
  for (int i = 0; i < 3000; ++i) corpus.history.push_back("line of history " + std::to_string(i));
  write_corpus(corpus, directory / "c.h5");
  const auto history = read_corpus(directory / "c.h5").history;
  EXPECT_EQ(history.front(), "first");
  EXPECT_EQ(history.back(), "line of history 2999");
  EXPECT_NE(history[1].find("lines left out"), std::string::npos);
}

TEST_F(CorpusFiles, ForeignFilesAreRefused) {
  const auto refusal = [&](auto change) {
    h5::File file = h5::File::create("c");
    file.set_attribute("schema", "forecost-corpus");
    file.set_attribute("schema_version", std::int64_t{corpus_schema_version});
    file.set_attribute("history", "");
    for (const char* table : {"devices", "environments", "groups", "runs", "sweeps"}) {
      h5::Group group = file.create_group(table);
      for (const char* column :
           {"id", "name", "vendor", "kind", "device_class", "uuid", "host", "facts_json", "text"}) {
        group.write_strings(column, {});
      }
    }
    change(file);
    replace_with_digest(directory / "c.h5", file.bytes());
    try {
      read_corpus(directory / "c.h5");
    } catch (const DataError& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  EXPECT_EQ(refusal([](h5::File&) {}), "none");
  EXPECT_NE(refusal([](h5::File& f) { f.set_attribute("schema", "x"); }).find("not a corpus"),
            std::string::npos);
  EXPECT_NE(refusal([](h5::File& f) {
              f.set_attribute("schema_version", std::int64_t{99});
            }).find("version 99"),
            std::string::npos);
  EXPECT_NE(refusal([](h5::File& f) { f.create_group("warp"); }).find("/warp"), std::string::npos);
}

TEST_F(CorpusFiles, NoGroupIsTooWideForXarray) {
  const Measurement row = row_of(1);
  std::size_t fields = 1;  // sample_begin
  visit_fields(
      row, [&](const char* name, const char*, const auto&) { fields += is_sparse(name) ? 0 : 1; });
  fields += 3;  // of the sparse ones no device has more
  for (const Operator* op : operators()) {
    EXPECT_LE(op->parameters.size() + fields, 60U) << op->name;
  }
}

TEST_F(CorpusFiles, TheDigestFitsTheFileAtAnyKill) {
  const fs::path file = directory / "d";
  replace_with_digest(file, "0");
  Random random(5);
  for (int round = 0; round < 40; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (int i = 0;; ++i) replace_with_digest(file, std::to_string(i));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(5000 + random.below(30000)));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    ASSERT_NO_THROW(read_verified(file)) << "kill " << round;
  }
}

TEST_F(CorpusFiles, AKilledReplacementLeavesAReadableFile) {
  Corpus corpus = small_corpus();
  write_corpus(corpus, directory / "c.h5");
  for (int round = 0; round < 10; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (int i = 0;; ++i) {
        corpus.history = {"version " + std::to_string(i % 7)};
        write_corpus(corpus, directory / "c.h5");
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5 + 7 * round));
    // A reader meanwhile, and one after the kill.
    EXPECT_EQ(read_corpus(directory / "c.h5").rows.size(), 4U);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    EXPECT_EQ(read_corpus(directory / "c.h5").rows.size(), 4U);
  }
  write_corpus(corpus, directory / "c.h5");
  for (const auto& entry : fs::directory_iterator(directory)) {  // what the killed left is gone
    EXPECT_EQ(entry.path().string().find(".tmp-"), std::string::npos) << entry.path();
  }
}

TEST_F(CorpusFiles, MergeKeepsEachRowOnceAndListsContradictions) {
  Corpus all;
  EXPECT_TRUE(merge_into(all, small_corpus()).empty());
  EXPECT_TRUE(merge_into(all, small_corpus()).empty());
  EXPECT_EQ(texts_of(all), texts_of(small_corpus()));
  EXPECT_EQ(all.devices.size(), 1U);

  Corpus other = small_corpus();
  other.runs[0].id = "r2";
  for (Measurement& row : other.rows) row.run_id = "r2";
  other.rows[0].time.median_s *= 2;
  const auto conflicts = merge_into(all, other);
  ASSERT_EQ(conflicts.size(), 1U);
  EXPECT_NE(conflicts[0].find("dense batch=3"), std::string::npos) << conflicts[0];
}

TEST_F(CorpusFiles, AnOkRowSupersedesAnEarlierFailure) {
  Corpus failed = small_corpus();
  failed.rows[0].status = Status::crashed;
  failed.rows[0].reason = "killed";
  Corpus later = small_corpus();
  later.rows[0].run_id = "r2";
  later.runs.push_back({"r2", {}});
  Corpus all = failed;
  EXPECT_TRUE(merge_into(all, later).empty());
  EXPECT_EQ(all.rows.size(), 4U);
  for (const Measurement& row : all.rows) EXPECT_NE(row.status, Status::crashed);

  // Also of the same task on another device of the class: another key, but nothing left to do.
  Corpus elsewhere = failed;
  elsewhere.devices = {card("u2")};
  for (Measurement& row : elsewhere.rows) row.device_id = elsewhere.devices[0].id();
  elsewhere.rows.erase(elsewhere.rows.begin() + 1, elsewhere.rows.end());
  EXPECT_TRUE(merge_into(all, elsewhere).empty());
  EXPECT_EQ(all.rows.size(), 4U);
  EXPECT_EQ(all.devices.size(), 2U);
}

TEST_F(CorpusFiles, AFailureAfterTheLastOkRowStaysBesideIt) {
  const auto at = [](double start_s, Status status, const char* uuid = "u1") {
    Measurement row = row_of(1, fmt::format("r{}", start_s));
    row.device_id = card(uuid).id();
    row.started_unix_s = start_s;
    row.status = status;
    if (status != Status::ok) {
      row.time = {};
      row.samples_s.clear();
      row.reason = "killed";
    }
    return row;
  };
  const auto merged = [&](Rows rows) {
    std::vector<std::string> first;
    for (int order = 0; order < 2; ++order, std::reverse(rows.begin(), rows.end())) {
      Corpus all;
      for (const Measurement& row : rows) {
        Corpus one = small_corpus();
        one.rows = {row};
        one.runs = {{row.run_id, {}}};
        if (row.device_id != one.devices[0].id()) one.devices = {card("u2")};
        EXPECT_TRUE(merge_into(all, one).empty());
      }
      write_corpus(all, directory / "c.h5");
      EXPECT_EQ(validate_corpus(directory / "c.h5"), std::vector<std::string>{});
      std::vector<std::string> kept;
      for (const Measurement& row : read_corpus(directory / "c.h5").rows) {
        kept.push_back(fmt::format("{} {}", name_of(row.status), row.started_unix_s));
      }
      if (order == 0) first = kept;
      EXPECT_EQ(kept, first) << "the order of merging counts";
    }
    return first;
  };
  using Kept = std::vector<std::string>;
  const double unknown = std::nan("");
  EXPECT_EQ(merged({at(1, Status::crashed), at(2, Status::ok)}), Kept{"ok 2"});
  EXPECT_EQ(merged({at(1, Status::ok), at(2, Status::crashed)}), (Kept{"crashed 2", "ok 1"}));
  EXPECT_EQ(merged({at(1, Status::ok), at(2, Status::crashed), at(3, Status::crashed)}),
            (Kept{"crashed 3", "ok 1"}));
  // What is not known to be later is superseded.
  EXPECT_EQ(merged({at(1, Status::ok), at(unknown, Status::crashed)}), Kept{"ok 1"});
  EXPECT_EQ(merged({at(unknown, Status::ok), at(2, Status::crashed)}), Kept{"ok nan"});
  // On another device of the class the same holds.
  EXPECT_EQ(merged({at(2, Status::ok), at(1, Status::crashed, "u2")}), Kept{"ok 2"});
  EXPECT_EQ(merged({at(1, Status::ok), at(2, Status::crashed, "u2")}).size(), 2U);
}

TEST_F(CorpusFiles, ConflictsReplaceNothing) {
  const auto write_run = [&](const std::string& run, double factor) {
    Rows rows;
    for (int i = 1; i <= 3; ++i) {
      rows.push_back(row_of(i, run));
      if (i > 1) rows.back().time = summarize({factor * 1e-3, factor * 2e-3, factor * 4e-3});
    }
    write_run_journal(run, rows);
  };
  write_run("r1", 1);
  EXPECT_TRUE(merge_run_directory(directory).conflicts.empty());
  const std::string before = read_text(directory / "corpus.h5");
  write_run("r2", 2);
  const auto conflicts = merge_run_directory(directory).conflicts;
  ASSERT_EQ(conflicts.size(), 2U);
  EXPECT_NE(conflicts[0].find("batch=2"), std::string::npos) << conflicts[0];
  EXPECT_NE(conflicts[1].find("batch=3"), std::string::npos) << conflicts[1];
  EXPECT_TRUE(read_text(directory / "corpus.h5") == before);
  EXPECT_EQ(read_corpus(directory / "corpus.h5").rows.size(), 3U);
}

TEST_F(CorpusFiles, JournalsThatAreNotMergedAreReadAsIfTheyWere) {
  Measurement failed = row_of(2, "r1");
  failed.status = Status::crashed;
  failed.reason = "killed";
  write_run_journal("r1", {row_of(1, "r1"), failed, row_of(2, "r1")});
  write_run_journal("r2", {row_of(2, "r2"), row_of(3, "r2")});
  const auto entries = [&] {
    std::set<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(directory)) {
      names.insert(entry.path().string());
    }
    return names;
  };
  const auto before = entries();
  testing::internal::CaptureStdout();  // where spdlog's default logger writes
  const Corpus unmerged = read_corpus(directory);
  const std::string hash = CorpusReader(directory).sha256();
  EXPECT_EQ(CorpusReader(directory).sha256(), hash) << "not the same bytes";
  const std::string told = testing::internal::GetCapturedStdout();
  EXPECT_NE(told.find("no corpus.h5 yet: read 2 journals of a run that is not merged\n"),
            std::string::npos)
      << told;
  EXPECT_EQ(std::count(told.begin(), told.end(), '\n'), 3) << told;  // one of each
  EXPECT_EQ(entries(), before);
  EXPECT_TRUE(merge_run_directory(directory).written);
  const Corpus merged = read_corpus(directory);
  EXPECT_EQ(texts_of(unmerged), texts_of(merged));
  EXPECT_EQ(unmerged.rows.size(), 3U);
  EXPECT_EQ(unmerged.devices, merged.devices);
  EXPECT_EQ(unmerged.runs.size(), merged.runs.size());

  // Where the runs contradict each other there is no telling which to read.
  fs::remove(directory / "corpus.h5");
  Measurement other = row_of(1, "r3");
  other.time = summarize({1e-2, 2e-2, 4e-2});
  write_run_journal("r3", {other});
  testing::internal::CaptureStdout();
  try {
    read_corpus(directory);
    ADD_FAILURE() << "nothing was refused";
  } catch (const DataError& error) {
    const std::string refused = error.what();
    EXPECT_NE(refused.find("run r1 has 0.002 s, run r3 has 0.02 s"), std::string::npos) << refused;
    EXPECT_NE(refused.find("--on-conflict"), std::string::npos) << refused;
  }
  testing::internal::GetCapturedStdout();
  EXPECT_THROW(read_corpus(directory / "runs"), DataError);  // no run directory
}

TEST_F(CorpusFiles, AMergeKeepsWhatTheCorpusAloneHolds) {
  const fs::path file = directory / "corpus.h5";
  Measurement failed = row_of(2, "r1");  // superseded, again at each merge
  failed.status = Status::crashed;
  failed.reason = "killed";
  write_run_journal("r1", {row_of(1, "r1"), failed, row_of(2, "r1")});
  EXPECT_TRUE(merge_run_directory(directory).conflicts.empty());
  const std::string first = read_text(file);
  EXPECT_TRUE(merge_run_directory(directory).conflicts.empty());
  EXPECT_TRUE(read_text(file) == first) << "nothing is new, but written";
  ASSERT_EQ(read_corpus(file).history.size(), 1U);

  // The journals are gone; another launch measures more.
  const Corpus known = read_corpus(file);
  fs::remove_all(directory / "runs");
  write_run_journal("r2", {row_of(2, "r2"), row_of(3, "r2")});
  EXPECT_TRUE(merge_run_directory(directory).conflicts.empty());
  Corpus corpus = read_corpus(file);
  EXPECT_EQ(corpus.rows.size(), 3U);
  EXPECT_EQ(corpus.runs.size(), 2U);
  ASSERT_EQ(corpus.history.size(), 2U);
  EXPECT_EQ(corpus.history[0], known.history[0]);
  EXPECT_EQ(validate_run_directory(directory), std::vector<std::string>{});

  // More rows of the same journal: the line of its last merge gives way.
  fs::remove(directory / "runs/r2/journal-0");
  write_run_journal("r2", {row_of(2, "r2"), row_of(3, "r2"), row_of(4, "r2")});
  EXPECT_TRUE(merge_run_directory(directory).conflicts.empty());
  corpus = read_corpus(file);
  EXPECT_EQ(corpus.rows.size(), 4U);
  ASSERT_EQ(corpus.history.size(), 2U);
  EXPECT_NE(corpus.history[1].find("merged 1 journal up to run r2 into 4 rows"), std::string::npos);
}

TEST_F(CorpusFiles, ADamagedCorpusIsSetAsideAndMadeAgain) {
  const fs::path file = directory / "corpus.h5";
  write_run_journal("r1", {row_of(1, "r1"), row_of(2, "r1")});
  EXPECT_TRUE(merge_run_directory(directory).conflicts.empty());
  const std::string damaged = read_text(file).substr(100);
  for (const char* aside : {"corpus.h5.damaged", "corpus.h5.damaged-2"}) {
    overwrite(file, damaged);
    testing::internal::CaptureStdout();  // where spdlog's default logger writes
    EXPECT_TRUE(merge_run_directory(directory).conflicts.empty());
    const std::string told = testing::internal::GetCapturedStdout();
    EXPECT_NE(told.find(aside), std::string::npos) << told;
    EXPECT_EQ(std::count(told.begin(), told.end(), '\n'), 1) << told;
    EXPECT_EQ(read_corpus(file).rows.size(), 2U);
    EXPECT_TRUE(read_text(directory / aside) == damaged);
  }
}

TEST_F(CorpusFiles, AnotherMergeMaySetADamagedCorpusAside) {
  // Where locks do not work, two merges may find it at once.
  const fs::path file = directory / "corpus.h5", aside = directory / "corpus.h5.damaged";
  write_corpus(small_corpus(), file);
  overwrite(file, read_text(file).substr(100));
  testing::internal::CaptureStdout();
  const auto meanwhile = [&](Merger& merger) {
    fs::rename(file, aside);
    merger.add(small_corpus());
  };
  EXPECT_TRUE(merge_into_file(file, "test", meanwhile, {.set_damaged_aside = true}).written);
  testing::internal::GetCapturedStdout();
  EXPECT_EQ(read_corpus(file).rows.size(), small_corpus().rows.size());
}

TEST_F(CorpusFiles, ConflictsAreSettledAsAskedFor) {
  // One key, three runs: the second started last, the first has the middle median.
  const auto run_of = [](const char* run, double factor, double start_s) {
    Corpus corpus = small_corpus();
    corpus.runs = {{run, {}}};
    Measurement row = row_of(1, run);
    row.time = summarize({factor * 1e-3, factor * 2e-3, factor * 4e-3});
    row.started_unix_s = start_s;
    row.samples_s.clear();
    corpus.rows = {row};
    return corpus;
  };
  const std::vector<Corpus> runs{run_of("a", 2, 1e9), run_of("b", 3, 3e9), run_of("c", 1, 2e9)};
  const auto kept = [&](OnConflict policy, std::vector<std::size_t> order) {
    Corpus all;
    for (const std::size_t i : order) {
      merge_into(all, runs[i], policy);
      EXPECT_EQ(all.rows.size(), 1U);
    }
    return all.rows[0].run_id;
  };
  EXPECT_EQ(kept(OnConflict::newest, {0, 1, 2}), "b");
  EXPECT_EQ(kept(OnConflict::newest, {2, 1, 0}), "b");
  EXPECT_EQ(kept(OnConflict::keep_first, {2, 1, 0}), "c");
  EXPECT_EQ(kept(OnConflict::keep_first, {0, 1, 2}), "a");
  for (const auto& order : {std::vector<std::size_t>{0, 1, 2}, {2, 1, 0}, {1, 2, 0}}) {
    Corpus all;
    Merger merger(all, OnConflict::median);
    for (const std::size_t i : order) merger.add(runs[i]);
    merger.finish();
    EXPECT_EQ(all.rows[0].run_id, "a");
    EXPECT_EQ(merger.conflicts().size(), 2U);
  }
}

TEST_F(CorpusFiles, EachRunHasOneSayInAConflict) {
  const auto corpus_of = [](const char* run, double factor, double start_s) {
    Corpus corpus = small_corpus();
    corpus.runs = {{run, {}}};
    Measurement row = row_of(1, run);
    row.time = summarize({factor * 1e-3, factor * 2e-3, factor * 4e-3});
    row.started_unix_s = start_s;
    row.samples_s.clear();
    corpus.rows = {row};
    return corpus;
  };
  // Run b was interrupted and measured again: its first row is no say of its own.
  const Corpus a = corpus_of("a", 4, 1), b_lost = corpus_of("b", 1, 2), b = corpus_of("b", 2, 3),
               c = corpus_of("c", 3, 4);
  // Journals, and the corpora that were merged from them, an early one among them.
  std::vector<Corpus> inputs{a, b_lost, b, c, a, b_lost, b, c};
  Random random(6);
  for (int round = 0; round < 20; ++round) {
    for (const OnConflict policy : {OnConflict::median, OnConflict::newest}) {
      Corpus all;
      Merger merger(all, policy);
      for (const Corpus& input : inputs) merger.add(input);
      merger.finish();
      ASSERT_EQ(all.rows.size(), 1U);
      EXPECT_EQ(all.rows[0].run_id, "c") << name_of(policy);
      EXPECT_EQ(merger.rows_in_conflict(), 1U);
      EXPECT_EQ(merger.conflicts().size(), 2U) << "one of each run that contradicts the first";
    }
    for (std::size_t i = inputs.size() - 1; i > 0; --i) {
      std::swap(inputs[i], inputs[random.below(i + 1)]);
    }
  }
  // What b says in the end contradicts nobody.
  Corpus all;
  Merger merger(all);
  for (const Corpus& input : {corpus_of("a", 2, 3), b_lost, b}) merger.add(input);
  merger.finish();
  EXPECT_TRUE(merger.conflicts().empty());
  EXPECT_EQ(merger.rows_in_conflict(), 0U);
}

TEST_F(CorpusFiles, CircumstancesAreNoConflict) {
  // Each field by itself: what was measured contradicts, how and when it was measured does not.
  const Measurement known = row_of(1, "a");
  const std::set<std::string> key{
      "pass",      "dtype",          "optimizer", "cache_state", "algorithm_policy", "device_class",
      "device_id", "environment_id", "group_id",  "protocol",    "replicate",        "status"};
  const std::set<std::string> values{"sample_count",   "min_s",   "q1_s",         "median_s",
                                     "q3_s",           "max_s",   "mean_s",       "stdev_s",
                                     "outliers",       "host_s",  "memory_bytes", "workspace_bytes",
                                     "implementation", "checksum"};
  const auto corpus_of = [](const Measurement& row) {
    Corpus corpus = small_corpus();
    corpus.runs = {{row.run_id, {}}};
    corpus.rows = {row};
    return corpus;
  };
  for_each_field([&](const char* name, const char*, auto get) {
    if (key.contains(name)) return;
    Measurement other = known;
    other.run_id = "b";
    auto& field = get(other);
    using Value = std::decay_t<decltype(field)>;
    if constexpr (std::is_enum_v<Value>) {
      field = static_cast<Value>(static_cast<int>(field) + 1);
    } else if constexpr (std::is_same_v<Value, std::string>) {
      field += "x";
    } else {
      field = static_cast<Value>(5);
    }
    const bool is_value = values.contains(name);
    std::vector<std::string> kept;
    for (const bool reversed : {false, true}) {
      Corpus all = corpus_of(reversed ? other : known);
      const auto conflicts = merge_into(all, corpus_of(reversed ? known : other));
      ASSERT_EQ(conflicts.size(), is_value ? 1U : 0U) << name;
      ASSERT_EQ(all.rows.size(), 1U);
      kept.push_back(text_of(all.rows[0]));
      if (is_value) {
        const std::string told = name == std::string("median_s") ? " s, run" : name;
        EXPECT_NE(conflicts[0].find(told), std::string::npos) << conflicts[0];
      }
    }
    if (!is_value) {
      EXPECT_EQ(kept[0], kept[1]) << name << ": the order of merging counts";
      EXPECT_EQ(kept[0], text_of(other)) << name << ": a later run, or more known of it";
    }
  });
  Measurement resampled = row_of(1, "b");
  std::swap(resampled.samples_s[0], resampled.samples_s[1]);
  Corpus all = corpus_of(known);
  const auto conflicts = merge_into(all, corpus_of(resampled));
  ASSERT_EQ(conflicts.size(), 1U);
  EXPECT_NE(conflicts[0].find("other raw samples"), std::string::npos) << conflicts[0];
}

TEST_F(CorpusFiles, OfRowsThatAgreeTheLastStartedWithSamplesIsKept) {
  const auto corpus_of = [](const char* run, double start_s, bool sampled) {
    Corpus corpus = small_corpus();
    corpus.runs = {{run, {}}};
    corpus.rows = {row_of(1, run)};
    corpus.rows[0].started_unix_s = start_s;
    if (!sampled) corpus.rows[0].samples_s.clear();
    return corpus;
  };
  std::vector<Corpus> inputs{corpus_of("a", 3, true), corpus_of("b", 4, true),
                             corpus_of("c", 5, false), corpus_of("d", std::nan(""), true)};
  std::vector<std::size_t> order{0, 1, 2, 3};
  do {
    Corpus all;
    for (const std::size_t i : order) EXPECT_TRUE(merge_into(all, inputs[i]).empty());
    ASSERT_EQ(all.rows.size(), 1U);
    EXPECT_EQ(all.rows[0].run_id, "b");
    // All of it again is nothing new.
    Merger again(all);
    for (const Corpus& input : inputs) again.add(input);
    again.finish();
    EXPECT_EQ(all.rows[0].run_id, "b");
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_F(CorpusFiles, AMergeIntoAFileKeepsItAndIsIdempotent) {
  const fs::path file = directory / "all.h5";
  const auto merge_run = [&](const std::string& run, double factor, OnConflict policy) {
    return merge_into_file(
        file, "merged run " + run,
        [&](Merger& merger) {
          Corpus corpus = small_corpus();
          corpus.runs = {{run, {}}};
          corpus.rows = {row_of(1, run), row_of(run == "a" ? 2 : 3, run)};
          corpus.rows[0].time = summarize({factor * 1e-3, factor * 2e-3, factor * 4e-3});
          merger.add(corpus);
        },
        {.on_conflict = policy});
  };
  EXPECT_TRUE(merge_run("a", 1, OnConflict::refuse).written);
  EXPECT_EQ(read_corpus(file).rows.size(), 2U);
  const std::string before = read_text(file);
  EXPECT_FALSE(merge_run("a", 1, OnConflict::refuse).written);

  const MergeOutcome refused = merge_run("b", 2, OnConflict::refuse);
  EXPECT_EQ(refused.conflicts.size(), 1U);
  EXPECT_FALSE(refused.written);
  EXPECT_TRUE(read_text(file) == before);

  for (const OnConflict policy : {OnConflict::newest, OnConflict::median, OnConflict::keep_first}) {
    fs::remove(file);
    merge_run("a", 1, policy);
    const MergeOutcome settled = merge_run("b", 2, policy);
    EXPECT_TRUE(settled.written);
    EXPECT_EQ(settled.rows_before, 2U);
    EXPECT_EQ(settled.rows, 3U);
    const Corpus corpus = read_corpus(file);
    EXPECT_EQ(corpus.rows[0].run_id, policy == OnConflict::newest ? "b" : "a");
    EXPECT_NE(corpus.history.back().find(fmt::format(
                  "{} of conflicting rows kept for 1 row, into 3 rows", name_of(policy))),
              std::string::npos)
        << corpus.history.back();
    // The same inputs again, in the same order: nothing else than before, nothing written.
    const MergeOutcome again = merge_into_file(file, "again",
                                               [&](Merger& merger) {
                                                 Corpus both = read_corpus(file);
                                                 merger.add(std::move(both));
                                               },
                                               {.on_conflict = policy});
    EXPECT_FALSE(again.written);
    EXPECT_FALSE(merge_run("b", 2, policy).written);
  }
}

TEST_F(CorpusFiles, OneMergeIntoAFileAtATime) {
  const fs::path file = directory / "all.h5";
  const auto add = [](Merger& merger) { merger.add(small_corpus()); };
  bool inner_busy = false;
  merge_into_file(file, "outer", [&](Merger& merger) {
    inner_busy = merge_into_file(file, "inner", add, {.wait_s = 0.1}).busy;
    add(merger);
  });
  EXPECT_TRUE(inner_busy);
  EXPECT_NE(read_corpus(file).history.back().find("outer"), std::string::npos);
}

TEST_F(CorpusFiles, SalvageTakesWhatIsWholeOfADamagedJournal) {
  write_run_journal("r1", {row_of(1, "r1"), row_of(2, "r1"), row_of(3, "r1")});
  const fs::path file = directory / "runs/r1/journal-0";
  const std::string whole = read_text(file);
  const auto sorted = [](std::vector<std::string> texts) {
    std::sort(texts.begin(), texts.end());
    return texts;
  };
  const auto all = sorted(texts_of(read_journal(file)));
  Random random(4);
  std::size_t lost_most = 0;
  for (int round = 0; round < 300; ++round) {
    std::string bytes = whole;
    bytes[random.below(bytes.size())] ^= static_cast<char>(1 + random.below(255));
    overwrite(file, bytes);
    std::vector<std::string> damage;
    const auto saved = sorted(texts_of(read_journal(file, &damage)));
    EXPECT_TRUE(std::includes(all.begin(), all.end(), saved.begin(), saved.end())) << round;
    lost_most = std::max(lost_most, all.size() - saved.size());
    // One record at most, of whatever kind, and it is told; but for a cut at the very end.
    EXPECT_LE(damage.size(), 1U);
    EXPECT_LE(all.size() - saved.size(), 1U) << round;
  }
  EXPECT_EQ(lost_most, 1U);
}

TEST_F(CorpusFiles, AScanReadsChosenColumnsOfChosenRows) {
  Corpus corpus = small_corpus();
  corpus.rows.clear();
  const std::int64_t count = 2 * static_cast<std::int64_t>(h5::rows_per_chunk) + 5;
  for (std::int64_t i = 0; i < count; ++i) {
    corpus.rows.push_back(row_of(i + 1));
    corpus.rows.back().time.median_s = 1e-3 * static_cast<double>(i % 3 + 1);
  }
  write_corpus(corpus, directory / "c.h5");
  const CorpusReader reader(directory / "c.h5");
  EXPECT_EQ(reader.rows(), corpus.rows.size());
  EXPECT_EQ(reader.tables().devices.size(), 1U);
  std::int64_t seen = 0;
  reader.scan({.columns = {"implementation"},
               .where = [](const Measurement& row) { return row.time.median_s > 2.5e-3; },
               .where_columns = {"median_s"}},
              [&](Measurement& row, std::size_t index) {
                ++seen;
                ASSERT_EQ(index % 3, 2U);
                ASSERT_EQ(row.implementation, "impl:" + std::to_string(index + 1));
                ASSERT_EQ(row.time.n, 0) << "a column that nobody asked for was read";
                ASSERT_EQ(row.task.layer["batch"], 1);
              });
  EXPECT_EQ(seen, count / 3);
  EXPECT_THROW(reader.scan({.columns = {"medain_s"}}, [](Measurement&, std::size_t) {}),
               UsageError);
  // Rows keep their order and samples over the bounds of batches.
  const Corpus again = read_corpus(directory / "c.h5");
  for (std::size_t i = 0; i < again.rows.size(); ++i) {
    ASSERT_EQ(again.rows[i].task.layer["batch"], static_cast<std::int64_t>(i + 1));
    ASSERT_EQ(again.rows[i].samples_s, corpus.rows[i].samples_s);
  }
}

TEST_F(CorpusFiles, EveryOperatorHasASmallestLayer) {
  // The stand-in of a scan that does not read layers.
  for (const Operator* op : operators()) {
    EXPECT_NO_THROW(layout::smallest_layer(*op)) << op->name;
  }
}

TEST_F(CorpusFiles, AnImportedRowMayKnowTheMedianOnly) {
  Corpus corpus = small_corpus();
  Measurement& row = corpus.rows[0];
  row.samples_s.clear();
  row.time = {.n = 5, .median_s = 1e-3};
  write_corpus(corpus, directory / "c.h5");
  EXPECT_EQ(validate_corpus(directory / "c.h5").size(), 1U);  // measured rows know all
  row.source_line = 7;
  write_corpus(corpus, directory / "c.h5");
  EXPECT_EQ(validate_corpus(directory / "c.h5"), std::vector<std::string>{});
  for (const double wrong : {-1e-3, 0.0, std::nan(""), HUGE_VAL}) {
    row.time.median_s = wrong;
    write_corpus(corpus, directory / "c.h5");
    EXPECT_EQ(validate_corpus(directory / "c.h5").size(), 1U) << wrong;
  }
  row.time = {.n = 5, .median_s = 1e-3, .q3_s = 5e-4};
  write_corpus(corpus, directory / "c.h5");
  EXPECT_EQ(validate_corpus(directory / "c.h5").size(), 1U);
}

TEST_F(CorpusFiles, ALinkIsFollowedAndStays) {
  fs::create_directories(directory / "store");
  const fs::path link = directory / "link.h5", real = directory / "store/real.h5";
  fs::create_symlink("store/real.h5", link);  // it dangles yet
  write_corpus(small_corpus(), link);
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(read_corpus(real).rows.size(), 4U);
  EXPECT_EQ(read_corpus(link).rows.size(), 4U);
  merge_into_file(link, "more", [](Merger& merger) {
    Corpus more = small_corpus();
    more.rows.push_back(row_of(77));
    merger.add(more);
  });
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(read_corpus(real).rows.size(), 5U);
}

TEST_F(CorpusFiles, AnotherDescriptionOfADeviceIsTold) {
  const auto described = [](double bandwidth, double probed) {
    Corpus corpus = small_corpus();
    corpus.devices[0].set(Attribute::bandwidth_bytes_per_s, bandwidth);
    corpus.devices[0].set(Attribute::probed_bandwidth_bytes_per_s, probed);
    return corpus;
  };
  Corpus all;
  Merger merger(all);
  merger.add(described(320e9, 300e9));
  merger.add(described(320e9, 310e9));  // another probe
  EXPECT_TRUE(merger.device_changes().empty());
  merger.add(described(640e9, 310e9));
  ASSERT_EQ(merger.device_changes().size(), 1U);
  EXPECT_NE(merger.device_changes()[0].find("bandwidth_bytes_per_s was 3.2e+11 and is 6.4e+11 now"),
            std::string::npos)
      << merger.device_changes()[0];

  // What an older probe found stays until a newer one finds it again.
  Corpus unprobed = described(640e9, 310e9);
  unprobed.devices[0].set_bandwidth_curve({});
  merger.add(unprobed);
  EXPECT_EQ(all.devices[0].bandwidth_curve(), small_corpus().devices[0].bandwidth_curve());
  Corpus again = described(640e9, 310e9);
  again.devices[0].set_bandwidth_curve({{1e9, 3e10}});
  merger.add(again);
  EXPECT_EQ(all.devices[0].bandwidth_curve(), (BandwidthCurve{{1e9, 3e10}}));
  EXPECT_EQ(merger.device_changes().size(), 1U);
}

TEST_F(CorpusFiles, ImplausibleTimesAndForeignSamplesAreFaults) {
  Measurement row = row_of(1);
  EXPECT_EQ(row_fault(row), "");
  row.time = summarize({2e6, 2e6, 2e6});
  row.samples_s = {2e6F, 2e6F, 2e6F};
  EXPECT_NE(row_fault(row).find("expected 1e-10 to 1e6 s"), std::string::npos) << row_fault(row);
  row = row_of(1);
  row.samples_s = {1e-5F, 1e-5F, 1e-5F};
  EXPECT_NE(row_fault(row).find("raw samples from 1e-05 to 1e-05 s, but min_s 0.001"),
            std::string::npos)
      << row_fault(row);
}

TEST_F(CorpusFiles, ValidateNamesEachFault) {
  const auto problem_of = [&](auto change) {
    Corpus corpus = small_corpus();
    change(corpus);
    write_corpus(corpus, directory / "c.h5");
    const auto problems = validate_corpus(directory / "c.h5");
    return problems.empty() ? std::string("none") : problems[0];
  };
  const auto expect = [](const std::string& problem, const char* part) {
    EXPECT_NE(problem.find(part), std::string::npos) << problem;
  };
  expect(problem_of([](Corpus& c) { c.rows[0].device_id = "gone"; }), "device_id 'gone'");
  expect(problem_of([](Corpus& c) { c.rows[0].environment_id = "gone"; }), "environment_id 'gone'");
  expect(problem_of([](Corpus& c) { c.runs.clear(); }), "run_id 'r1'");
  expect(problem_of([](Corpus& c) { c.rows.push_back(c.rows[0]); }), "row key is there twice");
  expect(problem_of([](Corpus& c) { c.rows[0].time.min_s = 0; }), "not a positive finite time");
  expect(problem_of([](Corpus& c) { c.rows[0].time.max_s = std::nan(""); }),
         "not a positive finite time");
  expect(problem_of([](Corpus& c) { c.rows[0].time.median_s = 1; }), "not in order");
  expect(problem_of([](Corpus& c) { c.rows[0].time.n = 2; }),
         "3 raw samples, but sample_count is 2");
  expect(problem_of([](Corpus& c) { c.rows[0].time = {}; }), "ok without samples");
  expect(problem_of([](Corpus& c) { c.rows[3].reason = ""; }), "without a reason");
  expect(problem_of([](Corpus& c) { c.rows[0].task.optimizer = Optimizer::adam; }),
         "expected none");
  expect(problem_of([](Corpus& c) { c.rows[0].task.pass = Pass::backward; }), "no pass backward");
  expect(problem_of([](Corpus& c) { c.rows[0].device_class = "cart"; }), "is of class 'card'");
  // Every field with a unit: the phases, host_s, sizes, and of a failure the times too. A row each.
  Corpus corpus = small_corpus();
  const Measurement failure = corpus.rows[3];
  std::vector<std::string> expected;
  visit_fields(failure, [&](const char* name, const char* units, const auto& member) {
    if constexpr (std::is_same_v<std::decay_t<decltype(member)>, double>) {
      if (*units == '\0') return;
      for (const double wrong : {-1e-9, HUGE_VAL, -HUGE_VAL}) {
        Measurement row = failure;
        row.replicate = static_cast<std::int64_t>(corpus.rows.size());
        visit_fields(row, [&](const char* other, const char*, auto& field) {
          if constexpr (std::is_same_v<std::decay_t<decltype(field)>, double>) {
            if (std::string_view(other) == name) field = wrong;
          }
        });
        corpus.rows.push_back(row);
        expected.push_back(fmt::format("{} {}: expected a number of at least 0", name, wrong));
      }
    }
  });
  EXPECT_EQ(expected.size(), 3U * 21);
  write_corpus(corpus, directory / "c.h5");
  std::string problems;
  for (const auto& problem : validate_corpus(directory / "c.h5")) problems += problem + "\n";
  EXPECT_EQ(std::count(problems.begin(), problems.end(), '\n'),
            static_cast<std::ptrdiff_t>(expected.size()));
  for (const std::string& part : expected) expect(problems, part.c_str());

  expect(problem_of([](Corpus&) {}), "none");
}

TEST_F(CorpusFiles, ValidateLooksIntoJournalsAndExpectsARunDirectory) {
  auto problems = validate_run_directory(directory);
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_NE(problems[0].find("expected a run directory"), std::string::npos) << problems[0];
  fs::create_directories(directory / "runs" / "r0");
  EXPECT_EQ(validate_run_directory(directory).size(), 1U);
  EXPECT_THROW(validate_run_directory(directory / "absent"), EnvironmentError);

  write_run_journal("r1", {row_of(1, "r1"), row_of(1, "r1")});  // measured again: no fault
  EXPECT_EQ(validate_run_directory(directory), std::vector<std::string>{});
  Measurement wrong = row_of(1, "r2");
  wrong.warmup_s = -1;
  write_run_journal("r2", {wrong});
  problems = validate_run_directory(directory);
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_NE(problems[0].find("r2/journal-0: /dense: row 0: warmup_s -1"), std::string::npos)
      << problems[0];
}

TEST_F(CorpusFiles, KilledWritersLoseNothingThatWasReported) {
  Random random(3);
  for (int round = 0; round < 10; ++round) {
    const fs::path file = directory / ("journal-" + std::to_string(round));
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(ends[0]);
      Journal journal(file);
      for (std::int64_t i = 1;; ++i) {
        journal.append(row_of(i));
        if (::write(ends[1], &i, sizeof i) != sizeof i) ::_exit(1);
      }
    }
    ::close(ends[1]);
    std::int64_t reported = 0, value = 0;
    ASSERT_EQ(::read(ends[0], &reported, sizeof reported),
              ssize_t{sizeof reported});  // it has begun
    std::this_thread::sleep_for(std::chrono::microseconds(random.below(50000)));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    while (::read(ends[0], &value, sizeof value) == sizeof value) reported = value;
    ::close(ends[0]);
    const Corpus corpus = read_journal(file);
    ASSERT_GT(reported, 0);
    ASSERT_GE(static_cast<std::int64_t>(corpus.rows.size()), reported);
    for (std::size_t i = 0; i < corpus.rows.size(); ++i) {
      ASSERT_EQ(text_of(corpus.rows[i]), text_of(row_of(static_cast<std::int64_t>(i) + 1)));
    }
  }
}

}  // namespace
}  // namespace forecost
