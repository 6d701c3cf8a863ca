#include "train/model/model.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/hash.hpp"

namespace forecost {

Split split_of(const Layer& layer, std::uint64_t salt) {
  const std::uint64_t bucket = hash64(fmt::format("{}/{}", salt, layer.text())) % 10;
  return bucket == 0 ? Split::test : bucket == 1 ? Split::validation : Split::train;
}

std::string combination(const Task& task) {
  return fmt::format("{} {} {}", task.layer.op().name, name_of(task.pass), name_of(task.dtype));
}

Floats inputs_of(const SchemaModel& part, std::span<const Query> queries) {
  const std::size_t inputs = part.normaliser.inputs();
  Floats x(queries.size() * inputs);
  Features features;
  for (std::size_t i = 0; i < queries.size(); ++i) {
    features.clear();
    part.schema->describe(queries[i], features);
    part.normaliser.apply(features.values(), x.data() + i * inputs);
  }
  return x;
}

bool Model::trained_on(const Device& device) const {
  return std::any_of(training_devices.begin(), training_devices.end(), [&](const Device& known) {
    return known.device_class == device.device_class;
  });
}

bool SchemaModel::knows(const Task& task) const {
  return schema->covers(task) &&
         std::binary_search(trained.begin(), trained.end(), combination(task));
}

const SchemaModel* Model::part_for(const Task& task) const {
  const auto found = std::find_if(parts.begin(), parts.end(),
                                  [&](const SchemaModel& part) { return part.knows(task); });
  return found == parts.end() ? nullptr : &*found;
}

std::vector<Prediction> Model::predict(std::span<const Query> queries) const {
  std::vector<Prediction> result(queries.size());
  std::vector<std::vector<std::size_t>> members_of(parts.size());
  for (std::size_t i = 0; i < queries.size(); ++i) {
    const Task& task = queries[i].task;
    const SchemaModel* part = part_for(task);
    if (part == nullptr) {
      std::vector<std::string> known;
      for (const SchemaModel& p : parts)
        known.insert(known.end(), p.trained.begin(), p.trained.end());
      throw UsageError(fmt::format("the model was not trained on '{}'; it knows: {}",
                                   combination(task), fmt::join(known, ", ")));
    }
    members_of[static_cast<std::size_t>(part - parts.data())].push_back(i);
  }

  const Gemm& gemm = gemm_ != nullptr ? *gemm_ : eigen_gemm();
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const SchemaModel& part = parts[p];
    const std::vector<std::size_t>& rows = members_of[p];
    if (rows.empty()) continue;
    const std::size_t inputs = part.normaliser.inputs();
    Floats x(rows.size() * inputs);
    Features features;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      features.clear();
      part.schema->describe(queries[rows[r]], features);
      part.normaliser.apply(features.values(), x.data() + r * inputs);
      result[rows[r]].outside_training_range = part.normaliser.outside(features.values());
    }
    std::vector<float> y(rows.size());
    std::vector<double> sum(rows.size(), 0.0);
    for (const Floats& parameters : part.members) {
      mlp_predict(gemm, part.shape, parameters, x.data(), static_cast<std::int64_t>(rows.size()),
                  y.data());
      for (std::size_t r = 0; r < rows.size(); ++r) sum[r] += static_cast<double>(y[r]);
    }
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const Query& query = queries[rows[r]];
      Prediction& prediction = result[rows[r]];
      const double mean = sum[r] / static_cast<double>(part.members.size());
      prediction.seconds = part.schema->seconds(query, part.target_mean + part.target_scale * mean);
      prediction.layer_log_halfwidth =
          part.layer_halfwidth.at(std::string(name_of(query.task.pass)));
      if (!trained_on(*query.device)) {
        prediction.device_log_halfwidth = unseen_device_halfwidth;
        prediction.outside_training_range = true;
      }
    }
  }
  return result;
}

}  // namespace forecost
