// The table of shipped choices, searched by device and key.
#include "backend/shipped_choices.h"

#include <map>
#include <mutex>
#include <utility>

#include "platform/fork.h"

namespace volta {
namespace {

struct Table {
  using Names = std::map<std::pair<std::string, std::string>, std::string>;
  platform::ForkMutex mutex;
  Names own = {
#define VOLTA_SHIPPED_CHOICE(device, key, name) {{device, key}, name},
#include "backend/shipped_choices.def"
#undef VOLTA_SHIPPED_CHOICE
  };
  Names given;
};

Table& table() {
  static Table table;
  return table;
}

}  // namespace

std::optional<std::string> shipped_choice(const std::string& device, const std::string& key) {
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  for (const Table::Names* names : {&all.given, &all.own}) {
    if (const auto found = names->find({device, key}); found != names->end()) return found->second;
  }
  return std::nullopt;
}

void set_shipped_choices(std::span<const ShippedChoice> choices) {
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  all.given.clear();
  for (const ShippedChoice& choice : choices) all.given[{choice.device, choice.key}] = choice.name;
}

}  // namespace volta
