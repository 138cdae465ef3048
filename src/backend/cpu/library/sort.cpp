// Keys become unsigned integers of the same order and are sorted together with their positions. All
// pairs are distinct, so the result does not depend on how the work is divided.
#include "backend/cpu/library/sort.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "platform/parallel.h"

namespace volta::cpu {
namespace {

// Rows shorter than this are sorted by comparison.
constexpr std::int64_t kShortRow = 192;
// A single row at least this long is sorted in pieces.
constexpr std::int64_t kLongRow = 1 << 16;
// The number of elements that is worth a thread.
constexpr std::int64_t kGrain = 1 << 13;

template <class Key>
struct Entry {
  Key key;
  std::uint32_t position;
  friend bool operator<(const Entry& a, const Entry& b) {
    return a.key != b.key ? a.key < b.key : a.position < b.position;
  }
};

enum class Numbers : std::uint8_t { Unsigned, Signed, Float };

// Maps the bits of a dtype to ordered keys, as in kernel/emit/sort_templates.cpp.
template <class Bits, class Key>
struct Order {
  Numbers numbers;
  Bits infinite;  // Float: the bits of infinity
  bool descending;

  Key operator()(Bits bits) const {
    constexpr Bits kSign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
    Key key = bits;
    if (numbers == Numbers::Signed) key = static_cast<Bits>(bits ^ kSign);
    if (numbers == Numbers::Float) {
      const Bits magnitude = static_cast<Bits>(bits & ~kSign);
      key = static_cast<Bits>((bits & kSign) != 0 ? ~bits : bits | kSign);
      if (magnitude == 0) key = kSign;
      if (magnitude > infinite) key = static_cast<Key>(~Key{0});
    }
    return descending ? static_cast<Key>(~key) : key;
  }
};

// Sorts by the least significant byte first and skips bytes that are equal in all keys. Returns the
// buffer that holds the result, `data` or `other`.
template <class Key>
Entry<Key>* radix_sort(Entry<Key>* data, Entry<Key>* other, std::int64_t n) {
  constexpr std::size_t kBytes = sizeof(Key);
  std::array<std::array<std::uint32_t, 256>, kBytes> counts{};
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::size_t b = 0; b < kBytes; ++b) ++counts[b][data[i].key >> (8 * b) & 255];
  }
  for (std::size_t b = 0; b < kBytes; ++b) {
    std::array<std::uint32_t, 256>& starts = counts[b];
    if (starts[data[0].key >> (8 * b) & 255] == static_cast<std::uint32_t>(n)) continue;
    std::uint32_t sum = 0;
    for (std::uint32_t& start : starts) {
      const std::uint32_t count = start;
      start = sum;
      sum += count;
    }
    for (std::int64_t i = 0; i < n; ++i) other[starts[data[i].key >> (8 * b) & 255]++] = data[i];
    std::swap(data, other);
  }
  return data;
}

// Sorts the first `count` of n entries; returns the buffer that holds them.
template <class Key>
Entry<Key>* sort_entries(Entry<Key>* data, Entry<Key>* other, std::int64_t n, std::int64_t count) {
  if (count < n / 8) {
    std::nth_element(data, data + count, data + n);
    return sort_entries(data, other, count, count);
  }
  if (n >= kShortRow) return radix_sort(data, other, n);
  std::sort(data, data + n);
  return data;
}

template <class Bits, class Key>
class Sorter {
 public:
  Sorter(const plan::SortStep& step, Order<Bits, Key> order, const void* keys, void* indices,
         void* values)
      : step_(step),
        order_(order),
        keys_(static_cast<const Bits*>(keys)),
        indices_(indices),
        values_(static_cast<Bits*>(values)) {}

  void run() const {
    if (step_.rows == 1 && step_.length >= kLongRow) return sort_long_row();
    const std::int64_t grain = std::max<std::int64_t>(1, kGrain / step_.length);
    platform::parallel_for(step_.rows, grain, [&](std::int64_t begin, std::int64_t end) {
      std::vector<Entry<Key>> data(static_cast<std::size_t>(step_.length)), other(data.size());
      for (std::int64_t row = begin; row < end; ++row) {
        fill(row, 0, step_.length, data.data());
        write(row, 0, step_.count,
              sort_entries(data.data(), other.data(), step_.length, step_.count));
      }
    });
  }

