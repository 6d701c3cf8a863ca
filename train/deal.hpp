#pragma once

#include <span>
#include <vector>

namespace forecost {

/// How many ranks train one network together where nobody says: as few as keep all busy, since
/// networks side by side scale better than slices of one batch. It divides `ranks`.
int default_ranks_per_model(int ranks, int networks);

/// Which of `groups` takes each job, so that the last one to finish finishes early: largest first,
/// each to the group that has least (Graham 1969: at most a third above the best there is). The
/// same on every rank.
std::vector<int> deal(std::span<const double> costs, int groups);

}  // namespace forecost
