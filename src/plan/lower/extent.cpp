// Arithmetic with open sizes, and the formulas that a plan keeps.
#include "plan/lower/extent.h"

#include <fmt/format.h>

#include <bit>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "plan/lower/thread_state.h"

namespace volta::plan {
namespace {

constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min() / 4;
constexpr std::int64_t kHighest = std::numeric_limits<std::int64_t>::max() / 4;

__extension__ using Wide = __int128;

// Saturating arithmetic of bounds.
std::int64_t limited(Wide number) {
  return static_cast<std::int64_t>(std::clamp<Wide>(number, kLowest, kHighest));
}
std::int64_t floor_div(std::int64_t a, std::int64_t b) {  // b > 0
  return a >= 0 ? a / b : -((-a + b - 1) / b);
}
std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return -floor_div(-a, b); }

}  // namespace

std::size_t OpenSizes::Numbers::operator()(const std::vector<std::int64_t>& numbers) const {
  std::uint64_t hash = 0x9E3779B97F4A7C15u;
  for (const std::int64_t number : numbers) {
    hash = (hash ^ static_cast<std::uint64_t>(number)) * 0x9FB21C651E98DF25u;
    hash ^= hash >> 32;
  }
  return hash;
}

OpenSizes::OpenSizes() : outer_(std::exchange(thread_state().sizes, this)) {}
OpenSizes::~OpenSizes() { thread_state().sizes = outer_; }

OpenSizes& OpenSizes::current() {
  OpenSizes* const sizes = thread_state().sizes;
  if (sizes == nullptr)
    throw std::logic_error("planner: an open size outlived the plan it belongs to");
  return *sizes;
}

Extent Extent::sum(Extent a, Extent b, std::int64_t factor) {
  return OpenSizes::current().sum(a, b, factor);
}
Extent Extent::product(Extent a, Extent b) { return OpenSizes::current().product(a, b); }
Extent Extent::quotient(Extent a, Extent b) { return OpenSizes::current().divided(a, b, false); }
Extent Extent::remainder(Extent a, Extent b) { return OpenSizes::current().divided(a, b, true); }
bool Extent::is_zero(Extent a) {
  return a.is_open() ? OpenSizes::current().decide(a, true) : a.number_ == 0;
}
bool Extent::is_negative(Extent a) {
  return a.is_open() ? OpenSizes::current().decide(a, false) : a.number_ < 0;
}
std::int64_t Extent::fix() const {
  is_zero(*this - number_);
  return number_;
}

// The smaller or the larger extent; the bounds decide if they do not overlap.
Extent OpenSizes::extreme(Extent a, Extent b, bool smaller) {
  const auto [low_a, high_a] = bounds(a);
  const auto [low_b, high_b] = bounds(b);
  if (high_a <= low_b) return smaller ? a : b;
  if (high_b <= low_a) return smaller ? b : a;
  const auto choose = [&](std::int64_t x, std::int64_t y) {
    return smaller ? std::min(x, y) : std::max(x, y);
  };
  return function(smaller ? Kind::Lesser : Kind::Greater, nullptr, {a, b},
                  choose(a.hint(), b.hint()), choose(low_a, low_b), choose(high_a, high_b));
}

Extent lesser(Extent a, Extent b) {
  if (!a.is_open() && !b.is_open()) return std::min(a.hint(), b.hint());
  return OpenSizes::current().extreme(a, b, true);
}

Extent greater(Extent a, Extent b) {
  if (!a.is_open() && !b.is_open()) return std::max(a.hint(), b.hint());
  return OpenSizes::current().extreme(a, b, false);
}

Extent evaluated(SizeFunction function, std::initializer_list<Extent> arguments) {
  const std::vector<std::int64_t> numbers = hints({arguments.begin(), arguments.size()});
  const std::int64_t number = function(numbers);
  const bool open = std::any_of(arguments.begin(), arguments.end(),
                                [](Extent argument) { return argument.is_open(); });
  if (!open) return number;
  return OpenSizes::current().function(OpenSizes::Kind::Function, function, arguments, number,
                                       kLowest, kHighest);
}

