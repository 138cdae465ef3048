// The checks of a vocabulary, and the merging of pairs: the lowest rank first, the leftmost of
// equals.
#include "text/bpe_model.h"

#include <limits>
#include <queue>
#include <tuple>

#include <fmt/format.h>

#include "encoding/json.h"
#include "encoding/unicode.h"
#include "volta/error.h"

namespace volta::text {
namespace {

// The largest vocabularies in use have about 300,000 tokens. Tables have as many rows as the
// largest ID, so the IDs themselves are bounded, not only their number.
constexpr std::int64_t kMostIds = 1 << 24;
constexpr std::size_t kMostSpecial = 1 << 16;
constexpr char32_t kFirstStandIn = 0x100, kStandIns = 68;

// Printable Latin-1 characters stand for themselves.
constexpr bool is_plain(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

// The byte that each character of a vocabulary file stands for, or -1. Bytes that are not printable
// are represented by the characters from U+0100 on, in order.
constexpr std::array<std::int16_t, kFirstStandIn + kStandIns> make_bytes() {
  std::array<std::int16_t, kFirstStandIn + kStandIns> bytes{};
  for (auto& byte : bytes) byte = -1;
  std::size_t next = kFirstStandIn;
  for (unsigned byte = 0; byte < 256; ++byte)
    bytes[is_plain(byte) ? byte : next++] = static_cast<std::int16_t>(byte);
  return bytes;
}
constexpr auto kBytes = make_bytes();
static_assert(kBytes.back() == 0xAD, "the soft hyphen is the last byte that is not printable");

std::uint64_t pair_of(TokenId left, TokenId right) {
  return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
}

}  // namespace

void BpeModel::fail(const std::string& problem) const {
  throw IoError(fmt::format("{}: {}", source_, problem));
}

std::string BpeModel::bytes_of(std::string_view written) const {
  std::string bytes;
  for (std::size_t at = 0; at < written.size();) {
    const Character next = character_at(written, at);
    const int byte = next.point < kBytes.size() ? kBytes[next.point] : -1;
    if (byte < 0) {
      fail(fmt::format("token {}: {} at byte {} stands for no byte", io::json_excerpt(written),
                       io::json_excerpt(written.substr(at, next.bytes)), at));
    }
    bytes += static_cast<char>(byte);
    at += next.bytes;
  }
  return bytes;
}

void BpeModel::add(std::string bytes, std::int64_t id, bool special) {
  if (bytes.empty()) fail("a token is empty");
  if (id < 0 || id >= kMostIds)
    fail(fmt::format("token {} has the number {}, expected is one from 0 to {}",
                     io::json_excerpt(bytes), id, kMostIds - 1));
  const auto [token, fresh] = tokens_.try_emplace(id, Token{bytes, special});
  if (!fresh && token->second.bytes != bytes) {
    fail(fmt::format("tokens {} and {} have the number {}", io::json_excerpt(token->second.bytes),
                     io::json_excerpt(bytes), id));
  }
  const auto [known, is_new] = ids_.try_emplace(std::move(bytes), id);
  if (!is_new && known->second != id) {
    fail(fmt::format("token {} has two numbers, {} and {}", io::json_excerpt(known->first),
                     known->second, id));
  }
  token->second.special = special;
  largest_ = std::max(largest_, id);
}

void BpeModel::add_token(std::string_view written, std::int64_t id) {
  add(bytes_of(written), id, false);
}

void BpeModel::add_special(const std::string& name, std::int64_t id) {
  add(name, id, true);
  if (special_.size() >= kMostSpecial && !special_.contains(name))
    fail(fmt::format("more than {} special tokens", kMostSpecial));
  special_.insert_or_assign(name, id);
  special_starts_[static_cast<unsigned char>(name.front())] = true;
}

TokenId BpeModel::part_of_merge(std::string_view written) const {
  const std::int64_t* id = find(bytes_of(written));
  if (id == nullptr) {
    fail(fmt::format("merge {}: {} is not in the vocabulary", merges_.size() + 1,
                     io::json_excerpt(written)));
  }
  return static_cast<TokenId>(*id);
}

void BpeModel::add_merge(std::string_view left, std::string_view right) {
  const auto rank = static_cast<std::int32_t>(merges_.size());
  const TokenId a = part_of_merge(left), b = part_of_merge(right);
  const TokenId joined = part_of_merge(std::string(left) + std::string(right));
  if (!merges_.try_emplace(pair_of(a, b), Merge{rank, joined}).second) {
    fail(fmt::format("merge {}: {} and {} are joined before", rank + 1, io::json_excerpt(left),
                     io::json_excerpt(right)));
  }
}

void BpeModel::check_bytes() {
  for (unsigned byte = 0; byte < 256; ++byte) {
    const std::int64_t* id = find(std::string(1, static_cast<char>(byte)));
    if (id == nullptr) fail(fmt::format("the vocabulary has no token for the byte 0x{:02X}", byte));
    byte_ids_[byte] = static_cast<TokenId>(*id);
  }
}

const BpeModel::Token* BpeModel::find(std::int64_t id) const {
  const auto found = tokens_.find(id);
  return found == tokens_.end() ? nullptr : &found->second;
}

const std::int64_t* BpeModel::find(std::string_view bytes) const {
  const auto found = ids_.find(bytes);
  return found == ids_.end() ? nullptr : &found->second;
}

const BpeModel::Merge* BpeModel::merge_of(TokenId left, TokenId right) const {
  const auto found = merges_.find(pair_of(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

const std::pair<const std::string, std::int64_t>* BpeModel::special_at(
    std::string_view text) const {
  if (text.empty() || !special_starts_[static_cast<unsigned char>(text.front())]) return nullptr;
  const std::pair<const std::string, std::int64_t>* longest = nullptr;
  for (const auto& special : special_) {
    if (text.starts_with(special.first) &&
        (longest == nullptr || special.first.size() > longest->first.size()))
      longest = &special;
  }
  return longest;
}

void BpeModel::encode(std::string_view piece, std::vector<std::int64_t>& ids) const {
  constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  struct Symbol {
    TokenId id;
    std::size_t before, after;
    bool alive = true;
  };
  std::vector<Symbol> symbols;
  symbols.reserve(piece.size());
  for (std::size_t i = 0; i < piece.size(); ++i) {
    symbols.push_back({byte_ids_[static_cast<unsigned char>(piece[i])], i == 0 ? kNone : i - 1,
                       i + 1 == piece.size() ? kNone : i + 1});
  }
  // Pairs that may be merged, by rank and position. A pair that has changed since is skipped when
  // it is taken from the queue, so a piece of length n takes O(n log n).
  struct Candidate {
    std::int32_t rank;
    std::size_t at;
    bool operator>(const Candidate& other) const {
      return std::tie(rank, at) > std::tie(other.rank, other.at);
    }
  };
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates;
  const auto merge_at = [&](std::size_t at) -> const Merge* {
    const std::size_t after = symbols[at].after;
    return after == kNone ? nullptr : merge_of(symbols[at].id, symbols[after].id);
  };
  const auto consider = [&](std::size_t at) {
    if (const Merge* merge = merge_at(at)) candidates.push({merge->rank, at});
  };
  for (std::size_t i = 0; i < symbols.size(); ++i) consider(i);
  while (!candidates.empty()) {
    const auto [rank, at] = candidates.top();
    candidates.pop();
    const Merge* merge = symbols[at].alive ? merge_at(at) : nullptr;
    if (merge == nullptr || merge->rank != rank) continue;
    Symbol& symbol = symbols[at];
    Symbol& swallowed = symbols[symbol.after];
    swallowed.alive = false;
    symbol.id = merge->id;
    symbol.after = swallowed.after;
    if (symbol.after != kNone) symbols[symbol.after].before = at;
    consider(at);
    if (symbol.before != kNone) consider(symbol.before);
  }
  for (const Symbol& symbol : symbols)
    if (symbol.alive) ids.push_back(symbol.id);
}

}  // namespace volta::text
