// A table of bounded size that does not lose what was put into it lately.
#pragma once

#include <cstddef>
#include <map>
#include <utility>

namespace volta {

template <class Key, class Value>
class Recent {
 public:
  // Half as many at least are kept, the newest.
  explicit Recent(std::size_t most = 2048) : half_(most / 2) {}

  const Value* find(const Key& key) const {
    for (const auto* table : {&new_, &old_}) {
      if (const auto found = table->find(key); found != table->end()) return &found->second;
    }
    return nullptr;
  }
  void put(const Key& key, Value value) {
    if (new_.size() >= half_) old_ = std::exchange(new_, {});
    new_.insert_or_assign(key, std::move(value));
  }

 private:
  std::size_t half_;
  std::map<Key, Value> new_, old_;
};

}  // namespace volta
