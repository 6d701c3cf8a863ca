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
    if (!node.layer) continue;
    if (&node.layer->op() == &conv2d_operator) {
      const auto s = conv2d_shape(*node.layer);
      sum += static_cast<double>(s.out_h() * s.out_w() * s.weight_elements());
    } else {
      const auto s = dense_shape(*node.layer);
      sum += static_cast<double>(s.in_features * s.out_features);
    }
  }
  return sum;
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
  EXPECT_EQ(n.uncosted(), (std::map<std::string, int>{{"pool2d", 5}, {"dropout", 2}}));
}

TEST(Networks, ResNet50HasThePublishedCounts) {
  const Network n = find_network("resnet50");
  // 25,557,032 parameters (torchvision model documentation) less 2 x 26,560 of batch
  // normalisations.
  EXPECT_EQ(n.parameters(), 25'557'032 - 53'120);
  EXPECT_NEAR(macs(n) / 1e9, 4.09, 0.005);
  EXPECT_EQ(n.uncosted().at("add"), 16);
  EXPECT_EQ(n.uncosted().at("batch_norm"), 53);
  std::int64_t normalised = 0;
  for (const auto& node : n.nodes) normalised += node.op == "batch_norm" ? node.in.channels : 0;
  EXPECT_EQ(2 * normalised, 53'120);
}

TEST(Networks, AlexNetHasThePublishedCounts) {
  const Network n = find_network("alexnet");
  EXPECT_EQ(n.parameters(), 61'100'840);    // torchvision model documentation
  EXPECT_NEAR(macs(n) / 1e9, 0.71, 0.006);  // the same
}

TEST(Networks, EveryShippedOneLoadsUnderItsName) {
  ASSERT_GE(shipped_networks().size(), 4u);
  for (const auto& name : shipped_networks()) EXPECT_EQ(find_network(name).name, name);
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
  std::vector<std::string> layers;
  for (const auto& node : n.nodes) layers.push_back(node.layer->text());
  EXPECT_EQ(layers, (std::vector<std::string>{
                        "layer_norm batch=1 rows=8 features=24",
                        "elementwise batch=1 features=192 operation=divide operand=scalar",
                        "elementwise batch=1 features=192 operation=add",
                        "softmax batch=1 features=192", "matmul batch=1 m=12 n=12 k=16"}));
  EXPECT_EQ(n.nodes[2].inputs, (std::vector<std::size_t>{1, 0}));
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(n.nodes[i].out, (ItemShape{3, 8, 8}));
  EXPECT_EQ(n.nodes[4].out, (ItemShape{144}));
  EXPECT_EQ(n.parameters(), 48);
  EXPECT_TRUE(n.uncosted().empty());

  EXPECT_THAT(
      error_of(head + "[[layer]]\nop = 'layer_norm'\nrows = 7\n"),
      AllOf(HasSubstr(":4:"), HasSubstr("expected inputs of 189 elements in all, found 192")));
  EXPECT_THAT(error_of(head + "[[layer]]\nop = 'elementwise'\noperation = 'add'\n"),
              HasSubstr("expected inputs of 384 elements in all, found 192"));
  EXPECT_THAT(error_of(head + "[[layer]]\nop = 'matmul'\nm = 12\nk = 16\n"),
              HasSubstr("expected a key 'n'"));
  EXPECT_THAT(error_of(head + "[[layer]]\nop = 'dense'\nout_features = 2\nwith = 'input'\n"),
              HasSubstr("expected inputs of 192 elements in all, found 384"));
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
  EXPECT_EQ(message([&] { t.integer("a", 0, 2, 5); }),
            "f.toml:1: 'a': expected an integer from 2 to 5, found 1");
  EXPECT_EQ(message([&] { t.only({"a", "b", "c"}); }), "f.toml:4: unknown key 'd'; known: a, b, c");
  EXPECT_EQ(message([&] { t.at("z"); }), "f.toml:1: expected a key 'z' here");
  EXPECT_THAT(message([&] { load_toml("nowhere.toml"); }), HasSubstr("no such file"));
}

}  // namespace
}  // namespace forecost
