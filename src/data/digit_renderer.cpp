// Renders strokes to pixels: jitter, a smooth distortion, slant, curves through the knots, and ink
// by the distance to the curve. This file is compiled without fused multiply-add, which would
// change bits.
#include "data/digit_renderer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "data/digit_strokes.h"

namespace volta::data {
namespace {

constexpr int kInkSide = 20;
constexpr int kMargin = 2;  // room around the ink for the blur
constexpr int kCanvasSide = kInkSide + 2 * kMargin;
constexpr int kMaxPoints = 192;
constexpr int kPointsPerSpan = 6;

struct Point {
  float x, y;
};

// The sum of three uniform numbers is close to normal and bounded.
float around_zero(Random& random, float reach) {
  const float a = random.uniform(), b = random.uniform(), c = random.uniform();
  return reach * (a + b + c - 1.5f) * (2.0f / 3.0f);
}

// A straight segment of the pen's path.
struct Line {
  Point from, to;
  float radius;
};

class Lines {
 public:
  void add(Line line) {
    if (count_ < kMaxPoints) lines_[static_cast<std::size_t>(count_++)] = line;
  }
  std::span<Line> all() { return {lines_.data(), static_cast<std::size_t>(count_)}; }

 private:
  std::array<Line, kMaxPoints> lines_;
  int count_ = 0;
};

const Style& chosen_style(int digit, Random& random) {
  const std::span<const Style> styles = digit_styles(digit);
  float left = random.uniform();
  for (const Style& style : styles) {
    if (left < style.share) return style;
    left -= style.share;
  }
  return styles.front();
}

// The handwriting of one example: the properties that all of its strokes share.
class Hand {
 public:
  explicit Hand(Random& random)
      : jitter_(random.uniform(0.06f, 0.16f)),
        bend_{around_zero(random, 0.75f), around_zero(random, 0.65f), around_zero(random, 1.1f),
              around_zero(random, 0.65f), around_zero(random, 0.65f), around_zero(random, 1.0f)},
        slant_(0.14f + around_zero(random, 0.72f)),
        width_(0.86f + around_zero(random, 0.42f)) {
    // This is a rotation by a small angle without trigonometric functions.
    const float t = around_zero(random, 0.2f), norm = 1 + t * t;
    cosine_ = (1 - t * t) / norm;
    sine_ = 2 * t / norm;
  }

  float jitter(Random& random) const { return around_zero(random, jitter_); }

  Point placed(Point p) const {
    const float u = p.x - 0.5f, v = p.y - 0.5f;
    const float x = u + bend_[0] * v * v + bend_[1] * u * v + bend_[2] * v * v * v;
    const float y = v + bend_[3] * u * u + bend_[4] * u * v + bend_[5] * u * v * v;
    const float wide = x * width_ - slant_ * y;
    return {cosine_ * wide - sine_ * y, sine_ * wide + cosine_ * y};
  }

