// A byte-pair vocabulary: tokens as bytes, and the merges by rank.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace volta::text {

using TokenId = std::int32_t;

class BpeModel {
 public:
  // The functions below throw IoError, with `source` first, for an invalid vocabulary: IDs that are
  // negative or occur twice, bytes without a token, merges whose result is not a token.
  explicit BpeModel(std::string source) : source_(std::move(source)) {}
  // `written` is the token as files have it, with one printable character per byte.
  void add_token(std::string_view written, std::int64_t id);
  void add_special(const std::string& name, std::int64_t id);
  void add_merge(std::string_view left, std::string_view right);  // called in order of rank
  void check_bytes();  // called after all tokens were added

  // Appends the tokens of a piece to `ids`.
  void encode(std::string_view piece, std::vector<std::int64_t>& ids) const;

  struct Token {
    std::string bytes;
    bool special = false;
  };
  const Token* find(std::int64_t id) const;                // null if there is none
  const std::int64_t* find(std::string_view bytes) const;  // null if there is none
  std::int64_t largest_id() const { return largest_; }
  // Returns the longest special token at the start of the text, or null.
  const std::pair<const std::string, std::int64_t>* special_at(std::string_view text) const;
  bool has_special() const { return !special_.empty(); }

 private:
  struct Merge {
    std::int32_t rank;
    TokenId id;
  };
  [[noreturn]] void fail(const std::string& problem) const;
  std::string bytes_of(std::string_view written) const;
  void add(std::string bytes, std::int64_t id, bool special);
  TokenId part_of_merge(std::string_view written) const;
  const Merge* merge_of(TokenId left, TokenId right) const;

  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };
  std::string source_;
  std::unordered_map<std::int64_t, Token> tokens_;
  std::unordered_map<std::string, std::int64_t, Hash, std::equal_to<>> ids_;
  std::unordered_map<std::string, std::int64_t> special_;
  std::array<bool, 256> special_starts_{};
  std::unordered_map<std::uint64_t, Merge> merges_;
  std::array<TokenId, 256> byte_ids_{};
  std::int64_t largest_ = -1;
};

}  // namespace volta::text
