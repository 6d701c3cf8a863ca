#pragma once

#include <string>
#include <string_view>

#include "data/corpus/corpus.hpp"

namespace forecost {

// The payloads of journal records: CBOR maps from field name to value. A field that is missing
// takes its default and an unknown one is passed over, so journals outlive small changes of the
// schema.

enum class RecordKind : char {
  device = 'D',
  environment = 'E',
  group = 'G',
  sweep = 'S',
  run = 'R',
  row = 'M'
};

std::string encode(const Device& device);
std::string encode(const Environment& environment);
std::string encode(const GangRecord& group);
std::string encode(const SweepRecord& sweep);
std::string encode(const Run& run);
std::string encode(const Measurement& row);

/// Adds one decoded record to the corpus as it is, without looking for duplicates. Throws DataError
/// with `place` ("FILE: record at byte N") in front.
void decode_into(Corpus& corpus, char kind, std::string_view payload, const std::string& place);

}  // namespace forecost
