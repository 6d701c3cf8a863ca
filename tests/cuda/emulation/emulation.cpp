#include "tests/cuda/emulation/emulation.hpp"

#include <cuda_runtime.h>
#include <cxxabi.h>
#include <dlfcn.h>
#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>

#include "tests/cuda/emulation/kernel_table.hpp"

namespace forecost::emulation {

uint3 thread_index, block_index;
dim3 block_extent, grid_extent;

namespace {

constexpr int warp = 32;

/// Threads that wait for each other.
struct Barrier {
  int threads = 0;  ///< that have not ended
  int arrived = 0;
  std::uint64_t passed = 0;  ///< how often all have

  void pass_if_all() {
    if (arrived == 0 || arrived < threads) return;
    arrived = 0;
    ++passed;
  }
};

/// One that lanes exchange values at. Two sets of values: a lane may give its next one before
/// another has looked at the last.
struct Warp : Barrier {
  unsigned long long given[2][warp];
  bool exited = false;  ///< one of its lanes
};

class Block;

/// A stack that threads run on, one after another, as long as none of them waits.
struct Fibre {
  static constexpr std::size_t stack_bytes = 128 * 1024;

  std::unique_ptr<char[]> stack{new char[stack_bytes]};
  jmp_buf state{};
  bool begun = false, idle = true;
  int thread = 0;
  uint3 index{};
  Barrier* waits_for = nullptr;
  std::uint64_t passed = 0;  ///< of what it waits for, when it began to
};

struct Hang {};  ///< unwinds the fibres of a block that cannot go on

class Block {
 public:
  /// Runs it to its end.
  void run(Invoke invoke, void** arguments, dim3 extent) {
    invoke_ = invoke;
    arguments_ = arguments;
    extent_ = extent;
    threads_ = static_cast<int>(extent.x * extent.y * extent.z);
    begun_ = ended_ = 0;
    all_ = {};
    all_.threads = threads_;
    warps_.assign(static_cast<std::size_t>((threads_ + warp - 1) / warp), Warp{});
    for (int i = 0; i < threads_; ++i) ++warps_[static_cast<std::size_t>(i / warp)].threads;
    error_ = nullptr;

    while (ended_ < threads_) {
      if (error_ == nullptr && begun_ < threads_) {
        resume(idle_fibre());
        continue;
      }
      bool progress = false;
      for (std::size_t i = 0; i < fibres_.size(); ++i) {
        Fibre& each = *fibres_[i];
        if (each.idle || (error_ == nullptr && each.waits_for->passed == each.passed)) continue;
        resume(each);
        progress = true;
      }
      if (error_ != nullptr && all_idle()) break;
      if (!progress && error_ == nullptr) {
        error_ = std::make_exception_ptr(std::logic_error(
            "some threads of a block wait at a barrier that others do not come to"));
      }
    }
    if (error_ != nullptr) std::rethrow_exception(error_);
  }

  void wait(Barrier& barrier) {
    Fibre& self = *running_;
    self.waits_for = &barrier;
    self.passed = barrier.passed;
    ++barrier.arrived;
    barrier.pass_if_all();
    if (barrier.passed == self.passed) suspend();
    if (error_ != nullptr) throw Hang{};
  }
  void wait_block() { wait(all_); }
  Warp& own_warp(unsigned mask) {
    Warp& own = warps_[static_cast<std::size_t>(running_->thread / warp)];
    if (mask != 0xFFFFFFFFU || own.exited || own.threads != warp) {
      throw std::logic_error("a shuffle or a barrier of a warp with lanes missing");
    }
    return own;
  }
  int lane() const { return running_->thread % warp; }

 private:
  Fibre& idle_fibre() {
    for (; first_idle_ < fibres_.size(); ++first_idle_)
      if (fibres_[first_idle_]->idle) return *fibres_[first_idle_];
    return *fibres_.emplace_back(std::make_unique<Fibre>());
  }
  bool all_idle() const {
    return std::all_of(fibres_.begin(), fibres_.end(), [](const auto& each) { return each->idle; });
  }

  // (Not swapcontext alone: it asks the kernel for the signal mask each time.)
  void resume(Fibre& fibre) {
    running_ = &fibre;
    thread_index = fibre.index;
    fibre.idle = false;
    if (_setjmp(scheduler_) != 0) return;
    if (fibre.begun) _longjmp(fibre.state, 1);
    fibre.begun = true;
    ucontext_t context;
    getcontext(&context);
    context.uc_stack = {fibre.stack.get(), 0, Fibre::stack_bytes};
    context.uc_link = nullptr;
    current_ = this;
    makecontext(&context, &Block::enter, 0);
    setcontext(&context);
  }
  void suspend() {
    Fibre& self = *running_;
    if (_setjmp(self.state) == 0) _longjmp(scheduler_, 1);
    // (running_ and thread_index are this fibre's again.)
  }
  static void enter() { current_->run_threads(); }

