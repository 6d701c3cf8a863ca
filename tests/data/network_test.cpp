#include <algorithm>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/networks/network.hpp"
#include "data/operators/conv2d.hpp"
#include "data/operators/dense.hpp"
#include "data/toml.hpp"

namespace forecost {
namespace {

using testing::HasSubstr;

/// Multiply-adds of convolutions and dense layers alone, as published counts have them.
double macs(const Network& network) {
  double sum = 0;
  for (const auto& node : network.nodes) {
    if (node.op == "conv2d") {
      const auto s = conv2d_shape(*node.layer);
      sum += static_cast<double>(s.out_h() * s.out_w() * s.weight_elements());
    } else if (node.op == "dense") {
      const auto s = dense_shape(*node.layer);
      sum += static_cast<double>(s.batch * s.in_features * s.out_features);
    }
  }
  return sum;
}

int count(const Network& network, std::string_view op) {
  return static_cast<int>(std::count_if(network.nodes.begin(), network.nodes.end(),
                                        [&](const auto& node) { return node.op == op; }));
}

std::vector<std::string> layers_of(const Network& network) {
  std::vector<std::string> layers;
  for (const auto& node : network.nodes) layers.push_back(node.layer ? node.layer->text() : "-");
  return layers;
}

Network network_of(const std::string& text) {
  const auto file = std::filesystem::path(testing::TempDir()) / "network_test.toml";
  std::ofstream(file) << text;
  return load_network(file);
}

std::string error_of(const std::string& text) {
  try {
    network_of(text);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

const std::string head = "[network]\nname = 'n'\ninput = [3, 8, 8]\n";

TEST(Networks, Vgg16HasThePublishedCounts) {
  const Network n = find_network("vgg16");
  EXPECT_EQ(n.parameters(), 138'357'544);             // torchvision model documentation
  EXPECT_NEAR(macs(n) / 1e9, 15.47, 0.005);           // the same
  EXPECT_NEAR(n.forward_flops() / 2e9, 15.47, 0.03);  // with bias and activation
  EXPECT_EQ(count(n, "pool2d"), 5);
  EXPECT_EQ(count(n, "dropout"), 2);
}

TEST(Networks, ResNet50HasThePublishedCounts) {
  const Network n = find_network("resnet50");
  EXPECT_EQ(n.parameters(), 25'557'032);    // torchvision model documentation
  EXPECT_NEAR(macs(n) / 1e9, 4.09, 0.005);  // the same
  EXPECT_EQ(count(n, "elementwise"), 16);
  EXPECT_EQ(count(n, "batch_norm"), 53);
  std::int64_t normalised = 0;
  for (const auto& node : n.nodes) {
    if (node.op == "batch_norm") normalised += node.parameter_count();
  }
  EXPECT_EQ(normalised, 53'120);
}

TEST(Networks, MobileNetV2HasThePublishedCounts) {
  const Network n = find_network("mobilenet-v2");
  EXPECT_EQ(n.parameters(), 3'504'872);     // torchvision model documentation
  EXPECT_NEAR(macs(n) / 1e9, 0.30, 0.005);  // the same
  EXPECT_EQ(count(n, "elementwise"), 10);
}

TEST(Networks, BertHasThePublishedCounts) {
  const Network n = find_network("bert-base");
  EXPECT_EQ(n.parameters(), 109'482'240);  // bert-base-uncased as published
  // 12 layers of 12 features^2 a position, and the pooler; 12 attentions of 2 positions^2 features.
  EXPECT_EQ(macs(n), 12.0 * 128 * 12 * 768 * 768 + 768 * 768);
  EXPECT_EQ(count(n, "attention"), 12);
  double attention = 0;
  for (const auto& node : n.nodes) {
    if (node.op == "attention") attention += node.layer->work(Pass::forward, DType::f32).flops;
  }
  EXPECT_NEAR(attention, 12 * 4.0 * 128 * 128 * 768, 0.03 * attention);
  EXPECT_EQ(n.nodes.back().out, (ItemShape{768}));
}

TEST(Networks, Gpt2HasThePublishedCounts) {
  const Network n = find_network("gpt2-small");
  EXPECT_EQ(n.parameters(), 124'439'808);  // gpt2 as published
  EXPECT_EQ(macs(n), 1024 * (12.0 * 12 * 768 * 768 + 768 * 50257));
  EXPECT_TRUE(n.nodes.back().tied);
  EXPECT_EQ(n.nodes.back().out, (ItemShape{1024, 50257}));
}

TEST(Networks, LstmHasThePublishedCounts) {
  const Network n = find_network("lstm-medium");
  EXPECT_NEAR(static_cast<double>(n.parameters()) / 1e6, 20, 0.5);  // arXiv 1609.07843
  // Words, two layers of 4 gates with two biases each, and the output layer.
  EXPECT_EQ(n.parameters(), 10000 * 650 + 2 * (4 * 650 * 1300 + 2 * 4 * 650) + 650 * 10000 + 10000);
}

TEST(Networks, AlexNetHasThePublishedCounts) {
  const Network n = find_network("alexnet");
  EXPECT_EQ(n.parameters(), 61'100'840);    // torchvision model documentation
  EXPECT_NEAR(macs(n) / 1e9, 0.71, 0.006);  // the same
}

TEST(Networks, EveryShippedOneLoadsUnderItsName) {
  ASSERT_GE(shipped_networks().size(), 8u);
  for (const auto& name : shipped_networks()) {
    const Network n = find_network(name);
    EXPECT_EQ(n.name, name);
    EXPECT_FALSE(n.title.empty());
    EXPECT_FALSE(n.source.empty());
    // Everything that takes time is a layer.
    for (const auto& node : n.nodes)
      EXPECT_EQ(node.layer.has_value(), node.op != "flatten" && node.op != "first");
  }
}

TEST(Networks, GroupsRepeatAndBranch) {
  const Network n = network_of(head + R"(
[[layer]]
name = "stem"
op = "conv2d"
out_channels = 4
kernel = 3
padding = "same"
[[layer]]
name = "block"
repeat = 2
layers = [
  {name = "a", op = "conv2d", out_channels = 4, kernel = 3, padding = 1},
  {op = "add", with = "group_input"},
]
)");
  ASSERT_EQ(n.nodes.size(), 5u);
  EXPECT_EQ(n.nodes[3].name, "block_2.a");
  EXPECT_EQ(n.nodes[2].inputs, (std::vector<std::size_t>{1, 0}));
  EXPECT_EQ(n.nodes[4].inputs, (std::vector<std::size_t>{3, 2}));  // its own group's input
  EXPECT_TRUE(n.nodes[0].inputs.empty());
  EXPECT_EQ(n.nodes[4].out, (ItemShape{4, 8, 8}));
}

TEST(Networks, ShapesOfAnyOperatorFollowFromItsInputs) {
  const Network n = network_of(head + R"(
[[layer]]
name = "norm"
op = "layer_norm"
rows = 8
[[layer]]
name = "half"
op = "elementwise"
operation = "divide"
operand = "scalar"
[[layer]]
op = "elementwise"
operation = "add"
with = "norm"
[[layer]]
op = "softmax"
[[layer]]
op = "matmul"
m = 12
k = 16
n = 12
with = "half"
)");
  EXPECT_EQ(layers_of(n), (std::vector<std::string>{
                              "layer_norm batch=1 rows=8 features=24",
                              "elementwise batch=1 features=192 operation=divide operand=scalar",
                              "elementwise batch=1 features=192 operation=add",
                              "softmax batch=1 features=192", "matmul batch=1 m=12 n=12 k=16"}));
  EXPECT_EQ(n.nodes[2].inputs, (std::vector<std::size_t>{1, 0}));
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(n.nodes[i].out, (ItemShape{3, 8, 8}));
  EXPECT_EQ(n.nodes[4].out, (ItemShape{12, 12}));
  EXPECT_EQ(n.parameters(), 48);

  EXPECT_THAT(
      error_of(head + "[[layer]]\nop = 'layer_norm'\nrows = 7\n"),
      AllOf(HasSubstr(":4:"), HasSubstr("expected inputs of 189 elements in all, found 192")));
  EXPECT_THAT(error_of(head + "[[layer]]\nop = 'elementwise'\noperation = 'add'\n"),
              HasSubstr("elementwise: expected two inputs, as with = \"NAME\", found 1"));
  EXPECT_THAT(error_of(head + "[[layer]]\nop = 'matmul'\nm = 12\nk = 16\n"),
              HasSubstr("expected a key 'n'"));
  EXPECT_THAT(error_of(head + "[[layer]]\nop = 'dense'\nout_features = 2\nwith = 'input'\n"),
              HasSubstr("expected inputs of 192 elements in all, found 384"));
}

TEST(Networks, ImagesGoThroughEveryOperatorThatTakesThem) {
  const Network n = network_of(head + R"(
[[layer]]
name = "pool"
op = "pool2d"
mode = "max"
kernel = 2
[[layer]]
op = "pool2d"
mode = "average"
kernel = 3
stride = 1
padding = "same"
[[layer]]
op = "batch_norm"
[[layer]]
op = "conv_transpose2d"
out_channels = 6
kernel = 4
stride = 2
padding = "same"
[[layer]]
op = "activation"
kind = "silu"
[[layer]]
op = "dropout"
[[layer]]
op = "pool2d"
mode = "global_average"
[[layer]]
op = "batch_norm"
[[layer]]
op = "conv2d"
out_channels = 5
kernel = 1
[[layer]]
op = "flatten"
)");
  EXPECT_EQ(
      layers_of(n),
      (std::vector<std::string>{
          "pool2d batch=1 channels=3 in_h=8 in_w=8 kernel_h=2 kernel_w=2 stride_h=2 "
          "stride_w=2 mode=max",
          "pool2d batch=1 channels=3 in_h=4 in_w=4 kernel_h=3 kernel_w=3 pad_top=1 "
          "pad_bottom=1 pad_left=1 pad_right=1 mode=average",
          "batch_norm batch=1 channels=3 height=4 width=4",
          "conv_transpose2d batch=1 in_channels=3 out_channels=6 in_h=4 in_w=4 kernel_h=4 "
          "kernel_w=4 stride_h=2 stride_w=2 pad_top=1 pad_bottom=1 pad_left=1 pad_right=1",
          "activation batch=1 features=384 function=silu", "dropout batch=1 features=384",
          "pool2d batch=1 channels=6 in_h=8 in_w=8 mode=global_average",
          "batch_norm batch=1 channels=6",
          "conv2d batch=1 in_channels=6 out_channels=5 in_h=1 in_w=1 kernel_h=1 kernel_w=1", "-"}));
  EXPECT_EQ(n.nodes[0].out, (ItemShape{3, 4, 4}));
  EXPECT_EQ(n.nodes[3].out, (ItemShape{6, 8, 8}));
  EXPECT_EQ(n.nodes[6].out, (ItemShape{6}));
  EXPECT_EQ(n.nodes[9].out, (ItemShape{5}));
  EXPECT_EQ(n.parameters(), 6 + (3 * 6 * 16 + 6) + 12 + 35);

  const std::string pool = head + "[[layer]]\nop = 'pool2d'\n";
  EXPECT_THAT(error_of(pool + "mode = 'max'\n"), HasSubstr("pool2d: expected a key 'kernel'"));
  EXPECT_THAT(error_of(pool + "mode = 'max'\nkernel = 2\nchannels = 4\n"),
              AllOf(HasSubstr(":4:"), HasSubstr("pool2d: channels=4: its input makes it 3")));
  EXPECT_THAT(error_of(pool + "mode = 'global_average'\nkernel = 2\n"),
              HasSubstr("global_average takes the whole image"));
  EXPECT_THAT(error_of(pool + "mode = 'median'\nkernel = 2\n"),
              HasSubstr("unknown value 'median'"));
  EXPECT_THAT(error_of(head + "[[layer]]\nop = 'batch_norm'\ntraining = 0\n"),
              HasSubstr("unknown key 'training'"));
  EXPECT_THAT(error_of(head + "[[layer]]\nop = 'allreduce'\nelements = 8\nranks = 2\n"),
              HasSubstr("allreduce: no layer of a network"));
}

TEST(Networks, SequencesKeepTheirPositions) {
  const Network n = network_of(R"(
[network]
name = 'n'
input = [16]
[[layer]]
name = "ids"
op = "embedding"
entries = 100
features = 24
[[layer]]
name = "block"
layers = [
  {name = "q", op = "dense", out_features = 12, input = "group_input"},
  {name = "k", op = "dense", out_features = 12, input = "group_input"},
  {op = "attention", heads = 3, causal = true, input = ["q", "k", "k"]},
  {op = "dense", out_features = 24, bias = false},
  {op = "add", with = ["group_input", "ids"]},
]
[[layer]]
op = "layer_norm"
[[layer]]
op = "softmax"
[[layer]]
op = "rnn"
cell = "gru"
hidden_features = 10
bidirectional = true
[[layer]]
op = "dense"
out_features = 30
[[layer]]
op = "attention"
heads = 2
[[layer]]
name = "last"
op = "reduce"
operation = "mean"
axis = "rows"
[[layer]]
op = "first"
input = "block"
)");
  EXPECT_EQ(layers_of(n),
            (std::vector<std::string>{
                "embedding batch=1 length=16 entries=100 features=24",
                "dense batch=16 in_features=24 out_features=12",
                "dense batch=16 in_features=24 out_features=12",
                "attention batch=1 heads=3 query_length=16 key_length=16 head_features=4 causal=1",
                "dense batch=16 in_features=12 out_features=24 bias=0",
                "elementwise batch=1 features=384 operation=add",
                "elementwise batch=1 features=384 operation=add",
                "layer_norm batch=1 rows=16 features=24", "softmax batch=1 rows=16 features=24",
                "rnn batch=1 steps=16 in_features=24 hidden_features=10 bidirectional=1 cell=gru",
                "dense batch=16 in_features=20 out_features=30",
                "attention batch=1 heads=2 query_length=16 key_length=16 head_features=5",
                "reduce batch=1 rows=16 features=10 operation=mean axis=rows", "-"}));
  EXPECT_EQ(n.nodes[3].inputs, (std::vector<std::size_t>{1, 2, 2}));
  EXPECT_EQ(n.nodes[5].name, "block.add1.1");
  EXPECT_EQ(n.nodes[5].inputs, (std::vector<std::size_t>{4, 0}));
  EXPECT_EQ(n.nodes[6].name, "block.add1");
  EXPECT_EQ(n.nodes[6].inputs, (std::vector<std::size_t>{5, 0}));
  EXPECT_EQ(n.nodes[9].out, (ItemShape{16, 20}));
  EXPECT_EQ(n.nodes[12].out, (ItemShape{10}));
  EXPECT_EQ(n.nodes[13].out, (ItemShape{24}));
  // Each position of each item is an item of a dense layer.
  EXPECT_EQ(n.nodes[1].at_batch(8).text(), "dense batch=128 in_features=24 out_features=12");
  EXPECT_EQ(n.nodes[7].at_batch(8).text(), "layer_norm batch=8 rows=16 features=24");

  const std::string sequence = "[network]\nname = 'n'\ninput = [16, 24]\n[[layer]]\n";
  EXPECT_THAT(error_of(sequence + "op = 'conv2d'\nout_channels = 4\nkernel = 1\n"),
              HasSubstr("conv2d: expected an image of channels x height x width, found a sequence "
                        "of 16x24 positions x features"));
  EXPECT_THAT(error_of(sequence + "op = 'embedding'\nentries = 4\nfeatures = 4\n"),
              HasSubstr("embedding: expected a vector of ids, found 16x24"));
  EXPECT_THAT(error_of(sequence + "op = 'attention'\nheads = 5\n"),
              HasSubstr("attention: 24 features do not divide into Q, K and V of 5 heads"));
  EXPECT_THAT(error_of(sequence + "op = 'attention'\n"), HasSubstr("expected a key 'heads'"));
  EXPECT_THAT(error_of(sequence + "op = 'attention'\nheads = 2\nwith = 'input'\n"),
              HasSubstr("attention: expected one input of queries, keys and values side by side"));
  EXPECT_THAT(error_of(sequence + "name = 'd'\nop = 'dense'\nout_features = 12\n[[layer]]\n"
                                  "op = 'attention'\nheads = 2\ninput = ['d', 'd', 'input']\n"),
              HasSubstr("queries, keys and values of 16x12, 16x12 and 16x24: expected equal"));
  EXPECT_THAT(error_of(head + "[[layer]]\nop = 'rnn'\ncell = 'lstm'\nhidden_features = 4\n"),
              HasSubstr("rnn: expected a sequence of positions x features, found 3x8x8"));
  EXPECT_THAT(error_of(head + "[[layer]]\nop = 'first'\n"),
              HasSubstr("first: expected a sequence of positions x features, found 3x8x8"));
}

TEST(Networks, TiedLayersShareTheirParameters) {
  const std::string text =
      "[network]\nname = 'n'\ninput = [16]\n"
      "[[layer]]\nname = 'ids'\nop = 'embedding'\nentries = 100\nfeatures = 24\n"
      "[[layer]]\nop = 'dense'\ntied = 'ids'\n";
  const Network n = network_of(text + "out_features = 100\nbias = false\n");
  EXPECT_EQ(n.parameters(), 2400);
  const auto runs = n.runs(1, Mode::training);
  EXPECT_EQ(runs[1].passes,
            (std::vector{Pass::forward, Pass::backward_data, Pass::backward_weights}));
  EXPECT_THAT(error_of(text + "out_features = 99\nbias = false\n"),
              AllOf(HasSubstr(":11: 'tied'"), HasSubstr("weights have 2,376 elements")));
  EXPECT_THAT(error_of(text + "out_features = 100\n"), HasSubstr("and no bias here"));
}

/// "name forward backward ..." of what runs.
std::vector<std::string> runs_of(const Network& network, Mode mode) {
  std::vector<std::string> runs;
  for (const LayerRun& run : network.runs(2, mode)) {
    std::string text = network.nodes[run.node].name;
    for (const Pass pass : run.passes) text.append(" ").append(name_of(pass));
    runs.push_back(text);
    EXPECT_EQ(run.layer["batch"] % 2, 0);
  }
  return runs;
}

TEST(Networks, WhatRunsDependsOnTheMode) {
  const Network n = network_of(head + R"(
[[layer]]
name = "early"
op = "pool2d"
mode = "max"
kernel = 2
[[layer]]
name = "drop"
op = "dropout"
[[layer]]
name = "conv"
op = "conv2d"
out_channels = 4
kernel = 1
[[layer]]
name = "norm"
op = "batch_norm"
[[layer]]
name = "late"
op = "pool2d"
mode = "max"
kernel = 2
[[layer]]
name = "flat"
op = "flatten"
[[layer]]
name = "fc"
op = "dense"
out_features = 4
[[layer]]
name = "side"
op = "dense"
out_features = 4
input = "early"
)");
  EXPECT_EQ(runs_of(n, Mode::inference),
            (std::vector<std::string>{"early forward", "conv forward", "norm forward",
                                      "late forward", "fc forward", "side forward"}));
  // Nothing before the first parameters needs a gradient.
  EXPECT_EQ(runs_of(n, Mode::training),
            (std::vector<std::string>{"early forward", "drop forward",
                                      "conv forward backward_weights update",
                                      "norm forward backward update", "late forward backward",
                                      "fc forward backward_data backward_weights update",
                                      "side forward backward_weights update"}));
  EXPECT_EQ(n.runs(2, Mode::inference)[2].layer.text(),
            "batch_norm batch=2 channels=4 height=4 width=4 training=0");
  EXPECT_EQ(n.runs(2, Mode::training)[3].layer.text(),
            "batch_norm batch=2 channels=4 height=4 width=4");
}

TEST(Networks, ErrorsNameFileLineAndWhatWasExpected) {
  EXPECT_THAT(error_of(head + "[[layer]]\nop = 'conv3d'\n"),
              AllOf(HasSubstr("network_test.toml:5:"), HasSubstr("unknown operator 'conv3d'"),
                    HasSubstr("conv2d"), HasSubstr("pool2d")));
  EXPECT_THAT(error_of(head + "[[layer]]\nop = 'dense'\n"),
              HasSubstr("expected a key 'out_features'"));
  EXPECT_THAT(error_of(head + "[[layer]]\nop = 'conv2d'\nout_channels = 4\nkernal = 3\n"),
              AllOf(HasSubstr(":7:"), HasSubstr("did you mean 'kernel'?")));
  EXPECT_THAT(error_of(head + "[[layer]]\nop = 'conv2d'\nout_channels = 4\nkernel = 9\n"),
              HasSubstr("does not fit"));
  EXPECT_THAT(error_of(head + "[[layer]]\nop = 'add'\nwith = 'nowhere'\n"),
              HasSubstr("unknown layer 'nowhere'"));
  EXPECT_THAT(error_of("[network\n"), AllOf(HasSubstr("network_test.toml:1: malformed TOML")));
  EXPECT_THROW(find_network("vgg17"), UsageError);
}

TEST(Toml, ValuesAreCheckedWhereTheyStand) {
  const TomlValue t = parse_toml("a = 1\nb = 'x'\nc = [1, 2]\nd = 1e9\n", "f.toml");
  EXPECT_EQ(t.keys(), (std::vector<std::string>{"a", "b", "c", "d"}));
  EXPECT_EQ(t.at("d").as_integer(), 1'000'000'000);
  const auto message = [](auto&& act) -> std::string {
    try {
      act();
    } catch (const UsageError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(message([&] { t.at("b").as_integer(); }),
            "f.toml:2: 'b': expected an integer, found a text");
  EXPECT_EQ(message([] { parse_toml("x = 2.5", "f.toml").at("x").as_integer(); }),
            "f.toml:1: 'x': expected an integer, found 2.5");
  EXPECT_THAT(message([] { parse_toml("[x]\na = 1\n[x]\na = 2\n", "f.toml"); }),
              HasSubstr("f.toml:3: malformed TOML"));
  EXPECT_THAT(message([] { parse_toml("[x]\na = 1\n[x]\na = 2\n", "f.toml"); }),
              testing::EndsWith("several tables of this name begins with [[x]]"));
  EXPECT_THAT(message([] { parse_toml("a = 1\na = 2\n", "f.toml"); }),
              testing::Not(HasSubstr("[[")));
  EXPECT_EQ(message([&] { t.integer("a", 0, 2, 5); }),
            "f.toml:1: 'a': expected an integer from 2 to 5, found 1");
  EXPECT_EQ(message([&] { t.only({"a", "b", "c"}); }), "f.toml:4: unknown key 'd'; known: a, b, c");
  EXPECT_EQ(message([&] { t.at("z"); }), "f.toml:1: expected a key 'z' here");
  EXPECT_THAT(message([&] { load_toml("nowhere.toml"); }), HasSubstr("no such file"));
}

}  // namespace
}  // namespace forecost
