// Reads vocab.json with merges.txt, and tokenizer.json. A setting that this tokenizer does not
// support is an error, never ignored.
#include "text/tokenizer_files.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "encoding/json.h"
#include "platform/files.h"
#include "volta/error.h"

namespace volta::text {
namespace {

using io::JsonReader;
using Kind = JsonReader::Kind;

constexpr std::uint64_t kMaxFileBytes = 256 << 20;  // the largest files in use have about 35 MB

[[noreturn]] void fail(const std::string& path, const std::string& problem) {
  throw IoError(fmt::format("{}: {}", path, problem));
}

std::int64_t read_id(const std::string& path, std::string_view token, JsonReader& reader) {
  const std::optional<std::int64_t> id = reader.integer();
  if (!id) fail(path, fmt::format("the number of token {} is no integer", io::json_excerpt(token)));
  return *id;
}

// Adds a merge written "left right", as in the lines of merges.txt and in tokenizer.json.
void add_merge_line(BpeModel& model, const std::string& where, std::string_view line) {
  const std::size_t blank = line.find(' ');
  if (blank == std::string_view::npos || line.find(' ', blank + 1) != std::string_view::npos) {
    fail(where, fmt::format("{} is not a pair of tokens", io::json_excerpt(line)));
  }
  model.add_merge(line.substr(0, blank), line.substr(blank + 1));
}

void read_merges(BpeModel& model, const std::string& path) {
  const std::string text = platform::read_file(path, kMaxFileBytes);
  std::string_view rest = text;
  for (int number = 1; !rest.empty(); ++number) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.starts_with("#version")) continue;
    add_merge_line(model, fmt::format("{}, line {}", path, number), line);
  }
}

// A tokenizer.json that is being read. The texts of an object's members are kept, so that they can
// be parsed in the order in which they are needed.
class TokenizerFile {
 public:
  explicit TokenizerFile(const std::string& path)
      : path_(path), text_(platform::read_file(path, kMaxFileBytes)) {}

  LoadedTokenizer read() const {
    const Object top = members({text_, 0}, "the file", true);
    refuse(top, "normalizer");
    const bool prefix = read_pre_tokenizer(need(top, "pre_tokenizer"));
    const Object model = members(need(top, "model"), "model");
    check_model(model);
    BpeModel result(path_);
    const std::set<std::string, std::less<>> added = read_added(top, result);
    read_vocab(need(model, "vocab"), added, result);
    result.check_bytes();
    read_merges(need(model, "merges"), result);
    return {std::move(result), prefix};
  }

 private:
  using Value = JsonReader::Raw;
  using Object = std::map<std::string, Value, std::less<>>;

  JsonReader reader_of(const Value& value) const { return {value.text, path_, value.at}; }
  Object members(const Value& value, std::string_view what, bool whole = false) const {
    JsonReader reader = reader_of(value);
    expect_object(reader, what);
    Object object;
    reader.begin_object();
    while (const auto next = reader.next_key()) {
      std::string key(*next);
      if (object.size() == kMostMembers)
        fail(path_, fmt::format("{} has more than {} members", what, kMostMembers));
      object.emplace(std::move(key), reader.skip());
    }
    if (whole) reader.finish();
    return object;
  }
  void expect_object(JsonReader& reader, std::string_view what) const {
    if (reader.kind() != Kind::object) fail(path_, fmt::format("{} is no JSON object", what));
  }
  const Value& need(const Object& from, std::string_view key) const {
    const auto found = from.find(key);
    if (found == from.end()) fail(path_, fmt::format("there is no \"{}\"", key));
    return found->second;
  }
  // Throws if the setting is present, because it would change the result. Null, false and "" are
  // allowed.
  void refuse(const Object& from, std::string_view key) const {
    const auto found = from.find(key);
    if (found == from.end()) return;
    const std::string_view text = found->second.text;
    if (text != "null" && text != "false" && text != "\"\"")
      fail(path_, fmt::format("\"{}\" is not supported", key));
  }
  bool flag(const Object& from, std::string_view key, bool otherwise) const {
    const auto found = from.find(key);
    if (found == from.end()) return otherwise;
    const std::string_view text = found->second.text;
    if (text != "true" && text != "false")
      fail(path_, fmt::format("\"{}\" is neither true nor false", key));
    return text == "true";
  }
  void expect_type(const Object& from, const std::string& wanted, std::string_view what) const {
    JsonReader reader = reader_of(need(from, "type"));
    const std::string type(reader.kind() == Kind::string ? reader.string() : std::string_view());
    if (type != wanted) {
      fail(path_, fmt::format("{} is {}, only \"{}\" is supported", what,
                              type.empty() ? "no string" : io::json_excerpt(type), wanted));
    }
  }

