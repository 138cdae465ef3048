// Sizes of a plan that may be left open. A plan is made for the sizes of one batch; an open size
// also knows how it follows from the sizes of any batch of the same structure, so that the plan can
// be used for other sizes without planning again.
//
// Planning is ordinary arithmetic: an Extent is a number that carries an expression. Where planning
// makes a decision that depends on an open size (a comparison, a branch), the decision is recorded
// as a guard. Other sizes may use the plan if they pass all guards, because planning would have
// made the same decisions for them. Converting an Extent to a plain number fixes the size. That is
// a guard too, so code that does not know about open sizes is correct and only less general.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "volta/export.h"

namespace volta::plan {

class VOLTA_BACKEND_API Extent {
 public:
  constexpr Extent() = default;
  template <std::integral T>
  constexpr Extent(T number) : number_(static_cast<std::int64_t>(number)) {}
  constexpr Extent(std::int64_t number, std::uint32_t expression)
      : number_(number), expression_(expression) {}

  // The number at the sizes of planning, for estimates. Decisions based on it must be right for all
  // other sizes too.
  constexpr std::int64_t hint() const { return number_; }
  // The number, which the plan then fixes.
  std::int64_t fixed() const { return is_open() ? fix() : number_; }
  operator std::int64_t() const { return fixed(); }

  constexpr bool is_open() const { return expression_ != 0; }
  // The name of the expression within OpenSizes; 0 for a plain number.
  constexpr std::uint32_t expression() const { return expression_; }

  Extent& operator+=(Extent other) { return *this = *this + other; }
  Extent& operator-=(Extent other) { return *this = *this - other; }
  Extent& operator*=(Extent other) { return *this = *this * other; }
  Extent& operator/=(Extent other) { return *this = *this / other; }

  friend Extent operator+(Extent a, Extent b) {
    return a.is_open() || b.is_open() ? sum(a, b, 1) : Extent(a.number_ + b.number_);
  }
  friend Extent operator-(Extent a, Extent b) {
    return a.is_open() || b.is_open() ? sum(a, b, -1) : Extent(a.number_ - b.number_);
  }
  friend Extent operator*(Extent a, Extent b) {
    return a.is_open() || b.is_open() ? product(a, b) : Extent(a.number_ * b.number_);
  }
  friend Extent operator/(Extent a, Extent b) {
    return a.is_open() || b.is_open() ? quotient(a, b) : Extent(a.number_ / b.number_);
  }
  friend Extent operator%(Extent a, Extent b) {
    return a.is_open() || b.is_open() ? remainder(a, b) : Extent(a.number_ % b.number_);
  }
  friend Extent operator-(Extent a) { return Extent(0) - a; }

  friend bool operator==(Extent a, Extent b) {
    return a.is_open() || b.is_open() ? is_zero(a - b) : a.number_ == b.number_;
  }
  friend bool operator<(Extent a, Extent b) {
    return a.is_open() || b.is_open() ? is_negative(a - b) : a.number_ < b.number_;
  }
  friend bool operator>(Extent a, Extent b) { return b < a; }
  friend bool operator<=(Extent a, Extent b) { return !(b < a); }
  friend bool operator>=(Extent a, Extent b) { return !(a < b); }

// The operators with a plain number on one side.
// NOLINTBEGIN(bugprone-macro-parentheses): a type and an operator have none.
#define VOLTA_EXTENT_OPERATOR(result, op)    \
  template <std::integral T>                 \
  friend result operator op(Extent a, T b) { \
    return a op Extent(b);                   \
  }                                          \
  template <std::integral T>                 \
  friend result operator op(T a, Extent b) { \
    return Extent(a) op b;                   \
  }
  VOLTA_EXTENT_OPERATOR(Extent, +)
  VOLTA_EXTENT_OPERATOR(Extent, -)
  VOLTA_EXTENT_OPERATOR(Extent, *)
  VOLTA_EXTENT_OPERATOR(Extent, /)
  VOLTA_EXTENT_OPERATOR(Extent, %)
  VOLTA_EXTENT_OPERATOR(bool, <)
  VOLTA_EXTENT_OPERATOR(bool, >)
  VOLTA_EXTENT_OPERATOR(bool, <=)
  VOLTA_EXTENT_OPERATOR(bool, >=)
#undef VOLTA_EXTENT_OPERATOR
  // NOLINTEND(bugprone-macro-parentheses)
  template <std::integral T>
  friend bool operator==(Extent a, T b) {
    return a == Extent(b);
  }

