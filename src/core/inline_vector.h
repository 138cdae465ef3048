// A vector whose first N elements need no heap. Only what its users need.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace volta {

template <class T, std::size_t N>
class InlineVector {
 public:
  void resize(std::size_t count) {
    if (count > N) more_.resize(count);
    count_ = count;
  }
  void push_back(T value) {
    if (count_ < N) {
      few_[count_++] = std::move(value);
      return;
    }
    if (count_ == N) {
      more_.reserve(2 * N);
      for (T& element : few_) more_.push_back(std::move(element));
    }
    more_.push_back(std::move(value));
    ++count_;
  }
  void clear() {
    for (std::size_t i = 0; i < count_ && i < N; ++i) few_[i] = T();
    more_.clear();
    count_ = 0;
  }

  std::size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  T* data() { return count_ > N ? more_.data() : few_; }
  const T* data() const { return count_ > N ? more_.data() : few_; }
  T* begin() { return data(); }
  T* end() { return data() + count_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + count_; }
  T& operator[](std::size_t i) { return data()[i]; }
  const T& operator[](std::size_t i) const { return data()[i]; }
  std::span<const T> span() const { return {data(), count_}; }

 private:
  std::size_t count_ = 0;
  T few_[N];
  std::vector<T> more_;
};

}  // namespace volta
