// A table of bounded size that drops its oldest entries.
#pragma once

#include <cstddef>
#include <map>
#include <utility>

namespace volta {

// Keeps at least the latest kHalf entries and at most twice as many.
template <class Key, class Value, std::size_t kHalf = 1024>
class Recent {
 public:
  const Value* find(const Key& key) const {
    for (const auto* table : {&new_, &old_}) {
      if (const auto found = table->find(key); found != table->end()) return &found->second;
    }
    return nullptr;
  }
  void put(const Key& key, Value value) {
    if (new_.size() >= kHalf) old_ = std::exchange(new_, {});
    new_.insert_or_assign(key, std::move(value));
  }
  void clear() {
    new_.clear();
    old_.clear();
  }
  std::size_t size() const { return new_.size() + old_.size(); }

 private:
  std::map<Key, Value> new_, old_;
};

}  // namespace volta
