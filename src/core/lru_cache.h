// A table bounded in entries and in bytes, which evicts the least recently used ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <list>
#include <unordered_map>
#include <utility>

namespace volta {

// The most recently used entry always stays.
template <class Key, class T, class KeyHash, std::size_t kMostEntries, std::uint64_t kMostBytes>
class LruCache {
 public:
  // Null if the key is unknown; otherwise valid until the next insert() or clear().
  const T* find(const Key& key) {
    const auto found = by_key_.find(key);
    if (found == by_key_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, found->second);
    return &found->second->item;
  }
  // Adds or replaces the item, which takes about so much memory.
  void insert(const Key& key, T item, std::uint64_t bytes) {
    if (const auto found = by_key_.find(key); found != by_key_.end()) drop(found->second);
    entries_.push_front({key, std::move(item), bytes});
    by_key_[key] = entries_.begin();
    bytes_ += bytes;
    while (entries_.size() > kMostEntries || (bytes_ > kMostBytes && entries_.size() > 1))
      drop(std::prev(entries_.end()));
  }
  std::size_t size() const { return entries_.size(); }
  // Of all items, as they were given to insert().
  std::uint64_t bytes() const { return bytes_; }
  void clear() {
    entries_.clear();
    by_key_.clear();
    bytes_ = 0;
  }

 private:
  struct Entry {
    Key key;
    T item;
    std::uint64_t bytes;
  };
  using Place = typename std::list<Entry>::iterator;
  void drop(Place entry) {
    bytes_ -= entry->bytes;
    by_key_.erase(entry->key);
    entries_.erase(entry);
  }

  std::list<Entry> entries_;  // most recently used first
  std::uint64_t bytes_ = 0;
  std::unordered_map<Key, Place, KeyHash> by_key_;
};

}  // namespace volta
