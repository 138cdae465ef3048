// A table of bounded size that does not lose what was put into it lately.
#pragma once

#include <cstddef>
#include <map>
#include <utility>

namespace volta {

template <class Key, class Value>
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

 private:
  static constexpr std::size_t kHalf = 1024;  // of what is kept at most
  std::map<Key, Value> new_, old_;
};

}  // namespace volta
