// One object of a type per thread, usable to the very end of it: objects with static storage record
// and evaluate in their destructors, which run after the thread has cleaned up. From then on the
// object is made anew and stays.
#pragma once

#include <cstdint>

#include "platform/thread_local.h"

namespace volta {

template <class T>
class ThreadOwned {
 public:
  static T& get() {
    T*& object = pointer();
    if (!is_object(object)) make(object);
    return *object;
  }

 private:
  // A trivial type: valid memory for as long as the thread runs. Null before the first use; 1 when
  // the thread has deleted its object.
  static T*& pointer() {
    VOLTA_INITIAL_EXEC static constinit thread_local T* object = nullptr;
    return object;
  }
  static bool is_object(const T* object) { return reinterpret_cast<std::uintptr_t>(object) > 1; }

  static void make(T*& object) {
    const bool first = object == nullptr;
    object = new T();
    if (first) platform::at_thread_end(end, nullptr);
  }
  static void end(void*) {
    // The destructor of the object may ask for a new one.
    const T* const last = pointer();
    pointer() = reinterpret_cast<T*>(std::uintptr_t{1});  // NOLINT(performance-no-int-to-ptr)
    delete last;
  }
};

}  // namespace volta
