#pragma once

namespace forecost {

/// Installs handlers that remember SIGUSR1, SIGTERM and SIGINT as a wish to stop early, on a stack
/// of their own. A second SIGINT ends the program at once. Called once, on the main thread.
void install_stop_handlers();
/// The signal that asked for a stop, 0 while none did. Async-signal-safe storage, so it is the one
/// process-wide variable of the program.
int stop_signal() noexcept;
/// As if SIGUSR1 had arrived (tests, a peer's request).
void request_stop() noexcept;
/// For tests: forgets an earlier request.
void clear_stop() noexcept;

}  // namespace forecost
