#pragma once

#include "collect/backend.hpp"

namespace forecost {

/// Answers from a device model or a corpus, on a virtual clock: a sweep of hours passes in seconds.
/// --replay takes comma-separated sources, given to ranks in turn (replay_spec.hpp): shipped device
/// names, device TOML files, a corpus.h5 (each of its classes counts as a source of its own), or
/// `none` for a rank without a device. A row of a corpus is played with its raw samples, in their
/// order and again from the front once they are used up; the runs of the warm-up take as long as
/// the first of them. One without samples, and a device model, are played with `noise`.
extern const BackendInfo replay_backend;

}  // namespace forecost