  bool read_pre_tokenizer(const Value& value) const {
    const Object pre = members(value, "pre_tokenizer");
    expect_type(pre, "ByteLevel", "pre_tokenizer");
    if (!flag(pre, "use_regex", true)) fail(path_, "\"use_regex\": false is not supported");
    return flag(pre, "add_prefix_space", true);
  }

  void check_model(const Object& model) const {
    // Older files have no type.
    if (model.contains("type")) expect_type(model, "BPE", "model");
    for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix",
                            "byte_fallback", "ignore_merges"})
      refuse(model, key);
  }

  std::set<std::string, std::less<>> read_added(const Object& top, BpeModel& model) const {
    std::set<std::string, std::less<>> names;
    const auto found = top.find("added_tokens");
    if (found == top.end() || found->second.text == "null") return names;
    JsonReader list = reader_of(found->second);
    if (list.kind() != Kind::array) fail(path_, "added_tokens is no JSON array");
    list.begin_array();
    while (list.next_item()) {
      const Object token = members(list.skip(), "an added token");
      JsonReader content = reader_of(need(token, "content"));
      if (content.kind() != Kind::string) fail(path_, "the content of an added token is no string");
      const std::string name(content.string());
      for (const char* key : {"lstrip", "rstrip", "single_word"}) refuse(token, key);
      JsonReader id = reader_of(need(token, "id"));
      model.add_special(name, read_id(path_, name, id));
      names.insert(name);
    }
    return names;
  }

  void read_vocab(const Value& value, const std::set<std::string, std::less<>>& added,
                  BpeModel& model) const {
    JsonReader vocab = reader_of(value);
    expect_object(vocab, "model.vocab");
    vocab.begin_object();
    while (const auto next = vocab.next_key()) {
      const std::string token(*next);
      const std::int64_t id = read_id(path_, token, vocab);
      if (!added.contains(token)) model.add_token(token, id);
    }
  }

  void read_merges(const Value& merges, BpeModel& model) const {
    JsonReader list = reader_of(merges);
    if (list.kind() != Kind::array) fail(path_, "model.merges is no JSON array");
    list.begin_array();
    while (list.next_item()) {
      if (list.kind() == Kind::string) {
        add_merge_line(model, path_, list.string());
        continue;
      }
      std::string pair[2];
      std::size_t count = 0;
      bool strings = list.kind() == Kind::array;
      if (!strings) fail(path_, "an entry of model.merges is not a pair of tokens");
      for (list.begin_array(); list.next_item(); ++count) {
        strings = strings && count < 2 && list.kind() == Kind::string;
        if (!strings) fail(path_, "an entry of model.merges is not a pair of tokens");
        pair[count] = list.string();
      }
      if (count != 2) fail(path_, "an entry of model.merges is not a pair of tokens");
      model.add_merge(pair[0], pair[1]);
    }
  }

  static constexpr std::size_t kMostMembers = 1000;  // limit for objects other than the vocabulary
  std::string path_, text_;
};

}  // namespace

LoadedTokenizer read_vocab_and_merges(const std::string& vocab, const std::string& merges,
                                      const BPETokenizerOptions& options) {
  const std::string text = platform::read_file(vocab, kMaxFileBytes);
  JsonReader tokens(text, vocab);
  if (tokens.kind() != Kind::object) fail(vocab, "the vocabulary is no JSON object");
  const std::set<std::string, std::less<>> special(options.special_tokens.begin(),
                                                   options.special_tokens.end());
  BpeModel model(vocab);
  tokens.begin_object();
  while (const auto next = tokens.next_key()) {
    const std::string token(*next);
    const std::int64_t id = read_id(vocab, token, tokens);
    if (special.contains(token)) {
      model.add_special(token, id);
    } else {
      model.add_token(token, id);
    }
  }
  tokens.finish();
  model.check_bytes();
  read_merges(model, merges);
  return {std::move(model), options.add_prefix_space};
}

LoadedTokenizer read_tokenizer_json(const std::string& path) { return TokenizerFile(path).read(); }

}  // namespace volta::text
