// Compiled programs by their text. Plans own the programs they use; the table keeps the latest ones
// besides, so that a plan that was dropped and is built again compiles nothing. What neither keeps
// is freed. Not locked.
#pragma once

#include <algorithm>
#include <cstddef>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

namespace volta {

template <class T>
class ProgramTable {
 public:
  // Programs kept that no plan may have any more.
  static constexpr std::size_t kRecent = 512;

  explicit ProgramTable(std::size_t recent = kRecent) : most_recent_(recent) {}

  // Null if there is none, or no more.
  std::shared_ptr<T> find(const std::string& text) {
    const auto found = entries_.find(text);
    if (found == entries_.end()) return nullptr;
    std::shared_ptr<T> program = found->second.program.lock();
    if (program) touch(found->second, program);
    return program;
  }

  // The one that is there already wins.
  std::shared_ptr<T> insert(const std::string& text, std::shared_ptr<T> program) {
    if (std::shared_ptr<T> known = find(text)) return known;
    if (entries_.size() >= sweep_at_) sweep();
    Entry& entry = entries_[text];
    entry.program = program;
    touch(entry, program);
    return program;
  }

  // Programs that somebody has.
  std::size_t live() const {
    return static_cast<std::size_t>(
        std::count_if(entries_.begin(), entries_.end(),
                      [](const auto& entry) { return !entry.second.program.expired(); }));
  }
  // Texts kept, of programs that are gone among them.
  std::size_t size() const { return entries_.size(); }

 private:
  using Recent = std::list<std::pair<std::shared_ptr<T>, bool*>>;  // latest first
  struct Entry {
    std::weak_ptr<T> program;
    bool is_recent = false;
    typename Recent::iterator recent;
  };

  void touch(Entry& entry, const std::shared_ptr<T>& program) {
    if (entry.is_recent) {
      recent_.splice(recent_.begin(), recent_, entry.recent);
      return;
    }
    recent_.emplace_front(program, &entry.is_recent);
    entry.recent = recent_.begin();
    entry.is_recent = true;
    if (recent_.size() <= most_recent_) return;
    *recent_.back().second = false;
    recent_.pop_back();
  }

  // Forgets programs that are gone; the next time is after as many more again.
  void sweep() {
    std::erase_if(entries_, [](const auto& entry) { return entry.second.program.expired(); });
    sweep_at_ = std::max<std::size_t>(2 * entries_.size(), 2 * most_recent_);
  }

  const std::size_t most_recent_;
  std::size_t sweep_at_ = 2 * most_recent_;
  std::unordered_map<std::string, Entry> entries_;  // entries stay where they are
  Recent recent_;
};

}  // namespace volta
