// Reading vocabularies of Hugging Face's files.
#pragma once

#include <string>

#include "text/bpe_model.h"
#include "volta/text/tokenizer.h"

namespace volta::text {

struct LoadedTokenizer {
  BpeModel model;
  bool add_prefix_space;
};

// All throw IoError, naming the file and what is wrong with it.
LoadedTokenizer read_vocab_and_merges(const std::string& vocab, const std::string& merges,
                                      const BPETokenizerOptions& options);
LoadedTokenizer read_tokenizer_json(const std::string& path);

}  // namespace volta::text
