// Memory for small objects of one type that come and go by the thousand: a free list per thread,
// and no locks on the usual path. A thread that ends gives its list to the global one; nothing is
// returned to the system. Under AddressSanitizer each object comes from the heap, so that uses
// after free are detected.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "platform/fork.h"
#include "platform/thread_local.h"

#if defined(__SANITIZE_ADDRESS__)
#define VOLTA_SLAB_FROM_HEAP 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define VOLTA_SLAB_FROM_HEAP 1
#endif
#endif

namespace volta {

#if defined(VOLTA_SLAB_FROM_HEAP)

template <class T>
class Slab {
 public:
  template <class... Args>
  static T* make(Args&&... args) {
    return new T(std::forward<Args>(args)...);
  }
  static void destroy(T* object) noexcept { delete object; }
};

#else

template <class T>
class Slab {
 public:
  template <class... Args>
  static T* make(Args&&... args) {
    return new (take()) T(std::forward<Args>(args)...);
  }
  static void destroy(T* object) noexcept {
    object->~T();
    give(object);
  }

 private:
  static constexpr std::size_t kBlock = 64;
  static constexpr std::uint32_t kMaxLocal = 16384;  // twice the nodes of one batch

  struct Cell {
    Cell* next;
  };
  static_assert(sizeof(T) >= sizeof(Cell));

  struct Global {
    platform::ForkMutex mutex;
    Cell* free = nullptr;
  };
  static Global& global() {
    static auto* g = new Global;  // outlives every object with static storage
    return *g;
  }

  // The thread's free list. `ended` is set once the thread has run its exit handlers.
  struct Local {
    Cell* free = nullptr;
    std::uint32_t count = 0;
    bool registered = false, ended = false;
  };
  static Local& local() {
    VOLTA_INITIAL_EXEC static constinit thread_local Local list;
    return list;
  }
  static void end(void*) {
    Local& list = local();
    list.ended = true;
    while (Cell* cell = list.free) {
      list.free = cell->next;
      give_global(cell);
    }
  }

  static void* take() {
    Local& list = local();
    if (list.free == nullptr) return refill(list);
    Cell* cell = list.free;
    list.free = cell->next;
    --list.count;
    return cell;
  }

  // Arranges that the thread's list goes to the global one when the thread ends.
  [[gnu::noinline]] static void register_thread(Local& list) {
    if (list.registered || list.ended) return;
    list.registered = true;
    platform::at_thread_end(end, nullptr);
  }

  [[gnu::noinline]] static void* refill(Local& list) {
    register_thread(list);
    {
      Global& g = global();
      const std::lock_guard lock(g.mutex);
      if (Cell* cell = g.free) {
        g.free = cell->next;
        return cell;
      }
    }
    auto* block =
        static_cast<std::byte*>(::operator new(sizeof(T) * kBlock, std::align_val_t{alignof(T)}));
    for (std::size_t i = 1; i < kBlock; ++i) give(block + i * sizeof(T));
    return block;
  }

  static void give(void* memory) noexcept {
    Local& list = local();
    auto* cell = new (memory) Cell;
    if (list.ended) return give_global(cell);
    if (!list.registered) register_thread(list);
    cell->next = list.free;
    list.free = cell;
    // A thread that only frees objects of another thread returns them to the global list.
    if (++list.count > kMaxLocal) hand_back(list);
  }
  [[gnu::noinline]] static void hand_back(Local& list) noexcept {
    for (; list.count > kMaxLocal / 2; --list.count) {
      Cell* spare = list.free;
      list.free = spare->next;
      give_global(spare);
    }
  }
  static void give_global(Cell* cell) noexcept {
    Global& g = global();
    const std::lock_guard lock(g.mutex);
    cell->next = g.free;
    g.free = cell;
  }
};

#endif

}  // namespace volta
