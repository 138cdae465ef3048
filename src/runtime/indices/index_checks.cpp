// Asks devices for wrong indices, and throws or logs them.
#include "runtime/indices/index_checks.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "volta/error.h"
#include "volta/log.h"

namespace volta::graph {

void IndexLog::verify(std::uint64_t finished) {
  if (!open()) return;
  const std::optional<kernel::ErrorRecord> record = executable_->take_error();
  if (!record) {
    verified_ = std::max(verified_, std::min(finished, runs_));
    return;
  }
  std::string where = "index";
  std::int64_t index = record->index, low = 0;
  if (const auto number = static_cast<std::size_t>(record->site); number < sites.size()) {
    const Site& site = sites[number];
    where = fmt::format("{} ({}:{})", op_info(site.op).name, site.place.file(), site.place.line());
    if (wraps_indices(site.op)) {
      low = -record->high;
      if (index < 0) index -= record->high;  // undoes the wrap-around of a negative index
    }
  }
  failures_.push_back(
      {verified_ + 1, runs_,
       std::make_exception_ptr(IndexError(
           fmt::format("{}: index {} is out of range [{}, {})", where, index, low, record->high))),
       false});
  verified_ = runs_;
}

void IndexLog::fail(const std::exception_ptr& error) {
  if (!open()) return;
  failures_.push_back({verified_ + 1, runs_, error, false});
  verified_ = runs_;
}

IndexLog::Failure* IndexLog::failure(std::uint64_t first, std::uint64_t last, bool unreported) {
  const auto found = std::find_if(failures_.begin(), failures_.end(), [&](const Failure& failure) {
    return failure.first <= last && first <= failure.last && !(unreported && failure.reported);
  });
  return found == failures_.end() ? nullptr : &*found;
}

bool Dependence::Runs::matters() const {
  return last > log->verified() || log->failure(first, last, as_state) != nullptr;
}

void Dependence::add(Runs more) {
  if (!more.matters()) return;
  if (!more.log->has_failures()) more.first = std::max(more.first, more.log->verified() + 1);
  for (Runs& known : runs) {
    if (known.log != more.log || known.as_state != more.as_state) continue;
    known.first = std::min(known.first, more.first);
    known.last = std::max(known.last, more.last);
    return;
  }
  runs.push_back(std::move(more));
}

namespace {
void throw_known(const Dependence& indices) {
  for (const Dependence::Runs& on : indices.runs) {
    if (IndexLog::Failure* failure = on.log->failure(on.first, on.last, on.as_state)) {
      failure->reported = true;
      std::rethrow_exception(failure->error);
    }
  }
}
}  // namespace

void throw_known_index_error(const Node& node) {
  if (const auto* indices = node.indices()) throw_known(**indices);
}

void verify_indices(const Dependence& indices) {
  // The run that produced the value may not have ended, because a scalar is read as soon as it is
  // written. The checks that it depends on came earlier in that run, and all earlier runs have
  // ended.
  for (const Dependence::Runs& on : indices.runs) {
    if (on.last > on.log->verified()) on.log->verify(on.last - 1);
  }
  throw_known(indices);
}

void verify_indices(Node& node) {
  const auto* indices = node.indices();
  if (indices == nullptr) return;
  verify_indices(**indices);
  node.errors->indices.reset();
}

namespace {
void warn_of(IndexLog::Failure& failure) {
  if (std::exchange(failure.warned, true)) return;
  try {
    std::rethrow_exception(failure.error);
  } catch (const IndexError& error) {
    log(LogLevel::warning,
        fmt::format("{}; the step went on with the index clamped, and nobody has looked at what "
                    "it computed",
                    error.what()));
  } catch (...) {  // the device cannot be asked; reading a value throws the reason
  }
}
}  // namespace

void warn_of_wrong_indices(const Batch& batch) noexcept {
  const Dependence* last = nullptr;  // parameters updated by one step share a Dependence
  for (const Leaf& leaf : batch.leaves) {
    const auto* indices = leaf.node->indices();
    if (indices == nullptr || indices->get() == last) continue;
    last = indices->get();
    try {
      for (const Dependence::Runs& on : last->runs) {
        if (on.last > on.log->verified()) on.log->peek();
        if (IndexLog::Failure* failure = on.log->failure(on.first, on.last, true))
          warn_of(*failure);
      }
    } catch (...) {  // the next read asks again
    }
  }
}

}  // namespace volta::graph