Extent OpenSizes::symbol(std::int64_t number) {
  if (number < 2) throw std::logic_error("planner: sizes of 0 and 1 are never open");
  const int power = std::bit_width(static_cast<std::uint64_t>(number)) - 1;
  Atom made{.kind = Kind::Symbol,
            .low = std::int64_t{1} << power,
            .high = limited((Wide{2} << power) - 1)};
  made.number = symbols_++;
  const std::int64_t low = made.low, high = made.high;
  const Extent result =
      atom(std::move(made), number, {static_cast<std::int64_t>(Kind::Symbol), symbols_});
  ranges_[result.expression()] = {low, high};
  guarded_.push_back(result.expression());
  return result;
}

Extent OpenSizes::atom(Atom made, std::int64_t number, std::vector<std::int64_t> key) {
  const auto [found, fresh] =
      known_atoms_.try_emplace(std::move(key), static_cast<std::uint32_t>(atoms_.size()));
  if (fresh) {
    order_.push_back(static_cast<std::int64_t>(atoms_.size()));
    atoms_.push_back(std::move(made));
  }
  return extent_of({{monomial({found->second}), 1}}, number);
}

std::uint32_t OpenSizes::monomial(Monomial atoms) {
  const auto [found, fresh] = known_monomials_.try_emplace(
      std::vector<std::int64_t>(atoms.begin(), atoms.end()),
      static_cast<std::uint32_t>(atoms.empty() ? 0 : monomials_.size()));
  if (fresh && !atoms.empty()) monomials_.push_back(std::move(atoms));
  return found->second;
}

OpenSizes::Polynomial OpenSizes::polynomial_of(Extent extent) const {
  if (extent.is_open()) return polynomials_[extent.expression()];
  if (extent.hint() == 0) return {};
  return {{0, extent.hint()}};
}

Extent OpenSizes::extent_of(Polynomial polynomial, std::int64_t number) {
  const bool constant =
      polynomial.empty() || (polynomial.size() == 1 && polynomial.front().monomial == 0);
  if (constant) return polynomial.empty() ? 0 : polynomial.front().factor;
  std::vector<std::int64_t> key;
  key.reserve(polynomial.size() * 2);
  for (const Term& term : polynomial) {
    key.push_back(term.monomial);
    key.push_back(term.factor);
  }
  const auto [found, fresh] = known_polynomials_.try_emplace(
      std::move(key), static_cast<std::uint32_t>(polynomials_.size()));
  if (fresh) {
    order_.push_back(~static_cast<std::int64_t>(polynomials_.size()));
    polynomials_.push_back(std::move(polynomial));
  }
  return {number, found->second};
}

namespace {

// The key of an operation's result: its operands, by expression or by number.
std::vector<std::int64_t> operation_key(std::int64_t operation, Extent a, Extent b) {
  return {operation, a.expression(), a.is_open() ? 0 : a.hint(), b.expression(),
          b.is_open() ? 0 : b.hint()};
}

}  // namespace

Extent OpenSizes::sum(Extent a, Extent b, std::int64_t factor) {
  auto key = operation_key(factor, a, b);
  if (const auto found = known_results_.find(key); found != known_results_.end())
    return found->second;
  const Polynomial left = polynomial_of(a), right = polynomial_of(b);
  Polynomial total;
  auto i = left.begin(), j = right.begin();
  while (i != left.end() || j != right.end()) {
    if (j == right.end() || (i != left.end() && i->monomial < j->monomial)) {
      total.push_back(*i++);
    } else if (i == left.end() || j->monomial < i->monomial) {
      total.push_back({j->monomial, factor * j->factor});
      ++j;
    } else {
      const std::int64_t both = i->factor + factor * j->factor;
      if (both != 0) total.push_back({i->monomial, both});
      ++i, ++j;
    }
  }
  return known_results_[std::move(key)] = extent_of(std::move(total), a.hint() + factor * b.hint());
}

