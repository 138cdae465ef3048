// Division that rounds up.
#pragma once

namespace volta {

// a / b rounded up, for a >= 0 and b > 0: numbers, or sizes of the planner.
template <class A, class B>
constexpr auto ceil_div(A a, B b) {
  return (a + b - 1) / b;
}

}  // namespace volta
