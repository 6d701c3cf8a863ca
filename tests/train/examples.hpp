#pragma once

#include "core/random.hpp"
#include "data/corpus/corpus.hpp"

namespace forecost {

/// A corpus of random layers on one device whose times follow the roofline times a smooth
/// efficiency, with a little noise: learnable, but not by a straight line.
inline Corpus synthetic_corpus(int layers, std::uint64_t seed = 1, double noise = 0.02) {
  Corpus corpus;
  Device device;
  device.name = "Synthetic";
  device.kind = "cpu";
  device.device_class = "synthetic-1c";
  device.uuid = "synthetic";
  device.set(Attribute::peak_f32_flops, 1e11);
  device.set(Attribute::bandwidth_bytes_per_s, 1e10);
  corpus.devices = {device};
  Random random(seed);
  const auto log_uniform = [&](double low, double high) {
    return static_cast<std::int64_t>(std::exp(random.uniform(std::log(low), std::log(high))));
  };
  for (int i = 0; i < layers; ++i) {
    const Layer layer("dense", {{"batch", log_uniform(1, 128)},
                                {"in_features", log_uniform(8, 4096)},
                                {"out_features", log_uniform(8, 4096)}});
    for (const Pass pass :
         {Pass::forward, Pass::backward_data, Pass::backward_weights, Pass::update}) {
      Measurement row{.task = {.layer = layer, .pass = pass}};
      if (pass == Pass::update) row.task.optimizer = Optimizer::adam;
      row.device_class = device.device_class;
      row.device_id = device.id();
      const Work work = row.task.work();
      const double efficiency =
          work.arithmetic_intensity() / (10 + work.arithmetic_intensity()) + 0.2;
      const double seconds = (5e-6 + roofline_s(work, DType::f32, device) / efficiency) *
                             std::exp(noise * random.normal());
      row.time = summarize({seconds});
      corpus.rows.push_back(row);
    }
  }
  return corpus;
}

}  // namespace forecost