Extent OpenSizes::product(Extent a, Extent b) {
  auto key = operation_key(2, a, b);
  if (const auto found = known_results_.find(key); found != known_results_.end())
    return found->second;
  std::unordered_map<std::uint32_t, std::int64_t> factors;
  for (const Term& x : polynomial_of(a)) {
    for (const Term& y : polynomial_of(b)) {
      Monomial both;
      std::merge(monomials_[x.monomial].begin(), monomials_[x.monomial].end(),
                 monomials_[y.monomial].begin(), monomials_[y.monomial].end(),
                 std::back_inserter(both));
      factors[monomial(std::move(both))] += x.factor * y.factor;
    }
  }
  Polynomial total;
  for (const auto& [number, factor] : factors) {
    if (factor != 0) total.push_back({number, factor});
  }
  std::sort(total.begin(), total.end(),
            [](const Term& x, const Term& y) { return x.monomial < y.monomial; });
  return known_results_[std::move(key)] = extent_of(std::move(total), a.hint() * b.hint());
}

// The polynomial whose product with `b` is `a`, if there is one: long division, in the order of
// degrees and then of atoms.
std::optional<OpenSizes::Polynomial> OpenSizes::exact_quotient(Polynomial a, const Polynomial& b) {
  constexpr int kMostTerms = 32;
  const auto precedes = [&](const Term& x, const Term& y) {
    const Monomial &left = monomials_[x.monomial], &right = monomials_[y.monomial];
    return left.size() != right.size() ? left.size() < right.size() : right < left;
  };
  const Term divisor = *std::max_element(b.begin(), b.end(), precedes);
  Polynomial quotient;
  for (int terms = 0; !a.empty(); ++terms) {
    const Term leading = *std::max_element(a.begin(), a.end(), precedes);
    const Monomial &all = monomials_[leading.monomial], &part = monomials_[divisor.monomial];
    const bool divides = leading.factor % divisor.factor == 0 &&
                         std::includes(all.begin(), all.end(), part.begin(), part.end());
    if (!divides || terms == kMostTerms) return std::nullopt;
    Monomial rest;
    std::set_difference(all.begin(), all.end(), part.begin(), part.end(), std::back_inserter(rest));
    const Term term{monomial(rest), leading.factor / divisor.factor};
    quotient.push_back(term);
    for (const Term& each : b) {
      Monomial both;
      std::merge(rest.begin(), rest.end(), monomials_[each.monomial].begin(),
                 monomials_[each.monomial].end(), std::back_inserter(both));
      const std::uint32_t number = monomial(std::move(both));
      const auto same =
          std::find_if(a.begin(), a.end(), [&](const Term& x) { return x.monomial == number; });
      const std::int64_t factor = term.factor * each.factor;
      if (same == a.end()) {
        a.push_back({number, -factor});
        continue;
      }
      same->factor -= factor;
      if (same->factor == 0) a.erase(same);
    }
  }
  std::sort(quotient.begin(), quotient.end(),
            [](const Term& x, const Term& y) { return x.monomial < y.monomial; });
  return quotient;
}

// Where `a` is a multiple of `b` as a polynomial, the division has no remainder. Anything else is a
// quotient or remainder that is computed at each size.
Extent OpenSizes::divided(Extent a, Extent b, bool remainder) {
  auto key = operation_key(remainder ? 4 : 3, a, b);
  if (const auto found = known_results_.find(key); found != known_results_.end())
    return found->second;
  if (b.hint() == 0) throw std::logic_error("planner: division of a size by 0");
  const std::int64_t number = remainder ? a.hint() % b.hint() : a.hint() / b.hint();
  if (auto quotient = exact_quotient(polynomial_of(a), polynomial_of(b))) {
    const Extent result = remainder ? Extent(0) : extent_of(std::move(*quotient), number);
    return known_results_[std::move(key)] = result;
  }
  const auto [low_a, high_a] = bounds(a);
  const auto [low_b, high_b] = bounds(b);
  std::int64_t low = kLowest, high = kHighest;
  if (low_a >= 0 && low_b > 0) {
    low = remainder ? 0 : low_a / high_b;
    high = remainder ? std::min(high_a, high_b - 1) : high_a / low_b;
    if (remainder && high_a < low_b) return known_results_[std::move(key)] = a;
    if (!remainder && low == high) return known_results_[std::move(key)] = low;
  }
  const Extent result =
      function(remainder ? Kind::Remainder : Kind::Quotient, nullptr, {a, b}, number, low, high);
  return known_results_[std::move(key)] = result;
}

