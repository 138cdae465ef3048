// What modules share among their copies, and how clone() copies it.
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "volta/tensor.h"

namespace volta::nn::detail {

// While one lives, copies of shared parts that its thread makes are copies in depth. A part that is
// shared by several becomes one part, shared by their copies.
class VOLTA_API Cloning {
 public:
  Cloning();
  Cloning(const Cloning&) = delete;
  Cloning& operator=(const Cloning&) = delete;
  ~Cloning();

  static Cloning* current();  // of this thread; null outside

 private:
  template <class T>
  friend class Shared;
  Cloning* outer_;
  std::map<const void*, std::shared_ptr<void>> copies_;
};

// The value of a parameter or buffer anew, in memory of its own, without its gradient.
VOLTA_API Tensor copied(const Tensor& tensor);
template <class T>
T copied(const T& part) {
  return part;
}

// A pointer to a part of a module: copies point to the same part, but under a Cloning to its copy.
template <class T>
class Shared {
 public:
  Shared() = default;
  explicit Shared(std::shared_ptr<T> part) : part_(std::move(part)) {}
  Shared(const Shared& other) : part_(other.part_) {
    Cloning* cloning = part_ ? Cloning::current() : nullptr;
    if (!cloning) return;
    const auto found = cloning->copies_.find(part_.get());
    if (found != cloning->copies_.end()) {
      part_ = std::static_pointer_cast<T>(found->second);
    } else {
      part_ = std::make_shared<T>(copied(*other.part_));
      cloning->copies_.emplace(other.part_.get(), part_);
    }
  }
  Shared(Shared&& other) noexcept = default;
  Shared& operator=(Shared other) noexcept {
    part_ = std::move(other.part_);
    return *this;
  }
  ~Shared() = default;

  T* get() const { return part_.get(); }
  const std::shared_ptr<T>& share() const { return part_; }
  T& operator*() const { return *part_; }
  T* operator->() const { return part_.get(); }
  explicit operator bool() const { return part_ != nullptr; }
  bool operator==(const Shared& other) const { return part_ == other.part_; }

 private:
  std::shared_ptr<T> part_;
};

}  // namespace volta::nn::detail
