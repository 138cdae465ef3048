// Mistakes in calls of movement, in whole messages.
#include <gtest/gtest.h>

#include <limits>

#include "support/errors.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta::errors {
namespace {

using Numbers = std::vector<std::int64_t>;
constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();

Tensor of(const Shape& shape, DType dtype = DType::f32) {
  return ones(shape, {.dtype = dtype, .device = test_device()});
}
const Tensor none;

TEST(Errors, MovementOfNoTensor) {
  const auto undefined = [](const char* name, const auto& act) {
    expect<ArgumentError>(act, std::string(name) + ": the input is not a tensor");
  };
  undefined("view", [] { none.view({1}); });
  undefined("view", [] { none.view(Shape{1}); });
  undefined("flatten", [] { none.flatten(); });
  undefined("unflatten", [] { none.unflatten(0, {1}); });
  undefined("transpose", [] { none.transpose(0, 1); });
  undefined("unsqueeze", [] { none.unsqueeze(0); });
  undefined("expand", [] { none.expand({1, 2}); });
  undefined("squeeze", [] { none.squeeze(); });
  undefined("shrink", [] { none.shrink({{0, 1}}); });
  undefined("slice", [] { none.slice(0); });
  undefined("stride", [] { none.stride({1}); });
  undefined("flip", [] { none.flip(0); });
  undefined("unfold", [] { none.unfold(0, 1, 1); });
  undefined("roll", [] { none.roll(1); });
  undefined("roll", [] { none.roll(1, 0); });
  undefined("repeat", [] { none.repeat({1}); });
  undefined("tile", [] { none.tile({1}); });
  undefined("repeat_interleave", [] { none.repeat_interleave(2); });
  undefined("pad", [] { none.pad({1}, {1}); });
  undefined("pad", [] { none.pad({1}, {1}, {.mode = PadMode::reflect}); });
  undefined("split", [] { none.split(1); });
  undefined("split", [] { none.split({1}); });
  undefined("chunk", [] { none.chunk(1); });
  expect<ArgumentError>([] { concat({of({1}), none}); }, "concat: an input is not a tensor");
  expect<ArgumentError>([] { cat({of({1}), none}); }, "cat: an input is not a tensor");
  expect<ArgumentError>([] { stack({none}); }, "stack: an input is not a tensor");
}

TEST(Errors, MovementAlongAxesThatAreNotThere) {
  const auto outside = [](const char* name, const auto& act) {
    expect<ShapeError>(act, std::string(name) + ": axis 2 is out of range for [2, 3]");
  };
  const Tensor x = of({2, 3});
  outside("unflatten", [&] { x.unflatten(2, {1, 3}); });
  outside("slice", [&] { x.slice(2, 0, 1); });
  outside("flip", [&] { x.flip({0, 2}); });
  outside("unfold", [&] { x.unfold(2, 1, 1); });
  outside("roll", [&] { x.roll(1, 2); });
  outside("repeat_interleave", [&] { x.repeat_interleave(2, 2); });
  outside("split", [&] { x.split(1, 2); });
  outside("split", [&] { x.split({1}, 2); });
  outside("chunk", [&] { x.chunk(1, 2); });
  outside("concat", [&] { concat({x, x}, 2); });
  outside("cat", [&] { cat({x, x}, 2); });
  expect<ShapeError>([&] { stack({x, x}, 3); }, "stack: axis 3 is out of range for [2, 3]");
  expect<ShapeError>([&] { stack({x, x}, -4); }, "stack: axis -4 is out of range for [2, 3]");
}

TEST(Errors, SizesThatDoNotFit) {
  const Tensor x = of({2, 6});
  expect<ShapeError>([&] { x.view({5, -1}); }, "view: [2, 6] does not fit [5, -1]");
  expect<ShapeError>([&] { x.view({-1, -1}); }, "view: more than one size of [-1, -1] is -1");
  expect<ShapeError>([&] { x.view(Shape{5}); }, "view: [2, 6] has 12 elements, [5] has 5");
  expect<ShapeError>([&] { x.unflatten(1, {4, -1}); },
                     "unflatten: axis 1 of [2, 6] does not fit [4, -1]");
  expect<ShapeError>([&] { x.unflatten(-1, {2, 2}); },
                     "unflatten: axis -1 of [2, 6] does not fit [2, 2]");
  expect<ShapeError>([&] { x.unflatten(1, {-1, -1}); },
                     "unflatten: more than one size of [-1, -1] is -1");
  expect<ShapeError>([&] { x.expand({2, 7}); }, "expand: [2, 6] does not expand to [2, 7]");
  expect<ShapeError>([&] { x.expand({-1, 2, 6}); }, "expand: [2, 6] does not expand to [-1, 2, 6]");
  expect<ShapeError>([&] { x.expand({6}); }, "expand: [2, 6] does not expand to [6]");
  expect<ShapeError>([&] { x.expand({2, -2}); }, "expand: [2, 6] does not expand to [2, -2]");
}

TEST(Errors, RangesAndSteps) {
  const Tensor x = of({2, 6});
  expect<ShapeError>([&] { x.shrink({{0, 2}}); }, "shrink: 1 ranges for [2, 6]");
  expect<ShapeError>([&] { x.shrink({{0, 2}, {3, 7}}); },
                     "shrink: [3, 7) is outside axis 1 of [2, 6]");
  expect<ShapeError>([&] { x.shrink({{1, 0}, {0, 6}}); },
                     "shrink: [1, 0) is outside axis 0 of [2, 6]");
  expect<ShapeError>([&] { x.shrink({{-1, 1}, {0, 6}}); },
                     "shrink: [-1, 1) is outside axis 0 of [2, 6]");
  expect<ArgumentError>([&] { x.slice(1, 0, 6, 0); }, "slice: step 0 along axis 1");
  expect<ArgumentError>([&] { x.slice(1, {}, {}, kLeast); },
                        "slice: step -9223372036854775808 along axis 1");
  expect<ShapeError>([&] { x.stride({2}); }, "stride: 1 steps for [2, 6]");
  expect<ArgumentError>([&] { x.stride({1, 0}); }, "stride: step 0 along axis 1");
  expect<ShapeError>([&] { x.flip({1, -1}); }, "flip: an axis of [2, 6] appears twice in [1, -1]");
  expect<ArgumentError>([&] { x.unfold(1, 2, 0); }, "unfold: step 0 along axis 1");
  expect<ShapeError>([&] { x.unfold(1, 7, 1); }, "unfold: windows of 7 along axis 1 of [2, 6]");
  expect<ShapeError>([&] { x.unfold(-1, 0, 1); }, "unfold: windows of 0 along axis -1 of [2, 6]");
  expect<ArgumentError>([&] { x.roll({1, 2}, {0}); }, "roll: 2 shifts for 1 axes");
}

TEST(Errors, Padding) {
  const Tensor x = of({2, 6});
  const PadOptions reflect{.mode = PadMode::reflect}, replicate{.mode = PadMode::replicate};
  expect<ShapeError>([&] { x.pad({1}, {1, 1}); }, "pad: 1 and 2 amounts for [2, 6]");
  expect<ShapeError>([&] { x.pad({1}, {1}, reflect); }, "pad: 1 and 1 amounts for [2, 6]");
  expect<ShapeError>([&] { x.pad({0, -4}, {0, -3}, replicate); },
                     "pad: -4 and -3 take more off axis 1 of [2, 6] than there is");
  expect<ShapeError>([&] { x.pad({0, -7}, {0, 2}); },
                     "pad: -7 and 2 take more off axis 1 of [2, 6] than there is");
  expect<ShapeError>([&] { x.pad({0, 0}, {kLeast, kLeast}); },
                     "pad: 0 and -9223372036854775808 take more off axis 0 of [2, 6] than there "
                     "is");
  expect<ShapeError>([&] { x.pad({2, 0}, {0, 0}, reflect); },
                     "pad: 2 elements beside axis 0 of [2, 6] cannot be mirrored");
  expect<ShapeError>([&] { x.pad({0, 0}, {0, 6}, reflect); },
                     "pad: 6 elements beside axis 1 of [2, 6] cannot be mirrored");
  expect<ShapeError>([&] { of({0, 2}).pad({1, 0}, {0, 0}, replicate); },
                     "pad: 1 elements beside axis 0 of [0, 2] cannot be repeated");
  expect<ArgumentError>([&] { of({2}, DType::u8).pad({1}, {0}, {.value = 300}); },
                        "pad: 300 does not fit u8");
}

TEST(Errors, Joining) {
  const Tensor x = of({2, 3});
  expect<ArgumentError>([] { concat(std::span<const Tensor>()); }, "concat: no tensors");
  expect<ArgumentError>([] { stack(std::span<const Tensor>()); }, "stack: no tensors");
  expect<ShapeError>([&] { concat({x, of({2, 4})}); },
                     "concat: [2, 3] and [2, 4] do not fit along axis 0");
  expect<ShapeError>([&] { concat({x, of({3})}, 1); },
                     "concat: [2, 3] and [3] do not fit along axis 1");
  expect<ShapeError>([&] { concat({of({}), of({})}); }, "concat: axis 0 is out of range for []");
  expect<ShapeError>([&] { stack({x, of({3, 2})}); }, "stack: [2, 3] and [3, 2] differ in shape");
  expect<ShapeError>([&] { stack({of({1, 1, 1, 1, 1, 1, 1, 1})}); }, "stack: 9 axes, at most 8");
  expect<ShapeError>([&] { cat({x, of({2, 4})}); },
                     "cat: [2, 3] and [2, 4] do not fit along axis 0");
  expect<ArgumentError>([] { cat(std::span<const Tensor>()); }, "cat: no tensors");
}

TEST(Errors, TakingApartAndRepeating) {
  const Tensor x = of({2, 6});
  expect<ShapeError>([&] { x.split(0, 1); }, "split: parts of 0 along axis 1 of [2, 6]");
  expect<ShapeError>([&] { x.split(-2); }, "split: parts of -2 along axis 0 of [2, 6]");
  expect<ShapeError>([&] { x.split({2, 5}, 1); },
                     "split: sizes [2, 5] do not add up to axis 1 of [2, 6]");
  expect<ShapeError>([&] { x.split({-1, 7}, 1); },
                     "split: sizes [-1, 7] do not add up to axis 1 of [2, 6]");
  expect<ShapeError>([&] { x.split({2}, 1); },
                     "split: sizes [2] do not add up to axis 1 of [2, 6]");
  expect<ArgumentError>([&] { x.chunk(0); }, "chunk: 0 parts");
  expect<ShapeError>([&] { x.repeat({2}); }, "repeat: 1 counts for [2, 6]");
  expect<ArgumentError>([&] { x.repeat({2, -1}); }, "repeat: -1 repetitions");
  constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  const std::string past = " repetitions of axis 1 of [2, 6] are past 2^63 - 1";
  expect<ShapeError>([&] { x.repeat({1, huge}); }, "repeat: 9223372036854775807" + past);
  expect<ShapeError>([&] { x.tile({huge}); }, "tile: 9223372036854775807" + past);
  expect<ShapeError>([&] { x.repeat_interleave(huge, 1); },
                     "repeat_interleave: 9223372036854775807" + past);
  expect<ShapeError>([&] { x.repeat({std::int64_t{1} << 59, 1}); },
                     "repeat: [1152921504606846976, 6] of f32 takes more than 2^62 bytes");
  expect<ShapeError>(
      [&] { x.repeat({std::int64_t{1} << 60, 4}); },
      "repeat: the number of elements of [2305843009213693952, 24] exceeds 2^63 - 1");
  expect<ShapeError>([&] { x.unflatten(1, {-2, 3}); }, "unflatten: size -2 is negative in [-2, 3]");
  expect<ArgumentError>([&] { x.tile({-2}); }, "tile: -2 repetitions");
  expect<ArgumentError>([&] { x.repeat_interleave(-3, 0); }, "repeat_interleave: -3 repetitions");
}

}  // namespace
}  // namespace volta::errors
