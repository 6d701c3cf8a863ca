#include <algorithm>

#include <fmt/format.h>

#include "core/digest.hpp"
#include "core/hash.hpp"
#include "core/version.hpp"
#include "data/h5/device_table.hpp"
#include "data/h5/h5.hpp"
#include "train/model/model.hpp"

namespace forecost {
namespace {

std::span<const float> span_of(const Floats& values) { return {values.data(), values.size()}; }

constexpr const char* schema_name = "forecost model";

std::string schema_hash(const std::vector<std::string>& names) {
  std::string joined;
  for (const std::string& name : names) joined += name + "\n";
  return short_id(joined);
}

void write_linear(h5::Group group, const LinearBaseline::Coefficients& coefficients) {
  std::vector<std::string> names;
  std::vector<double> values;
  for (const auto& [name, row] : coefficients) {
    names.push_back(name);
    values.insert(values.end(), row.begin(), row.end());
  }
  group.write_strings("group", names);
  group.write_matrix<double>("s_per_flop_s_per_byte_s", values, names.size(), 3);
}

LinearBaseline::Coefficients read_linear(const h5::Group& group) {
  const auto names = group.read_strings("group");
  const auto values = group.read_matrix<double>("s_per_flop_s_per_byte_s");
  LinearBaseline::Coefficients result;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto first = values.values.begin() + static_cast<std::ptrdiff_t>(3 * i);
    result[names[i]] = {first, first + 3};
  }
  return result;
}

void write_part(h5::Group group, const SchemaModel& part) {
  const auto names = part.schema->names();
  group.set_attribute("schema_hash", schema_hash(names));
  group.set_attribute("activation", "relu");
  group.set_attribute("target_mean", part.target_mean);
  group.set_attribute("target_scale", part.target_scale);
  group.write_strings("features", names);
  const Normaliser& n = part.normaliser;
  group.write("feature_min", n.min);
  group.write("feature_max", n.max);
  group.write("kept_features", n.kept);
  group.write("kept_mean", n.mean);
  group.write("kept_scale", n.scale);
  group.write("widths", part.shape.widths());
  group.write_strings("trained", part.trained);
  std::vector<std::string> passes;
  std::vector<double> halfwidths;
  for (const auto& [pass, halfwidth] : part.layer_halfwidth) {
    passes.push_back(pass);
    halfwidths.push_back(halfwidth);
  }
  group.write_strings("interval_pass", passes);
  group.write("interval_log_halfwidth", halfwidths);
  for (std::size_t m = 0; m < part.members.size(); ++m) {
    h5::Group member = group.create_group(fmt::format("member_{:02}", m));
    for (std::size_t l = 0; l < part.shape.layers(); ++l) {
      const auto in = static_cast<std::size_t>(part.shape.widths()[l]),
                 out = static_cast<std::size_t>(part.shape.widths()[l + 1]);
      const auto all = span_of(part.members[m]);
      member.write_matrix<float>(fmt::format("weights_{}", l),
                                 all.subspan(part.shape.weights_at(l), in * out), in, out);
      member.write<float>(fmt::format("bias_{}", l), all.subspan(part.shape.bias_at(l), out));
    }
  }
}

SchemaModel read_part(const h5::Group& group, const FeatureSchema& schema,
                      const std::string& file) {
  SchemaModel part;
  part.schema = &schema;
  if (group.read_strings("features") != schema.names()) {
    throw DataError(
        fmt::format("{}: its features for {} are not those of forecost {}; train it again", file,
                    schema.name, version));
  }
  part.target_mean = group.double_attribute("target_mean");
  part.target_scale = group.double_attribute("target_scale");
  Normaliser& n = part.normaliser;
  n.min = group.read<double>("feature_min");
  n.max = group.read<double>("feature_max");
  n.kept = group.read<std::int64_t>("kept_features");
  n.mean = group.read<double>("kept_mean");
  n.scale = group.read<double>("kept_scale");
  const auto widths = group.read<std::int64_t>("widths");
  const auto features = static_cast<std::int64_t>(schema.names().size());
  const bool sound =
      widths.size() >= 2 && widths.back() == 1 &&
      widths[0] == static_cast<std::int64_t>(n.kept.size()) &&
      n.min.size() == static_cast<std::size_t>(features) && n.max.size() == n.min.size() &&
      n.mean.size() == n.kept.size() && n.scale.size() == n.kept.size() &&
      std::all_of(n.kept.begin(), n.kept.end(), [&](auto f) { return f >= 0 && f < features; });
  if (!sound) throw DataError(fmt::format("{}: /parts/{} is inconsistent", file, schema.name));
  part.shape = MlpShape(widths.front(), std::span(widths).subspan(1, widths.size() - 2));
  part.trained = group.read_strings("trained");
  const auto passes = group.read_strings("interval_pass");
  const auto halfwidths = group.read<double>("interval_log_halfwidth");
  for (std::size_t i = 0; i < passes.size(); ++i)
    part.layer_halfwidth[passes[i]] = halfwidths.at(i);
  for (const std::string& name : group.groups()) {
    const h5::Group member = group.group(name);
    Floats parameters(part.shape.size());
    for (std::size_t l = 0; l < part.shape.layers(); ++l) {
      const auto weights = member.read_matrix<float>(fmt::format("weights_{}", l));
      const auto bias = member.read<float>(fmt::format("bias_{}", l));
      if (weights.rows != static_cast<std::size_t>(widths[l]) || weights.columns != bias.size() ||
          bias.size() != static_cast<std::size_t>(widths[l + 1])) {
        throw DataError(fmt::format("{}: /parts/{}/{}: layer {} has another shape than widths say",
                                    file, schema.name, name, l));
      }
      std::copy(weights.values.begin(), weights.values.end(),
                parameters.begin() + static_cast<std::ptrdiff_t>(part.shape.weights_at(l)));
      std::copy(bias.begin(), bias.end(),
                parameters.begin() + static_cast<std::ptrdiff_t>(part.shape.bias_at(l)));
    }
    part.members.push_back(std::move(parameters));
  }
  if (part.members.empty()) {
    throw DataError(fmt::format("{}: /parts/{} has no networks", file, schema.name));
  }
  return part;
}

}  // namespace

