// The knots of the digits. Each row of a table is a stroke, in the order in which the pen draws it.
#include "data/digit_strokes.h"

namespace volta::data {
namespace {

constexpr bool kCorner = true;

// ---- 0: an oval begun at the top or at its right, or with a tail that crosses it.
constexpr Knot kZeroRound[] = {{0.50f, 0.00f}, {0.20f, 0.13f}, {0.05f, 0.50f},
                               {0.20f, 0.87f}, {0.50f, 1.00f}, {0.80f, 0.87f},
                               {0.95f, 0.50f}, {0.80f, 0.13f}, {0.48f, 0.01f}};
constexpr Knot kZeroHook[] = {{0.78f, 0.12f}, {0.55f, 0.02f}, {0.22f, 0.16f}, {0.06f, 0.52f},
                              {0.20f, 0.90f}, {0.50f, 1.00f}, {0.82f, 0.82f}, {0.94f, 0.45f},
                              {0.80f, 0.10f}, {0.52f, 0.06f}, {0.42f, 0.16f}};
constexpr Knot kZeroOval[] = {{0.62f, 0.02f}, {0.36f, 0.12f}, {0.18f, 0.48f},
                              {0.22f, 0.85f}, {0.45f, 1.00f}, {0.70f, 0.82f},
                              {0.84f, 0.45f}, {0.78f, 0.10f}, {0.58f, 0.00f}};
constexpr Stroke kZero0[] = {kZeroRound};
constexpr Stroke kZero1[] = {kZeroHook};
constexpr Stroke kZero2[] = {kZeroOval};
constexpr Style kZero[] = {{kZero0, 0.5f}, {kZero1, 0.2f}, {kZero2, 0.3f}};

// ---- 1: a line, sometimes with a flag, rarely with a foot.
constexpr Knot kOneLine[] = {{0.50f, 0.00f}, {0.50f, 0.50f}, {0.50f, 1.00f}};
constexpr Knot kOneFlag[] = {
    {0.28f, 0.24f}, {0.42f, 0.14f}, {0.54f, 0.00f, kCorner}, {0.54f, 0.50f}, {0.53f, 1.00f}};
constexpr Knot kOneFoot[] = {{0.24f, 1.00f}, {0.55f, 0.99f}, {0.86f, 0.98f}};
constexpr Stroke kOne0[] = {kOneLine};
constexpr Stroke kOne1[] = {kOneFlag};
constexpr Stroke kOne2[] = {kOneFlag, kOneFoot};
constexpr Style kOne[] = {{kOne0, 0.86f}, {kOne1, 0.09f}, {kOne2, 0.05f}};

// ---- 2: a corner, a loop or a bow at the foot.
constexpr Knot kTwoCorner[] = {{0.10f, 0.22f},          {0.30f, 0.03f}, {0.65f, 0.02f},
                               {0.83f, 0.25f},          {0.70f, 0.52f}, {0.40f, 0.78f},
                               {0.08f, 0.97f, kCorner}, {0.50f, 0.95f}, {0.95f, 0.93f}};
constexpr Knot kTwoLoop[] = {{0.12f, 0.20f}, {0.38f, 0.00f}, {0.72f, 0.08f}, {0.78f, 0.32f},
                             {0.58f, 0.66f}, {0.28f, 0.93f}, {0.08f, 0.97f}, {0.04f, 0.84f},
                             {0.20f, 0.76f}, {0.45f, 0.86f}, {0.70f, 0.98f}, {0.98f, 0.90f}};
constexpr Knot kTwoBow[] = {{0.16f, 0.14f}, {0.45f, 0.00f}, {0.74f, 0.12f},
                            {0.70f, 0.40f}, {0.42f, 0.72f}, {0.14f, 0.92f},
                            {0.16f, 1.00f}, {0.50f, 0.94f}, {0.88f, 0.98f}};
constexpr Stroke kTwo0[] = {kTwoCorner};
constexpr Stroke kTwo1[] = {kTwoLoop};
constexpr Stroke kTwo2[] = {kTwoBow};
constexpr Style kTwo[] = {{kTwo0, 0.40f}, {kTwo1, 0.38f}, {kTwo2, 0.22f}};

// ---- 3: two bows that meet in a corner, smoothly, in a small loop, or under a flat top.
constexpr Knot kThreeCorner[] = {
    {0.10f, 0.12f}, {0.40f, 0.00f}, {0.78f, 0.12f}, {0.76f, 0.34f}, {0.40f, 0.47f, kCorner},
    {0.78f, 0.56f}, {0.88f, 0.78f}, {0.58f, 0.98f}, {0.24f, 1.00f}, {0.04f, 0.88f}};
constexpr Knot kThreeSmooth[] = {{0.14f, 0.10f}, {0.46f, 0.00f}, {0.74f, 0.14f}, {0.68f, 0.36f},
                                 {0.48f, 0.47f}, {0.66f, 0.53f}, {0.82f, 0.74f}, {0.62f, 0.96f},
                                 {0.28f, 1.00f}, {0.06f, 0.92f}};
constexpr Knot kThreeLoop[] = {{0.16f, 0.12f}, {0.50f, 0.00f}, {0.76f, 0.14f}, {0.62f, 0.38f},
                               {0.42f, 0.52f}, {0.38f, 0.44f}, {0.54f, 0.46f}, {0.78f, 0.62f},
                               {0.74f, 0.88f}, {0.42f, 1.00f}, {0.08f, 0.92f}};
constexpr Knot kThreeFlat[] = {{0.10f, 0.04f}, {0.45f, 0.02f},          {0.82f, 0.02f, kCorner},
                               {0.60f, 0.22f}, {0.40f, 0.40f, kCorner}, {0.74f, 0.50f},
                               {0.84f, 0.74f}, {0.56f, 0.97f},          {0.08f, 0.94f}};
constexpr Stroke kThree0[] = {kThreeCorner};
constexpr Stroke kThree1[] = {kThreeSmooth};
constexpr Stroke kThree2[] = {kThreeLoop};
constexpr Stroke kThree3[] = {kThreeFlat};
constexpr Style kThree[] = {{kThree0, 0.42f}, {kThree1, 0.33f}, {kThree2, 0.17f}, {kThree3, 0.08f}};

// ---- 4: open, closed, round, or drawn in one stroke.
constexpr Knot kFourLeft[] = {
    {0.16f, 0.02f}, {0.09f, 0.30f}, {0.07f, 0.54f, kCorner}, {0.45f, 0.55f}, {0.92f, 0.50f}};
constexpr Knot kFourRight[] = {{0.78f, 0.00f}, {0.74f, 0.50f}, {0.70f, 1.00f}};
constexpr Knot kFourBow[] = {
    {0.14f, 0.04f}, {0.08f, 0.36f}, {0.26f, 0.54f}, {0.56f, 0.50f}, {0.80f, 0.40f}};
constexpr Knot kFourStem[] = {{0.84f, 0.00f}, {0.80f, 0.45f}, {0.74f, 1.00f}};
constexpr Knot kFourClosed[] = {
    {0.62f, 0.00f}, {0.36f, 0.30f}, {0.05f, 0.62f, kCorner}, {0.50f, 0.63f}, {0.96f, 0.60f}};
constexpr Knot kFourClosedStem[] = {{0.64f, 0.00f}, {0.64f, 0.50f}, {0.62f, 1.00f}};
constexpr Knot kFourOnce[] = {{0.20f, 0.04f}, {0.08f, 0.40f}, {0.14f, 0.54f},
                              {0.50f, 0.48f}, {0.84f, 0.26f}, {0.90f, 0.08f, kCorner},
                              {0.80f, 0.50f}, {0.72f, 1.00f}};
constexpr Stroke kFour0[] = {kFourLeft, kFourRight};
constexpr Stroke kFour1[] = {kFourBow, kFourStem};
constexpr Stroke kFour2[] = {kFourClosed, kFourClosedStem};
constexpr Stroke kFour3[] = {kFourOnce};
constexpr Style kFour[] = {{kFour0, 0.38f}, {kFour1, 0.30f}, {kFour2, 0.10f}, {kFour3, 0.22f}};

// ---- 5: with a separate bar, in one stroke with corners, or like an S.
constexpr Knot kFiveBar[] = {{0.26f, 0.03f}, {0.60f, 0.02f}, {0.96f, 0.00f}};
constexpr Knot kFiveBody[] = {{0.27f, 0.03f}, {0.22f, 0.22f}, {0.16f, 0.42f, kCorner},
                              {0.46f, 0.36f}, {0.78f, 0.48f}, {0.84f, 0.72f},
                              {0.58f, 0.97f}, {0.24f, 1.00f}, {0.03f, 0.90f}};
constexpr Knot kFiveOnce[] = {{0.92f, 0.02f}, {0.60f, 0.02f},          {0.32f, 0.05f, kCorner},
                              {0.24f, 0.24f}, {0.20f, 0.44f, kCorner}, {0.50f, 0.40f},
                              {0.76f, 0.56f}, {0.74f, 0.82f},          {0.42f, 1.00f},
                              {0.06f, 0.94f}};
constexpr Knot kFiveS[] = {{0.98f, 0.04f}, {0.62f, 0.02f}, {0.32f, 0.12f},
                           {0.26f, 0.34f}, {0.50f, 0.47f}, {0.74f, 0.62f},
                           {0.72f, 0.86f}, {0.42f, 1.00f}, {0.08f, 0.92f}};
constexpr Stroke kFive0[] = {kFiveBar, kFiveBody};
constexpr Stroke kFive1[] = {kFiveOnce};
constexpr Stroke kFive2[] = {kFiveS};
constexpr Style kFive[] = {{kFive0, 0.42f}, {kFive1, 0.30f}, {kFive2, 0.28f}};

// ---- 6: a bow that ends in an oval, a straight stem, or a narrow loop at the foot.
constexpr Knot kSixBow[] = {{0.74f, 0.02f}, {0.38f, 0.20f}, {0.12f, 0.54f}, {0.14f, 0.86f},
                            {0.46f, 1.00f}, {0.80f, 0.88f}, {0.84f, 0.66f}, {0.58f, 0.54f},
                            {0.28f, 0.64f}, {0.16f, 0.82f}};
constexpr Knot kSixStem[] = {{0.42f, 0.00f}, {0.26f, 0.36f}, {0.14f, 0.70f},
                             {0.26f, 0.96f}, {0.56f, 0.98f}, {0.78f, 0.80f},
                             {0.66f, 0.60f}, {0.40f, 0.64f}, {0.20f, 0.84f}};
constexpr Knot kSixLoop[] = {{0.66f, 0.00f}, {0.40f, 0.22f}, {0.20f, 0.58f}, {0.16f, 0.86f},
                             {0.36f, 1.00f}, {0.62f, 0.88f}, {0.72f, 0.70f}, {0.56f, 0.62f},
                             {0.36f, 0.76f}, {0.26f, 0.94f}};
constexpr Stroke kSix0[] = {kSixBow};
constexpr Stroke kSix1[] = {kSixStem};
constexpr Stroke kSix2[] = {kSixLoop};
constexpr Style kSix[] = {{kSix0, 0.40f}, {kSix1, 0.30f}, {kSix2, 0.30f}};

// ---- 7: plain, crossed, with a serif, or round at the shoulder.
constexpr Knot kSevenPlain[] = {
    {0.06f, 0.08f}, {0.46f, 0.05f}, {0.90f, 0.04f, kCorner}, {0.66f, 0.46f}, {0.48f, 1.00f}};
constexpr Knot kSevenCross[] = {{0.34f, 0.52f}, {0.60f, 0.50f}, {0.88f, 0.47f}};
constexpr Knot kSevenSerif[] = {{0.07f, 0.26f}, {0.10f, 0.14f},          {0.10f, 0.05f, kCorner},
                                {0.50f, 0.05f}, {0.90f, 0.03f, kCorner}, {0.66f, 0.45f},
                                {0.52f, 1.00f}};
constexpr Knot kSevenRound[] = {{0.06f, 0.14f}, {0.36f, 0.03f}, {0.72f, 0.04f},
                                {0.86f, 0.16f}, {0.72f, 0.48f}, {0.58f, 1.00f}};
constexpr Stroke kSeven0[] = {kSevenPlain};
constexpr Stroke kSeven1[] = {kSevenPlain, kSevenCross};
constexpr Stroke kSeven2[] = {kSevenSerif};
constexpr Stroke kSeven3[] = {kSevenRound};
constexpr Style kSeven[] = {{kSeven0, 0.46f}, {kSeven1, 0.12f}, {kSeven2, 0.14f}, {kSeven3, 0.28f}};

// ---- 8: an S that returns, begun at the right, left or middle, or two ovals.
constexpr Knot kEightS[] = {{0.80f, 0.14f}, {0.52f, 0.00f}, {0.22f, 0.14f}, {0.28f, 0.36f},
                            {0.58f, 0.54f}, {0.80f, 0.78f}, {0.54f, 1.00f}, {0.22f, 0.88f},
                            {0.22f, 0.68f}, {0.50f, 0.48f}, {0.78f, 0.28f}, {0.78f, 0.10f}};
constexpr Knot kEightNarrow[] = {{0.72f, 0.08f}, {0.50f, 0.02f}, {0.32f, 0.16f}, {0.40f, 0.38f},
                                 {0.60f, 0.60f}, {0.64f, 0.86f}, {0.44f, 1.00f}, {0.28f, 0.86f},
                                 {0.40f, 0.60f}, {0.64f, 0.34f}, {0.76f, 0.12f}, {0.62f, 0.00f}};
constexpr Knot kEightMiddle[] = {{0.50f, 0.48f}, {0.26f, 0.32f}, {0.30f, 0.08f}, {0.58f, 0.00f},
                                 {0.78f, 0.16f}, {0.66f, 0.38f}, {0.36f, 0.58f}, {0.18f, 0.80f},
                                 {0.42f, 1.00f}, {0.74f, 0.92f}, {0.78f, 0.68f}, {0.52f, 0.47f}};
constexpr Knot kEightTop[] = {{0.50f, 0.00f}, {0.26f, 0.12f}, {0.30f, 0.38f}, {0.54f, 0.46f},
                              {0.76f, 0.34f}, {0.74f, 0.10f}, {0.48f, 0.00f}};
constexpr Knot kEightBottom[] = {{0.52f, 0.46f}, {0.24f, 0.58f}, {0.18f, 0.84f}, {0.46f, 1.00f},
                                 {0.78f, 0.88f}, {0.78f, 0.60f}, {0.50f, 0.46f}};
constexpr Knot kEightOpen[] = {{0.92f, 0.10f}, {0.60f, 0.02f}, {0.20f, 0.12f}, {0.22f, 0.34f},
                               {0.52f, 0.52f}, {0.70f, 0.76f}, {0.48f, 1.00f}, {0.20f, 0.90f},
                               {0.26f, 0.66f}, {0.56f, 0.44f}, {0.86f, 0.24f}, {0.96f, 0.04f}};
constexpr Stroke kEight0[] = {kEightS};
constexpr Stroke kEight1[] = {kEightNarrow};
constexpr Stroke kEight2[] = {kEightMiddle};
constexpr Stroke kEight3[] = {kEightTop, kEightBottom};
constexpr Stroke kEight4[] = {kEightOpen};
constexpr Style kEight[] = {
    {kEight0, 0.30f}, {kEight1, 0.18f}, {kEight2, 0.14f}, {kEight3, 0.14f}, {kEight4, 0.24f}};

// ---- 9: an oval and a stem, a tail that bends, or a narrow loop.
constexpr Knot kNineStem[] = {{0.80f, 0.16f},          {0.52f, 0.02f}, {0.20f, 0.14f},
                              {0.14f, 0.38f},          {0.42f, 0.50f}, {0.72f, 0.36f},
                              {0.82f, 0.12f, kCorner}, {0.76f, 0.55f}, {0.70f, 1.00f}};
constexpr Knot kNineTail[] = {{0.78f, 0.14f},          {0.50f, 0.00f}, {0.18f, 0.14f},
                              {0.18f, 0.40f},          {0.48f, 0.48f}, {0.76f, 0.32f},
                              {0.82f, 0.14f, kCorner}, {0.84f, 0.50f}, {0.70f, 0.86f},
                              {0.40f, 1.00f},          {0.14f, 0.90f}};
constexpr Knot kNineLoop[] = {{0.74f, 0.10f}, {0.48f, 0.04f}, {0.24f, 0.24f},
                              {0.28f, 0.44f}, {0.52f, 0.42f}, {0.74f, 0.22f},
                              {0.80f, 0.06f}, {0.72f, 0.40f}, {0.56f, 1.00f}};
constexpr Stroke kNine0[] = {kNineStem};
constexpr Stroke kNine1[] = {kNineTail};
constexpr Stroke kNine2[] = {kNineLoop};
constexpr Style kNine[] = {{kNine0, 0.42f}, {kNine1, 0.24f}, {kNine2, 0.34f}};

}  // namespace

std::span<const Style> digit_styles(int digit) {
  static constexpr std::span<const Style> kStyles[10] = {kZero, kOne, kTwo,   kThree, kFour,
                                                         kFive, kSix, kSeven, kEight, kNine};
  return kStyles[digit];
}

}  // namespace volta::data
