#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

namespace forecost {

/// Sleeps between polls: a few free ones for answers that are there already, then 20 us growing to
/// 2 ms. Open MPI's blocking calls spin at 100 % of a core, which neighbours may be measuring on.
class PoliteWait {
 public:
  void pause() {
    if (++polls_ <= 50) return;
    std::this_thread::sleep_for(nap_);
    nap_ = std::min(nap_ * 3 / 2, std::chrono::microseconds(2000));
  }
  /// Something arrived: the next thing may be near.
  void reset() { *this = PoliteWait(); }

 private:
  int polls_ = 0;
  std::chrono::microseconds nap_{20};
};

}  // namespace forecost
