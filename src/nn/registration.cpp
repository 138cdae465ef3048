// Finds member modules that were never added to their module: when the module is copied, which
// reveals the modules inside the object, or when a member is called and no optimizer trains it.
#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "nn/module_state.h"
#include "volta/autograd.h"
#include "volta/detail/optimizer_ops.h"
#include "volta/error.h"

namespace volta::nn {

namespace {

thread_local detail::MemberWatch* watching = nullptr;

constexpr const char* kAdvice =
    "add it under a name in the constructor, add(\"name\", member), or say that it is no part of "
    "the module, leave_out(member)";

}  // namespace

std::uint64_t Module::State::next() {
  static std::atomic<std::uint64_t> count{0};
  return count.fetch_add(1, std::memory_order_relaxed);
}

void Module::State::require_complete() {
  for_each([](State& state) {
    for (const Member& member : state.forgotten) {
      if (state.reaches(member.state.get()) || state.leaves_out(member.state.get())) continue;
      throw ArgumentError(fmt::format("{}: its member of class {} was never added: {}",
                                      member.owner, member.kind, kAdvice));
    }
  });
}

Module::Module(const Module& other) : state_(other.state_) { detail::MemberWatch::copied(other); }

void Module::leave_out(const Module& member) { state_->left_out.push_back(member.state_); }

// ---- Members that are found while a module is copied.

detail::MemberWatch::MemberWatch(const Module& whole, const void* object, std::size_t bytes)
    : whole_(whole),
      begin_(object),
      end_(static_cast<const std::byte*>(object) + bytes),
      outer_(std::exchange(watching, this)) {}

void detail::MemberWatch::copied(const Module& original) {
  if (watching == nullptr) return;
  const void* at = &original;
  const std::less<const void*> before;
  if (!before(at, watching->begin_) && before(at, watching->end_))
    watching->members_.push_back(&original);
}

detail::MemberWatch::~MemberWatch() {
  watching = outer_;
  try {
    note_forgotten();
  } catch (const std::exception&) {
    members_.clear();  // out of memory: members are not reported
  }
}

void detail::MemberWatch::note_forgotten() const {
  Module::State& state = *whole_.state_;
  for (const Module* member : members_) {
    Module::State& own = *member->state_;
    // A module older than `whole_` was passed to it and is not its own.
    if (own.born < state.born || state.reaches(&own) || state.leaves_out(&own)) continue;
    if (!own.has_leaves()) continue;
    const bool known = std::any_of(state.forgotten.begin(), state.forgotten.end(),
                                   [&](const auto& one) { return one.state.get() == &own; });
    // A member of another member belongs to that member.
    const bool inner = std::any_of(members_.begin(), members_.end(), [&](const Module* other) {
      return other != member && other->state_.get() != &own && other->state_.get() != &state &&
             other->state_->reaches(&own);
    });
    if (!known && !inner)
      state.forgotten.push_back({whole_.kind(), member->kind(), member->state_});
  }
}

// ---- Modules that are called without having been added.

namespace {

// Calls are frequent and suspects rare, so the lock is not taken while there are no suspects.
std::atomic<bool> any_suspects{false};

struct Suspect {
  // States of the outermost caller, and of the module that is not part of it.
  std::weak_ptr<void> root, module;
  std::string caller, kind;  // class names
};

struct Register {
  std::mutex lock;
  std::vector<Suspect> suspects;

  static Register& instance() {
    static Register all;
    return all;
  }
};

}  // namespace

void Module::Suspects::note(const std::vector<const Module*>& calls, const Module& module) {
  State& state = *module.state_;
  if (state.added || (state.parameters.empty() && state.children.empty())) return;
  const Module& caller = *calls.back();
  // A module older than its caller was passed to the caller and is not its own.
  if (state.born < caller.state_->born || !grad_enabled()) return;
  const bool known = std::any_of(calls.begin(), calls.end(), [&](const Module* outer) {
    return outer->state_->reaches(&state) || outer->state_->leaves_out(&state);
  });
  if (known || std::atomic_ref(state.suspected).exchange(true)) return;
  Register& all = Register::instance();
  const std::lock_guard guard(all.lock);
  all.suspects.push_back(
      {calls.front()->state_.share(), module.state_.share(), caller.kind(), module.kind()});
  any_suspects.store(true, std::memory_order_release);
}

void Module::Suspects::check(const std::vector<Tensor>& trained) {
  std::set<const void*> ours;
  for (const Tensor& parameter : trained) ours.insert(variable_of(parameter));
  const auto is_ours = [&](const State::Leaf& leaf) {
    return ours.contains(variable_of(*leaf.tensor));
  };
  // Returns whether a suspect needs no further checks. Sets `found` to a suspect that is an error.
  const Suspect* found = nullptr;
  const auto is_settled = [&](const Suspect& suspect) {
    const auto root = std::static_pointer_cast<State>(suspect.root.lock());
    const auto module = std::static_pointer_cast<State>(suspect.module.lock());
    if (!root || !module || module->added || module->is_claimed()) return true;
    bool left_out = false;
    root->for_each([&](const State& state) { left_out |= state.leaves_out(module.get()); });
    const std::vector<State::Leaf> leaves = module->parameter_leaves();
    if (left_out || std::any_of(leaves.begin(), leaves.end(), is_ours)) return true;
    const std::vector<State::Leaf> known = root->parameter_leaves();
    const bool untrained = std::any_of(leaves.begin(), leaves.end(), [](const State::Leaf& leaf) {
      return leaf.tensor->requires_grad() && leaf.tensor->grad().defined();
    });
    if (untrained && std::any_of(known.begin(), known.end(), is_ours)) found = &suspect;
    return false;
  };
  Register& all = Register::instance();
  const std::lock_guard guard(all.lock);
  std::vector<Suspect> left;
  for (Suspect& suspect : all.suspects) {
    if (!is_settled(suspect)) left.push_back(suspect);
    if (found == nullptr) continue;
    throw ArgumentError(
        fmt::format("{}: it calls a {} that was never added to it, so that nobody trains its "
                    "parameters, which have gradients: {}",
                    found->caller, found->kind, kAdvice));
  }
  all.suspects = std::move(left);
  any_suspects.store(!all.suspects.empty(), std::memory_order_release);
}

void detail::require_registered(const std::vector<Tensor>& trained) {
  if (any_suspects.load(std::memory_order_acquire)) Module::Suspects::check(trained);
}

}  // namespace volta::nn
