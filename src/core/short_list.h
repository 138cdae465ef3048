// A vector of trivially copyable elements that stores up to N of them inline. Unlike InlineVector
// it can be copied and moved; copies of short lists need no heap.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

namespace volta {

template <class T, std::size_t N>
class ShortList {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  ShortList() {}  // NOLINT(modernize-use-equals-default): few_ stays raw memory
  ShortList(std::size_t count, const T& initial) { resize(count, initial); }
  ShortList(const ShortList& other) { assign(other); }
  ShortList(ShortList&& other) noexcept { take(other); }
  ShortList& operator=(const ShortList& other) {
    if (this != &other) assign(other);
    return *this;
  }
  ShortList& operator=(ShortList&& other) noexcept {
    if (this != &other) take(other);
    return *this;
  }
  ~ShortList() = default;

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  T& operator[](std::size_t i) { return data()[i]; }
  const T& operator[](std::size_t i) const { return data()[i]; }

  void resize(std::size_t count, const T& initial = {}) {
    if (count > capacity()) grow(count);
    if (count > size_) std::fill_n(data() + size_, count - size_, initial);
    size_ = static_cast<std::uint32_t>(count);
  }
  void erase(const T* at) {
    T* place = data() + (at - data());
    std::copy(place + 1, end(), place);
    --size_;
  }

  friend bool operator==(const ShortList& a, const ShortList& b) {
    return a.size_ == b.size_ && std::equal(a.begin(), a.end(), b.begin());
  }

 private:
  T* data() { return many_ ? many_.get() : few_; }
  const T* data() const { return many_ ? many_.get() : few_; }
  std::size_t capacity() const { return many_ ? capacity_ : N; }

  void assign(const ShortList& other) {
    if (other.size_ > capacity()) grow(other.size_);
    std::copy(other.begin(), other.end(), data());
    size_ = other.size_;
  }
  void take(ShortList& other) {
    many_ = std::move(other.many_);
    capacity_ = other.capacity_;
    if (!many_) std::copy_n(other.few_, other.size_, few_);
    size_ = std::exchange(other.size_, 0);
  }
  void grow(std::size_t count) {
    const std::size_t capacity = std::max(count, 2 * size());
    auto many = std::make_unique<T[]>(capacity);
    std::copy(begin(), end(), many.get());
    many_ = std::move(many);
    capacity_ = static_cast<std::uint32_t>(capacity);
  }

  std::uint32_t size_ = 0, capacity_ = N;
  std::unique_ptr<T[]> many_;  // null: the elements are in few_
  union {
    T few_[N];
  };
};

}  // namespace volta
