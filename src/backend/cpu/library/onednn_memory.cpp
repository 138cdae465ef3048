// The table of live oneDNN primitives.
#include "backend/cpu/library/onednn_memory.h"

#include <map>
#include <mutex>
#include <utility>

#include "platform/fork.h"

namespace volta::cpu {
namespace {

struct Table {
  platform::ForkMutex mutex;
  std::map<std::vector<std::int64_t>, std::size_t> uses;  // by key
};
Table& table() {
  static auto* const known = new Table;  // plans may be destroyed at process exit
  return *known;
}

using Entry = std::pair<const std::vector<std::int64_t>, std::size_t>;

void drop_use(Entry* entry) {
  Table& known = table();
  const std::lock_guard lock(known.mutex);
  if (--entry->second > 0) return;
  // Erased by iterator, because the key is destroyed with the entry.
  known.uses.erase(known.uses.find(entry->first));
}

}  // namespace

OneDnnCode::OneDnnCode(std::vector<std::int64_t> key) {
  Table& known = table();
  const std::lock_guard lock(known.mutex);
  Entry& entry = *known.uses.try_emplace(std::move(key)).first;
  ++entry.second;
  use_ = std::shared_ptr<const void>(&entry, drop_use);
}

std::uint64_t onednn_bytes() {
  Table& known = table();
  const std::lock_guard lock(known.mutex);
  return known.uses.size() * kPrimitiveBytes;
}

}  // namespace volta::cpu
