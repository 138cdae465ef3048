// StateDictMapper: every rule is a function of one tensor and its name.
#include "volta/io/state_dict_mapper.h"

#include <map>
#include <regex>

#include <fmt/format.h>

#include "volta/error.h"
#include "volta/log.h"
#include "volta/ops.h"

namespace volta {

struct NamePattern::Expression {
  std::regex regex;
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

bool NamePattern::matches(const std::string& name) const {
  return expression_ ? std::regex_search(name, expression_->regex) : name == name_;
}

std::string NamePattern::replaced(const std::string& name, const std::string& replacement) const {
  return expression_ ? std::regex_replace(name, expression_->regex, replacement) : replacement;
}

std::string NamePattern::text() const {
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
