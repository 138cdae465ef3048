// A vector whose first N elements need no heap, and which makes only the elements it has. Only what
// its users need: it is neither copied nor moved.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace volta {

template <class T, std::size_t N>
class InlineVector {
 public:
  InlineVector() noexcept {}  // NOLINT(modernize-use-equals-default): few_ stays raw memory
  InlineVector(const InlineVector&) = delete;
  InlineVector& operator=(const InlineVector&) = delete;
  ~InlineVector() { clear(); }

  // Of an empty vector.
  void resize(std::size_t count) {
    if (count > N) {
      more_.resize(count);
    } else {
      std::uninitialized_value_construct_n(few_, count);
    }
    count_ = count;
  }
  void push_back(T value) {
    if (count_ < N) {
      std::construct_at(few_ + count_, std::move(value));
    } else {
      if (count_ == N) {
        more_.reserve(2 * N);
        for (T& element : few_) more_.push_back(std::move(element));
        std::destroy_n(few_, N);
      }
      more_.push_back(std::move(value));
    }
    ++count_;
  }
  void clear() {
    if (count_ > N) {
      more_.clear();
    } else {
      std::destroy_n(few_, count_);
    }
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
  union {
    T few_[N];
  };
  std::vector<T> more_;
};

}  // namespace volta
