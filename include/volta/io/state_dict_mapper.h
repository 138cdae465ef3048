// StateDictMapper: converts the names and layouts of one model's state dict to another's.
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

// The tensors that a rule applies to: the one with this name, those whose whole name matches a
// glob(), or those whose name contains a match of a regex() (ECMAScript); use ^ and $ to match the
// whole name. A glob accepts names of any length, in time proportional to it. Regular expressions
// use std::regex, which is recursive: names of more than kMaxRegexName bytes are an ArgumentError,
// and an expression with nested stars may take very long.
class VOLTA_API NamePattern {
 public:
  NamePattern(const char* name);  // NOLINT: implicit on purpose
  NamePattern(std::string name);  // NOLINT: implicit on purpose
  static constexpr std::size_t kMaxRegexName = 1024;

  // Throws ArgumentError for an invalid regular expression.
  static NamePattern regex(const std::string& expression);
  // * matches any text, ? one character, [ab], [a-c] and [!a] one character of a set. In a
  // replacement $1, $2, ... stand for the matched texts; of several * the first one takes as much
  // as it can.
  static NamePattern glob(const std::string& pattern);

  bool matches(const std::string& name) const;
  // Returns the name with every match replaced; $1, $2, ... and $& stand for groups and the match.
  // The replacement of a literal name is used unchanged.
  std::string replaced(const std::string& name, const std::string& replacement) const;
  std::string text() const;  // for messages

 private:
  struct Expression;
  struct Glob;
  NamePattern() = default;
  std::string name_;
  std::shared_ptr<const Expression> expression_;
  std::shared_ptr<const Glob> glob_;  // if neither is set, a literal name
};

// The result of a mapping.
struct MappedState {
  StateDict state;
  std::vector<std::pair<std::string, std::string>> renamed;  // old name, new name
  std::vector<std::string> dropped;                          // dropped by select and exclude
  std::vector<std::string> unused_rules;                     // rules that no tensor matched
};

// Rules, applied in the order in which they were added to each tensor of a state dict:
//   const StateDict mine = StateDictMapper()
//                              .strip("transformer.")
//                              .rename(NamePattern::regex("^h\\.(\\d+)\\."), "blocks.$1.")
//                              .transpose(NamePattern::regex("attn\\.c_attn\\.weight$"))
//                              .exclude(NamePattern::regex("\\.attn\\.bias$"))(theirs);
// A rule sees the names that earlier rules produced. Tensors are not computed: transpositions are
// only recorded.
class VOLTA_API StateDictMapper {
 public:
  using Transform = std::function<Tensor(const Tensor&)>;

  StateDictMapper& rename(NamePattern from, std::string to);
  StateDictMapper& prefix(std::string text);  // added before every name
  StateDictMapper& strip(std::string text);   // removed from names that begin with it
  // Exchanges two axes, by default the last two.
  StateDictMapper& transpose(NamePattern which, std::int64_t a = -2, std::int64_t b = -1);
  StateDictMapper& select(NamePattern which);   // drops all other tensors
  StateDictMapper& exclude(NamePattern which);  // drops these tensors
  StateDictMapper& transform(NamePattern which, Transform function);

  // Throws ArgumentError if two tensors would have the same name, or if a tensor lacks an axis to
  // transpose.
  MappedState map(const StateDict& state) const;
  // Returns the mapped state dict only, and logs a warning about rules that matched no tensor.
  StateDict operator()(const StateDict& state) const;

 private:
  struct Item {
    std::string name;
    Tensor tensor;
    bool dropped = false;
  };
  // Returns whether the rule applied; for select, whether it matched.
  using Apply = std::function<bool(Item&)>;
  struct Rule {
    std::string text;
    Apply apply;
  };
  StateDictMapper& add(std::string text, Apply apply);

  std::vector<Rule> rules_;
};

}  // namespace volta
