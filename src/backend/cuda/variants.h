// Chooses the captured form of a plan for a run. Addresses are baked into a captured graph, so a
// plan keeps a few variants by address vector. If there are more vectors than variants, the
// addresses that change most become volatile until the others repeat: the graph uses a fixed slot
// for each of them, with copies before and after the graph.
// Captures are thus bounded whatever the caller does: at most kMaxVariants * (kMaxRounds + 1).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace volta::cuda {

class VariantTable {
 public:
  static constexpr std::size_t kMaxVariants = 8;
  static constexpr int kMaxRounds = 4;
  static constexpr std::size_t kNoSlot = ~std::size_t{0};

  enum class Action { Replay, Capture, Eager };
  struct Choice {
    Action action;
    // Capture: 0 means that all earlier variants are invalid and the slots have changed.
    std::size_t variant = 0;
  };

  // An address vector consists of the leaves, the outputs and the arena, in this order.
  VariantTable(const std::vector<std::uint64_t>& leaf_bytes,
               const std::vector<std::uint64_t>& output_bytes, std::uint64_t arena_bytes)
      : leaves_(leaf_bytes.size()), bytes_(leaf_bytes) {
    bytes_.insert(bytes_.end(), output_bytes.begin(), output_bytes.end());
    bytes_.push_back(arena_bytes);
    slots_.assign(bytes_.size(), kNoSlot);
    group_sizes_.assign(bytes_.size(), 0);
    for (std::size_t i = 0; i < arena(); ++i) {
      if (bytes_[i] > 0) order_.push_back(i);
    }
  }

  Choice choose(std::span<const std::uint64_t> addresses) {
    if (slot_bytes_ > 0 && !slots_fit(addresses)) return {Action::Eager};
    set_key(addresses);
    const auto found = std::find(keys_.begin(), keys_.end(), key_);
    if (found != keys_.end()) {
      return {Action::Replay, static_cast<std::size_t>(found - keys_.begin())};
    }
    if (keys_.size() == kMaxVariants) {
      if (given_up_ || !widen(addresses)) {
        given_up_ = true;
        return {Action::Eager};
      }
      set_key(addresses);
      keys_.clear();
    }
    keys_.push_back(key_);
    return {Action::Capture, keys_.size() - 1};
  }

  std::size_t arena() const { return bytes_.size() - 1; }
  bool is_volatile(std::size_t index) const { return slots_[index] != kNoSlot; }
  // The byte offset of a volatile index in the slot memory. A leaf and an output at the same
  // address share a slot.
  std::size_t slot(std::size_t index) const { return slots_[index]; }
  std::size_t slot_bytes() const { return slot_bytes_; }

 private:
  bool is_output(std::size_t index) const { return index >= leaves_ && index < arena(); }

  void set_key(std::span<const std::uint64_t> addresses) {
    key_.assign(addresses.begin(), addresses.end());
    for (std::size_t i = 0; i < key_.size(); ++i) {
      if (is_volatile(i) || bytes_[i] == 0) key_[i] = 0;
    }
  }

  // Calls body(members, aliased, same) for each chain of overlapping buffers, without the arena,
  // until it returns false. `aliased` means that there are several buffers and one is written;
  // `same` means that all have the same address.
  template <class Body>
  void for_overlaps(std::span<const std::uint64_t> addresses, Body body) {
    // Insertion sort: the order is nearly the same as in the previous run.
    for (std::size_t n = 1; n < order_.size(); ++n) {
      for (std::size_t k = n; k > 0 && addresses[order_[k]] < addresses[order_[k - 1]]; --k) {
        std::swap(order_[k], order_[k - 1]);
      }
    }
    for (std::size_t begin = 0; begin < order_.size();) {
      std::uint64_t high = addresses[order_[begin]] + bytes_[order_[begin]];
      bool written = is_output(order_[begin]), same = true;
      std::size_t end = begin + 1;
      for (; end < order_.size() && addresses[order_[end]] < high; ++end) {
        high = std::max(high, addresses[order_[end]] + bytes_[order_[end]]);
        written |= is_output(order_[end]);
        same &= addresses[order_[end]] == addresses[order_[begin]];
      }
      const std::span<const std::size_t> members(order_.data() + begin, end - begin);
      if (!body(members, written && members.size() > 1, same)) return;
      begin = end;
    }
  }

