#include "train/trainer.hpp"

#include <cmath>
#include <fstream>
#include <map>

#include <unistd.h>

#include <gtest/gtest.h>

#include "core/file.hpp"
#include "core/stop.hpp"
#include "tests/train/alone.hpp"
#include "tests/train/examples.hpp"
#include "train/checkpoint.hpp"
#include "train/evaluate.hpp"
#include "train/leave_one_out.hpp"

namespace forecost {
namespace {

namespace fs = std::filesystem;

Model trained(const Dataset& data, const TrainOptions& options) {
  return train_model(data, options, alone(), [](const TrainProgress&) {}).value();
}

template <class Action>
void expect_exit(ExitCode code, Action action) {
  try {
    action();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
  }
}

class Trainer : public testing::Test {
 protected:
  void SetUp() override {
    directory = fs::temp_directory_path() / ("forecost-train-" + std::to_string(::getpid()));
    fs::create_directories(directory);
  }
  void TearDown() override {
    clear_stop();
    fs::remove_all(directory);
  }
  fs::path directory;
};

const EvaluationRow& row_of(const Evaluation& evaluation, std::string_view pass,
                            std::string_view split) {
  for (const EvaluationRow& row : evaluation.rows) {
    if (row.op == "dense" && row.pass == pass && row.split == split) return row;
  }
  throw std::logic_error("no such row");
}

TEST_F(Trainer, LearnsWhatALineCannot) {
  const Dataset data = make_dataset(synthetic_corpus(300), "default");
  TrainOptions options;
  options.epochs = 60;
  const Model model = trained(data, options);
  const Evaluation evaluation = evaluate(model, data.examples);
  const EvaluationRow& forward = row_of(evaluation, "forward", "held_out");
  EXPECT_GT(forward.n, 10);
  EXPECT_LT(forward.median_ape, 0.08);
  EXPECT_GT(forward.linear_fair_mape, 1.5 * forward.mape);
  EXPECT_GT(forward.roofline_mape, 0.3);
  EXPECT_GT(forward.coverage, 0.7);
}

TEST_F(Trainer, HeldOutLayersDoNotTrain) {
  // Rows of held-out layers get absurd times: a model that never saw them does not mind.
  Corpus corpus = synthetic_corpus(200);
  TrainOptions options;
  options.epochs = 20;
  const Model clean = trained(make_dataset(corpus, "default"), options);
  for (Measurement& row : corpus.rows) {
    if (split_of(row.task.layer, clean.split_salt) == Split::test) row.time.median_s *= 1000;
  }
  const Model model = trained(make_dataset(corpus, "default"), options);
  for (std::size_t p = 0; p < model.parts.size(); ++p) {
    EXPECT_EQ(model.parts[p].members, clean.parts[p].members);
  }
}

TEST_F(Trainer, FileGivesTheSamePredictions) {
  const Dataset data = make_dataset(synthetic_corpus(100), "default");
  TrainOptions options;
  options.epochs = 5;
  const Model model = trained(data, options);
  save_model(model, directory / "m.h5");
  const Model again = load_model(directory / "m.h5");
  std::vector<Query> queries;
  for (const Example& example : data.examples) queries.push_back(example.query);
  const auto a = model.predict(queries), b = again.predict(queries);
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_NEAR(a[i].seconds / b[i].seconds, 1, 1e-4);  // another product computes the second
    EXPECT_EQ(a[i].layer_log_halfwidth, b[i].layer_log_halfwidth);
  }
  EXPECT_EQ(again.devices()[0].device_class, "synthetic-1c");

