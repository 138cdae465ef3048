// One object of type T per thread, usable until the very end of the thread. Destructors of static
// objects may record and evaluate after the thread has cleaned up; the object is then created again
// and never destroyed.
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
  // A pointer is trivial, so its memory is valid for as long as the thread runs. It is null before
  // the first use, and 1 after the thread has deleted its object.
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
    // The object's destructor may ask for a new object.
    const T* const last = pointer();
    pointer() = reinterpret_cast<T*>(std::uintptr_t{1});  // NOLINT(performance-no-int-to-ptr)
    delete last;
  }
};

}  // namespace volta
