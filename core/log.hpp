#pragma once

#include <filesystem>

namespace forecost {

/// Sets spdlog's default logger up: rank 0 speaks on stderr ("forecost: warning: ..."), other ranks
/// are silent below errors until log_to_file. FORECOST_LOG (trace, debug, info, warning, error)
/// sets the level; info unless told.
void setup_logging(int rank);
/// From now on this rank logs to `file` too (rank 0) or instead (others).
void log_to_file(int rank, const std::filesystem::path& file);

}  // namespace forecost
