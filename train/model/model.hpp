#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "train/model/baselines.hpp"
#include "train/model/features.hpp"
#include "train/model/mlp.hpp"
#include "train/model/normaliser.hpp"

namespace forecost {

inline constexpr int model_schema_version = 1;

/// The ensemble of networks of one feature schema.
struct SchemaModel {
  const FeatureSchema* schema = nullptr;
  Normaliser normaliser;
  double target_mean = 0, target_scale = 1;
  MlpShape shape;
  std::vector<Floats> members;       ///< parameters of each network; their mean is the answer
  std::vector<std::string> trained;  ///< sorted: "conv2d forward f32"
  /// 90 % half-widths of the log of (measured / predicted) by pass, from validation rows.
  std::map<std::string, double> layer_halfwidth;

  /// Whether it can predict the task: the schema covers it, and training rows had its combination.
  bool knows(const Task& task) const;
};

/// Where a row stands, by a hash of its configuration.
enum class Split { train, validation, test };
/// All passes, dtypes and devices of one layer stand together, so that no pass of a held-out layer
/// was seen. 80 % train, 10 % validation, 10 % test.
Split split_of(const Layer& layer, std::uint64_t salt);

/// A trained model: what its file holds, and the Predictor over it.
class Model final : public Predictor {
 public:
  std::string preset = "default";
  std::uint64_t seed = 0;
  std::uint64_t split_salt = 0;
  std::vector<SchemaModel> parts;
  std::vector<Device> training_devices;      ///< one per class
  std::vector<std::string> holdout_classes;  ///< given by --holdout-device
  double unseen_device_halfwidth = 0;        ///< device part for classes not trained on
  LinearBaseline::Coefficients linear_published, linear_fair;
  std::vector<std::string> corpus_hashes, history;
  std::string scores_json;  ///< held-out scores at the end of training

  std::string_view name() const override { return preset; }
  /// A pass that no schema of the preset covers, and a combination of operator, pass and dtype
  /// without training rows, throw UsageError that lists the known ones.
  std::vector<Prediction> predict(std::span<const Query> queries) const override;
  bool knows(const Task& task) const override { return part_for(task) != nullptr; }
  std::span<const Device> devices() const override { return training_devices; }
  bool trained_on(const Device& device) const;
  /// The part that predicts the task; nullptr if none knows it.
  const SchemaModel* part_for(const Task& task) const;

  /// The product that predict() uses; Eigen's unless told. It outlives the model.
  void use(const Gemm& gemm) { gemm_ = &gemm; }

 private:
  const Gemm* gemm_ = nullptr;
};

/// "conv2d forward f32": what trained lists.
std::string combination(const Task& task);

/// Inputs of a part for queries that it covers, rows x inputs.
Floats inputs_of(const SchemaModel& part, std::span<const Query> queries);

/// FILE and FILE.sha256 beside it, each replaced atomically. Throws EnvironmentError.
void save_model(const Model& model, const std::filesystem::path& file);
/// Verifies the digest first. Throws EnvironmentError (unreadable) or DataError (corrupt, not a
/// model, other version or feature schema).
Model load_model(const std::filesystem::path& file);
/// Whether the file says that it is a model, of whatever version; its digest is not looked at.
bool is_model(const std::filesystem::path& file);

}  // namespace forecost
