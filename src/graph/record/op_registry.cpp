// Finds the formulas of the table and of users by operation or by name.
#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include <fmt/format.h>

#include "graph/record/formula.h"
#include "graph/record/gradient_rules.h"
#include "graph/record/op.h"
#include "platform/fork.h"
#include "volta/error.h"

namespace volta::graph {
namespace {

// A user-defined operation. It is never freed, since recorded nodes and plans refer to it.
struct Registered {
  std::string name, parameters, value;
  std::vector<std::string> gradients;
  FormulaText text;
  std::unique_ptr<ParsedFormula> parsed;
  Op op;
};

constexpr std::size_t kMostRegistered = 4096;

struct Registry {
  platform::ForkMutex mutex;
  std::atomic<std::size_t> count{0};
  std::array<std::atomic<Registered*>, kMostRegistered> registered{};
  std::array<std::atomic<ParsedFormula*>, kOps> parsed{};  // of the table, parsed on first use
};
Registry& registry() {
  static auto* r = new Registry;
  return *r;
}

const Registered& registered(OpId id) {
  return *registry().registered[static_cast<std::size_t>(id) - kOps].load(
      std::memory_order_acquire);
}

}  // namespace

const Op& registered_op(OpId id) { return registered(id).op; }

const ParsedFormula& parsed_formula(OpId id) {
  if (static_cast<std::size_t>(id) >= kOps) return *registered(id).parsed;
  auto& place = registry().parsed[static_cast<std::size_t>(id)];
  if (const ParsedFormula* parsed = place.load(std::memory_order_acquire)) return *parsed;
  const Op& op = op_info(id);
  auto fresh = std::make_unique<ParsedFormula>(op.name, *op.formula);
  ParsedFormula* none = nullptr;
  // If another thread was faster, its formula is used.
  if (place.compare_exchange_strong(none, fresh.get(), std::memory_order_acq_rel))
    return *fresh.release();
  return *none;
}

const FormulaText* formula_named(std::string_view name) {
  for (const Op& op : op_table) {
    if (op.formula != nullptr && op.name == name) return op.formula;
  }
  Registry& r = registry();
  for (std::size_t i = r.count.load(std::memory_order_acquire); i-- > 0;) {
    const Registered* found = r.registered[i].load(std::memory_order_acquire);
    if (found->name == name) return &found->text;
  }
  return nullptr;
}

OpId register_formula(std::string name, std::string parameters, std::string value,
                      std::vector<std::string> gradients) {
  auto fresh = std::make_unique<Registered>();
  fresh->name = std::move(name);
  fresh->parameters = std::move(parameters);
  fresh->value = std::move(value);
  fresh->gradients = std::move(gradients);
  fresh->text = {fresh->parameters.c_str(), fresh->value.c_str(), {}};
  if (fresh->gradients.size() > fresh->text.gradients.size()) {
    throw ArgumentError(fmt::format("{}: {} gradients; formulas have at most {}", fresh->name,
                                    fresh->gradients.size(), fresh->text.gradients.size()));
  }
  for (std::size_t i = 0; i < fresh->gradients.size(); ++i)
    fresh->text.gradients[i] = fresh->gradients[i].c_str();
  fresh->parsed = std::make_unique<ParsedFormula>(fresh->name.c_str(), fresh->text);

  Registry& r = registry();
  const std::lock_guard guard(r.mutex);
  const std::size_t number = r.count.load(std::memory_order_relaxed);
  if (number == kMostRegistered) {
    throw ArgumentError(
        fmt::format("{}: there are {} functions of users already; make one once and "
                    "keep it",
                    fresh->name, kMostRegistered));
  }
  const auto id = static_cast<OpId>(kOps + number);
  fresh->op = {.id = id,
               .name = fresh->name.c_str(),
               .saves = saves_of(fresh->text),
               .vjp = fresh->gradients.empty() ? nullptr : vjp::formula,
               .formula = &fresh->text};
  r.registered[number].store(fresh.release(), std::memory_order_release);
  r.count.store(number + 1, std::memory_order_release);
  return id;
}

}  // namespace volta::graph
