#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "predict/compose.hpp"
#include "predict/present.hpp"

namespace forecost {
namespace {

/// Answers by a rule, and remembers what it was asked.
class FakePredictor : public Predictor {
 public:
  explicit FakePredictor(std::function<Prediction(const Task&)> rule) : rule_(std::move(rule)) {}
  std::string_view name() const override { return "fake"; }
  std::vector<Prediction> predict(std::span<const Query> queries) const override {
    std::vector<Prediction> answers;
    for (const Query& query : queries) {
      asked.push_back(query.task);
      answers.push_back(rule_(query.task));
    }
    return answers;
  }
  std::span<const Device> devices() const override { return {}; }
  bool knows(const Task& task) const override {
    return !unknown.contains(combination(task.layer.op().name, task.pass));
  }
  static std::string combination(std::string_view op, Pass pass) {
    return std::string(op) + " " + std::string(name_of(pass));
  }

  std::set<std::string> unknown;  ///< "pool2d forward"
  mutable std::vector<Task> asked;

 private:
  std::function<Prediction(const Task&)> rule_;
};

Network network_of(const std::string& layers, int features = 8) {
  const auto file = std::filesystem::path(testing::TempDir()) / "compose_test.toml";
  std::ofstream(file) << "[network]\nname = 'n'\ninput = [" << features << "]\n" << layers;
  return load_network(file);
}

/// Two different dense layers and then an equal pair.
Network four_layers() {
  return network_of(
      "[[layer]]\nop = 'dense'\nout_features = 16\n"
      "[[layer]]\nop = 'dense'\nout_features = 4\n"
      "[[layer]]\nop = 'dense'\nout_features = 4\nrepeat = 2\n");
}

Prediction one_second(const Task&) { return {1, 0, 0, false}; }

int asked(const FakePredictor& predictor, Pass pass) {
  return static_cast<int>(std::count_if(predictor.asked.begin(), predictor.asked.end(),
                                        [&](const Task& task) { return task.pass == pass; }));
}

TEST(ResolveDevice, NeedsAPeakAndABandwidth) {
  const FakePredictor predictor(&one_second);
  const auto file = (std::filesystem::path(testing::TempDir()) / "device_test.toml").string();
  const std::string head = "name = 'd'\nvendor = 'v'\nkind = 'gpu'\nclass = 'd'\n";
  const auto resolved = [&](const std::string& attributes) {
    std::ofstream(file) << head << attributes;
    return resolve_device(predictor, file).device_class;
  };
  EXPECT_EQ(resolved("peak_f32_flops = 1e12\nbandwidth_bytes_per_s = 1e11\n"), "d");
  EXPECT_EQ(resolved("probed_f32_flops = 1e12\nprobed_bandwidth_bytes_per_s = 1e11\n"), "d");
  EXPECT_THROW(resolved("peak_f32_flops = 1e12\n"), UsageError);
  EXPECT_THROW(resolved("bandwidth_bytes_per_s = 1e11\n"), UsageError);
}

TEST(Compose, InferenceIsTheSumOfForwardPasses) {
  const Network n = four_layers();
  const Device device;
  const FakePredictor predictor(&one_second);
  const auto time = compose(predictor, {&n, &device, 32});
  EXPECT_DOUBLE_EQ(time.total_s, 4);
  EXPECT_DOUBLE_EQ(time.forward_s, 4);
  EXPECT_EQ(time.backward_s, 0);
  EXPECT_EQ(time.layers.size(), 4u);
  EXPECT_EQ(predictor.asked.size(), 3u);  // equal layers once
  for (const Task& task : predictor.asked) EXPECT_EQ(task.layer["batch"], 32);
}

TEST(Compose, TrainingHasNoInputGradientForTheFirstLayerAndOneUpdateEach) {
  const Network n = four_layers();
  const Device device;
  const FakePredictor predictor(&one_second);
  Scenario scenario{&n, &device, 1};
  scenario.mode = Mode::training;
  scenario.optimizer = Optimizer::momentum;
  const auto time = compose(predictor, scenario);
  EXPECT_DOUBLE_EQ(time.forward_s, 4);
  EXPECT_DOUBLE_EQ(time.backward_s, 3 + 4);
  EXPECT_DOUBLE_EQ(time.update_s, 4);
  EXPECT_DOUBLE_EQ(time.total_s, 15);
  EXPECT_DOUBLE_EQ(time.layers[0].backward_s, 1);
  EXPECT_EQ(asked(predictor, Pass::backward_data), 2);
  for (const Task& task : predictor.asked) {
    EXPECT_EQ(task.optimizer, task.pass == Pass::update ? Optimizer::momentum : Optimizer::none);
  }
}

TEST(Compose, LayerErrorsAverageOutEqualOnesAndTheDevicesDoNot) {
  const Network n = four_layers();
  const Device device;
  const FakePredictor layers([](const Task&) { return Prediction{1, 0.3, 0, false}; });
  const auto independent = compose(layers, {&n, &device, 1});
  // Two single layers and a pair that errs together: sqrt(1 + 1 + 2^2) of 4.
  EXPECT_NEAR(std::log(independent.high_s / 4), 0.3 * std::sqrt(6.0) / 4, 1e-12);
  EXPECT_NEAR(independent.low_s * independent.high_s, 16, 1e-9);
  const FakePredictor shared([](const Task&) { return Prediction{1, 0, 0.3, false}; });
  EXPECT_NEAR(std::log(compose(shared, {&n, &device, 1}).high_s / 4), 0.3, 1e-12);
  const FakePredictor both([](const Task&) { return Prediction{1, 0.3, 0.4, false}; });
  EXPECT_NEAR(std::log(compose(both, {&n, &device, 1}).high_s / 4),
              std::hypot(0.3 * std::sqrt(6.0) / 4, 0.4), 1e-12);
}

TEST(Compose, CacheStateFollowsWhatFits) {
  const Network n = network_of("[[layer]]\nop = 'dense'\nout_features = 512\nbias = false\n", 256);
  const FakePredictor predictor([](const Task& task) {
    return Prediction{task.cache == CacheState::hot ? 1.0 : 3.0, 0, 0, false};
  });
  Device device;  // no known cache
  EXPECT_DOUBLE_EQ(compose(predictor, {&n, &device, 1}).total_s, 3);
  device.set(Attribute::llc_bytes, 1e9);  // all of it
  EXPECT_DOUBLE_EQ(compose(predictor, {&n, &device, 1}).total_s, 1);
  // 128 items: 384 KiB of activations and 512 KiB of weights.
  device.set(Attribute::llc_bytes, 4096 * 1024);
  EXPECT_DOUBLE_EQ(compose(predictor, {&n, &device, 128}).total_s, 1);
  // The probed one wins over the nominal one.
  device.set(Attribute::probed_cache_bytes, 1024 * 1024);
  EXPECT_DOUBLE_EQ(compose(predictor, {&n, &device, 128}).total_s, 1);
  // 256 items: 768 KiB of activations fit, with 512 KiB of weights not: 768/1280 is hot.
  EXPECT_DOUBLE_EQ(compose(predictor, {&n, &device, 256}).total_s, 3 - 2 * 768.0 / 1280);
}

TEST(Compose, LaunchLatencyOnlyWhereEventsLeftItOut) {
  const Network n = four_layers();
  Device device;
  device.set(Attribute::launch_latency_s, 1e-5);
  const FakePredictor predictor(&one_second);
  Scenario scenario{&n, &device, 1};
  EXPECT_DOUBLE_EQ(compose(predictor, scenario).total_s, 4);
  scenario.protocol = Protocol::device_events;
  EXPECT_DOUBLE_EQ(compose(predictor, scenario).total_s, 4 + 4e-5);
}

TEST(Compose, ShareOutsideTheTrainingRangeIsOfTheTime) {
  const Network n = four_layers();
  const Device device;
  const FakePredictor predictor([](const Task& task) {
    const bool first = task.layer["in_features"] == 8;
    return Prediction{first ? 3.0 : 1.0, 0, 0, first};
  });
  const auto time = compose(predictor, {&n, &device, 1});
  EXPECT_DOUBLE_EQ(time.outside_training_range, 0.5);
  EXPECT_TRUE(time.layers[0].outside_training_range);
  EXPECT_FALSE(time.layers[1].outside_training_range);
}

TEST(Compose, WholeNetworksCountEveryLayer) {
  const Device device;
  const FakePredictor predictor([](const Task& task) {
    return Prediction{task.work().flops * 1e-12, 0, 0, false};
  });
  for (const auto& name : shipped_networks()) {
    const Network network = find_network(name);
    const auto time = compose(predictor, {&network, &device, 2});
    EXPECT_NEAR(time.total_s, 2 * network.forward_flops() * 1e-12, 1e-9 * time.total_s) << name;
    EXPECT_TRUE(time.uncosted.empty()) << name;
  }
}

TEST(Compose, LayersThatThePredictorDoesNotKnowAreLeftOutAndCounted) {
  const Network vgg = find_network("vgg16");
  const Device device;
  FakePredictor predictor(&one_second);
  predictor.unknown = {"pool2d backward", "dropout forward"};
  const auto inference = compose(predictor, {&vgg, &device, 2});
  EXPECT_DOUBLE_EQ(inference.total_s, 13 + 5 + 3);
  EXPECT_TRUE(inference.uncosted.empty());
  Scenario training{&vgg, &device, 2};
  training.mode = Mode::training;
  const auto time = compose(predictor, training);
  EXPECT_EQ(time.uncosted, (std::map<std::string, int>{{"pool2d", 5}, {"dropout", 2}}));
  EXPECT_DOUBLE_EQ(time.total_s, 4 * 16 - 1);
  EXPECT_THAT(layers_table(time, 3),
              testing::HasSubstr("since the model was not trained on them: 2 dropout, 5 pool2d"));
  EXPECT_THAT(layers_table(time, 3), testing::HasSubstr("13 others"));
  EXPECT_THAT(layers_table(time, 3), testing::HasSubstr("total without 7 of 23 layers"));
  // The row of a part of a network does not look like that of a whole one.
  const std::vector<PresentedTime> part{{time, run_time(time, 10, 2)}}, whole{{inference, {}}};
  EXPECT_THAT(totals_table(part),
              testing::ContainsRegex("> 63.0 s +7 of 23 layers .*< 0.0317 .*> 5 min 15 s"));
  EXPECT_THAT(totals_table(whole), testing::HasSubstr("inference  21.0 s"));
  EXPECT_THAT(totals_table(whole), testing::Not(testing::HasSubstr("not counted")));
  // Where nothing is known the predictor is asked, and says what it knows.
  predictor.unknown = {"conv2d forward", "dense forward", "pool2d forward"};
  compose(predictor, {&vgg, &device, 2});
  EXPECT_EQ(predictor.asked.back().layer.op().name, "dense");
}

TEST(Compose, ModeDecidesWhatRuns) {
  const Network n = network_of(
      "[[layer]]\nop = 'dense'\nout_features = 16\n"
      "[[layer]]\nop = 'batch_norm'\n[[layer]]\nop = 'dropout'\n");
  const Device device;
  const FakePredictor predictor(&one_second);
  EXPECT_EQ(compose(predictor, {&n, &device, 4}).layers.size(), 2U);
  EXPECT_EQ(predictor.asked[1].layer.text(), "batch_norm batch=4 channels=16 training=0");
  Scenario training{&n, &device, 4};
  training.mode = Mode::training;
  predictor.asked.clear();
  const auto time = compose(predictor, training);
  EXPECT_EQ(time.layers.size(), 3U);
  EXPECT_DOUBLE_EQ(time.backward_s, 1 + 1 + 1);
  EXPECT_DOUBLE_EQ(time.update_s, 2);
  for (const Task& task : predictor.asked) {
    if (task.layer.has("training")) {
      EXPECT_EQ(task.layer["training"], 1);
    }
  }
}

TEST(Compose, RunsAreWholeBatches) {
  NetworkTime step;
  step.batch = 32;
  step.total_s = 2;
  step.low_s = 1;
  step.high_s = 4;
  const auto run = run_time(step, 100, 3);
  EXPECT_EQ(run.steps_per_epoch, 4);
  EXPECT_DOUBLE_EQ(run.epoch_s, 8);
  EXPECT_DOUBLE_EQ(run.run_s, 24);
  EXPECT_DOUBLE_EQ(run.run_high_s, 48);
}

TEST(Present, JsonHasTheStableKeysAndNullForAbsentPasses) {
  const Network n = four_layers();
  Device device;
  device.device_class = "cpu-2c";
  const FakePredictor predictor(&one_second);
  Scenario training{&n, &device, 1};
  training.mode = Mode::training;
  const std::vector<PresentedTime> times{
      {compose(predictor, {&n, &device, 1}), std::nullopt},
      {compose(predictor, training), run_time(compose(predictor, training), 10, 2)}};
  const auto json = nlohmann::json::parse(predictions_json(times)).at("predictions");
  ASSERT_EQ(json.size(), 2u);
  for (const char* key : {"network", "device", "batch", "mode", "total_s", "low_s", "high_s",
                          "passes", "outside_training_range", "layers"}) {
    EXPECT_TRUE(json[0].contains(key)) << key;
  }
  EXPECT_TRUE(json[0]["passes"]["backward_s"].is_null());
  EXPECT_TRUE(json[0]["layers"][0]["update_s"].is_null());
  EXPECT_DOUBLE_EQ(json[1]["passes"]["backward_s"].get<double>(), 7);
  EXPECT_DOUBLE_EQ(json[1]["run"]["run_s"].get<double>(), 15 * 10 * 2);
  EXPECT_EQ(json[1]["device"], "cpu-2c");
}

}  // namespace
}  // namespace forecost
