#include "core/stop.hpp"

#include <array>
#include <csignal>
#include <cstddef>
#include <initializer_list>

namespace forecost {

namespace {

volatile std::sig_atomic_t g_stop_signal = 0;

extern "C" void remember_stop(int signal) {
  if (signal == SIGINT && g_stop_signal == SIGINT) {
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);
  }
  g_stop_signal = signal;
}

}  // namespace

void install_stop_handlers() {
  // On a stack of their own: the matrix products of oneDNN (2.6.3, AVX-512) keep operands'
  // addresses in the stack pointer, and a handler's frame pushed there overwrites the heap.
  // Process-directed signals go to the main thread, which is the one that calls this.
  constexpr std::size_t stack_bytes = std::size_t{1} << 16;
  static std::array<std::byte, stack_bytes> stack;
  stack_t alternate{};
  alternate.ss_sp = stack.data();
  alternate.ss_size = stack.size();
  sigaltstack(&alternate, nullptr);

  struct sigaction action {};
  action.sa_handler = &remember_stop;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  for (const int signal : {SIGUSR1, SIGTERM, SIGINT}) sigaction(signal, &action, nullptr);
}

int stop_signal() noexcept { return g_stop_signal; }
void request_stop() noexcept { g_stop_signal = SIGUSR1; }
void clear_stop() noexcept { g_stop_signal = 0; }

}  // namespace forecost
