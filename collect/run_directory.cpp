#include "collect/run_directory.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <thread>

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "collect/in_flight.hpp"
#include "core/error.hpp"
#include "core/file.hpp"
#include "data/corpus/corpus.hpp"

namespace forecost {

namespace fs = std::filesystem;

namespace {

/// Files of ours that may be left by a kill and mean nothing.
constexpr std::string_view scratch_prefix = ".forecost-";

fs::path sweep_copy(const fs::path& directory) { return directory / "sweep.toml"; }

/// Whether a launch that was killed while it opened the directory may have left the entry: a
/// scratch file, the temporary of a file that replace_file was writing, a folder for runs without
/// any.
bool is_leftover(const fs::directory_entry& entry) {
  const std::string name = entry.path().filename().string();
  return name.starts_with(scratch_prefix) || name.find(".tmp-") != std::string::npos ||
         (name == "runs" && entry.is_directory() && fs::is_empty(entry.path()));
}

bool is_used(const fs::path& directory) {
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (!is_leftover(entry)) return true;
  }
  return false;
}

bool has_run_of(const fs::path& directory, const Shard& shard) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(directory / "runs", ignored)) {
    if (entry.path().filename().string().ends_with("-" + shard.text())) return true;
  }
  return false;
}

/// The line, counted from 1, where two different texts begin to differ.
std::ptrdiff_t first_difference(const std::string& a, const std::string& b) {
  const auto end = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first;
  return 1 + std::count(a.begin(), end, '\n');
}

void refuse_unless_ours(const fs::path& directory, const Plan& plan, const Shard& shard,
                        bool resume) {
  if (!fs::exists(sweep_copy(directory))) {
    throw UsageError(fmt::format(
        "{}: {}", directory.string(),
        fs::exists(directory / "runs")
            ? "its sweep.toml is missing: copy the sweep file there that it was begun with"
            : "it is not empty and is no run directory: name another one"));
  }
  const bool beside_other_shards = shard.count > 1 && !has_run_of(directory, shard);
  if (!resume && !beside_other_shards) {
    throw UsageError(fmt::format("{} is in use: go on with it by --resume, or name another one",
                                 directory.string()));
  }
  if (read_text(sweep_copy(directory)) != plan.sweep_text) {
    throw DataError(fmt::format(
        "{} was begun with another sweep (its copy {} differs from line {} on): name another run "
        "directory for this one",
        directory.string(), sweep_copy(directory).string(),
        first_difference(read_text(sweep_copy(directory)), plan.sweep_text)));
  }
}

/// Two launches with the same tasks for the same class would measure everything twice, and each
/// disturb the other. Ranks of a launch that was killed just now may take a moment to die.
void refuse_beside_others(const fs::path& directory, const Shard& shard,
                          const std::set<std::string>& classes) {
  constexpr double patience_s = 10;
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(patience_s);
  while (true) {
    std::string other;
    for (const LivingRank& rank : living_ranks(directory)) {
      if (rank.shard.overlaps(shard) && classes.contains(rank.device_class)) other = rank.run_id;
    }
    if (other.empty()) return;
    if (std::chrono::steady_clock::now() > until) {
      throw UsageError(fmt::format(
          "{}: another launch ({}) is measuring the same tasks on the same device class: wait for "
          "it, or give each a part by --shard",
          directory.string(), other));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
}

/// What tells this launch from others: the Slurm job with its restarts and steps, else the time and
/// the process.
std::string job_name() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value != nullptr ? value : "");
  };
  if (const std::string job = variable("SLURM_JOB_ID"); !job.empty()) {
    std::string name = "slurm-" + job;
    if (const auto restart = variable("SLURM_RESTART_COUNT"); !restart.empty())
      name += "r" + restart;
    if (const auto step = variable("SLURM_STEP_ID"); !step.empty()) name += "s" + step;
    return name;
  }
  return fmt::format("local-{:%Y%m%dT%H%M%S}-{}", fmt::gmtime(std::time(nullptr)), ::getpid());
}

}  // namespace

bool Shard::overlaps(const Shard& other) const {
  return count != other.count || index == other.index;
}

std::string Shard::text() const { return fmt::format("{}of{}", index, count); }

fs::path run_folder(const fs::path& directory, const std::string& id) {
  return directory / "runs" / id;
}

OpenedRun open_run(const fs::path& directory, const Plan& plan, const Shard& shard, bool resume,
                   const std::set<std::string>& classes) {
  std::error_code error;
  if (fs::exists(directory, error)) {
    if (!fs::is_directory(directory)) {
      throw UsageError(fmt::format("{}: a file, expected the name of a run directory, new or not",
                                   directory.string()));
    }
    if (is_used(directory)) refuse_unless_ours(directory, plan, shard, resume);
  }
  fs::create_directories(directory / "runs", error);
  if (error) {
    throw EnvironmentError(fmt::format("{}: the run directory cannot be created: {}",
                                       directory.string(), error.message()));
  }
  check_writable(directory);
  if (!fs::exists(sweep_copy(directory))) replace_text(sweep_copy(directory), plan.sweep_text);

  // Launches of one moment take turns, so that the second one sees the first one's ranks.
  OpenedRun opened{"", FileLock(directory / fmt::format("{}start-lock", scratch_prefix), 60)};
  refuse_beside_others(directory, shard, classes);

  const std::string job = job_name();
  for (int attempt = 1;; ++attempt) {
    // mkdir tells whether the name was free, whoever else is trying.
    const std::string id = attempt == 1 ? fmt::format("{}-{}", job, shard.text())
                                        : fmt::format("{}.{}-{}", job, attempt, shard.text());
    const fs::path folder = run_folder(directory, id);
    if (::mkdir(folder.c_str(), 0777) == 0) {
      opened.id = id;
      return opened;
    }
    if (errno != EEXIST) {
      throw EnvironmentError(
          fmt::format("{}: cannot be created: {}", folder.string(), std::strerror(errno)));
    }
  }
}

}  // namespace forecost
