#pragma once

#include <deque>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "data/corpus/corpus.hpp"
#include "train/model/baselines.hpp"

namespace forecost {

/// The ok rows of corpora as training and evaluation see them. Examples point into `devices`.
struct Dataset {
  std::deque<Device> devices;
  std::vector<Example> examples;
  std::vector<std::string> corpus_hashes;  ///< SHA-256 of each file

  Dataset() = default;
  Dataset(Dataset&&) = default;
  Dataset& operator=(Dataset&&) = default;
  Dataset(const Dataset&) = delete;
};

/// The preset says what an example is: a measured pass ("default"), or, for "justus2018", forward
/// alone and the sum of a layer's passes as a training step, one for each optimizer whose update
/// was measured. Takes corpora and
/// run directories, which are read batch by batch; a row that is in several counts once. Throws
/// what CorpusReader throws, and DataError where they contradict each other.
Dataset load_dataset(const std::vector<std::filesystem::path>& corpora, std::string_view preset);
/// The same of a corpus in memory.
Dataset make_dataset(const Corpus& corpus, std::string_view preset);

}  // namespace forecost