 private:
  std::int64_t fix() const;
  static Extent sum(Extent a, Extent b, std::int64_t factor);  // a + factor * b
  static Extent product(Extent a, Extent b);
  static Extent quotient(Extent a, Extent b);
  static Extent remainder(Extent a, Extent b);
  static bool is_zero(Extent a);
  static bool is_negative(Extent a);

  std::int64_t number_ = 0;
  std::uint32_t expression_ = 0;
};

// Whether two sizes are the same for all sizes that a plan allows, without a guard. An open and a
// plain size with equal numbers are not.
constexpr bool is_same(Extent a, Extent b) {
  return a.hint() == b.hint() && a.expression() == b.expression();
}

// The smaller and the larger of two sizes, without a guard.
VOLTA_BACKEND_API Extent lesser(Extent a, Extent b);
VOLTA_BACKEND_API Extent greater(Extent a, Extent b);
// The result of a function of sizes, which is evaluated again for other sizes, without a guard.
using SizeFunction = std::int64_t (*)(std::span<const std::int64_t> arguments);
VOLTA_BACKEND_API Extent evaluated(SizeFunction function, std::initializer_list<Extent> arguments);
// The numbers of sizes, for estimates.
inline std::vector<std::int64_t> hints(std::span<const Extent> extents) {
  std::vector<std::int64_t> numbers;
  numbers.reserve(extents.size());
  for (const Extent extent : extents) numbers.push_back(extent.hint());
  return numbers;
}

// The numbers of sizes, which the plan then fixes.
inline std::vector<std::int64_t> fixed(std::span<const Extent> extents) {
  return {extents.begin(), extents.end()};
}

// The expressions of one plan, and the guards recorded by planning. Expressions are polynomials in
// symbols (the open sizes of the batch) and in quotients, remainders and other functions of
// polynomials; equal polynomials have one name. The thread's Extents refer to the current object of
// this class.
class VOLTA_BACKEND_API OpenSizes {
 public:
  OpenSizes();
  ~OpenSizes();
  OpenSizes(const OpenSizes&) = delete;
  OpenSizes& operator=(const OpenSizes&) = delete;

  // Makes a symbol for a size that is at least 2 in every batch that uses the plan. It is guarded
  // by its order of magnitude, so that estimates hold within a factor of two.
  Extent symbol(std::int64_t number);

  // The part that a plan keeps: the guards, and the computation of the wanted sizes.
  class Formulas;
  Formulas formulas(std::span<const Extent> wanted) const;

 private:
  friend class Extent;
  friend Extent lesser(Extent, Extent);
  friend Extent greater(Extent, Extent);
  friend Extent evaluated(SizeFunction, std::initializer_list<Extent>);

  enum class Kind : std::uint8_t { Symbol, Quotient, Remainder, Lesser, Greater, Function };
  // A factor of a monomial.
  struct Atom {
    Kind kind;
    std::vector<Extent> operands = {};  // a Symbol has no operands; its index is `number`
    std::uint32_t number = 0;
    SizeFunction function = nullptr;
    std::int64_t low, high;  // bounds for all sizes that the plan allows
  };
  using Monomial = std::vector<std::uint32_t>;  // atoms in ascending order; none for a constant
  struct Term {
    std::uint32_t monomial;
    std::int64_t factor;
    friend bool operator==(const Term&, const Term&) = default;
  };
  using Polynomial = std::vector<Term>;  // sorted by monomial, without factors of 0
  struct Range {
    std::int64_t low, high;
    std::vector<std::int64_t> excluded = {};
  };
  struct Numbers {  // hashes lists of numbers
    std::size_t operator()(const std::vector<std::int64_t>& numbers) const;
  };

