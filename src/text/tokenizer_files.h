// Readers of Hugging Face's vocabulary files.
#pragma once

#include <string>

#include "text/bpe_model.h"
#include "volta/text/tokenizer.h"

namespace volta::text {

struct LoadedTokenizer {
  BpeModel model;
  bool add_prefix_space;
};

// All functions throw IoError naming the file and the problem.
LoadedTokenizer read_vocab_and_merges(const std::string& vocab, const std::string& merges,
                                      const BPETokenizerOptions& options);
LoadedTokenizer read_tokenizer_json(const std::string& path);

}  // namespace volta::text
