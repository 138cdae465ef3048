// BPETokenizer: splits text at special tokens, then into pieces, and merges the bytes of each
// piece.
#include "volta/text/tokenizer.h"

#include <filesystem>

#include <fmt/format.h>

#include "text/pretokenize.h"
#include "text/tokenizer_files.h"
#include "volta/error.h"

namespace volta::text {

struct BPETokenizer::State {
  LoadedTokenizer loaded;

  // Encodes text that contains no special tokens.
  void encode_plain(std::string_view text, std::vector<std::int64_t>& ids) const {
    std::string with_blank;
    if (loaded.add_prefix_space && !text.empty() && text.front() != ' ') {
      with_blank = " " + std::string(text);
      text = with_blank;
    }
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = end_of_piece(text, at);
      loaded.model.encode(text.substr(at, end - at), ids);
      at = end;
    }
  }
};

BPETokenizer::BPETokenizer(std::shared_ptr<const State> state) : state_(std::move(state)) {}

BPETokenizer BPETokenizer::from_files(const std::string& vocab, const std::string& merges,
                                      const BPETokenizerOptions& options) {
  return BPETokenizer(
      std::make_shared<const State>(State{read_vocab_and_merges(vocab, merges, options)}));
}

BPETokenizer BPETokenizer::from_tokenizer_json(const std::string& path) {
  return BPETokenizer(std::make_shared<const State>(State{read_tokenizer_json(path)}));
}

BPETokenizer BPETokenizer::from_pretrained(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return from_tokenizer_json(path);
  const fs::path folder = path;
  if (fs::exists(folder / "tokenizer.json", ignored))
    return from_tokenizer_json((folder / "tokenizer.json").string());
  if (!fs::exists(folder / "vocab.json", ignored)) {
    throw IoError(
        fmt::format("{}: there is neither tokenizer.json nor vocab.json and merges.txt", path));
  }
  return from_files((folder / "vocab.json").string(), (folder / "merges.txt").string());
}

std::vector<std::int64_t> BPETokenizer::encode(std::string_view text, EncodeOptions options) const {
  const BpeModel& model = state_->loaded.model;
  std::vector<std::int64_t> ids;
  std::size_t start = 0;
  if (options.special_tokens && model.has_special()) {
    for (std::size_t at = 0; at < text.size();) {
      const auto* special = model.special_at(text.substr(at));
      if (special == nullptr) {
        ++at;
        continue;
      }
      state_->encode_plain(text.substr(start, at - start), ids);
      ids.push_back(special->second);
      start = at += special->first.size();
    }
  }
  state_->encode_plain(text.substr(start), ids);
  return ids;
}

std::string BPETokenizer::decode(std::span<const std::int64_t> ids, DecodeOptions options) const {
  std::string text;
  for (const std::int64_t id : ids) {
    const BpeModel::Token* token = state_->loaded.model.find(id);
    if (token == nullptr) {
      throw ArgumentError(fmt::format("decode: {} is not a token; there are {}", id, vocab_size()));
    }
    if (!(token->special && options.skip_special_tokens)) text += token->bytes;
  }
  return text;
}

std::int64_t BPETokenizer::vocab_size() const { return state_->loaded.model.largest_id() + 1; }

std::optional<std::int64_t> BPETokenizer::id_of(std::string_view token) const {
  const std::int64_t* id = state_->loaded.model.find(token);
  return id != nullptr ? std::optional(*id) : std::nullopt;
}

bool BPETokenizer::is_special(std::int64_t id) const {
  const BpeModel::Token* token = state_->loaded.model.find(id);
  return token != nullptr && token->special;
}

}  // namespace volta::text
