#include "core/log.hpp"

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace forecost {

namespace {

spdlog::sink_ptr stderr_sink(int rank) {
  auto sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  sink->set_pattern(rank == 0 ? "forecost: %l: %v"
                              : "forecost[" + std::to_string(rank) + "]: %l: %v");
  if (rank != 0) sink->set_level(spdlog::level::err);
  return sink;
}

void install(std::vector<spdlog::sink_ptr> sinks) {
  auto logger = std::make_shared<spdlog::logger>("forecost", sinks.begin(), sinks.end());
  const char* level = std::getenv("FORECOST_LOG");
  logger->set_level(level != nullptr ? spdlog::level::from_str(level) : spdlog::level::info);
  logger->flush_on(spdlog::level::warn);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace

void setup_logging(int rank) { install({stderr_sink(rank)}); }

void log_to_file(int rank, const std::filesystem::path& file) {
  auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(file.string());
  sink->set_pattern("%Y-%m-%dT%H:%M:%S.%e %l %v");
  install({stderr_sink(rank), std::move(sink)});
}

}  // namespace forecost
