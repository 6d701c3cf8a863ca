#include "train/checkpoint.hpp"

#include <fmt/format.h>

#include "core/digest.hpp"
#include "core/error.hpp"
#include "core/file.hpp"
#include "data/h5/h5.hpp"

namespace forecost {

namespace fs = std::filesystem;

namespace {

constexpr const char* schema = "forecost-checkpoint";

Floats to_floats(const std::vector<float>& values) { return {values.begin(), values.end()}; }

DataError other_training(const fs::path& file, const std::string& found, const std::string& asked) {
  return DataError(
      fmt::format("{}: is of another training: it has {}, asked for is {}; give another "
                  "--checkpoint directory",
                  file.string(), found, asked));
}

}  // namespace

void save_checkpoint(const EnsembleState& network, const std::string& identity,
                     const fs::path& file) {
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  if (error) {
    throw EnvironmentError(
        fmt::format("{}: cannot be created: {}", file.parent_path().string(), error.message()));
  }
  h5::File h5 = h5::File::create(file.string());
  h5.set_attribute("schema", schema);
  h5.set_attribute("identity", identity);
  h5.set_attribute("epoch", network.epoch);
  h5.set_attribute("step", network.step);
  h5.write("parameters", std::span<const float>(network.parameters));
  h5.write("first_moment", std::span<const float>(network.first_moment));
  h5.write("second_moment", std::span<const float>(network.second_moment));
  replace_with_digest(file, h5.bytes());
}

std::optional<EnsembleState> load_checkpoint(const std::string& identity, const fs::path& file) {
  if (!fs::exists(file)) return std::nullopt;
  std::string bytes;
  try {
    bytes = read_verified(file);
  } catch (const DataError& error) {
    throw DataError(fmt::format(
        "{}; or delete the checkpoint and its digest: this network begins anew", error.what()));
  }
  const h5::File h5 = h5::File::of_bytes(bytes, file.string());
  const std::string found = h5.string_attribute("identity");
  if (found != identity) {
    throw other_training(file, found, identity);
  }
  return EnsembleState{.parameters = to_floats(h5.read<float>("parameters")),
                       .first_moment = to_floats(h5.read<float>("first_moment")),
                       .second_moment = to_floats(h5.read<float>("second_moment")),
                       .epoch = h5.int_attribute("epoch"),
                       .step = h5.int_attribute("step")};
}

void remove_checkpoint(const fs::path& file) {
  for (const fs::path& each : {file, fs::path(file.string() + ".sha256")}) {
    std::error_code error;
    fs::remove(each, error);
    if (error) {
      throw EnvironmentError(
          fmt::format("{}: cannot be deleted: {}", each.string(), error.message()));
    }
  }
}

void refuse_other_trainings(const fs::path& directory, const std::set<std::string>& identities) {
  if (!fs::is_directory(directory)) return;
  for (auto entry = fs::recursive_directory_iterator(directory);
       entry != fs::recursive_directory_iterator(); ++entry) {
    const fs::path& path = entry->path();
    if (entry->is_directory() && !path.filename().string().starts_with(fold_prefix)) {
      entry.disable_recursion_pending();  // none of ours: run directories lie beside, say
    }
    if (path.extension() != ".h5") continue;
    std::string found;
    try {
      found = h5::File::of_bytes(read_verified(path), path.string()).string_attribute("identity");
    } catch (const DataError&) {
      continue;
    }
    if (!identities.contains(found)) throw other_training(path, found, *identities.begin());
  }
}

}  // namespace forecost
