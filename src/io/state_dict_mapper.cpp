// StateDictMapper: every rule is a function of one tensor and its name.
#include "volta/io/state_dict_mapper.h"

#include <map>
#include <regex>

#include <fmt/format.h>

#include "encoding/json.h"
#include "io/name_glob.h"
#include "volta/error.h"
#include "volta/log.h"
#include "volta/ops.h"

namespace volta {

struct NamePattern::Expression {
  std::regex regex;
};

struct NamePattern::Glob {
  io::NameGlob glob;
};

NamePattern::NamePattern(const char* name) : name_(name) {}
NamePattern::NamePattern(std::string name) : name_(std::move(name)) {}

NamePattern NamePattern::regex(const std::string& expression) {
  NamePattern pattern;
  pattern.name_ = expression;
  try {
    pattern.expression_ = std::make_shared<const Expression>(Expression{std::regex(expression)});
  } catch (const std::regex_error& error) {
    throw ArgumentError(
        fmt::format("NamePattern: '{}' is no regular expression: {}", expression, error.what()));
  }
  return pattern;
}

NamePattern NamePattern::glob(const std::string& pattern) {
  NamePattern made;
  made.name_ = pattern;
  made.glob_ = std::make_shared<const Glob>(Glob{io::NameGlob(pattern)});
  return made;
}

namespace {

void refuse_long(const std::string& name, const std::string& expression) {
  if (name.size() <= NamePattern::kMaxRegexName) return;
  throw ArgumentError(fmt::format(
      "NamePattern: regex \"{}\": a name of {} bytes, {}..., is longer than the {} that "
      "regular expressions take; globs take any",
      expression, name.size(), io::json_excerpt(std::string_view(name).substr(0, 40)),
      NamePattern::kMaxRegexName));
}

// Fills in captures: $1 and $01 stand for the first wildcard, $$ for $.
std::string filled(std::string_view replacement, const std::vector<std::string_view>& captures,
                   std::string_view whole) {
  const auto digit = [&](std::size_t at) {
    return at < replacement.size() && replacement[at] >= '0' && replacement[at] <= '9';
  };
  std::string result;
  for (std::size_t i = 0; i < replacement.size(); ++i) {
    const char next = i + 1 < replacement.size() ? replacement[i + 1] : '\0';
    const bool stands_for_more = replacement[i] == '$' && (next == '&' || digit(i + 1));
    if (!stands_for_more) {
      result += replacement[i];
      if (replacement[i] == '$' && next == '$') ++i;
    } else if (next == '&') {
      result += whole;
      ++i;
    } else {
      std::size_t number = static_cast<std::size_t>(replacement[++i] - '0');
      if (digit(i + 1)) number = 10 * number + static_cast<std::size_t>(replacement[++i] - '0');
      if (number >= 1 && number <= captures.size()) result += captures[number - 1];
    }
  }
  return result;
}

}  // namespace

bool NamePattern::matches(const std::string& name) const {
  if (glob_) return glob_->glob.matches(name);
  if (!expression_) return name == name_;
  refuse_long(name, name_);
  return std::regex_search(name, expression_->regex);
}

std::string NamePattern::replaced(const std::string& name, const std::string& replacement) const {
  if (glob_) {
    const auto captures = glob_->glob.captures(name);
    return captures ? filled(replacement, *captures, name) : name;
  }
  if (!expression_) return replacement;
  refuse_long(name, name_);
  return std::regex_replace(name, expression_->regex, replacement);
}

std::string NamePattern::text() const {
  if (glob_) return fmt::format("glob \"{}\"", name_);
  return expression_ ? fmt::format("regex \"{}\"", name_) : fmt::format("\"{}\"", name_);
}

StateDictMapper& StateDictMapper::add(std::string text, Apply apply) {
  rules_.push_back({std::move(text), std::move(apply)});
  return *this;
}

StateDictMapper& StateDictMapper::rename(NamePattern from, std::string to) {
  std::string text = fmt::format("rename({}, \"{}\")", from.text(), to);
  return add(std::move(text), [from = std::move(from), to = std::move(to)](Item& item) {
    if (!from.matches(item.name)) return false;
    item.name = from.replaced(item.name, to);
    return true;
  });
}

StateDictMapper& StateDictMapper::prefix(std::string text) {
  std::string rule = fmt::format("prefix(\"{}\")", text);
  return add(std::move(rule), [text = std::move(text)](Item& item) {
    item.name.insert(0, text);
    return true;
  });
}

StateDictMapper& StateDictMapper::strip(std::string text) {
  std::string rule = fmt::format("strip(\"{}\")", text);
  return add(std::move(rule), [text = std::move(text)](Item& item) {
    if (!item.name.starts_with(text)) return false;
    item.name.erase(0, text.size());
    return true;
  });
}

StateDictMapper& StateDictMapper::transpose(NamePattern which, std::int64_t a, std::int64_t b) {
  std::string text = fmt::format("transpose({}, {}, {})", which.text(), a, b);
  return add(std::move(text), [which = std::move(which), a, b](Item& item) {
    if (!which.matches(item.name)) return false;
    const auto has = [rank = item.tensor.rank()](std::int64_t axis) {
      return axis >= -rank && axis < rank;
    };
    if (!has(a) || !has(b))
      throw ArgumentError(fmt::format("StateDictMapper: transpose: '{}' {} has no axes {} and {}",
                                      item.name, to_string(item.tensor.shape()), a, b));
    item.tensor = item.tensor.transpose(a, b);
    return true;
  });
}

StateDictMapper& StateDictMapper::select(NamePattern which) {
  std::string text = fmt::format("select({})", which.text());
  return add(std::move(text), [which = std::move(which)](Item& item) {
    item.dropped = !which.matches(item.name);
    return !item.dropped;
  });
}

StateDictMapper& StateDictMapper::exclude(NamePattern which) {
  std::string text = fmt::format("exclude({})", which.text());
  return add(std::move(text), [which = std::move(which)](Item& item) {
    item.dropped = which.matches(item.name);
    return item.dropped;
  });
}

StateDictMapper& StateDictMapper::transform(NamePattern which, Transform function) {
  if (!function) throw ArgumentError("StateDictMapper: transform: there is no function");
  std::string text = fmt::format("transform({})", which.text());
  return add(std::move(text),
             [which = std::move(which), function = std::move(function)](Item& item) {
               if (!which.matches(item.name)) return false;
               item.tensor = function(item.tensor);
               if (!item.tensor.defined())
                 throw ArgumentError(
                     fmt::format("StateDictMapper: transform: '{}' became undefined", item.name));
               return true;
             });
}

MappedState StateDictMapper::map(const StateDict& state) const {
  MappedState result;
  std::vector<bool> used(rules_.size());
  std::map<std::string, std::string> origins;
  for (const auto& [name, tensor] : state) {
    Item item{name, tensor};
    for (std::size_t i = 0; i < rules_.size() && !item.dropped; ++i)
      used[i] = rules_[i].apply(item) || used[i];
    if (item.dropped) {
      result.dropped.push_back(name);
      continue;
    }
    const auto [origin, is_new] = origins.emplace(item.name, name);
    if (!is_new)
      throw ArgumentError(fmt::format("StateDictMapper: '{}' and '{}' would both be '{}'",
                                      origin->second, name, item.name));
    if (item.name != name) result.renamed.emplace_back(name, item.name);
    result.state.add(std::move(item.name), std::move(item.tensor));
  }
  // Rules apply to tensors only, so unreadable entries keep their names.
  for (const auto& [name, problem] : state.unreadable())
    if (!result.state.contains(name)) result.state.add_unreadable(name, problem);
  for (std::size_t i = 0; i < rules_.size(); ++i)
    if (!used[i]) result.unused_rules.push_back(rules_[i].text);
  return result;
}

StateDict StateDictMapper::operator()(const StateDict& state) const {
  MappedState mapped = map(state);
  for (const std::string& rule : mapped.unused_rules)
    log(LogLevel::warning, fmt::format("StateDictMapper: {} matched no tensor", rule));
  return std::move(mapped.state);
}

}  // namespace volta