  /// Of a fibre: threads that nobody has begun, until there are none.
  [[noreturn]] void run_threads() {
    for (;;) {
      Fibre& self = *running_;
      while (begun_ < threads_ && error_ == nullptr) {
        self.thread = begun_++;
        const auto i = static_cast<unsigned>(self.thread);
        self.index = {i % extent_.x, i / extent_.x % extent_.y, i / extent_.x / extent_.y};
        thread_index = self.index;
        try {
          invoke_(arguments_);
        } catch (const Hang&) {
        } catch (...) {
          error_ = std::current_exception();
        }
        end(self.thread);
      }
      self.idle = true;
      first_idle_ = 0;
      suspend();
    }
  }
  void end(int thread) {
    ++ended_;
    Warp& own = warps_[static_cast<std::size_t>(thread / warp)];
    own.exited = true;
    for (Barrier* each : {&all_, static_cast<Barrier*>(&own)}) {
      --each->threads;
      each->pass_if_all();
    }
    if (own.threads > 0 && own.arrived > 0 && error_ == nullptr) {
      error_ = std::make_exception_ptr(
          std::logic_error("a lane ended while others of its warp wait for it"));
    }
  }

  static Block* current_;

  Invoke invoke_ = nullptr;
  void** arguments_ = nullptr;
  dim3 extent_;
  int threads_ = 0, begun_ = 0, ended_ = 0;
  Barrier all_;
  std::vector<Warp> warps_;
  std::deque<std::unique_ptr<Fibre>> fibres_;
  std::size_t first_idle_ = 0;
  Fibre* running_ = nullptr;
  jmp_buf scheduler_{};
  std::exception_ptr error_;
};
Block* Block::current_ = nullptr;

/// Kernels are run one at a time.
std::mutex busy;

Block& block() {
  static Block only;
  return only;
}

struct Known {
  Invoke invoke;
  ClearPadding clear_padding;
  std::vector<std::size_t> parameter_bytes;
};
std::map<const void*, Known>& entered() {
  static std::map<const void*, Known> all;
  return all;
}

std::string name_of(const void* address) {
  Dl_info info{};
  if (dladdr(address, &info) == 0 || info.dli_sname == nullptr || info.dli_saddr != address) {
    throw std::logic_error("a kernel has no symbol that can be seen");
  }
  return info.dli_sname;
}

const std::map<std::string, Known, std::less<>>& kernels() {
  static const auto all = [] {
    std::map<std::string, Known, std::less<>> by_name;
    for (const auto& [address, kernel] : entered()) by_name.emplace(name_of(address), kernel);
    return by_name;
  }();
  return all;
}

}  // namespace

bool add_kernel(const void* kernel, Invoke invoke, ClearPadding clear_padding,
                std::vector<std::size_t> parameter_bytes) {
  entered()[kernel] = {invoke, clear_padding, std::move(parameter_bytes)};
  return true;
}

void block_barrier() { block().wait_block(); }
void warp_barrier(unsigned mask) { block().wait(block().own_warp(mask)); }
int lane() { return block().lane(); }

unsigned long long exchange(unsigned mask, unsigned long long value, int of) {
  Warp& own = block().own_warp(mask);
  auto& given = own.given[own.passed % 2];
  given[block().lane()] = value;
  block().wait(own);
  return given[of];
}

unsigned ballot(unsigned mask, bool value) {
  Warp& own = block().own_warp(mask);
  auto& given = own.given[own.passed % 2];
  given[block().lane()] = value ? 1 : 0;
  block().wait(own);
  unsigned bits = 0;
  for (int i = 0; i < warp; ++i) bits |= static_cast<unsigned>(given[i]) << i;
  return bits;
}

unsigned long long global_timer() {
  static unsigned long long now = 0;
  return now += 1000;
}

bool emulate(const char* mangled_name, dim3 grid, dim3 block_size, std::size_t shared_bytes,
             void** arguments) {
  const auto found = kernels().find(std::string_view(mangled_name));
  if (found == kernels().end()) return false;
  if (shared_bytes != 0) throw std::logic_error("dynamic shared memory is not emulated");
  if (block_size.x * block_size.y * block_size.z > 1024 || grid.y > 65535 || grid.z > 65535) {
    throw std::logic_error("a grid or block is larger than a device takes");
  }
  const std::lock_guard lock(busy);
  grid_extent = grid;
  block_extent = block_size;
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) {
        block_index = {x, y, z};
        block().run(found->second.invoke, arguments, block_size);
      }
  return true;
}

void run_kernel(const void* kernel, dim3 grid, dim3 block_size, void** arguments) {
  const std::string name = name_of(kernel);
  if (!emulate(name.c_str(), grid, block_size, 0, arguments)) {
    throw std::logic_error(name + ": no such kernel");
  }
}

std::vector<std::size_t> parameter_bytes(const char* mangled_name) {
  const auto found = kernels().find(std::string_view(mangled_name));
  return found == kernels().end() ? std::vector<std::size_t>() : found->second.parameter_bytes;
}

void clear_padding(const char* mangled_name, void** arguments) {
  const auto found = kernels().find(std::string_view(mangled_name));
  if (found != kernels().end()) found->second.clear_padding(arguments);
}

std::vector<std::string> kernel_names() {
  std::vector<std::string> names;
  for (const auto& [name, kernel] : kernels()) names.push_back(name);
  return names;
}

}  // namespace forecost::emulation
