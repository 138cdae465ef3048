// A vector that stores its first N elements inline and constructs only the elements it has. It can
// be neither copied nor moved, so it may point into itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <utility>

namespace volta {

template <class T, std::size_t N>
class InlineVector {
 public:
  InlineVector() noexcept {}  // NOLINT(modernize-use-equals-default): few_ stays raw memory
  InlineVector(const InlineVector&) = delete;
  InlineVector& operator=(const InlineVector&) = delete;
  ~InlineVector() {
    clear();
    if (data_ != few_) free_heap(data_);
  }

  void reserve(std::size_t capacity) {
    if (capacity > capacity_) grow(capacity);
  }
  template <class... Args>
  T& emplace_back(Args&&... args) {
    if (count_ == capacity_) grow(2 * std::size_t{capacity_});
    T* made = new (data_ + count_) T{std::forward<Args>(args)...};
    ++count_;
    return *made;
  }
  void clear() {
    std::destroy_n(data_, count_);
    count_ = 0;
  }

  std::size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  T* begin() { return data_; }
  T* end() { return data_ + count_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + count_; }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }
  std::span<const T> span() const { return {data_, count_}; }

 private:
  void grow(std::size_t capacity) {
    T* larger = static_cast<T*>(::operator new(capacity * sizeof(T), std::align_val_t{alignof(T)}));
    std::uninitialized_move_n(data_, count_, larger);
    std::destroy_n(data_, count_);
    if (data_ != few_) free_heap(data_);
    data_ = larger;
    capacity_ = static_cast<std::uint32_t>(capacity);
  }
  static void free_heap(T* memory) { ::operator delete(memory, std::align_val_t{alignof(T)}); }

  T* data_ = few_;
  std::uint32_t count_ = 0, capacity_ = N;
  union {
    T few_[N];
  };
};

}  // namespace volta
