#pragma once

#include "core/hash.hpp"
#include "data/measurement.hpp"

namespace forecost {

// Row keys by the million: what row_key() says as text, without the text.

/// Order by operator parameters, then the rest of the row key, a failure before the ok row of its
/// key; rows of one operator.
bool key_less(const Measurement& a, const Measurement& b);

/// Equal for rows of one row_key(); different keys differ, as far as SHA-256 goes.
Hash128 row_key_hash(const Measurement& row);
/// The same of the task key and the replicate, on whichever device of the class.
Hash128 task_and_replicate_hash(const Measurement& row);

}  // namespace forecost