  // Whether the buffers alias each other as they did when the slots were assigned.
  bool slots_fit(std::span<const std::uint64_t> addresses) {
    bool fits = true;
    for_overlaps(addresses, [&](std::span<const std::size_t> members, bool aliased, bool same) {
      const std::size_t expected = aliased ? members.size() : 1;
      for (const std::size_t i : members) {
        if (aliased && slots_[i] != slots_[members.front()]) fits = false;
        if (is_volatile(i) && (group_sizes_[i] != expected || (aliased && !same))) fits = false;
      }
      return fits;
    });
    return fits;
  }

  // Makes the buffers that move volatile and assigns new slots. Returns false if buffers overlap in
  // a way that slots cannot represent.
  bool widen(std::span<const std::uint64_t> addresses) {
    std::vector<char> moving(bytes_.size(), 0);
    for (std::size_t i = 0; i < bytes_.size(); ++i) moving[i] = is_volatile(i) ? 1 : 0;
    if (rounds_ >= kMaxRounds - 1) {
      for (std::size_t i = 0; i < bytes_.size(); ++i) moving[i] = bytes_[i] > 0 ? 1 : 0;
    } else {
      mark_moving(addresses, moving);
    }
    std::vector<std::size_t> slots(bytes_.size(), kNoSlot), sizes(bytes_.size(), 0);
    std::size_t total = 0;
    const auto reserve = [&](std::uint64_t bytes) {
      const std::size_t offset = total;
      total += (static_cast<std::size_t>(bytes) + 255) / 256 * 256;
      return offset;
    };
    bool possible = true;
    for_overlaps(addresses, [&](std::span<const std::size_t> members, bool aliased, bool same) {
      const bool any =
          std::any_of(members.begin(), members.end(), [&](auto i) { return moving[i] != 0; });
      if (!any) return true;
      if (!aliased) {
        for (const std::size_t i : members) {
          if (moving[i] == 0) continue;
          slots[i] = reserve(bytes_[i]);
          sizes[i] = 1;
        }
        return true;
      }
      std::uint64_t largest = 0;
      for (const std::size_t i : members) largest = std::max(largest, bytes_[i]);
      const std::size_t shared = reserve(largest);
      for (const std::size_t i : members) {
        slots[i] = shared;
        sizes[i] = members.size();
      }
      return possible = same;
    });
    if (!possible) return false;
    if (moving[arena()] != 0) slots[arena()] = reserve(bytes_[arena()]);
    ++rounds_;
    slots_ = std::move(slots);
    group_sizes_ = std::move(sizes);
    slot_bytes_ = total;
    return true;
  }

  // Marks the buffers with the most distinct addresses, small ones first, until half of the
  // variants suffice for the rest. State that alternates between two buffers thus keeps its own
  // variants.
  void mark_moving(std::span<const std::uint64_t> addresses, std::vector<char>& moving) const {
    std::vector<std::vector<std::uint64_t>> vectors = keys_;
    vectors.emplace_back(addresses.begin(), addresses.end());
    struct Mover {
      std::size_t index, places;
    };
    std::vector<Mover> movers;
    for (std::size_t i = 0; i < bytes_.size(); ++i) {
      if (bytes_[i] == 0 || moving[i] != 0) {
        for (auto& vector : vectors) vector[i] = 0;
        continue;
      }
      std::set<std::uint64_t> seen;
      for (const auto& vector : vectors) seen.insert(vector[i]);
      if (seen.size() > 1) movers.push_back({i, seen.size()});
    }
    std::stable_sort(movers.begin(), movers.end(), [&](const Mover& a, const Mover& b) {
      return a.places != b.places ? a.places > b.places : bytes_[a.index] < bytes_[b.index];
    });
    for (const Mover& mover : movers) {
      moving[mover.index] = 1;
      for (auto& vector : vectors) vector[mover.index] = 0;
      if (std::set(vectors.begin(), vectors.end()).size() <= kMaxVariants / 2) return;
    }
  }

  std::size_t leaves_;
  std::vector<std::uint64_t> bytes_;
  std::vector<std::size_t> order_;  // leaves and outputs by address, without empty ones
  std::vector<std::vector<std::uint64_t>> keys_;
  std::vector<std::uint64_t> key_;
  std::vector<std::size_t> slots_;
  std::vector<std::size_t> group_sizes_;  // the number of buffers that share the slot
  std::size_t slot_bytes_ = 0;
  int rounds_ = 0;
  bool given_up_ = false;
};

}  // namespace volta::cuda
