// The list of large buffers.
#include "graph/record/holders.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backend/registry.h"
#include "core/text.h"
#include "graph/record/op.h"
#include "platform/fork.h"

namespace volta::graph {
namespace {

constexpr std::size_t kShown = 8;

struct Holding {
  const char* what = "memory without a name";
  bool is_value = false;
  SourceLocation place;
  Shape shape;
  DType dtype = DType::f32;
};

struct List {
  platform::ForkMutex mutex;
  std::unordered_map<const Buffer*, Holding> buffers;
};
List& list() {
  static auto* const list = new List;  // never destroyed: buffers may be freed at process exit
  return *list;
}

std::string text_of(const Holding& holding) {
  if (!holding.is_value) return holding.what;
  const std::string text =
      fmt::format("{} {} {}", name_of(holding.dtype), to_string(holding.shape), holding.what);
  return *holding.place.file() == 0 ? text
                                    : fmt::format("{} ({})", text, place_text(holding.place));
}

}  // namespace

void list_buffer(Buffer* buffer) {
  const std::lock_guard guard(list().mutex);
  list().buffers.try_emplace(buffer);
}

void unlist_buffer(Buffer* buffer) noexcept {
  const std::lock_guard guard(list().mutex);
  list().buffers.erase(buffer);
}

void note_holding(Buffer* buffer, const Node& node) noexcept {
  if (buffer->bytes < kListedBytes) return;
  const std::lock_guard guard(list().mutex);
  const auto found = list().buffers.find(buffer);
  if (found == list().buffers.end()) return;
  const char* what = node.op == OpId::constant ? "of the host's values" : op_info(node.op).name;
  found->second = {what, true, node.place, node.shape, node.dtype};
}

void note_holding(Buffer* buffer, const char* what) noexcept {
  const std::lock_guard guard(list().mutex);
  const auto found = list().buffers.find(buffer);
  if (found == list().buffers.end()) return;
  found->second = Holding();
  found->second.what = what;
}

std::string holders_table(const DeviceEntry& entry) {
  struct Sum {
    std::uint64_t count = 0, bytes = 0;
  };
  std::map<std::string, Sum> sums;
  {
    const std::lock_guard guard(list().mutex);
    for (const auto& [buffer, holding] : list().buffers) {
      if (buffer->entry != &entry) continue;
      Sum& sum = sums[text_of(holding)];
      ++sum.count;
      sum.bytes += buffer->bytes;
    }
  }
  if (sums.empty()) return "";
  std::vector<std::pair<std::string, Sum>> holders(sums.begin(), sums.end());
  std::stable_sort(holders.begin(), holders.end(),
                   [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
  std::string text = "\nheld by:";
  Sum rest;
  for (std::size_t i = 0; i < holders.size(); ++i) {
    const auto& [what, sum] = holders[i];
    if (i >= kShown) {
      rest.count += sum.count;
      rest.bytes += sum.bytes;
      continue;
    }
    text += fmt::format("\n  {:>11}  {}{}", size_text(sum.bytes),
                        sum.count > 1 ? fmt::format("{} x ", sum.count) : "", what);
  }
  if (rest.count > 0)
    text += fmt::format("\n  {:>11}  {} others", size_text(rest.bytes), rest.count);
  return text;
}

}  // namespace volta::graph
