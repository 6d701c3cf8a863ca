#include "train/trainer.hpp"

#include <cmath>
#include <fstream>

#include <unistd.h>

#include <gtest/gtest.h>

#include "core/file.hpp"
#include "core/stop.hpp"
#include "tests/train/examples.hpp"
#include "train/evaluate.hpp"

namespace forecost {
namespace {

namespace fs = std::filesystem;

Model trained(const Dataset& data, const TrainOptions& options) {
  const auto alone = make_local_collective();
  return train_model(data, options, *alone, [](const TrainProgress&) {}).value();
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
  const auto alone = make_local_collective();
  // Stopped after 3, then after 14 of the 24 epochs of both parts, then to the end.
  for (const std::int64_t at : {3, 14}) {
    const auto stopped = train_model(data, options, *alone, [&](const TrainProgress& p) {
      if (p.done == at) request_stop();
    });
    EXPECT_FALSE(stopped.has_value());
    clear_stop();
  }
  const Model resumed = trained(data, options);
  ASSERT_EQ(resumed.parts.size(), 2U);
  for (std::size_t p = 0; p < 2; ++p) EXPECT_EQ(resumed.parts[p].members, whole.parts[p].members);

  options.seed = 2;
  EXPECT_THROW(trained(data, options), DataError);  // of another training
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