Extent OpenSizes::function(Kind kind, SizeFunction function, std::vector<Extent> operands,
                           std::int64_t number, std::int64_t low, std::int64_t high) {
  std::vector<std::int64_t> key{static_cast<std::int64_t>(kind),
                                std::bit_cast<std::int64_t>(function)};
  for (const Extent operand : operands) {
    key.push_back(operand.expression());
    key.push_back(operand.is_open() ? 0 : operand.hint());
  }
  Atom made{.kind = kind,
            .operands = std::move(operands),
            .function = function,
            .low = low,
            .high = high};
  return atom(std::move(made), number, std::move(key));
}

std::pair<std::int64_t, std::int64_t> OpenSizes::bounds(const Polynomial& polynomial) const {
  Wide low = 0, high = 0;
  for (const Term& term : polynomial) {
    std::int64_t least = 1, most = 1;
    for (const std::uint32_t factor : monomials_[term.monomial]) {
      const Atom& atom = atoms_[factor];
      if (atom.low < 0) {
        least = kLowest, most = kHighest;
        break;
      }
      least = limited(Wide{least} * atom.low);
      most = limited(Wide{most} * atom.high);
    }
    const Wide x = Wide{term.factor} * least, y = Wide{term.factor} * most;
    low += limited(std::min(x, y));
    high += limited(std::max(x, y));
  }
  return {limited(low), limited(high)};
}

std::pair<std::int64_t, std::int64_t> OpenSizes::bounds(Extent extent) const {
  if (!extent.is_open()) return {extent.hint(), extent.hint()};
  return bounds(polynomials_[extent.expression()]);
}

// Let c be the constant of the polynomial and p the rest of it divided by the common divisor of its
// factors. The polynomial is 0 at p = -c / divisor and negative below. The conditions that guards
// set on p are kept as a range.
bool OpenSizes::decide(Extent extent, bool zero) {
  Polynomial p = polynomials_[extent.expression()];
  std::int64_t constant = 0;
  if (p.front().monomial == 0) {
    constant = p.front().factor;
    p.erase(p.begin());
  }
  std::int64_t common = 0;
  for (const Term& term : p) common = std::gcd(common, term.factor);
  const bool negated = p.front().factor < 0;
  for (Term& term : p) term.factor /= negated ? -common : common;
  const std::int64_t difference = extent.hint() - constant;
  const std::int64_t number = negated ? -(difference / common) : difference / common;
  const auto [low, high] = bounds(p);
  const Extent name = extent_of(std::move(p), number);
  const auto [found, fresh] = ranges_.try_emplace(name.expression(), Range{low, high});
  Range& range = found->second;
  // Planning uses the actual number; the range is narrowed to the numbers with the same outcome.
  const std::int64_t before_low = range.low, before_high = range.high;
  const std::size_t before_excluded = range.excluded.size();
  bool result = false;
  if (zero) {
    result = extent.hint() == 0;
    const std::int64_t root = negated ? constant : -constant;
    if (result) {
      range.low = range.high = number;
    } else if (root % common == 0) {
      const std::int64_t other = root / common;
      const bool known =
          other < range.low || other > range.high ||
          std::find(range.excluded.begin(), range.excluded.end(), other) != range.excluded.end();
      if (other == range.low && !known) {
        ++range.low;
      } else if (other == range.high && !known) {
        --range.high;
      } else if (!known) {
        range.excluded.push_back(other);
      }
    }
  } else {
    result = extent.hint() < 0;
    // Solves common * p + c < 0, or -common * p + c < 0.
    if (!negated) {
      const std::int64_t last = ceil_div(-constant, common) - 1;  // the largest p that is negative
      result ? range.high = std::min(range.high, last) : range.low = std::max(range.low, last + 1);
    } else {
      const std::int64_t first = floor_div(constant, common) + 1;  // the smallest p
      result ? range.low = std::max(range.low, first)
             : range.high = std::min(range.high, first - 1);
    }
  }
  const bool narrowed = range.low != before_low || range.high != before_high ||
                        range.excluded.size() != before_excluded;
  if (fresh && !narrowed) {
    ranges_.erase(found);  // the bounds already decide
  } else if (fresh) {
    guarded_.push_back(name.expression());
  }
  return result;
}

