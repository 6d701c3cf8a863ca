#include "train/checkpoint.hpp"

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/file.hpp"
#include "core/hash.hpp"
#include "core/digest.hpp"
#include "data/h5/h5.hpp"

namespace forecost {

namespace fs = std::filesystem;

namespace {

fs::path file_of(const fs::path& directory) { return directory / "checkpoint.h5"; }

Floats to_floats(const std::vector<float>& values) { return {values.begin(), values.end()}; }

}  // namespace

void save_checkpoint(const Checkpoint& checkpoint, const fs::path& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) {
    throw EnvironmentError(
        fmt::format("{}: cannot be created: {}", directory.string(), error.message()));
  }
  h5::File file = h5::File::create(file_of(directory).string());
  file.set_attribute("schema", "forecost-checkpoint");
  file.set_attribute("identity", checkpoint.identity);
  for (const auto& [name, state] : checkpoint.parts) {
    h5::Group group = file.create_group(name);
    group.set_attribute("epoch", state.epoch);
    group.set_attribute("step", state.step);
    group.write("parameters", std::span<const float>(state.parameters));
    group.write("first_moment", std::span<const float>(state.first_moment));
    group.write("second_moment", std::span<const float>(state.second_moment));
  }
  replace_with_digest(file_of(directory), file.bytes());
}

std::optional<Checkpoint> load_checkpoint(const fs::path& directory, const std::string& identity) {
  const fs::path path = file_of(directory);
  if (!fs::exists(path)) return std::nullopt;
  const h5::File file = h5::File::of_bytes(read_verified(path), path.string());
  Checkpoint checkpoint{.identity = file.string_attribute("identity")};
  if (checkpoint.identity != identity) {
    throw DataError(
        fmt::format("{}: is of another training: it has {}, asked for is {}; give another "
                    "--checkpoint directory",
                    path.string(), checkpoint.identity, identity));
  }
  for (const auto& name : file.groups()) {
    const h5::Group group = file.group(name);
    checkpoint.parts[name] = {.parameters = to_floats(group.read<float>("parameters")),
                              .first_moment = to_floats(group.read<float>("first_moment")),
                              .second_moment = to_floats(group.read<float>("second_moment")),
                              .epoch = group.int_attribute("epoch"),
                              .step = group.int_attribute("step")};
  }
  return checkpoint;
}

}  // namespace forecost