  std::string bytes = read_text(directory / "m.h5");
  bytes[bytes.size() / 2] ^= 1;
  std::ofstream(directory / "m.h5", std::ios::binary) << bytes;
  EXPECT_THROW(load_model(directory / "m.h5"), DataError);
}

TEST_F(Trainer, RefusesWhatItWasNotTrainedOn) {
  const Dataset data = make_dataset(synthetic_corpus(50), "default");
  TrainOptions options;
  options.epochs = 2;
  const Model model = trained(data, options);
  const Task conv{.layer = Layer::parse("conv2d batch=1 in_channels=1 out_channels=1 in_h=3 in_w=3 "
                                        "kernel_h=3 kernel_w=3")};
  const std::vector<Query> queries{{conv, &data.devices.front()}};
  EXPECT_THROW(model.predict(queries), UsageError);
}

TEST_F(Trainer, ADeviceWithoutAttributesTrainsToFinitePredictions) {
  Corpus corpus = synthetic_corpus(60);
  Device bare;
  bare.device_class = "bare-1c";
  bare.uuid = "bare";
  corpus.devices = {bare};
  for (Measurement& row : corpus.rows) {
    row.device_id = bare.id();
    row.device_class = bare.device_class;
  }
  const Dataset data = make_dataset(corpus, "default");
  TrainOptions options;
  options.epochs = 3;
  const Model model = trained(data, options);
  std::vector<Query> queries;
  for (const Example& example : data.examples) queries.push_back(example.query);
  for (const Prediction& p : model.predict(queries)) {
    EXPECT_TRUE(std::isfinite(p.seconds) && p.seconds > 0);
    EXPECT_LT(p.low_s(), p.high_s());
  }
}

TEST_F(Trainer, FarOutsideTheTrainingRangeIsSaid) {
  const Dataset data = make_dataset(synthetic_corpus(80), "default");
  TrainOptions options;
  options.epochs = 2;
  const Model model = trained(data, options);
  Task task = data.examples[0].query.task;
  task.layer = task.layer.with("in_features", 1 << 22);
  Device stranger = data.devices.front();
  stranger.device_class = "stranger";
  const std::vector<Query> queries{{data.examples[0].query.task, &data.devices.front()},
                                   {task, &data.devices.front()},
                                   {data.examples[0].query.task, &stranger}};
  const auto predictions = model.predict(queries);
  EXPECT_FALSE(predictions[0].outside_training_range);
  EXPECT_EQ(predictions[0].device_log_halfwidth, 0);
  EXPECT_TRUE(predictions[1].outside_training_range);
  EXPECT_TRUE(predictions[2].outside_training_range);
  EXPECT_GT(predictions[2].device_log_halfwidth, 0);
}

TEST_F(Trainer, ResumesToTheSameBits) {
  const Dataset data = make_dataset(synthetic_corpus(80), "default");
  TrainOptions options;
  options.epochs = 12;
  const Model whole = trained(data, options);
  options.checkpoint_directory = directory / "ckpt";
  options.resume = true;
  // Stopped after 3, then after 14 of the 24 epochs that the six networks of both parts have, then
  // to the end.
  for (const std::int64_t at : {3, 14}) {
    const auto stopped = train_model(data, options, alone(), [&](const TrainProgress& p) {
      EXPECT_EQ(p.epochs, 24 * 6);
      if (p.done == at * 6) request_stop();
    });
    EXPECT_FALSE(stopped.has_value());
    clear_stop();
  }
  const Model resumed = trained(data, options);
  ASSERT_EQ(resumed.parts.size(), 2U);
  for (std::size_t p = 0; p < 2; ++p) EXPECT_EQ(resumed.parts[p].members, whole.parts[p].members);

  // Another training's networks, even of names that this one has not.
  EnsembleState stranger{
      .parameters = Floats(1), .first_moment = Floats(1), .second_moment = Floats(1)};
  save_checkpoint(stranger, "another", options.checkpoint_directory / "elsewhere-0.h5");
  expect_exit(ExitCode::data, [&] { trained(data, options); });
  remove_checkpoint(options.checkpoint_directory / "elsewhere-0.h5");
  options.seed = 2;
  expect_exit(ExitCode::data, [&] { trained(data, options); });  // of another training
}

// Networks that were interrupted at different epochs, as groups of ranks are, go on side by side.
TEST_F(Trainer, ResumesNetworksThatAreNotEquallyFar) {
  const Dataset data = make_dataset(synthetic_corpus(80), "default");
  TrainOptions options;
  options.epochs = 12;
  const Model whole = trained(data, options);
  options.checkpoint_directory = directory / "ckpt";
  options.resume = true;
  const auto stop_at = [&](std::int64_t epoch) {
    train_model(data, options, alone(), [&](const TrainProgress& p) {
      if (p.done >= epoch * 6) request_stop();
    });
    clear_stop();
  };
  stop_at(3);
  fs::copy(options.checkpoint_directory, directory / "earlier");
  stop_at(7);
  for (const char* suffix : {"", ".sha256"}) {
    const std::string file = std::string("gemm-2.h5") + suffix;
    fs::copy(directory / "earlier" / file, options.checkpoint_directory / file,
             fs::copy_options::overwrite_existing);
    fs::remove(options.checkpoint_directory / (std::string("gemm-4.h5") + suffix));
  }
  std::int64_t first = 0;
  const Model resumed = train_model(data, options, alone(), [&](const TrainProgress& p) {
                          if (first == 0) first = p.done;
                        }).value();
  EXPECT_EQ(first, 4 * 7 + 3 + 1);  // the one without a file goes first, by one epoch
  for (std::size_t p = 0; p < 2; ++p) EXPECT_EQ(resumed.parts[p].members, whole.parts[p].members);
}

TEST_F(Trainer, RefusesCheckpointsThatItCannotTrust) {
  const Dataset data = make_dataset(synthetic_corpus(80), "default");
  TrainOptions options;
  options.epochs = 2;
  options.checkpoint_directory = directory;
  const Model whole = trained(data, options);
  options.resume = true;
  EXPECT_EQ(trained(data, options).parts[0].members, whole.parts[0].members);
  std::string bytes = read_text(directory / "gemm-1.h5");
  bytes[bytes.size() / 2] ^= 1;
  std::ofstream(directory / "gemm-1.h5", std::ios::binary) << bytes;
  expect_exit(ExitCode::data, [&] { trained(data, options); });
  // Begun anew, what lies there does not matter.
  options.resume = false;
  EXPECT_EQ(trained(data, options).parts[0].members, whole.parts[0].members);
  // What one file for all networks was called.
  options.resume = true;
  std::ofstream(directory / "checkpoint.h5") << "of before";
  expect_exit(ExitCode::data, [&] { trained(data, options); });
}

TEST_F(Trainer, LeavesEachDeviceOut) {
  Corpus corpus = synthetic_corpus(60);
  const Corpus other = synthetic_corpus(60, 2);
  Device slow = corpus.devices.front();
  slow.uuid = slow.device_class = "slow-1c";
  slow.set(Attribute::peak_f32_flops, 2e10);
  corpus.devices.push_back(slow);
  for (Measurement row : other.rows) {
    row.device_id = slow.id();
    row.device_class = slow.device_class;
    row.time.median_s *= 3;
    corpus.rows.push_back(row);
  }
  const Dataset data = make_dataset(corpus, "default");
  TrainOptions options;
  options.epochs = 3;
  const Evaluation all =
      leave_one_device_out(data, options, alone(), [](const TrainProgress&) {}).value();
  std::map<std::string, std::int64_t> rows;
  for (const EvaluationRow& row : all.rows) {
    EXPECT_EQ(row.split, "held_out_device");
    if (row.op == "all" && row.pass == "all") rows[row.device] = row.n;
  }
  EXPECT_EQ(rows, (std::map<std::string, std::int64_t>{{"slow-1c", 240}, {"synthetic-1c", 240}}));
  // A fold is the training that holds its class out.
  options.holdout_classes = {"slow-1c"};
  const Model model = trained(data, options);
  const Evaluation alone_row = evaluate(model, data.examples);
  const auto of = [](const Evaluation& evaluation, std::string_view device) {
    for (const EvaluationRow& row : evaluation.rows) {
      if (row.op == "all" && row.pass == "all" && row.device == device) return row.mape;
    }
    throw std::logic_error("no such row");
  };
  EXPECT_EQ(of(all, "slow-1c"), of(alone_row, "slow-1c"));
  const Dataset one_class = make_dataset(synthetic_corpus(60), "default");
  expect_exit(ExitCode::usage, [&] {
    leave_one_device_out(one_class, options, alone(), [](const TrainProgress&) {});
  });
}

TEST_F(Trainer, OneLineForTooLittleData) {
  TrainOptions options;
  EXPECT_THROW(trained(make_dataset(synthetic_corpus(3), "default"), options), DataError);
  options.holdout_classes = {"nowhere"};
  EXPECT_THROW(trained(make_dataset(synthetic_corpus(50), "default"), options), UsageError);
}

TEST(Dataset, OkRowsOnlyAndSumsForThePaper) {
  Corpus corpus = synthetic_corpus(1);
  corpus.rows[0].time = summarize({1.0});
  corpus.rows[1].time = summarize({2.0});
  corpus.rows[2].time = summarize({4.0});
  corpus.rows[3].time = summarize({8.0});  // update with adam
  Dataset sums = make_dataset(corpus, "justus2018");
  ASSERT_EQ(sums.examples.size(), 2U);
  EXPECT_EQ(sums.examples[0].seconds, 1.0);
  EXPECT_EQ(sums.examples[1].seconds, 15.0);
  EXPECT_EQ(sums.examples[1].query.task.pass, Pass::training_step);
  EXPECT_EQ(sums.examples[1].query.task.optimizer, Optimizer::adam);
  corpus.rows[2].status = Status::throttled;
  EXPECT_EQ(make_dataset(corpus, "justus2018").examples.size(), 1U);
  EXPECT_EQ(make_dataset(corpus, "default").examples.size(), 3U);
  corpus.rows[0].time.median_s = 0;
  corpus.rows[1].replicate = 1;
  EXPECT_EQ(make_dataset(corpus, "default").examples.size(), 1U);
}

TEST(Dataset, ThePaperTakesMeasuredTrainingStepsAsTheyAre) {
  Corpus corpus = synthetic_corpus(1);
  corpus.rows.erase(corpus.rows.begin() + 1, corpus.rows.end());
  corpus.rows[0].task.pass = Pass::training_step;
  corpus.rows[0].task.optimizer = Optimizer::adagrad;
  corpus.rows[0].time = summarize({3.0});
  const Dataset sums = make_dataset(corpus, "justus2018");
  ASSERT_EQ(sums.examples.size(), 1U);
  EXPECT_EQ(sums.examples[0].seconds, 3.0);
  EXPECT_EQ(sums.examples[0].query.task, corpus.rows[0].task);
}

TEST_F(Trainer, ThePaperPresetTrains) {
  // Its loss is of log(1 + t in ms): it learns nothing of microseconds.
  Corpus corpus = synthetic_corpus(200);
  for (Measurement& row : corpus.rows) row.time.median_s *= 1000;
  const Dataset data = make_dataset(corpus, "justus2018");
  TrainOptions options;
  options.preset = "justus2018";
  const Model model = trained(data, options);
  EXPECT_EQ(model.parts.size(), 1U);
  EXPECT_EQ(model.parts[0].shape.widths(),
            (std::vector<std::int64_t>{model.parts[0].shape.widths()[0], 32, 64, 128, 128, 1}));
  EXPECT_LT(row_of(evaluate(model, data.examples), "all", "seen").median_ape, 0.6);
}

}  // namespace
}  // namespace forecost