OpenSizes::Formulas OpenSizes::formulas(std::span<const Extent> wanted) const {
  // The expressions that guards and wanted sizes need, from the last expression to the first.
  std::vector<bool> atom_needed(atoms_.size(), false), sum_needed(polynomials_.size(), false);
  for (const std::uint32_t guarded : guarded_) sum_needed[guarded] = true;
  for (const Extent extent : wanted) sum_needed[extent.expression()] = true;
  for (std::size_t k = order_.size(); k-- > 0;) {
    if (order_[k] < 0) {
      const auto number = static_cast<std::size_t>(~order_[k]);
      if (!sum_needed[number]) continue;
      for (const Term& term : polynomials_[number]) {
        for (const std::uint32_t factor : monomials_[term.monomial]) atom_needed[factor] = true;
      }
    } else {
      const auto number = static_cast<std::size_t>(order_[k]);
      // The symbols are the first steps, and all of them are steps.
      if (atoms_[number].kind == Kind::Symbol) atom_needed[number] = true;
      if (!atom_needed[number]) continue;
      for (const Extent operand : atoms_[number].operands) sum_needed[operand.expression()] = true;
    }
  }
  Formulas formulas;
  std::vector<std::uint32_t> atom_place(atoms_.size(), 0);
  formulas.place_.assign(polynomials_.size(), 0);
  for (std::size_t n = 0; n < atoms_.size(); ++n) {
    if (atoms_[n].kind != Kind::Symbol) continue;
    atom_place[n] = static_cast<std::uint32_t>(formulas.steps_.size());
    formulas.steps_.push_back({.kind = Kind::Symbol, .first = atoms_[n].number});
  }
  for (const std::int64_t one : order_) {
    Formulas::Step step;
    if (one < 0) {
      const auto number = static_cast<std::size_t>(~one);
      if (!sum_needed[number]) continue;
      const Polynomial& sum = polynomials_[number];
      const Monomial& only = monomials_[sum.front().monomial];
      if (sum.size() == 1 && sum.front().factor == 1 && only.size() == 1) {
        formulas.place_[number] = atom_place[only.front()];
        continue;
      }
      step.is_sum = true;
      step.first = static_cast<std::uint32_t>(formulas.terms_.size());
      step.count = static_cast<std::uint32_t>(sum.size());
      for (const Term& term : sum) {
        const Monomial& factors = monomials_[term.monomial];
        formulas.terms_.push_back({term.factor,
                                   static_cast<std::uint32_t>(formulas.factors_.size()),
                                   static_cast<std::uint32_t>(factors.size())});
        for (const std::uint32_t factor : factors) formulas.factors_.push_back(atom_place[factor]);
      }
      formulas.place_[number] = static_cast<std::uint32_t>(formulas.steps_.size());
    } else {
      const Atom& atom = atoms_[static_cast<std::size_t>(one)];
      if (atom.kind == Kind::Symbol || !atom_needed[static_cast<std::size_t>(one)]) continue;
      step.kind = atom.kind;
      step.function = atom.function;
      step.first = static_cast<std::uint32_t>(formulas.operands_.size());
      step.count = static_cast<std::uint32_t>(atom.operands.size());
      for (const Extent operand : atom.operands) {
        formulas.operands_.push_back(
            operand.is_open() ? Formulas::Operand{true, formulas.place_[operand.expression()]}
                              : Formulas::Operand{false, operand.hint()});
      }
      atom_place[static_cast<std::size_t>(one)] =
          static_cast<std::uint32_t>(formulas.steps_.size());
    }
    formulas.steps_.push_back(step);
  }
  for (const std::uint32_t guarded : guarded_) {
    const Range& range = ranges_.at(guarded);
    formulas.guards_.push_back({formulas.place_[guarded], range.low, range.high, range.excluded});
  }
  return formulas;
}

