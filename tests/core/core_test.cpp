// Dtypes, shapes, errors, logging, counters.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <limits>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "core/counting.h"
#include "core/log_once.h"
#include "volta/counters.h"
#include "volta/device.h"
#include "volta/dtype.h"
#include "volta/error.h"
#include "volta/log.h"
#include "volta/shape.h"

namespace volta {
namespace {

template <class Exception, class Act>
std::string message_of(Act act) {
  try {
    act();
  } catch (const Exception& error) {
    return error.what();
  }
  return "(no exception of the expected type)";
}

TEST(DTypes, NamesAndSizes) {
  EXPECT_EQ(name_of(DType::bf16), "bf16");
  EXPECT_EQ(name_of(DType::boolean), "bool");
  std::ostringstream out;
  out << DType::i64;
  EXPECT_EQ(out.str(), "i64");
  EXPECT_EQ(size_of(DType::f16), 2u);
  EXPECT_EQ(size_of(DType::f64), 8u);
  EXPECT_EQ(size_of(DType::boolean), 1u);
}

TEST(DTypes, PromotionIsPyTorchs) {
  // torch.promote_types over float16, bfloat16, float32, float64, int32, int64, uint8, bool.
  using enum DType;
  constexpr DType expected[kDTypeCount][kDTypeCount] = {
      {f16, f32, f32, f64, f16, f16, f16, f16},  {f32, bf16, f32, f64, bf16, bf16, bf16, bf16},
      {f32, f32, f32, f64, f32, f32, f32, f32},  {f64, f64, f64, f64, f64, f64, f64, f64},
      {f16, bf16, f32, f64, i32, i64, i32, i32}, {f16, bf16, f32, f64, i64, i64, i64, i64},
      {f16, bf16, f32, f64, i32, i64, u8, u8},   {f16, bf16, f32, f64, i32, i64, u8, boolean},
  };
  for (int a = 0; a < kDTypeCount; ++a)
    for (int b = 0; b < kDTypeCount; ++b)
      EXPECT_EQ(promote(static_cast<DType>(a), static_cast<DType>(b)), expected[a][b])
          << static_cast<DType>(a) << " with " << static_cast<DType>(b);
}

TEST(Shapes, HoldSizes) {
  const Shape shape{2, 3, 4};
  EXPECT_EQ(shape.rank(), 3);
  EXPECT_EQ(shape.numel(), 24);
  EXPECT_EQ(shape[1], 3);
  EXPECT_EQ(to_string(shape), "[2, 3, 4]");
  EXPECT_EQ(to_string(Shape{}), "[]");
  EXPECT_EQ(Shape{}.numel(), 1);
  EXPECT_EQ((Shape{0, 5}).numel(), 0);
  EXPECT_EQ(shape.with(1, 7), (Shape{2, 7, 4}));
  EXPECT_EQ(shape.inserted(0, 9), (Shape{9, 2, 3, 4}));
  EXPECT_EQ(shape.inserted(3, 9), (Shape{2, 3, 4, 9}));
  EXPECT_EQ(shape.removed(0), (Shape{3, 4}));
  EXPECT_EQ(shape.removed(2), (Shape{2, 3}));
  EXPECT_NE(shape, (Shape{2, 3}));
  EXPECT_NE(shape, (Shape{2, 3, 5}));
}

TEST(Core, WhatIsPrintedHasAText) {
  const auto printed = [](const auto& value) {
    std::ostringstream out;
    out << value;
    return out.str();
  };
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(to_string(dtype), printed(dtype));
    EXPECT_EQ(to_string(dtype), name_of(dtype));
  }
  EXPECT_EQ("a " + to_string(DType::boolean), "a bool");
  EXPECT_EQ(to_string(Device::cpu()), printed(Device::cpu()));
  EXPECT_EQ(to_string(Shape{2, 3}), printed(Shape{2, 3}));
}

TEST(Shapes, RefuseWhatCannotBe) {
  EXPECT_EQ(message_of<ShapeError>([] { Shape{2, -1}; }), "shape: size -1 is negative in [2, -1]");
  EXPECT_EQ(message_of<ShapeError>([] { Shape{1, 1, 1, 1, 1, 1, 1, 1, 1}; }),
            "shape: 9 axes, at most 8");
  EXPECT_EQ(message_of<ShapeError>([] { Shape{1LL << 62, 2}; }),
            "shape: the number of elements of [4611686018427387904, 2] exceeds 2^63 - 1");
  EXPECT_EQ((Shape{std::numeric_limits<std::int64_t>::max()}).numel(),
            std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ((Shape{1LL << 62, 2, 0}).numel(), 0);
  const Shape full{1, 1, 1, 1, 1, 1, 1, 1};
  EXPECT_THROW(full.inserted(0, 1), ShapeError);
}

TEST(Shapes, Broadcast) {
  EXPECT_EQ(broadcast_shapes("add", Shape{2, 1, 4}, Shape{3, 1}), (Shape{2, 3, 4}));
  EXPECT_EQ(broadcast_shapes("add", Shape{}, Shape{3}), (Shape{3}));
  EXPECT_EQ(broadcast_shapes("add", Shape{0}, Shape{1}), (Shape{0}));
  EXPECT_EQ(broadcast_shapes("add", Shape{1}, Shape{0}), (Shape{0}));
  EXPECT_EQ(message_of<ShapeError>([] { broadcast_shapes("add", Shape{2, 3}, Shape{4}); }),
            "add: shapes [2, 3] and [4] do not broadcast");
  EXPECT_THROW(broadcast_shapes("add", Shape{0}, Shape{2}), ShapeError);
}

TEST(Shapes, NormalizeAxis) {
  const Shape shape{2, 2};
  EXPECT_EQ(normalize_axis("sum", 1, shape), 1);
  EXPECT_EQ(normalize_axis("sum", -2, shape), 0);
  EXPECT_EQ(message_of<ShapeError>([&] { normalize_axis("sum", 3, shape); }),
            "sum: axis 3 is out of range for [2, 2]");
  EXPECT_THROW(normalize_axis("sum", -3, shape), ShapeError);
  EXPECT_THROW(normalize_axis("sum", 0, Shape{}), ShapeError);
  EXPECT_THROW(normalize_axis("sum", std::numeric_limits<std::int64_t>::min(), shape), ShapeError);
}

TEST(Errors, AreCaughtAsError) {
  EXPECT_THROW(throw OutOfMemory("x"), Error);
  EXPECT_THROW(throw BackendError("x"), std::runtime_error);
}

// Restores the handler and the level.
class Logging : public testing::Test {
 protected:
  ~Logging() override {
    set_log_handler({});
    set_log_level(level_);
  }
  void capture() {
    set_log_handler([this](LogLevel level, std::string_view message) {
      messages_.emplace_back(level, std::string(message));
    });
  }
  std::vector<std::pair<LogLevel, std::string>> messages_;

 private:
  LogLevel level_ = log_level();
};

TEST_F(Logging, LevelDecidesWhatReachesTheHandler) {
  capture();
  set_log_level(LogLevel::warning);
  log(LogLevel::info, "quiet");
  log(LogLevel::warning, "heard");
  set_log_level(LogLevel::debug);
  log(LogLevel::debug, "detail");
  log(LogLevel::off, "never");
  set_log_level(LogLevel::off);
  log(LogLevel::error, "silenced");
  ASSERT_EQ(messages_.size(), 2u);
  EXPECT_EQ(messages_[0], std::pair(LogLevel::warning, std::string("heard")));
  EXPECT_EQ(messages_[1].second, "detail");
}

TEST_F(Logging, OnceIsOncePerKey) {
  capture();
  set_log_level(LogLevel::warning);
  static int run = 0;  // keys are remembered across repeated runs of this test
  const std::string key = "core_test once " + std::to_string(run++);
  for (int i = 0; i < 3; ++i) {
    log_once(key, LogLevel::warning, "first");
    log_once(key + "b", LogLevel::warning, "second");
  }
  ASSERT_EQ(messages_.size(), 2u);
  EXPECT_EQ(messages_[1].second, "second");
}

TEST_F(Logging, HandlerMayLogAndReplaceItself) {
  set_log_level(LogLevel::warning);
  int calls = 0;
  set_log_handler([&](LogLevel, std::string_view message) {
    ++calls;
    if (message != "outer") return;
    log(LogLevel::warning, "inner");
    set_log_handler([&](LogLevel, std::string_view) { calls += 10; });
  });
  log(LogLevel::warning, "outer");
  log(LogLevel::warning, "after");
  EXPECT_EQ(calls, 12);
}

TEST_F(Logging, HandlerIsSwappedWhileOthersLog) {
  set_log_level(LogLevel::warning);
  std::atomic<int> heard{0};
  const LogHandler handler = [&](LogLevel, std::string_view) { ++heard; };
  set_log_handler(handler);
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([] {
      for (int i = 0; i < 500; ++i) log(LogLevel::warning, "x");
    });
  for (int i = 0; i < 500; ++i) set_log_handler(handler);
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(heard, 2000);
}

TEST_F(Logging, DefaultHandlerWritesToStderr) {
  set_log_level(LogLevel::warning);
  testing::internal::CaptureStderr();
  log(LogLevel::warning, "something odd");
  log(LogLevel::info, "nothing");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "volta: warning: something odd\n");
}

// Messages quote names from files, which must not control the terminal or look like other names.
TEST_F(Logging, DefaultHandlerWritesNoHiddenCharacters) {
  set_log_level(LogLevel::warning);
  testing::internal::CaptureStderr();
  log(LogLevel::warning,
      "line\tone\nline two: \x1b[2J \xc2\x9b"
      "2J \xe2\x80\xae \xe2\x80\x8b \xff \xc3\xa9");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "volta: warning: line\tone\nline two: \\x1b[2J \\xc2\\x9b"
            "2J \\xe2\\x80\\xae "
            "\\xe2\\x80\\x8b \\xff \xc3\xa9\n");
}

// VOLTA_LOG is read once, so it needs a fresh process.
TEST(LoggingDeathTest, LevelComesFromTheEnvironment) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv("VOLTA_LOG", "debug", 1);
        log(LogLevel::debug, "in detail");
        std::_Exit(0);
      },
      testing::ExitedWithCode(0), "volta: debug: in detail");
  EXPECT_EXIT(
      {
        setenv("VOLTA_LOG", "loud", 1);
        std::_Exit(log_level() == LogLevel::warning ? 0 : 1);
      },
      testing::ExitedWithCode(0), "VOLTA_LOG: \"loud\" is not a level");
}

TEST(CountersTest, CountAndReset) {
  reset_counters();
  count(live_counters().launches);
  count(live_counters().bytes_to_device, 40);
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([] {
      for (int i = 0; i < 1000; ++i) count(live_counters().transfers);
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(counters().launches, 1u);
  EXPECT_EQ(counters().bytes_to_device, 40u);
  EXPECT_EQ(counters().transfers, 4000u);
  reset_counters();
  EXPECT_EQ(counters().transfers, 0u);
  EXPECT_EQ(counters().launches, 0u);
}

}  // namespace
}  // namespace volta
