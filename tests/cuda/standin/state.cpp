#include "tests/cuda/standin/state.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "tests/cuda/standin/memory.hpp"

namespace forecost::standin {
namespace {

/// More than lie between the events of any sample.
constexpr std::size_t most_preparations = 4096;

std::vector<HandleTable*>& tables() {
  static auto* all = new std::vector<HandleTable*>;
  return *all;
}

std::vector<std::string>& lines() {
  static auto* all = new std::vector<std::string>;
  return *all;
}

void write_line(const std::string& line) {
  const std::string& report = state().config.report;
  if (report.empty()) return;
  std::ofstream(report + "-" + std::to_string(getpid()) + ".txt", std::ios::app) << line << '\n';
}

/// After all that other libraries and the program do at their ends.
[[gnu::destructor]] void finish() {
  State& all = state();
  const std::lock_guard guard(all.lock);
  if (!all.used) return;
  // What a poisoned device holds cannot be given back.
  if (all.sticky == cudaSuccess)
    for (const std::string& leak : leaks()) violation("leak", leak);
  check_all_guards();
  write_line("end: " + std::to_string(lines().size()) + " violations, " +
             std::to_string(all.counts.launches) + " launches, " + std::to_string(all.computed) +
             " computed, " + std::to_string(all.remembered) + " remembered, " +
             std::to_string(all.counts.allocations) + " allocations, " +
             std::to_string(all.counts.samples) + " samples" +
             (all.sticky == cudaSuccess ? "" : ", poisoned"));
}

}  // namespace

HandleTable::HandleTable(const char* kind) : kind_(kind) { tables().push_back(this); }

std::uintptr_t HandleTable::add() {
  // Not canonical, so that whoever looks behind a handle fails at once.
  static std::uintptr_t next = 0x7000000000000000;
  last_ = next += 16;
  alive_.emplace(last_, state().call);
  return last_;
}

bool HandleTable::lives(const void* handle) const {
  const auto id = reinterpret_cast<std::uintptr_t>(handle);
  if (alive_.count(id) != 0) return true;
  const bool made = id >= 0x7000000000000000 && id <= last_;
  violation("handle", kind_ +
                          (made ? " that was released (or is another kind of handle)"
                                : " that was never made") +
                          ", given to " + state().call);
  return false;
}

bool HandleTable::remove(const void* handle) {
  return lives(handle) && alive_.erase(reinterpret_cast<std::uintptr_t>(handle)) == 1;
}

State& state() {
  static State* const all = [] {
    auto* made = new State;
    made->config = read_config();
    made->visible = visible_devices(made->config, std::getenv("CUDA_VISIBLE_DEVICES"));
    return made;
  }();
  return *all;
}

bool State::throttled() const {
  if (!faults_begun()) return false;
  const std::int64_t past = counts.samples - (faults_since ? faults_since->samples : 0);
  const Faults& faults = config.faults;
  return past >= faults.throttled_after && past < faults.throttled_after + faults.throttled_samples;
}

Call::Call(const char* name, Nature nature) : guard_(state().lock), outer_(state().call) {
  State& all = state();
  if (!all.used) {
    all.used = true;
    write_line("begin: process " + std::to_string(getpid()));
  }
  all.call = name;
  ++all.depth;
  ++all.number;
  if (nature == prepares) standin::prepares(name);
}

void prepares(const char* what) {
  State& all = state();
  all.preparations.push_back({all.number, what});
  if (all.preparations.size() > most_preparations) all.preparations.pop_front();
}

Call::~Call() {
  --state().depth;
  state().call = outer_;
}

void breathe(double waited_s) {
  State& all = state();
  const int depth = std::exchange(all.depth, 0);
  const char* call = all.call;
  for (int i = 0; i < depth; ++i) all.lock.unlock();
  if (waited_s < 1e-3) {
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(std::chrono::microseconds(waited_s < 0.1 ? 50 : 1000));
  }
  for (int i = 0; i < depth; ++i) all.lock.lock();
  all.depth = depth;
  all.call = call;
}

void wait_until(const std::function<bool()>& done, const std::string& what) {
  const auto start = std::chrono::steady_clock::now();
  while (!done()) {
    const double waited_s =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (waited_s > state().config.hang_s) {
      violation("hang", std::string(state().call) + " waits for ever: " + what);
      std::_Exit(hang_status);
    }
    breathe(waited_s);
  }
}

Stream* stream_of(cudaStream_t handle) {
  State& all = state();
  if (handle == nullptr || handle == cudaStreamLegacy) return &all.null_stream;
  return all.streams.find(handle).get();
}

cudaError_t answer(cudaError_t error) {
  State& all = state();
  if (all.sticky != cudaSuccess) error = all.sticky;
  if (error != cudaSuccess) all.last_error = error;
  return error;
}

cudaError_t queued(cudaError_t error) { return error == cudaSuccess ? cudaSuccess : answer(error); }

bool unsupported(const char* operation) {
  for (const std::string& name : state().config.faults.unsupported)
    if (name == operation) return true;
  return false;
}

bool faults_begun() {
  const State& all = state();
  return all.config.faults.after.empty() || all.faults_since;
}

void begin_faults_after(const std::string& work) {
  State& all = state();
  if (!faults_begun() && work.find(all.config.faults.after) != std::string::npos)
    all.faults_since = all.counts;
}

bool strikes(std::int64_t Counts::*count, std::int64_t at) {
  const State& all = state();
  if (at == 0 || !faults_begun()) return false;
  const std::int64_t before = all.faults_since ? (*all.faults_since).*count : 0;
  if (all.counts.*count - before != at) return false;
  const std::string& once = all.config.faults.once;
  if (once.empty()) return true;
  const int file = open(once.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
  if (file >= 0) close(file);
  return file >= 0;
}

void violation(const std::string& kind, const std::string& text) {
  lines().push_back(kind + ": " + text);
  write_line(lines().back());
}

std::vector<std::string> violations() {
  const std::lock_guard guard(state().lock);
  return lines();
}

void forget_violations() {
  const std::lock_guard guard(state().lock);
  lines().clear();
}

std::vector<std::string> leaks() {
  const std::lock_guard guard(state().lock);
  std::vector<std::string> found;
  for (const HandleTable* table : tables())
    for (const auto& [id, call] : table->alive())
      found.push_back(table->kind() + " of " + call + " was not released");
  for (const std::string& allocation : living_allocations())
    found.push_back(allocation + " was not freed");
  return found;
}

}  // namespace forecost::standin
