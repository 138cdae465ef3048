// StateDictMapper: names and layouts of one model's state dict turned into another's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "volta/io.h"
#include "volta/tensor.h"

namespace volta {

// Which tensors a rule is for: the one of this name, those whose whole name a glob() matches, or,
// by regex(), all in whose names the expression (ECMAScript) is found; anchor it with ^ and $ to
// have it match the whole name. A glob takes names of any length, in time that grows with it.
// Regular expressions are matched by std::regex, which is recursive: names of more than
// kMaxRegexName bytes are an ArgumentError, and an expression with stars within stars takes as long
// as it takes.
class VOLTA_API NamePattern {
 public:
  NamePattern(const char* name);  // NOLINT: implicit on purpose
  NamePattern(std::string name);  // NOLINT: implicit on purpose
  static constexpr std::size_t kMaxRegexName = 1024;

  // Throws ArgumentError for what is no regular expression.
  static NamePattern regex(const std::string& expression);
  // * is any text, ? one character, [ab], [a-c] and [!a] one of some. In a replacement, $1, $2, ...
  // stand for what they matched; of several * the first takes as much as it can.
  static NamePattern glob(const std::string& pattern);

  bool matches(const std::string& name) const;
  // The name with every match replaced; $1, $2, ... and $& stand for groups and the match. A
  // literal name is replaced as it is.
  std::string replaced(const std::string& name, const std::string& replacement) const;
  std::string text() const;  // for messages

 private:
  struct Expression;
  struct Glob;
  NamePattern() = default;
  std::string name_;
  std::shared_ptr<const Expression> expression_;
  std::shared_ptr<const Glob> glob_;  // neither: a literal name
};

// What a mapping did.
struct MappedState {
  StateDict state;
  std::vector<std::pair<std::string, std::string>> renamed;  // old name, new name
  std::vector<std::string> dropped;                          // by select and exclude
  std::vector<std::string> unused_rules;                     // rules that no tensor matched
};

// Rules, applied in the order they were added to each tensor of a state dict:
//   const StateDict mine = StateDictMapper()
//                              .strip("transformer.")
//                              .rename(NamePattern::regex("^h\\.(\\d+)\\."), "blocks.$1.")
//                              .transpose(NamePattern::regex("attn\\.c_attn\\.weight$"))
//                              .exclude(NamePattern::regex("\\.attn\\.bias$"))(theirs);
// A rule sees the names that the rules before it made. Tensors are not computed: transposition is
// recorded.
class VOLTA_API StateDictMapper {
 public:
  using Transform = std::function<Tensor(const Tensor&)>;

  StateDictMapper& rename(NamePattern from, std::string to);
  StateDictMapper& prefix(std::string text);  // put before every name
  StateDictMapper& strip(std::string text);   // taken from the names that begin with it
  // Exchanges two axes, by default the last two.
  StateDictMapper& transpose(NamePattern which, std::int64_t a = -2, std::int64_t b = -1);
  StateDictMapper& select(NamePattern which);   // drops all others
  StateDictMapper& exclude(NamePattern which);  // drops these
  StateDictMapper& transform(NamePattern which, Transform function);

  // Throws ArgumentError where two tensors would have one name, or a transposed one has not the
  // axes.
  MappedState map(const StateDict& state) const;
  // The same, of which the state only; warns in the log of rules that no tensor matched.
  StateDict operator()(const StateDict& state) const;

 private:
  struct Item {
    std::string name;
    Tensor tensor;
    bool dropped = false;
  };
  // Whether it applied; select's "applied" is a match.
  using Apply = std::function<bool(Item&)>;
  struct Rule {
    std::string text;
    Apply apply;
  };
  StateDictMapper& add(std::string text, Apply apply);

  std::vector<Rule> rules_;
};

}  // namespace volta
