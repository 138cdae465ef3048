// Compiled programs by their text, and by the program objects that plans share. Plans own the
// programs they use; the table also keeps the most recent ones, up to a number and to a number of
// bytes, so that rebuilding a dropped plan compiles nothing. All other programs are freed. Not
// thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "kernel/program.h"

namespace volta {

template <class T>
class ProgramTable {
 public:
  // The number of recent programs that are kept even if no plan uses them.
  static constexpr std::size_t kRecent = 512;
  static constexpr std::uint64_t kRecentBytes = std::uint64_t{32} << 20;

  explicit ProgramTable(std::size_t recent = kRecent, std::uint64_t bytes = kRecentBytes)
      : most_recent_(recent), most_bytes_(bytes) {}

  // Null if the program is not in the table or has been freed.
  std::shared_ptr<T> find(const std::string& text) {
    const auto found = entries_.find(text);
    if (found == entries_.end()) return nullptr;
    std::shared_ptr<T> program = found->second.program.lock();
    if (program) touch(found->second, program);
    return program;
  }

  // Finds a program by its object. Plans for several sizes share their program objects, and writing
  // a program as text takes much longer than looking up the object.
  std::shared_ptr<T> find(const std::shared_ptr<const kernel::Program>& program) {
    const auto found = by_object_.find(program.get());
    // Another object may have had the same address.
    if (found == by_object_.end() || found->second.object.lock() != program) return nullptr;
    return found->second.compiled.lock();
  }
  void note(const std::shared_ptr<const kernel::Program>& program,
            const std::shared_ptr<T>& compiled) {
    if (by_object_.size() >= sweep_objects_at_) {
      std::erase_if(by_object_, [](const auto& entry) { return entry.second.object.expired(); });
      sweep_objects_at_ = std::max<std::size_t>(2 * by_object_.size(), 2 * most_recent_);
    }
    by_object_[program.get()] = {program, compiled};
  }

  // If the table already has the program, returns that one. `bytes` is the size of the program.
  std::shared_ptr<T> insert(const std::string& text, std::shared_ptr<T> program,
                            std::uint64_t bytes = 0) {
    if (std::shared_ptr<T> known = find(text)) return known;
    if (entries_.size() >= sweep_at_) sweep();
    Entry& entry = entries_[text];
    entry.program = program;
    entry.bytes = bytes + text.size() + sizeof(Entry);
    touch(entry, program);
    return program;
  }

  // Drops the programs that no plan uses.
  void drop_unused() {
    for (const auto& [program, entry] : recent_) entry->is_recent = false;
    recent_.clear();
    recent_bytes_ = 0;
    sweep();
  }

  // The bytes of the programs that still exist, with their texts.
  std::uint64_t bytes() const {
    std::uint64_t bytes = 0;
    for (const auto& [text, entry] : entries_)
      bytes += entry.program.expired() ? text.size() + sizeof(Entry) : entry.bytes;
    return bytes;
  }
  // The number of programs that still exist.
  std::size_t live() const {
    return static_cast<std::size_t>(
        std::count_if(entries_.begin(), entries_.end(),
                      [](const auto& entry) { return !entry.second.program.expired(); }));
  }
  // The number of entries, including those of freed programs.
  std::size_t size() const { return entries_.size(); }

 private:
  struct Noted {
    std::weak_ptr<const kernel::Program> object;
    std::weak_ptr<T> compiled;
  };
  struct Entry;
  using Recent = std::list<std::pair<std::shared_ptr<T>, Entry*>>;  // latest first
  struct Entry {
    std::weak_ptr<T> program;
    std::uint64_t bytes = 0;
    bool is_recent = false;
    typename Recent::iterator recent;
  };

  void touch(Entry& entry, const std::shared_ptr<T>& program) {
    if (entry.is_recent) {
      recent_.splice(recent_.begin(), recent_, entry.recent);
      return;
    }
    recent_.emplace_front(program, &entry);
    entry.recent = recent_.begin();
    entry.is_recent = true;
    recent_bytes_ += entry.bytes;
    while (recent_.size() > most_recent_ || (recent_bytes_ > most_bytes_ && recent_.size() > 1)) {
      Entry& oldest = *recent_.back().second;
      oldest.is_recent = false;
      recent_bytes_ -= oldest.bytes;
      recent_.pop_back();
    }
  }

  // Removes the entries of freed programs; the next sweep follows when the table has doubled.
  void sweep() {
    std::erase_if(entries_, [](const auto& entry) { return entry.second.program.expired(); });
    sweep_at_ = std::max<std::size_t>(2 * entries_.size(), 2 * most_recent_);
  }

  const std::size_t most_recent_;
  const std::uint64_t most_bytes_;
  std::uint64_t recent_bytes_ = 0;
  std::size_t sweep_at_ = 2 * most_recent_;
  std::unordered_map<std::string, Entry> entries_;  // entries never move
  Recent recent_;
  std::unordered_map<const kernel::Program*, Noted> by_object_;
  std::size_t sweep_objects_at_ = 2 * most_recent_;
};

}  // namespace volta