  static OpenSizes& current();
  Polynomial polynomial_of(Extent extent) const;
  Extent extent_of(Polynomial polynomial, std::int64_t number);
  Extent atom(Atom made, std::int64_t number, std::vector<std::int64_t> key);
  std::uint32_t monomial(Monomial atoms);
  Extent sum(Extent a, Extent b, std::int64_t factor);
  Extent product(Extent a, Extent b);
  std::optional<Polynomial> exact_quotient(Polynomial a, const Polynomial& b);
  Extent divided(Extent a, Extent b, bool remainder);
  Extent extreme(Extent a, Extent b, bool smaller);
  Extent function(Kind kind, SizeFunction function, std::vector<Extent> operands,
                  std::int64_t number, std::int64_t low, std::int64_t high);
  std::pair<std::int64_t, std::int64_t> bounds(const Polynomial& polynomial) const;
  std::pair<std::int64_t, std::int64_t> bounds(Extent extent) const;
  // Decides whether a polynomial is 0 (or negative), with a guard if its bounds do not decide it.
  bool decide(Extent extent, bool zero);

  std::vector<Atom> atoms_;
  std::vector<Monomial> monomials_{{}};
  std::vector<Polynomial> polynomials_{{}};  // index 0 stands for no expression
  // Atoms (by their number) and polynomials (by ~number) in the order of their creation, so that
  // each one is computed from earlier ones.
  std::vector<std::int64_t> order_;
  std::unordered_map<std::vector<std::int64_t>, std::uint32_t, Numbers> known_monomials_,
      known_polynomials_, known_atoms_;
  std::unordered_map<std::vector<std::int64_t>, Extent, Numbers> known_results_;
  // For each polynomial without its constant and with a positive first factor, the range that
  // guards allow.
  std::unordered_map<std::uint32_t, Range> ranges_;
  std::vector<std::uint32_t> guarded_;  // their polynomials, in the order of the first guards
  std::uint32_t symbols_ = 0;
  OpenSizes* outer_;
};

// Computes the sizes of a plan from the open sizes of a batch.
class VOLTA_BACKEND_API OpenSizes::Formulas {
 public:
  // Whether the guards allow these sizes, given as one number per symbol. Fills `values` for
  // value().
  bool evaluate(std::span<const std::int64_t> symbols, std::vector<std::int64_t>& values) const;
  // The number of a wanted size, given the values.
  std::int64_t value(Extent extent, const std::vector<std::int64_t>& values) const {
    return extent.is_open() ? values[place_[extent.expression()]] : extent.hint();
  }
  std::size_t guards() const { return guards_.size(); }
  // The guards as text; symbols are called s0, s1, ...
  std::vector<std::string> guard_texts() const;
  std::size_t bytes() const;

 private:
  friend class OpenSizes;
  struct Step {
    Kind kind = Kind::Symbol;
    bool is_sum = false;
    std::uint32_t first = 0, count = 0;  // range of operands in operands_, or of terms in terms_
    SizeFunction function = nullptr;
  };
  struct Operand {
    bool is_step = false;
    std::int64_t number = 0;  // the number itself, or the step that computes it
  };
  struct SumTerm {
    std::int64_t factor;
    std::uint32_t first, count;  // range in factors_ of the steps that are multiplied
  };
  struct Guard {
    std::uint32_t step;
    std::int64_t low, high;
    std::vector<std::int64_t> excluded;
  };
  std::string text(std::uint32_t step) const;

  std::vector<Step> steps_;
  std::vector<Operand> operands_;
  std::vector<SumTerm> terms_;
  std::vector<std::uint32_t> factors_;
  std::vector<Guard> guards_;
  std::vector<std::uint32_t> place_;  // for each expression, its step
};

}  // namespace volta::plan
