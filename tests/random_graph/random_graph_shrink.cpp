// Shrinks programs. Every step makes the program simpler, so shrinking ends.
#include "random_graph/random_graph_shrink.h"

#include <algorithm>
#include <optional>

#include "random_graph/random_graph_evaluator.h"

namespace volta::random_graph {
namespace {

bool uses(const Statement& s, int id) { return std::count(s.in.begin(), s.in.end(), id) > 0; }

// The result of each statement in the first round, as far as it can be run.
std::vector<Ref> results(const Program& program) {
  std::vector<Ref> made(program.statements.size());
  Evaluator reference(program);
  reference.begin_round(0);
  try {
    for (std::size_t i = 0; i < made.size(); ++i) {
      const Statement& s = program.statements[i];
      reference.step(s, i);
      if (s.out >= 0) made[i] = constant(reference.tensor(s.out)->value);
    }
  } catch (const Invalid&) {
    return made;
  }
  return made;
}

class Shrinker {
 public:
  Shrinker(Program program, const std::function<bool(const Program&)>& fails, int most)
      : best_(std::move(program)), fails_(fails), left_(most) {}

  Program run() {
    bool smaller = true;
    while (smaller && left_ > 0) {
      smaller = fewer_rounds();
      smaller = fewer_statements() || smaller;
      smaller = bypassed() || smaller;
      smaller = data_instead() || smaller;
      smaller = plainer() || smaller;
    }
    return best_;
  }

 private:
  bool accept(Program candidate) {
    if (left_-- <= 0 || !fails_(candidate)) return false;
    best_ = std::move(candidate);
    return true;
  }

  bool fewer_rounds() {
    for (int rounds = 1; rounds < best_.rounds; ++rounds) {
      Program candidate = best_;
      candidate.rounds = rounds;
      if (accept(std::move(candidate))) return true;
    }
    return false;
  }

  // Removes halves first, then ever shorter runs of statements, from the end.
  bool fewer_statements() {
    bool any = false;
    for (std::size_t length = std::max<std::size_t>(best_.statements.size() / 2, 1); length > 0;
         length /= 2) {
      for (std::size_t end = best_.statements.size(); end > 0;) {
        end = std::min(end, best_.statements.size());
        if (end == 0) break;
        const std::size_t first = end > length ? end - length : 0;
        Program candidate = best_;
        for (std::size_t i = end; i-- > first;) {
          if (i < candidate.statements.size()) candidate = without(candidate, i);
        }
        any = accept(std::move(candidate)) || any;
        end = first;
      }
    }
    return any;
  }

  // Replaces a statement's result by one of its operands.
  bool bypassed() {
    bool any = false;
    for (std::size_t i = best_.statements.size(); i-- > 0;) {
      if (i >= best_.statements.size()) continue;
      const Statement s = best_.statements[i];
      if (s.out < 0) continue;
      for (const int operand : s.in) {
        if (operand < 0) continue;
        Program candidate = best_;
        candidate.statements.erase(candidate.statements.begin() + static_cast<std::ptrdiff_t>(i));
        for (Statement& other : candidate.statements)
          std::replace(other.in.begin(), other.in.end(), s.out, operand);
        if (accept(std::move(candidate))) {
          any = true;
          break;
        }
      }
    }
    return any;
  }

  bool data_instead() {
    bool any = false;
    const std::vector<Ref> made = results(best_);
    for (std::size_t i = best_.statements.size(); i-- > 0;) {
      const Statement& s = best_.statements[i];
      if (s.out < 0 || s.op == Op::data || !made[i]) continue;
      Program candidate = best_;
      Statement& replaced = candidate.statements[i];
      replaced = Statement{};
      replaced.out = s.out;
      replaced.dims = made[i]->value.dims;
      replaced.dtype = made[i]->value.dtype;
      replaced.fill = is_integral(replaced.dtype) ? Fill::indices : Fill::numbers;
      replaced.number = {.value = 2, .integer = true};
      any = accept(std::move(candidate)) || any;
    }
    return any;
  }

  template <class Change>
  bool try_change(std::size_t i, bool wanted, Change change) {
    if (!wanted) return false;
    Program candidate = best_;
    change(candidate.statements[i]);
    return accept(std::move(candidate));
  }

  bool plainer() {
    bool any = false;
    if (best_.end != RoundEnd::look || !best_.drops_at_end) {
      Program candidate = best_;
      candidate.end = RoundEnd::look;
      candidate.drops_at_end = true;
      any = accept(std::move(candidate));
    }
    for (std::size_t i = 0; i < best_.statements.size(); ++i) {
      const auto now = [&]() -> const Statement& { return best_.statements[i]; };
      any = try_change(i, now().no_grad, [](Statement& s) { s.no_grad = false; }) || any;
      any = try_change(i, now().persistent, [](Statement& s) { s.persistent = false; }) || any;
      any = try_change(i, now().second >= 0, [](Statement& s) { s.second = -1; }) || any;
      any = try_change(i, now().flag, [](Statement& s) { s.flag = false; }) || any;
      any =
          try_change(i, now().number.varies, [](Statement& s) { s.number.varies = false; }) || any;
    }
    return any;
  }

  Program best_;
  const std::function<bool(const Program&)>& fails_;
  int left_;
};

}  // namespace

Program without(const Program& program, std::size_t position) {
  Program result = program;
  result.statements.clear();
  std::vector<int> gone;
  for (std::size_t i = 0; i < program.statements.size(); ++i) {
    const Statement& s = program.statements[i];
    const bool used = std::any_of(gone.begin(), gone.end(), [&](int id) { return uses(s, id); });
    if (i != position && !used) {
      result.statements.push_back(s);
    } else if (s.out >= 0) {
      gone.push_back(s.out);
      if (s.second >= 0) gone.push_back(s.second);
    }
  }
  return result;
}

Program shrunk(Program program, const std::function<bool(const Program&)>& fails, int most) {
  return Shrinker(std::move(program), fails, most).run();
}

}  // namespace volta::random_graph
