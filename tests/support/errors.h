// Expects an error of one type with exactly one message.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <typeinfo>

#include "volta/error.h"

namespace volta::errors {

// Notes a compared message; errors_complete_test.cpp checks that every operation has its own.
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
