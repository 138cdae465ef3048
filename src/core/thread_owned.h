// One object of a type per thread, usable to the very end of it: objects with static storage record
// and evaluate in their destructors, which run after the thread has cleaned up. From then on the
// object is made anew and stays.
#pragma once

namespace volta {

template <class T>
class ThreadOwned {
 public:
  static T& get() {
    T*& object = pointer();
    if (object == nullptr) make(object);
    return *object;
  }

 private:
  // Of trivial types only: valid memory for as long as the thread runs.
  static T*& pointer() {
    static constinit thread_local T* object = nullptr;
    return object;
  }
  static bool& ended() {
    static constinit thread_local bool flag = false;
    return flag;
  }
  struct Guard {
    ~Guard() {
      ended() = true;
      delete pointer();
      pointer() = nullptr;
    }
  };
  static void make(T*& object) {
    object = new T();
    if (!ended()) thread_local const Guard guard;
  }
};

}  // namespace volta
