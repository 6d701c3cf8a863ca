#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/hash.hpp"
#include "tests/train/alone.hpp"
#include "tests/train/vocabulary.hpp"
#include "train/evaluate.hpp"
#include "train/model/schemas.hpp"
#include "train/trainer.hpp"

namespace forecost {
namespace {

std::vector<const FeatureSchema*> covering(const Task& task) {
  std::vector<const FeatureSchema*> found;
  for (const FeatureSchema* schema : schemas("default")) {
    if (schema->covers(task)) found.push_back(schema);
  }
  return found;
}

std::vector<double> features_of(const Task& task, const Device& device) {
  Features features;
  covering(task).at(0)->describe({task, &device}, features);
  return {features.values().begin(), features.values().end()};
}

TEST(Schemas, EachTaskOfTheVocabularyHasOne) {
  for (const Task& task : every_task()) {
    ASSERT_EQ(covering(task).size(), 1U) << task_text(task);
    EXPECT_EQ(covering(task)[0], covering(parse_task(covering(task)[0]->example))[0])
        << "its example is a task of its own";
  }
}

TEST(Schemas, FeaturesAndTargetsAreFiniteOnEveryDevice) {
  std::vector<Device> devices{Device{}};
  for (const auto& name : shipped_devices()) devices.push_back(find_device(name));
  ASSERT_GE(devices.size(), 9U);
  for (const Task& task : every_task()) {
    const FeatureSchema& schema = *covering(task).at(0);
    const std::size_t width = schema.names().size();
    for (const Device& device : devices) {
      const auto values = features_of(task, device);
      ASSERT_EQ(values.size(), width) << schema.name;
      for (std::size_t i = 0; i < width; ++i) {
        ASSERT_TRUE(std::isfinite(values[i]))
            << device.device_class << ": " << task_text(task) << ": " << schema.names()[i];
      }
      const Query query{task, &device};
      const double target = schema.target(query, 1e-3);
      ASSERT_TRUE(std::isfinite(target)) << task_text(task);
      ASSERT_NEAR(schema.seconds(query, target), 1e-3, 1e-9) << task_text(task);
    }
  }
}

// Models hold the names of their features and are refused where those differ: an operator more must
// not make users train again. A hash that changes here says that they must.
TEST(Schemas, FeaturesOfModelsOfBeforeAreUnchanged) {
  const auto hash = [](const FeatureSchema& schema) {
    std::string joined;
    for (const auto& name : schema.names()) joined += name + "\n";
    return short_id(joined);
  };
  EXPECT_EQ(hash(gemm_schema), "70cf753c23e1");
  EXPECT_EQ(hash(convolution_schema), "b9d929208ce9");
  EXPECT_EQ(hash(memory_bound_schema), "4cc8ff6417f2");
}

// What two tasks differ in must be seen by the network, as far as it can matter to their times.
TEST(Schemas, TellApartWhatDiffers) {
  const Device device = find_device("v100");
  const auto differ = [&](const std::string& a, const std::string& b) {
    EXPECT_NE(features_of(parse_task(a), device), features_of(parse_task(b), device))
        << a << " and " << b;
  };
  const std::string forward = "forward f32 none cold heuristic ",
                    backward = "backward f32 none cold heuristic ";
  const std::string layers[][2] = {
      {"matmul batch=2 m=64 n=32 k=16", "matmul batch=2 m=32 n=64 k=16"},
      {"matmul batch=2 m=64 n=32 k=16", "matmul batch=4 m=64 n=32 k=8"},
      {"layer_norm batch=64 features=32", "layer_norm batch=32 features=64"},
      {"layer_norm batch=64 features=32", "layer_norm batch=64 features=32 affine=0"},
      {"softmax batch=2 rows=8 features=64", "softmax batch=2 rows=64 features=8"},
      {"elementwise batch=2 features=64 operation=multiply",
       "elementwise batch=2 features=64 operation=divide"},
      {"elementwise batch=2 features=64 operation=add",
       "elementwise batch=2 features=64 operation=add operand=scalar"},
      {"activation batch=2 features=64 function=tanh",
       "activation batch=2 features=64 function=relu"},
  };
  for (const auto& [a, b] : layers) {
    differ(forward + a, forward + b);
    differ(backward + a, backward + b);
    differ(forward + a, backward + a);
  }
  const std::string norm = "cold heuristic layer_norm batch=64 features=32";
  differ(forward + "layer_norm batch=64 features=32", "training_step f32 sgd " + norm);
  differ("training_step f32 rmsprop " + norm, "training_step f32 adagrad " + norm);
}

class Vocabulary : public testing::Test {
 protected:
  static const Dataset& data() {
    static const Dataset dataset = make_dataset(vocabulary_corpus(90), "default");
    return dataset;
  }
  static const Model& model() {
    static const Model trained = [] {
      TrainOptions options;
      options.epochs = 40;
      return train_model(data(), options, alone(), [](const TrainProgress&) {}).value();
    }();
    return trained;
  }
};

TEST_F(Vocabulary, EveryOperatorAndPassIsLearned) {
  const Evaluation evaluation = evaluate(model(), data().examples);
  EXPECT_EQ(evaluation.not_covered, 0);
  std::set<std::string> seen;
  for (const EvaluationRow& row : evaluation.rows) {
    seen.insert(row.op + " " + row.pass);
    if (row.split != "held_out" || row.op == "all" || row.pass == "all") continue;
    EXPECT_LT(row.median_ape, 0.15) << row.op << " " << row.pass;
  }
  for (const Task& task : every_task()) {
    const std::string name = std::string(task.layer.op().name) + " ";
    // Of dense and conv2d, which other tests are about, the corpus has no rows.
    if (task.layer.op().has(Pass::backward_data)) continue;
    EXPECT_TRUE(seen.contains(name + std::string(name_of(task.pass)))) << task_text(task);
  }
}

TEST_F(Vocabulary, PredictionsAreFiniteOnEveryDevice) {
  std::vector<Device> devices;
  for (const auto& name : shipped_devices()) devices.push_back(find_device(name));
  std::vector<Query> queries;
  for (const Device& device : devices) {
    for (const Example& example : data().examples) queries.push_back({example.query.task, &device});
  }
  for (const Prediction& p : model().predict(queries)) {
    ASSERT_TRUE(std::isfinite(p.seconds) && p.seconds > 0);
    ASSERT_LT(p.low_s(), p.high_s());
  }
}

TEST_F(Vocabulary, AModelWithoutAnOperatorSaysWhichOnesItKnows) {
  Corpus norms = vocabulary_corpus(60);
  std::erase_if(norms.rows, [](const Measurement& row) {
    return row.task.layer.op().name != "layer_norm" || row.task.pass == Pass::update;
  });
  TrainOptions options;
  options.epochs = 2;
  const Dataset dataset = make_dataset(norms, "default");
  const Model small = train_model(dataset, options, alone(), [](const TrainProgress&) {}).value();
  EXPECT_EQ(small.parts.size(), 1U);
  const std::vector<Query> queries{
      {parse_task("backward f32 none cold heuristic matmul batch=1 m=8 n=8 k=8"),
       &dataset.devices.front()}};
  try {
    (void)small.predict(queries);
    FAIL() << "nothing thrown";
  } catch (const UsageError& error) {
    EXPECT_EQ(std::string(error.what()),
              "the model was not trained on 'matmul backward f32'; it knows: layer_norm backward "
              "f32, layer_norm forward f32, layer_norm training_step f32");
  }
}

}  // namespace
}  // namespace forecost