void save_model(const Model& model, const std::filesystem::path& file) {
  h5::File root = h5::File::create(file.string());
  root.set_attribute("schema", schema_name);
  root.set_attribute("schema_version", std::int64_t{model_schema_version});
  root.set_attribute("forecost_version", version);
  root.set_attribute("preset", model.preset);
  root.set_attribute("seed", std::to_string(model.seed));
  root.set_attribute("split_salt", std::to_string(model.split_salt));
  root.set_attribute("unseen_device_log_halfwidth", model.unseen_device_halfwidth);
  root.set_attribute("held_out_scores", model.scores_json);
  root.write_strings("training_corpora_sha256", model.corpus_hashes);
  root.write_strings("history", model.history);
  root.write_strings("holdout_classes", model.holdout_classes);
  h5::Group devices = root.create_group("devices");
  write_devices(devices, model.training_devices);
  h5::Group parts = root.create_group("parts");
  for (const SchemaModel& part : model.parts) {
    write_part(parts.create_group(std::string(part.schema->name)), part);
  }
  h5::Group baselines = root.create_group("baselines");
  write_linear(baselines.create_group("linear_published"), model.linear_published);
  write_linear(baselines.create_group("linear_fair"), model.linear_fair);

  replace_with_digest(file, root.bytes());
}

bool is_model(const std::filesystem::path& file) { return h5::schema_of(file) == schema_name; }

Model load_model(const std::filesystem::path& file) {
  const std::string name = file.string();
  const h5::File root = h5::File::of_bytes(read_verified(file), name);
  if (!root.has_attribute("schema") || root.string_attribute("schema") != schema_name) {
    throw DataError(fmt::format("{}: not a Forecost model ('forecost train' makes one)", name));
  }
  const std::int64_t found = root.int_attribute("schema_version");
  if (found != model_schema_version) {
    throw DataError(
        fmt::format("{}: model schema version {}, this forecost reads {}; train it again", name,
                    found, model_schema_version));
  }
  Model model;
  model.preset = root.string_attribute("preset");
  model.seed = std::stoull(root.string_attribute("seed"));
  model.split_salt = std::stoull(root.string_attribute("split_salt"));
  model.unseen_device_halfwidth = root.double_attribute("unseen_device_log_halfwidth");
  model.scores_json = root.string_attribute("held_out_scores");
  model.corpus_hashes = root.read_strings("training_corpora_sha256");
  model.history = root.read_strings("history");
  model.holdout_classes = root.read_strings("holdout_classes");
  model.training_devices = read_devices(root.group("devices"));
  const h5::Group parts = root.group("parts");
  for (const FeatureSchema* schema : schemas(model.preset)) {
    if (parts.has_group(std::string(schema->name))) {
      model.parts.push_back(read_part(parts.group(std::string(schema->name)), *schema, name));
    }
  }
  const h5::Group baselines = root.group("baselines");
  model.linear_published = read_linear(baselines.group("linear_published"));
  model.linear_fair = read_linear(baselines.group("linear_fair"));
  return model;
}

}  // namespace forecost
