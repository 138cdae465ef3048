// Expecting an error of one type with one message, whole.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <typeinfo>

#include "volta/error.h"

namespace volta::errors {

// A message that was compared: errors_complete_test.cpp looks whether every operation has its own.
void note(const Error& error);

template <class Exception, class Act>
void expect(Act act, const std::string& message) {
  try {
    act();
    ADD_FAILURE() << "no error; expected: " << message;
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()), message);
    EXPECT_EQ(typeid(error), typeid(Exception)) << message;
    note(error);
  }
}

}  // namespace volta::errors