 private:
  void fill(std::int64_t row, std::int64_t begin, std::int64_t end, Entry<Key>* to) const {
    const Bits* keys = keys_ + row * step_.length;
    for (std::int64_t i = begin; i < end; ++i)
      to[i - begin] = {order_(keys[i]), static_cast<std::uint32_t>(i)};
  }

  void write(std::int64_t row, std::int64_t begin, std::int64_t end, const Entry<Key>* from) const {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::uint32_t position = from[i].position;
      const std::int64_t at = row * step_.count + i;
      if (step_.index_dtype == DType::i32) {
        static_cast<std::int32_t*>(indices_)[at] = static_cast<std::int32_t>(position);
      } else {
        static_cast<std::int64_t*>(indices_)[at] = position;
      }
      if (values_ != nullptr) values_[at] = keys_[row * step_.length + position];
    }
  }

  // Sorts pieces in parallel, then merges them in pairs.
  void sort_long_row() const {
    const std::int64_t n = step_.length;
    std::vector<Entry<Key>> data(static_cast<std::size_t>(n)), other(data.size());
    std::int64_t pieces = 1;
    while (pieces < platform::num_threads() && n / (2 * pieces) >= kLongRow / 4) pieces *= 2;
    const auto start = [&](std::int64_t piece, std::int64_t of) { return n * piece / of; };
    platform::parallel_for(pieces, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t p = begin; p < end; ++p) {
        const std::int64_t first = start(p, pieces), size = start(p + 1, pieces) - first;
        fill(0, first, first + size, data.data() + first);
        const Entry<Key>* sorted = sort_entries(data.data() + first, other.data() + first, size,
                                                std::min(size, step_.count));
        if (sorted != data.data() + first) std::copy_n(sorted, size, data.data() + first);
      }
    });
    Entry<Key>*from = data.data(), *to = other.data();
    for (std::int64_t now = pieces; now > 1; now /= 2) {
      platform::parallel_for(now / 2, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t p = begin; p < end; ++p) {
          const std::int64_t left = start(2 * p, now), right = start(2 * p + 1, now),
                             stop = start(2 * p + 2, now);
          // Only the first `count` entries of a piece are sorted.
          std::merge(from + left, from + std::min(right, left + step_.count), from + right,
                     from + std::min(stop, right + step_.count), to + left);
        }
      });
      std::swap(from, to);
    }
    platform::parallel_for(step_.count, kGrain, [&](std::int64_t begin, std::int64_t end) {
      write(0, begin, end, from);
    });
  }

  const plan::SortStep& step_;
  const Order<Bits, Key> order_;
  const Bits* keys_;
  void* indices_;
  Bits* values_;
};

}  // namespace

void sort_rows(const plan::SortStep& step, const void* keys, void* indices, void* values) {
  if (step.rows == 0 || step.count == 0) return;
  const auto run = [&]<class Bits, class Key>(Bits infinite, Numbers numbers, Key) {
    Sorter<Bits, Key>(step, {numbers, infinite, step.descending}, keys, indices, values).run();
  };
  constexpr std::uint32_t kNarrow = 0;
  constexpr std::uint64_t kWide = 0;
  switch (step.dtype) {
    case DType::f32:
      return run(std::uint32_t{0x7f800000}, Numbers::Float, kNarrow);
    case DType::f64:
      return run(std::uint64_t{0x7ff} << 52, Numbers::Float, kWide);
    case DType::f16:
      return run(std::uint16_t{0x7c00}, Numbers::Float, kNarrow);
    case DType::bf16:
      return run(std::uint16_t{0x7f80}, Numbers::Float, kNarrow);
    case DType::i32:
      return run(std::uint32_t{0}, Numbers::Signed, kNarrow);
    case DType::i64:
      return run(std::uint64_t{0}, Numbers::Signed, kWide);
    default:
      return run(std::uint8_t{0}, Numbers::Unsigned, kNarrow);
  }
}

}  // namespace volta::cpu