 private:
  float jitter_;
  float bend_[6];
  float slant_, width_;
  float cosine_ = 1, sine_ = 0;
};

// Catmull-Rom interpolation between the knots b and c, at t from 0 to 1.
float curve(float a, float b, float c, float d, float t) {
  const float t2 = t * t, t3 = t2 * t;
  return 0.5f *
         (2 * b + (c - a) * t + (2 * a - 5 * b + 4 * c - d) * t2 + (3 * b - a - 3 * c + d) * t3);
}
Point curve(Point a, Point b, Point c, Point d, float t) {
  return {curve(a.x, b.x, c.x, d.x, t), curve(a.y, b.y, c.y, d.y, t)};
}

void draw_stroke(Stroke stroke, const Hand& hand, Random& random, Lines& lines) {
  std::array<Point, 16> knots;
  std::array<bool, 16> corners;
  const std::size_t count = stroke.size();
  for (std::size_t i = 0; i < count; ++i) {
    const float dx = hand.jitter(random), dy = hand.jitter(random);
    knots[i] = hand.placed({stroke[i].x + dx, stroke[i].y + dy});
    corners[i] = stroke[i].corner;
  }
  // The ends of a stroke are shortened or lengthened at random.
  for (const bool first : {true, false}) {
    Point& end = first ? knots[0] : knots[count - 1];
    const Point next = first ? knots[1] : knots[count - 2];
    const float part = around_zero(random, 0.4f);
    end = {end.x + (end.x - next.x) * part, end.y + (end.y - next.y) * part};
  }
  const float begin_radius = 1 + around_zero(random, 0.3f),
              end_radius = 1 + around_zero(random, 0.3f);
  Point last = knots[0];
  for (std::size_t i = 0; i + 1 < count; ++i) {
    const Point before = i == 0 || corners[i] ? knots[i] : knots[i - 1];
    const Point after = i + 2 >= count || corners[i + 1] ? knots[i + 1] : knots[i + 2];
    for (int step = 1; step <= kPointsPerSpan; ++step) {
      const float t = static_cast<float>(step) / kPointsPerSpan;
      const float way = (static_cast<float>(i) + t) / static_cast<float>(count - 1);
      const Point next = curve(before, knots[i], knots[i + 1], after, t);
      lines.add({last, next, begin_radius + (end_radius - begin_radius) * way});
      last = next;
    }
  }
}

// Scales the lines so that their ink of the given radius fills the box in one direction and is
// centred in the other.
void fit(Lines& lines, float radius) {
  float left = 1e9f, right = -1e9f, top = 1e9f, bottom = -1e9f;
  for (const Line& line : lines.all()) {
    for (const Point p : {line.from, line.to}) {
      left = std::min(left, p.x), right = std::max(right, p.x);
      top = std::min(top, p.y), bottom = std::max(bottom, p.y);
    }
  }
  const float extent = std::max({right - left, bottom - top, 0.05f});
  const float scale = (kInkSide - 2 * radius) / extent;
  const float middle = kMargin + kInkSide * 0.5f;
  const float x0 = middle - (left + right) * 0.5f * scale,
              y0 = middle - (top + bottom) * 0.5f * scale;
  for (Line& line : lines.all()) {
    for (Point* p : {&line.from, &line.to}) *p = {p->x * scale + x0, p->y * scale + y0};
    line.radius *= radius;
  }
}

using Canvas = std::array<float, std::size_t{kCanvasSide} * kCanvasSide>;

std::size_t pixel_at(int x, int y, int side) {
  return static_cast<std::size_t>(y) * static_cast<std::size_t>(side) + static_cast<std::size_t>(x);
}

// Pixels closer to the line than its radius get full ink, which fades out over about one pixel.
void draw_line(const Line& line, float edge, Canvas& canvas) {
  const float reach = line.radius + 0.5f * edge;
  const auto clamped = [](float value) {
    return std::clamp(static_cast<int>(value), 0, kCanvasSide - 1);
  };
  const int x0 = clamped(std::min(line.from.x, line.to.x) - reach),
            x1 = clamped(std::max(line.from.x, line.to.x) + reach),
            y0 = clamped(std::min(line.from.y, line.to.y) - reach),
            y1 = clamped(std::max(line.from.y, line.to.y) + reach);
  const float dx = line.to.x - line.from.x, dy = line.to.y - line.from.y;
  const float length2 = dx * dx + dy * dy;
  const float inverse = length2 > 0 ? 1 / length2 : 0;
  const float softness = 1 / edge;
  for (int y = y0; y <= y1; ++y) {
    for (int x = x0; x <= x1; ++x) {
      const float px = static_cast<float>(x) + 0.5f - line.from.x,
                  py = static_cast<float>(y) + 0.5f - line.from.y;
      const float t = std::clamp((px * dx + py * dy) * inverse, 0.0f, 1.0f);
      const float ex = px - t * dx, ey = py - t * dy;
      const float distance = std::sqrt(ex * ex + ey * ey);
      const float ink = std::clamp((line.radius - distance) * softness + 0.5f, 0.0f, 1.0f);
      float& pixel = canvas[pixel_at(x, y, kCanvasSide)];
      pixel = std::max(pixel, ink);
    }
  }
}

// Mixes each pixel with its neighbours, first along rows, then along columns.
void blur(Canvas& canvas, float share) {
  const float own = 1 - 2 * share;
  for (const int stride : {1, kCanvasSide}) {
    const Canvas before = canvas;
    for (int y = 1; y < kCanvasSide - 1; ++y) {
      for (int x = 1; x < kCanvasSide - 1; ++x) {
        const std::size_t at = pixel_at(x, y, kCanvasSide);
        const auto step = static_cast<std::size_t>(stride);
        canvas[at] = own * before[at] + share * (before[at - step] + before[at + step]);
      }
    }
  }
}

// Returns the position of the canvas in whole pixels that centres the mass, plus `shift`.
int offset_of(float moment, float mass, int shift) {
  const float centre = mass > 0 ? moment / mass : kCanvasSide * 0.5f;
  const int offset = static_cast<int>(std::floor(kDigitSide * 0.5f - centre + 0.5f)) + shift;
  return std::clamp(offset, -kMargin, kDigitSide - kCanvasSide + kMargin);
}

}  // namespace

void draw_digit(int digit, Random& random, std::span<std::uint8_t, kDigitPixels> image) {
  const Hand hand(random);
  Lines lines;
  for (const Stroke stroke : chosen_style(digit, random).strokes)
    draw_stroke(stroke, hand, random, lines);

  const float radius = std::max(0.75f, 1.22f + around_zero(random, 0.95f));
  fit(lines, radius);
  Canvas canvas{};
  const float edge = random.uniform(0.9f, 1.5f);
  for (const Line& line : lines.all()) draw_line(line, edge, canvas);
  blur(canvas, random.uniform(0.02f, 0.12f));

  const float gain = random.uniform(1.05f, 1.5f), grain = random.uniform(0.0f, 0.25f);
  float mass = 0, moment_x = 0, moment_y = 0;
  for (int y = 0; y < kCanvasSide; ++y) {
    for (int x = 0; x < kCanvasSide; ++x) {
      float& pixel = canvas[pixel_at(x, y, kCanvasSide)];
      if (pixel < 0.02f) {
        pixel = 0;
        continue;
      }
      pixel = std::min(1.0f, pixel * gain * (1 - grain * random.uniform()));
      mass += pixel;
      moment_x += pixel * (static_cast<float>(x) + 0.5f);
      moment_y += pixel * (static_cast<float>(y) + 0.5f);
    }
  }
  const int shift_x = static_cast<int>(random.below(3)) - 1,
            shift_y = static_cast<int>(random.below(3)) - 1;
  const int x0 = offset_of(moment_x, mass, shift_x), y0 = offset_of(moment_y, mass, shift_y);
  std::fill(image.begin(), image.end(), std::uint8_t{0});
  for (int y = 0; y < kCanvasSide; ++y) {
    for (int x = 0; x < kCanvasSide; ++x) {
      const int to_x = x + x0, to_y = y + y0;
      if (to_x < 0 || to_y < 0 || to_x >= kDigitSide || to_y >= kDigitSide) continue;
      const float rounded_up = canvas[pixel_at(x, y, kCanvasSide)] * 255 + 0.5f;
      image[pixel_at(to_x, to_y, kDigitSide)] = static_cast<std::uint8_t>(rounded_up);
    }
  }
}

}  // namespace volta::data
