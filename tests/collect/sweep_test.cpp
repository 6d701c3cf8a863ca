#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collect/plan.hpp"
#include "collect/sampling.hpp"
#include "core/file.hpp"
#include "data/operators/conv2d.hpp"

namespace forecost {
namespace {

using testing::HasSubstr;

Plan plan_of(const std::string& text) {
  const auto file = std::filesystem::path(testing::TempDir()) / "sweep_test.toml";
  std::ofstream(file) << text;
  return load_plan(file.string());
}

std::string error_of(const std::string& text) {
  try {
    plan_of(text);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

std::vector<std::string> texts(const Plan& plan) {
  std::vector<std::string> all;
  for (const Task& task : plan.tasks) all.push_back(task_text(task));
  return all;
}

const std::string head = "[sweep]\nname = 's'\nseed = 7\n";
const std::string dense =
    "[[dense]]\nsamples = 40\nbatch = {min = 1, max = 64, scale = 'log'}\n"
    "in_features = {min = 1, max = 512}\nout_features = [16, 32]\n";

TEST(Sweep, SameFileGivesTheSameTasksInTheSameOrder) {
  const auto first = texts(plan_of(head + dense)), second = texts(plan_of(head + dense));
  EXPECT_EQ(first, second);
  EXPECT_EQ(first.size(), 40u);
  const auto other = texts(plan_of("[sweep]\nname = 's'\nseed = 8\n" + dense));
  EXPECT_NE(first, other);
}

TEST(Sweep, FullHasEveryOperatorInEveryPass) {
  std::set<std::pair<const Operator*, Pass>> planned;
  for (const Task& task : load_plan("full").tasks) planned.emplace(&task.layer.op(), task.pass);
  for (const Operator* op : operators()) {
    for (const Pass pass : op->passes) {
      if (pass == Pass::training_step) continue;  // of imported tables
      EXPECT_TRUE(planned.contains({op, pass})) << op->name << " " << name_of(pass);
    }
  }
}

TEST(Sweep, PoliciesGoToTasksThatHaveAlgorithms) {
  const Plan plan =
      plan_of(head + dense +
              "passes = ['forward', 'update']\npolicies = ['heuristic', 'find', 'fixed']\n"
              "[[softmax]]\nsamples = 5\nbatch = {min = 1, max = 99}\nfeatures = 10\n"
              "policies = ['find']\n");
  std::map<std::pair<std::string_view, AlgorithmPolicy>, int> counts;
  for (const Task& task : plan.tasks) {
    const bool product = task.layer.op().name == "dense" && task.pass == Pass::forward;
    ++counts[{product ? "product" : "other", task.policy}];
  }
  EXPECT_EQ((counts[{"product", AlgorithmPolicy::heuristic}]), 40);
  EXPECT_EQ((counts[{"product", AlgorithmPolicy::find}]), 40);
  EXPECT_EQ((counts[{"product", AlgorithmPolicy::fixed}]), 40);
  EXPECT_EQ((counts[{"other", AlgorithmPolicy::find}]), 0);
  EXPECT_GT((counts[{"other", AlgorithmPolicy::heuristic}]), 5);
  EXPECT_THAT(error_of(head + dense + "policies = ['best']\n"),
              HasSubstr("heuristic, find, fixed"));
  EXPECT_THAT(error_of(head + dense + "policies = ['unknown']\n"), HasSubstr("expected heuristic"));
}

TEST(Sweep, TasksAreDistinctAndShuffled) {
  for (const auto& name : {"quickstart", "justus2018", "cnn", "transformer", "full"}) {
    const auto all = texts(load_plan(name));
    EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), all.size()) << name;
    EXPECT_FALSE(std::is_sorted(all.begin(), all.end()));
  }
  // A time limit must leave a fair sample: any tenth of the plan has what it draws layers of.
  const Plan plan = load_plan("quickstart");
  for (std::size_t from = 0; from < 10; ++from) {
    std::set<std::string_view> ops;
    for (std::size_t i = from * plan.tasks.size() / 10; i < (from + 1) * plan.tasks.size() / 10;
         ++i) {
      ops.insert(plan.tasks[i].layer.op().name);
    }
    EXPECT_TRUE(ops.contains("conv2d") && ops.contains("dense"));
  }
}

TEST(Sweep, QuickstartFitsItsMinutesAndItsCaps) {
  const Plan plan = load_plan("quickstart");
  EXPECT_GT(plan.tasks.size(), 1000u);
  EXPECT_LT(plan.tasks.size(), 3000u);
  double seconds = 0;
  std::map<Pass, int> passes;
  Device device;
  device.set(Attribute::peak_f32_flops, 1.2e11);
  device.set(Attribute::bandwidth_bytes_per_s, 1e10);
  for (const Task& task : plan.tasks) {
    EXPECT_LE(task.work().flops, 4e9);
    EXPECT_LE(task.work().bytes(), 1.5e9);
    seconds += expected_measuring_s(task, device, plan.rules);
    ++passes[task.pass];
  }
  EXPECT_GT(seconds, 100);
  EXPECT_LT(seconds, 300);
  for (const Pass pass :
       {Pass::forward, Pass::backward_data, Pass::backward_weights, Pass::update}) {
    EXPECT_GT(passes[pass], 100) << name_of(pass);
  }
}

TEST(Sweep, TheExpectedTimeOfADeviceThatIsNotDescribedIsThatOfItsCores) {
  // A core with the limits that a probe found took 124 s for the rows of quickstart, 139 s in all.
  const Plan plan = load_plan("quickstart");
  const auto expected_s = [&](const Device& device) {
    double seconds = 0;
    for (const Task& task : plan.tasks) seconds += expected_measuring_s(task, device, plan.rules);
    return seconds;
  };
  Device two;
  two.set(Attribute::cores, 2);
  EXPECT_GT(expected_s(Device{}), 100);
  EXPECT_LT(expected_s(Device{}), 220);
  EXPECT_LT(expected_s(two), 0.85 * expected_s(Device{}));
}

TEST(Sweep, AnchorsAreAlwaysPartOfThePlan) {
  const auto all = texts(load_plan("quickstart"));
  const std::set<std::string> planned(all.begin(), all.end());
  for (const auto& [name, batch] : {std::pair{"vgg16", 1}, {"resnet50", 1}, {"vgg-small", 32}}) {
    const Network network = find_network(name);
    for (const Mode mode : {Mode::inference, Mode::training}) {
      for (const LayerRun& run : network.runs(batch, mode)) {
        for (const Pass pass : run.passes) {
          const auto of_update = network.name == "vgg16" ? Optimizer::sgd : Optimizer::adam;
          const auto optimizer = pass == Pass::update ? of_update : Optimizer::none;
          EXPECT_TRUE(planned.contains(task_text({run.layer, pass, DType::f32, optimizer})))
              << network.nodes[run.node].name << " " << name_of(pass);
        }
      }
    }
  }
}

TEST(Sweep, Justus2018HasThePublishedRanges) {
  const Plan plan = load_plan("justus2018");
  std::map<std::string_view, int> optimizers;
  std::int64_t layers = 0, updates = 0, side_max = 0;
  for (const Task& task : plan.tasks) {
    layers += task.pass == Pass::forward ? 1 : 0;
    updates += task.pass == Pass::update ? 1 : 0;
    if (task.pass == Pass::update) ++optimizers[name_of(task.optimizer)];
    ASSERT_LE(task.layer["batch"], 64);
    if (&task.layer.op() != &conv2d_operator) {
      ASSERT_LE(std::max(task.layer["in_features"], task.layer["out_features"]), 4095);
      continue;
    }
    const auto s = conv2d_shape(task.layer);
    side_max = std::max(side_max, s.in_h);
    ASSERT_EQ(s.in_h, s.in_w);
    ASSERT_LE(s.in_h, 512);
    ASSERT_LE(std::max(s.in_channels, s.out_channels) * s.in_h, 10000);
    ASSERT_LE(s.kernel_h, 7);
    ASSERT_LE(s.stride_h, 4);
  }
  EXPECT_EQ(layers, 10000);
  EXPECT_NEAR(static_cast<double>(updates) / static_cast<double>(layers), 0.5, 0.02);
  EXPECT_GT(side_max, 500);
  ASSERT_EQ(optimizers.size(), 6u);
  for (const auto& [name, count] : optimizers)
    EXPECT_NEAR(count, static_cast<double>(updates) / 6, 60) << name;
}

TEST(Sweep, CapsAreCountedAndDrawnAgain) {
  const Plan plan = plan_of(head + "max_flops = 1e6\n" + dense);
  EXPECT_EQ(plan.tasks.size(), 40u);
  std::int64_t skipped = 0;
  for (const auto& skip : plan.skipped) {
    EXPECT_THAT(skip.reason, HasSubstr("max_flops"));
    skipped += skip.count;
  }
  EXPECT_GT(skipped, 0);
}

TEST(Sweep, ASpaceThatRunsDryEndsAndSaysSo) {
  const Plan plan = plan_of(head +
                            "[[dense]]\nsamples = 10\nbatch = [1, 2]\nin_features = 3\n"
                            "out_features = 4\n");
  EXPECT_EQ(plan.tasks.size(), 2u);
  ASSERT_EQ(plan.skipped.size(), 1u);
  EXPECT_EQ(plan.skipped[0].count, 8);
  EXPECT_THAT(plan.skipped[0].reason, HasSubstr("no more feasible layers"));
}

TEST(Sweep, LogRangesAreEvenInTheLogarithm) {
  const Plan plan =
      plan_of(head +
              "[[dense]]\nsamples = 600\nbatch = {min = 1, max = 1000, scale = 'log'}\n"
              "in_features = {min = 1, max = 1000}\nout_features = 8\n");
  int small_batch = 0, small_features = 0;
  for (const Task& task : plan.tasks) {
    small_batch += task.layer["batch"] <= 31 ? 1 : 0;            // half of the decades
    small_features += task.layer["in_features"] <= 500 ? 1 : 0;  // half of the range
  }
  EXPECT_NEAR(small_batch, 300, 45);  // a little more than half: 1 has a margin of half an integer
  EXPECT_NEAR(small_features, 300, 15);
}

TEST(Sweep, DrawsCoverEvenly) {
  QuasiRandom sequence(2, 3);
  std::array<int, 64> cells{};
  for (int i = 0; i < 640; ++i) {
    const auto p = sequence.next();
    ++cells[static_cast<std::size_t>(p[0] * 8) * 8 + static_cast<std::size_t>(p[1] * 8)];
  }
  // Independent draws leave cells with 3 and with 18 of 10 expected.
  EXPECT_GE(*std::min_element(cells.begin(), cells.end()), 7);
  EXPECT_LE(*std::max_element(cells.begin(), cells.end()), 13);
}

TEST(Sweep, ALayerWithoutParametersIsNotUpdated) {
  const Plan plan = plan_of(head +
                            "[[layer_norm]]\nsamples = 40\nbatch = {min = 1, max = 64}\n"
                            "features = {min = 8, max = 1024}\naffine = [true, false]\n"
                            "passes = ['forward', 'backward', 'update']\n");
  std::map<std::pair<bool, Pass>, int> tasks;
  for (const Task& task : plan.tasks) ++tasks[{task.layer["affine"] == 1, task.pass}];
  EXPECT_EQ((tasks[{true, Pass::forward}] + tasks[{false, Pass::forward}]), 40);
  EXPECT_GT((tasks[{false, Pass::forward}]), 10);
  EXPECT_EQ((tasks[{false, Pass::backward}]), (tasks[{false, Pass::forward}]));
  EXPECT_EQ((tasks[{true, Pass::update}]), (tasks[{true, Pass::forward}]));
  EXPECT_EQ((tasks[{false, Pass::update}]), 0);
}

TEST(Sweep, AnAnchorGivesEachLayerThePassesItHas) {
  const auto network = std::filesystem::path(testing::TempDir()) / "sweep_test_network.toml";
  std::ofstream(network) << "[network]\nname = 'mixed'\ninput = [64]\n"
                            "[[layer]]\nop = 'dense'\nout_features = 32\n"
                            "[[layer]]\nop = 'layer_norm'\n"
                            "[[layer]]\nop = 'softmax'\n";
  const std::string anchor = head + "[[anchor]]\nnetwork = '" + network.string() +
                             "'\nbatch = 4\npasses = ['forward', 'backward_weights', ";
  std::multiset<std::string> found;
  for (const Task& task : plan_of(anchor + "'backward', 'update']\n").tasks) {
    found.insert(std::string(task.layer.op().name) + " " + std::string(name_of(task.pass)));
  }
  EXPECT_EQ(found, (std::multiset<std::string>{"dense forward", "dense backward_weights",
                                               "dense update", "layer_norm forward",
                                               "layer_norm backward", "layer_norm update",
                                               "softmax forward", "softmax backward"}));
  EXPECT_THAT(
      error_of(head + "[[anchor]]\nnetwork = 'vgg-small'\nbatch = 1\n"
                      "passes = ['forward', 'backward']\n"),
      AllOf(HasSubstr(":7: 'passes'"), HasSubstr("no layer of vgg-small has the pass backward")));
}

TEST(Sweep, ErrorsNameFileLineAndWhatWasExpected) {
  EXPECT_THAT(error_of("[sweep]\nname = 1\n" + dense),
              HasSubstr("sweep_test.toml:2: 'name': expected"));
  EXPECT_THAT(error_of(head + "[[conv3d]]\nsamples = 1\n"),
              AllOf(HasSubstr("unknown key 'conv3d'"), HasSubstr("conv2d")));
  EXPECT_THAT(error_of(head + "[[anchor]]\nnetwork = 'vgg17'\nbatch = 1\n"),
              AllOf(HasSubstr(":5:"), HasSubstr("vgg16")));
  // No message tells the operator twice.
  EXPECT_THAT(error_of(head + "[[dense]]\nsamples = 1\nbatch = 1\nin_features = 1\n"),
              HasSubstr("'dense': expected a key 'out_features'"));
  EXPECT_THAT(error_of(head + "[[dense]]\nsamples = 1\nbatch = {min = 9, max = 2}\n"
                              "in_features = 1\nout_features = 1\n"),
              AllOf(HasSubstr(":6: 'batch'"), HasSubstr("min to be at most max")));
  EXPECT_THAT(error_of(head + "[[dense]]\nsamples = 1\nbatch = {min = 1, max = '9/width'}\n"
                              "in_features = 1\nout_features = 1\n"),
              HasSubstr("found 'width'"));
  EXPECT_THAT(error_of(head + "[[dense]]\nsamples = 1\nbatch = {min = 1, max = '9*in_features'}\n"
                              "in_features = {min = 1, max = '9*batch'}\nout_features = 1\n"),
              HasSubstr("depends on"));
  EXPECT_THAT(error_of(head + dense + "passes = 'backwards'\n"),
              HasSubstr("unknown pass 'backwards'"));
  EXPECT_THAT(error_of(head + dense + "passes = 'backward'\n"), HasSubstr("dense: unknown pass"));
  EXPECT_THAT(error_of(head + "[[dense]]\nsamples = 1\nbatch = {min = 1, max = '9/0'}\n"
                              "in_features = 1\nout_features = 1\n"),
              HasSubstr("expected positive numbers, found '0'"));
  EXPECT_THAT(error_of(head + "[[dense]]\nsamples = 1\nbatch = {min = 1, max = inf}\n"
                              "in_features = 1\nout_features = 1\n"),
              HasSubstr("expected a finite number"));
  EXPECT_THAT(error_of("[sweep]\nname = ''\n" + dense), HasSubstr("printable"));
  EXPECT_THAT(error_of(head), HasSubstr("at least one block"));
  EXPECT_THAT(error_of(head + "max_flops = 1\n" + dense), HasSubstr("leave no task"));
  EXPECT_THAT(error_of(head + "[[pool2d]]\nsamples = 1\nbatch = 1\nchannels = 4\nside = 8\n"
                              "kernel = 9\nmode = 'max'\n"),
              HasSubstr("leave no task; pool2d: parameters that contradict each other, such as: "
                        "a kernel of 9x9 does not fit into a padded input of 8x8"));
}

TEST(Sweep, APoolingNeedsItsKernelAndStepsByIt) {
  const std::string pool =
      head + "[[pool2d]]\nsamples = 1\nbatch = 1\nchannels = 4\nside = 8\nmode = ";
  for (const std::string rest : {"'max'\n", "['global_average', 'average']\n",
                                 "'average'\nkernel_h = 2\n", "'max'\nstride = 2\n"}) {
    EXPECT_THAT(error_of(pool + rest),
                testing::AllOf(HasSubstr("sweep_test.toml:4: 'pool2d': expected a key 'kernel', "
                                         "such as kernel = 2, or mode = \"global_average\"")))
        << rest;
  }
  const auto layer = [&](const std::string& rest) {
    return plan_of(pool + rest).tasks.at(0).layer.text();
  };
  const std::string image = "pool2d batch=1 channels=4 in_h=8 in_w=8 ";
  EXPECT_EQ(layer("'global_average'\n"), image + "mode=global_average");
  EXPECT_EQ(layer("'max'\nkernel = 3\n"),
            image + "kernel_h=3 kernel_w=3 stride_h=3 stride_w=3 mode=max");
  EXPECT_EQ(layer("'max'\nkernel = {min = 3, max = 3}\nstride = 1\n"),
            image + "kernel_h=3 kernel_w=3 mode=max");
  // "same" pads for that stride.
  EXPECT_EQ(
      layer("'max'\nkernel = 3\npadding = 'same'\n"),
      image + "kernel_h=3 kernel_w=3 stride_h=3 stride_w=3 pad_bottom=1 pad_right=1 mode=max");
}

TEST(Sweep, AReductionOverRowsNeedsThem) {
  const std::string reduce =
      head + "[[reduce]]\nsamples = 1\nbatch = 1\nfeatures = 4\noperation = 'sum'\naxis = ";
  for (const std::string rest : {"'rows'\n", "['features', 'rows']\n"}) {
    EXPECT_THAT(error_of(reduce + rest),
                HasSubstr("sweep_test.toml:4: 'reduce': expected a key 'rows'"));
    EXPECT_EQ(error_of(reduce + rest + "rows = [2, 3]\n"), "no error");
  }
  EXPECT_EQ(error_of(reduce + "'features'\n"), "no error");
}

TEST(Sweep, ExpectedTimeGrowsWithWorkAndStaysFinite) {
  const MeasureRules rules;
  const Task small{Layer("dense", {{"batch", 1}, {"in_features", 8}, {"out_features", 8}})};
  const Task large{
      Layer("dense", {{"batch", 4096}, {"in_features", 8192}, {"out_features", 8192}})};
  const double a = expected_measuring_s(small, Device{}, rules);
  const double b = expected_measuring_s(large, Device{}, rules);
  EXPECT_GT(a, 0);
  EXPECT_GT(b, a);
  EXPECT_LE(b, rules.timeout_s);
}

}  // namespace
}  // namespace forecost
