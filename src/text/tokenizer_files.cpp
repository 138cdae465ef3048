// vocab.json with merges.txt, and tokenizer.json. What a file asks for and this tokenizer does not
// do is an error, not ignored.
#include "text/tokenizer_files.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "io/json.h"
#include "platform/files.h"
#include "volta/error.h"

namespace volta::text {
namespace {

using io::JsonValue;

[[noreturn]] void fail(const std::string& path, const std::string& problem) {
  throw IoError(fmt::format("{}: {}", path, problem));
}

const JsonValue* member(const JsonValue::Object& object, std::string_view key) {
  const auto found = std::find_if(object.begin(), object.end(),
                                  [&](const io::JsonMember& each) { return each.key == key; });
  return found == object.end() ? nullptr : &found->value;
}

bool is_null(const JsonValue& value) {
  return std::holds_alternative<JsonValue::Null>(value.value);
}

std::int64_t id_of(const std::string& path, const std::string& token, const JsonValue& value) {
  const std::optional<std::int64_t> id = value.as_integer();
  if (!id) fail(path, fmt::format("the number of token {} is no integer", io::json_quoted(token)));
  return *id;
}

// "left right", as lines of merges.txt and strings of tokenizer.json are.
void add_merge_line(BpeModel& model, const std::string& where, std::string_view line) {
  const std::size_t blank = line.find(' ');
  if (blank == std::string_view::npos || line.find(' ', blank + 1) != std::string_view::npos) {
    fail(where, fmt::format("{} is not a pair of tokens", io::json_quoted(line)));
  }
  model.add_merge(line.substr(0, blank), line.substr(blank + 1));
}

void read_merges(BpeModel& model, const std::string& path) {
  const std::string text = platform::read_file(path);
  std::string_view rest = text;
  for (int number = 1; !rest.empty(); ++number) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.starts_with("#version")) continue;
    add_merge_line(model, fmt::format("{}, line {}", path, number), line);
  }
}

// A tokenizer.json while it is read.
class TokenizerFile {
 public:
  explicit TokenizerFile(const std::string& path)
      : path_(path), root_(io::parse_json(platform::read_file(path), path)) {}

  LoadedTokenizer read() const {
    const JsonValue::Object& top = object(root_, "the file");
    refuse(top, "normalizer");
    const bool prefix = read_pre_tokenizer(need(top, "pre_tokenizer"));
    const JsonValue::Object& model = object(need(top, "model"), "model");
    check_model(model);
    BpeModel result(path_);
    const std::set<std::string> added = read_added(top, result);
    for (const auto& [token, id] : object(need(model, "vocab"), "model.vocab"))
      if (!added.contains(token)) result.add_token(token, id_of(path_, token, id));
    result.check_bytes();
    read_merges(need(model, "merges"), result);
    return {std::move(result), prefix};
  }

 private:
  const JsonValue& need(const JsonValue::Object& from, std::string_view key) const {
    const JsonValue* value = member(from, key);
    if (value == nullptr) fail(path_, fmt::format("there is no \"{}\"", key));
    return *value;
  }
  const JsonValue::Object& object(const JsonValue& value, std::string_view what) const {
    const JsonValue::Object* found = value.as_object();
    if (found == nullptr) fail(path_, fmt::format("{} is no JSON object", what));
    return *found;
  }
  // Something that would change the result, unless it is absent, null, false or "".
  void refuse(const JsonValue::Object& from, std::string_view key) const {
    const JsonValue* value = member(from, key);
    if (value == nullptr || is_null(*value)) return;
    if (const bool* flag = std::get_if<bool>(&value->value); flag != nullptr && !*flag) return;
    if (const std::string* text = value->as_string(); text != nullptr && text->empty()) return;
    fail(path_, fmt::format("\"{}\" is not supported", key));
  }
  bool flag(const JsonValue::Object& from, std::string_view key, bool otherwise) const {
    const JsonValue* value = member(from, key);
    if (value == nullptr) return otherwise;
    const bool* found = std::get_if<bool>(&value->value);
    if (found == nullptr) fail(path_, fmt::format("\"{}\" is neither true nor false", key));
    return *found;
  }
  void expect_type(const JsonValue::Object& from, const std::string& wanted,
                   std::string_view what) const {
    const std::string* type = need(from, "type").as_string();
    if (type == nullptr || *type != wanted) {
      fail(path_, fmt::format("{} is {}, only \"{}\" is supported", what,
                              type != nullptr ? io::json_quoted(*type) : "no string", wanted));
    }
  }

  bool read_pre_tokenizer(const JsonValue& value) const {
    const JsonValue::Object& pre = object(value, "pre_tokenizer");
    expect_type(pre, "ByteLevel", "pre_tokenizer");
    if (!flag(pre, "use_regex", true)) fail(path_, "\"use_regex\": false is not supported");
    return flag(pre, "add_prefix_space", true);
  }

  void check_model(const JsonValue::Object& model) const {
    // Older files have no type.
    if (member(model, "type") != nullptr) expect_type(model, "BPE", "model");
    for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix",
                            "byte_fallback", "ignore_merges"})
      refuse(model, key);
  }

  std::set<std::string> read_added(const JsonValue::Object& top, BpeModel& model) const {
    std::set<std::string> names;
    const JsonValue* list = member(top, "added_tokens");
    if (list == nullptr || is_null(*list)) return names;
    if (list->as_array() == nullptr) fail(path_, "added_tokens is no JSON array");
    for (const JsonValue& each : *list->as_array()) {
      const JsonValue::Object& token = object(each, "an added token");
      const std::string* name = need(token, "content").as_string();
      if (name == nullptr) fail(path_, "the content of an added token is no string");
      for (const char* key : {"lstrip", "rstrip", "single_word"}) refuse(token, key);
      model.add_special(*name, id_of(path_, *name, need(token, "id")));
      names.insert(*name);
    }
    return names;
  }

  void read_merges(const JsonValue& merges, BpeModel& model) const {
    const JsonValue::Array* list = merges.as_array();
    if (list == nullptr) fail(path_, "model.merges is no JSON array");
    for (const JsonValue& each : *list) {
      if (const std::string* line = each.as_string()) {
        add_merge_line(model, path_, *line);
        continue;
      }
      const JsonValue::Array* pair = each.as_array();
      const bool strings = pair != nullptr && pair->size() == 2 &&
                           (*pair)[0].as_string() != nullptr && (*pair)[1].as_string() != nullptr;
      if (!strings) fail(path_, "an entry of model.merges is not a pair of tokens");
      model.add_merge(*(*pair)[0].as_string(), *(*pair)[1].as_string());
    }
  }

  std::string path_;
  JsonValue root_;
};

}  // namespace

LoadedTokenizer read_vocab_and_merges(const std::string& vocab, const std::string& merges,
                                      const BPETokenizerOptions& options) {
  const JsonValue root = io::parse_json(platform::read_file(vocab), vocab);
  const JsonValue::Object* tokens = root.as_object();
  if (tokens == nullptr) fail(vocab, "the vocabulary is no JSON object");
  const std::set<std::string> special(options.special_tokens.begin(), options.special_tokens.end());
  BpeModel model(vocab);
  for (const auto& [token, value] : *tokens) {
    const std::int64_t id = id_of(vocab, token, value);
    if (special.contains(token)) {
      model.add_special(token, id);
    } else {
      model.add_token(token, id);
    }
  }
  model.check_bytes();
  read_merges(model, merges);
  return {std::move(model), options.add_prefix_space};
}

LoadedTokenizer read_tokenizer_json(const std::string& path) { return TokenizerFile(path).read(); }

}  // namespace volta::text
