#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "core/random.hpp"
#include "data/corpus/corpus.hpp"
#include "data/measurement.hpp"

namespace forecost {

/// Layers of every operator, the smallest and some others, one without parameters among them.
inline std::vector<Layer> layers_of_every_operator() {
  std::vector<Layer> layers;
  for (const Operator* op : operators()) {
    std::vector<std::int64_t> values;
    for (const ParameterInfo& p : op->parameters) values.push_back(p.default_value.value_or(p.min));
    layers.push_back(Layer::of_values(*op, values));
  }
  for (const char* text : {
           "dense batch=64 in_features=1000 out_features=4095 activation=relu",
           "conv2d batch=8 in_channels=3 out_channels=64 in_h=224 in_w=224 kernel_h=7 kernel_w=7",
           "matmul batch=1048576 m=1048576 n=1048576 k=1048576",
           "matmul batch=96 m=197 n=197 k=64",
           "layer_norm batch=8 rows=197 features=768",
           "layer_norm batch=8 rows=197 features=768 affine=0",
           "softmax batch=96 rows=197 features=197",
           "elementwise batch=8 features=4294967296 operation=power",
           "elementwise batch=8 features=768 operation=add operand=scalar",
           "activation batch=8 features=3072 function=silu",
           "conv_transpose2d batch=8 in_channels=64 out_channels=32 in_h=14 in_w=14 kernel_h=4 "
           "kernel_w=4 stride_h=2 stride_w=2 pad_top=1 pad_left=1",
           "pool2d batch=8 channels=64 in_h=112 in_w=112 kernel_h=3 kernel_w=3 pad_top=1 mode=max",
           "pool2d batch=8 channels=2048 in_h=7 in_w=7 mode=global_average",
           "batch_norm batch=8 channels=64 height=56 width=56 training=0",
           "attention batch=8 heads=12 query_length=128 key_length=128 head_features=64 causal=1",
           "rnn batch=8 steps=35 in_features=650 hidden_features=650 layers=2 bidirectional=1 "
           "cell=lstm",
           "embedding batch=8 length=128 entries=30522 features=768",
           "dropout batch=8 features=4294967296",
           "reduce batch=8 rows=128 features=768 operation=mean axis=rows",
           "transfer batch=8 features=150528 direction=device_to_host pinned=0",
           "allreduce batch=1 elements=25557032 ranks=8 nodes=2",
       }) {
    layers.push_back(Layer::parse(text));
  }
  return layers;
}

/// Those layers in every pass that their operators have, in some dtypes, with some optimizers.
inline std::vector<Task> every_task() {
  std::vector<Task> tasks;
  for (const Layer& layer : layers_of_every_operator()) {
    for (const Pass pass : layer.op().passes) {
      const bool optimizes = pass == Pass::update || pass == Pass::training_step;
      for (const DType dtype : {DType::f32, DType::f16, DType::int8}) {
        for (const Optimizer optimizer : optimizes ? std::vector{Optimizer::sgd, Optimizer::adamw}
                                                   : std::vector{Optimizer::none}) {
          tasks.push_back({layer, pass, dtype, optimizer});
        }
      }
    }
  }
  return tasks;
}

/// A corpus of random layers of all operators whose gradient is not split in two, on a V100 whose times are
/// the roofline's over an efficiency that depends on operator and intensity, and a launch.
inline Corpus vocabulary_corpus(int layers_each, std::uint64_t seed = 1) {
  Corpus corpus;
  corpus.devices = {find_device("v100")};
  const Device& device = corpus.devices.front();
  Random random(seed);
  for (const Operator* op : operators()) {
    if (op->has(Pass::backward_data)) continue;
    for (int i = 0; i < layers_each;) {
      std::vector<std::int64_t> values;
      for (const ParameterInfo& p : op->parameters) {
        const auto most = std::min<double>(static_cast<double>(p.max), 512);
        values.push_back(
            p.min == 0 ? static_cast<std::int64_t>(random.uniform(0, most + 0.999))
                       : static_cast<std::int64_t>(std::exp(random.uniform(0, std::log(most)))));
      }
      std::optional<Layer> drawn;
      try {
        drawn = Layer::of_values(*op, values);
      } catch (const UsageError&) {
        continue;  // the parameters contradict each other
      }
      const Layer& layer = *drawn;
      ++i;
      for (const Pass pass : op->passes) {
        Measurement row{.task = {.layer = layer, .pass = pass}};
        if (pass == Pass::update || pass == Pass::training_step) {
          if (layer.parameter_count() == 0) continue;
          row.task.optimizer = Optimizer::adam;
        }
        row.device_class = device.device_class;
        row.device_id = device.id();
        const Work work = row.task.work();
        const double efficiency =
            0.3 + 0.6 * work.arithmetic_intensity() / (10 + work.arithmetic_intensity());
        row.time = summarize({4e-6 + roofline_s(work, DType::f32, device) / efficiency});
        corpus.rows.push_back(row);
      }
    }
  }
  return corpus;
}

}  // namespace forecost