bool OpenSizes::Formulas::evaluate(std::span<const std::int64_t> symbols,
                                   std::vector<std::int64_t>& values) const {
  values.resize(steps_.size());
  std::vector<std::int64_t> arguments;
  for (std::size_t n = 0; n < steps_.size(); ++n) {
    const Step& step = steps_[n];
    if (step.is_sum) {
      std::int64_t sum = 0;
      for (std::uint32_t t = step.first; t < step.first + step.count; ++t) {
        std::int64_t product = terms_[t].factor;
        for (std::uint32_t f = terms_[t].first; f < terms_[t].first + terms_[t].count; ++f)
          product *= values[factors_[f]];
        sum += product;
      }
      values[n] = sum;
      continue;
    }
    if (step.kind == Kind::Symbol) {
      values[n] = symbols[step.first];
      if (values[n] < 2) return false;
      continue;
    }
    const auto operand = [&](std::uint32_t k) {
      const Operand& one = operands_[step.first + k];
      return one.is_step ? values[static_cast<std::size_t>(one.number)] : one.number;
    };
    if (step.kind == Kind::Function) {
      arguments.clear();
      for (std::uint32_t k = 0; k < step.count; ++k) arguments.push_back(operand(k));
      values[n] = step.function(arguments);
      continue;
    }
    const std::int64_t a = operand(0), b = operand(1);
    const bool divides = step.kind == Kind::Quotient || step.kind == Kind::Remainder;
    if (divides && b == 0) return false;
    values[n] = step.kind == Kind::Quotient    ? a / b
                : step.kind == Kind::Remainder ? a % b
                : step.kind == Kind::Lesser    ? std::min(a, b)
                                               : std::max(a, b);
  }
  return std::all_of(guards_.begin(), guards_.end(), [&](const Guard& guard) {
    const std::int64_t value = values[guard.step];
    return value >= guard.low && value <= guard.high &&
           std::find(guard.excluded.begin(), guard.excluded.end(), value) == guard.excluded.end();
  });
}

std::string OpenSizes::Formulas::text(std::uint32_t number) const {
  const Step& step = steps_[number];
  if (step.is_sum) {
    std::string sum;
    for (std::uint32_t t = step.first; t < step.first + step.count; ++t) {
      const SumTerm& term = terms_[t];
      if (!sum.empty()) sum += term.factor < 0 ? " - " : " + ";
      const std::int64_t factor = sum.empty() ? term.factor : std::abs(term.factor);
      if (factor != 1 || term.count == 0) sum += fmt::format("{}", factor);
      for (std::uint32_t f = term.first; f < term.first + term.count; ++f) {
        if (f > term.first || factor != 1) sum += " ";
        sum += text(factors_[f]);
      }
    }
    return step.count > 1 ? "(" + sum + ")" : sum;
  }
  if (step.kind == Kind::Symbol) return fmt::format("s{}", step.first);
  std::vector<std::string> operands;
  for (std::uint32_t k = 0; k < step.count; ++k) {
    const Operand& one = operands_[step.first + k];
    operands.push_back(one.is_step ? text(static_cast<std::uint32_t>(one.number))
                                   : fmt::format("{}", one.number));
  }
  switch (step.kind) {
    case Kind::Quotient:
      return operands[0] + " / " + operands[1];
    case Kind::Remainder:
      return operands[0] + " % " + operands[1];
    case Kind::Lesser:
      return fmt::format("min({}, {})", operands[0], operands[1]);
    case Kind::Greater:
      return fmt::format("max({}, {})", operands[0], operands[1]);
    default:
      return fmt::format("f({})", fmt::join(operands, ", "));
  }
}

std::vector<std::string> OpenSizes::Formulas::guard_texts() const {
  std::vector<std::string> texts;
  for (const Guard& guard : guards_) {
    const std::string what = text(guard.step);
    std::string words = guard.low == guard.high ? fmt::format("{} = {}", what, guard.low)
                        : guard.low <= kLowest  ? fmt::format("{} <= {}", what, guard.high)
                        : guard.high >= kHighest
                            ? fmt::format("{} >= {}", what, guard.low)
                            : fmt::format("{} <= {} <= {}", guard.low, what, guard.high);
    for (const std::int64_t other : guard.excluded) words += fmt::format(", not {}", other);
    texts.push_back(std::move(words));
  }
  return texts;
}

std::size_t OpenSizes::Formulas::bytes() const {
  return sizeof *this + steps_.size() * sizeof(Step) + operands_.size() * sizeof(Operand) +
         terms_.size() * sizeof(SumTerm) + factors_.size() * sizeof(std::uint32_t) +
         guards_.size() * sizeof(Guard) + place_.size() * sizeof(std::uint32_t);
}

}  // namespace volta::plan
