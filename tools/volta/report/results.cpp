// The model's results on examples: confused classes, images, generated text.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "report/markup.h"
#include "report/sections.h"
#include "volta/detail/png_write.h"

namespace volta::report {
namespace {

// Limits that bound the page's size for any run.
constexpr std::size_t kMatrixClasses = 20;
constexpr std::size_t kPairs = 15;
constexpr std::size_t kMostImages = 60;
constexpr double kImageBytes = 240e3;  // for all images together, before text encoding
constexpr std::uint32_t kLargestSide = 128;
constexpr std::size_t kTextCharacters = 6'000;
constexpr std::size_t kMostTexts = 8;
constexpr std::size_t kNameCharacters = 100;

std::string share_text(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? "–"
                    : fmt::format("{:.1f}%",
                                  100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string matrix_markup(const Confusion& confusion, const std::vector<std::uint64_t>& row_sums) {
  const std::size_t n = confusion.labels.size();
  std::string out = R"(<div class="scroll"><table class="matrix"><tr><th></th>)";
  for (const std::string& label : confusion.labels)
    out += fmt::format(R"(<th scope="col" title="{}">{}</th>)", shortened(label, kNameCharacters),
                       shortened(label, 12));
  out += "<th>right</th></tr>\n";
  for (std::size_t i = 0; i < n; ++i) {
    out += fmt::format(R"(<tr><th class="row" scope="row" title="{}">{}</th>)",
                       shortened(confusion.labels[i], kNameCharacters),
                       shortened(confusion.labels[i], 12));
    for (std::size_t j = 0; j < n; ++j) {
      const std::uint64_t count = confusion.counts[i * n + j];
      const double share =
          row_sums[i] == 0 ? 0 : static_cast<double>(count) / static_cast<double>(row_sums[i]);
      // The colour of mistakes grows faster, so that a few among many examples are visible.
      const double strength = i == j       ? 0.12 + 0.75 * share
                              : count == 0 ? 0
                                           : std::min(0.9, 0.12 + 2.2 * std::sqrt(share) * 0.6);
      const std::string style = std::string(i == j ? "hit" : "") + (strength > 0.6 ? " full" : "") +
                                (count == 0 ? " none" : "");
      out += fmt::format(R"(<td class="{}" style="--s:{:.2f}">{}</td>)", style,
                         count == 0 ? 0.0 : strength,
                         count == 0 ? "·" : grouped(static_cast<std::int64_t>(count)));
    }
    out += fmt::format(R"(<td class="share">{}</td></tr>)",
                       share_text(confusion.counts[i * n + i], row_sums[i])) +
           "\n";
  }
  return out + "</table></div>\n";
}

// The most frequent mistakes, for too many classes to show a matrix.
std::string pairs_markup(const Confusion& confusion, const std::vector<std::uint64_t>& row_sums) {
  const std::size_t n = confusion.labels.size();
  std::vector<std::size_t> cells;
  for (std::size_t at = 0; at < n * n; ++at) {
    if (at / n != at % n && confusion.counts[at] > 0) cells.push_back(at);
  }
  const std::size_t shown = std::min(cells.size(), kPairs);
  std::partial_sort(cells.begin(), cells.begin() + static_cast<std::ptrdiff_t>(shown), cells.end(),
                    [&](std::size_t a, std::size_t b) {
                      return std::pair(confusion.counts[b], a) < std::pair(confusion.counts[a], b);
                    });
  if (shown == 0) return "<p class=\"note\">No example was taken for another class.</p>\n";
  std::string out =
      fmt::format("<p class=\"note\">{} classes; the pairs most often confused:</p>\n",
                  grouped(static_cast<std::int64_t>(n))) +
      R"(<div class="scroll"><table class="list"><tr><th>is</th><th>taken for</th><th class="n">times</th><th class="n">of its examples</th></tr>)"
      "\n";
  for (std::size_t k = 0; k < shown; ++k) {
    const std::size_t at = cells[k];
    out +=
        fmt::format(
            R"(<tr><td class="key">{}</td><td class="key">{}</td><td class="n">{}</td><td class="n">{}</td></tr>)",
            shortened(confusion.labels[at / n], 60), shortened(confusion.labels[at % n], 60),
            grouped(static_cast<std::int64_t>(confusion.counts[at])),
            share_text(confusion.counts[at], row_sums[at / n])) +
        "\n";
  }
  return out + "</table></div>\n";
}

// Averages blocks of pixels so that neither side is longer than `side`.
ImageSample reduced(const ImageSample& image, std::uint32_t side) {
  const std::uint32_t longest = std::max(image.width, image.height);
  if (longest <= side) return image;
  ImageSample small = image;
  small.width =
      std::max(1u, static_cast<std::uint32_t>(std::uint64_t{image.width} * side / longest));
  small.height =
      std::max(1u, static_cast<std::uint32_t>(std::uint64_t{image.height} * side / longest));
  const auto channels = static_cast<std::size_t>(image.channels);
  small.pixels.assign(std::size_t{small.width} * small.height * channels, 0);
  for (std::size_t y = 0; y < small.height; ++y) {
    const std::size_t top = y * image.height / small.height,
                      bottom = std::max(top + 1, (y + 1) * image.height / small.height);
    for (std::size_t x = 0; x < small.width; ++x) {
      const std::size_t left = x * image.width / small.width,
                        right = std::max(left + 1, (x + 1) * image.width / small.width);
      for (std::size_t c = 0; c < channels; ++c) {
        std::uint64_t sum = 0;
        for (std::size_t v = top; v < bottom; ++v)
          for (std::size_t u = left; u < right; ++u)
            sum += image.pixels[(v * image.width + u) * channels + c];
        small.pixels[(y * small.width + x) * channels + c] =
            static_cast<std::uint8_t>(sum / ((bottom - top) * (right - left)));
      }
    }
  }
  return small;
}

}  // namespace

std::string confusion_markup(const Confusion& confusion) {
  const std::size_t n = confusion.labels.size();
  if (n == 0) return "";
  std::vector<std::uint64_t> row_sums(n);
  std::uint64_t all = 0, right = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const auto row = confusion.counts.begin() + static_cast<std::ptrdiff_t>(i * n);
    row_sums[i] = std::accumulate(row, row + static_cast<std::ptrdiff_t>(n), std::uint64_t{0});
    all += row_sums[i];
    right += confusion.counts[i * n + i];
  }
  std::string out = "<section><h2>What is taken for what</h2>\n";
  if (n <= kMatrixClasses) {
    out += matrix_markup(confusion, row_sums) +
           fmt::format(
               "<p class=\"note\">Rows are the true classes, columns the predictions: {} of {} "
               "right.</p>\n",
               grouped(static_cast<std::int64_t>(right)), grouped(static_cast<std::int64_t>(all)));
  } else {
    out += pairs_markup(confusion, row_sums);
  }
  return out + "</section>\n";
}

std::string images_markup(const std::vector<ImageSample>& images) {
  if (images.empty()) return "";
  const std::size_t shown = std::min(images.size(), kMostImages);
  int channels = 1;
  for (const ImageSample& image : images) channels = std::max(channels, image.channels);
  const double pixels = kImageBytes / (static_cast<double>(shown) * channels);
  const std::uint32_t side = std::min(kLargestSide, static_cast<std::uint32_t>(std::sqrt(pixels)));
  std::string out = "<section><h2>Examples and predictions</h2>\n<div class=\"samples\">\n";
  std::size_t wrong = 0, judged = 0;
  for (std::size_t i = 0; i < shown; ++i) {
    const ImageSample image = reduced(images[i], side);
    const std::string png = io::encode_png(image.pixels, image.width, image.height, image.channels);
    const bool is_judged = !image.label.empty() && !image.predicted.empty();
    const bool is_wrong = is_judged && image.label != image.predicted;
    judged += is_judged ? 1 : 0;
    wrong += is_wrong ? 1 : 0;
    const std::string label = shortened(image.label, 24),
                      predicted = shortened(image.predicted, 24);
    const std::string spoken =
        is_judged ? fmt::format("{}, taken for {}", label, predicted) : label + predicted;
    out += fmt::format(
        R"(<figure class="{}"><img src="data:image/png;base64,{}" width="{}" height="{}" alt="{}" title="{}"/>)",
        is_wrong ? "wrong" : "right", base64(png), image.width, image.height, spoken, spoken);
    const std::string confidence =
        image.confidence
            ? fmt::format(" <small>{:.0f}%</small>", 100 * std::clamp(*image.confidence, 0.0, 1.0))
            : "";
    out += is_wrong ? "<span>✗ " : "<span>";
    out += predicted.empty() ? label : predicted;
    out += confidence;
    out += "</span>";
    if (is_wrong) out += fmt::format("<small>is {}</small>", label);
    out += "</figure>\n";
  }
  out += "</div>\n";
  std::string note;
  if (shown < images.size())
    note = fmt::format("{} of {}. ", shown, count_of(images.size(), "image"));
  if (judged > 0)
    note += wrong == 0 ? "A choice of examples; these are all right."
                       : fmt::format("A choice of examples: {} of these {} {} wrong, marked by ✗.",
                                     wrong, judged, wrong == 1 ? "is" : "are");
  if (!note.empty()) out += "<p class=\"note\" style=\"margin-top:12px\">" + note + "</p>\n";
  return out + "</section>\n";
}

std::string texts_markup(const std::vector<TextSample>& texts) {
  if (texts.empty()) return "";
  std::string out = "<section><h2>Generated text</h2>\n";
  // The last texts are those of the best-trained model.
  const std::size_t first = texts.size() - std::min(texts.size(), kMostTexts);
  for (std::size_t i = texts.size(); i-- > first;) {
    const TextSample& sample = texts[i];
    out += "<div class=\"text card\"><pre>";
    if (!sample.prompt.empty()) out += "<b>" + shortened(sample.prompt, kTextCharacters) + "</b>";
    out += shortened(sample.text, kTextCharacters) + "</pre>";
    std::string note;
    if (sample.step) note = "Step " + grouped(*sample.step) + ". ";
    const std::size_t size = length(sample.text);
    if (size > kTextCharacters)
      note += "The first " + grouped(kTextCharacters) + " of " + count_of(size, "character") + ".";
    if (!note.empty()) out += "<footer>" + note + "</footer>";
    out += "</div>\n";
  }
  if (first > 0) out += "<p class=\"note\">" + count_of(first, "earlier text") + " left out.</p>\n";
  return out + "</section>\n";
}

}  // namespace volta::report
