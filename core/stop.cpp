#include "core/stop.hpp"

#include <csignal>
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
  struct sigaction action {};
  action.sa_handler = &remember_stop;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGUSR1, SIGTERM, SIGINT}) sigaction(signal, &action, nullptr);
}

int stop_signal() noexcept { return g_stop_signal; }
void request_stop() noexcept { g_stop_signal = SIGUSR1; }
void clear_stop() noexcept { g_stop_signal = 0; }

}  // namespace forecost
