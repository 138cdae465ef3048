// The parts that copies of a module share, and how clone() copies them. Not part of the API.
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "volta/tensor.h"

namespace volta::nn::detail {

// While it lives, copying a Shared pointer on its thread copies the part itself. A part with
// several owners is copied once, and the copies share that copy.
class VOLTA_API Cloning {
 public:
  Cloning();
  Cloning(const Cloning&) = delete;
  Cloning& operator=(const Cloning&) = delete;
  ~Cloning();

  static Cloning* current();  // the one of this thread, or null

 private:
  template <class T>
  friend class Shared;
  Cloning* outer_;
  std::map<const void*, std::shared_ptr<void>> copies_;
};

// Returns the value of a parameter or buffer in new memory, without its gradient.
VOLTA_API Tensor copied(const Tensor& tensor);
template <class T>
T copied(const T& part) {
  return part;
}

// A pointer to a part of a module. Copies point to the same part or, under a Cloning, to its copy.
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
  // A moved module is still the same module: with a member of its own class missing it would be
  // another one, such as a batch norm without statistics.
  // NOLINTNEXTLINE(performance-move-constructor-init): the moved one keeps its part
  Shared(Shared&& other) noexcept : part_(other.part_) {}
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
