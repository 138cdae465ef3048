// Event files: checksums, records, and messages field by field. tensorboard_check.py reads them
// with TensorBoard's own code.
#include "volta/io/summary_writer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <type_traits>

#include "io/events/event_file.h"
#include "io/io_files.h"
#include "support/test_device.h"
#include "volta/detail/png_write.h"
#include "volta/volta.h"

// A program that uses both namespaces: only modules' summaries have SummaryOptions.
namespace both {
using namespace volta;      // NOLINT(google-build-using-namespace)
using namespace volta::nn;  // NOLINT(google-build-using-namespace)
static_assert(std::is_same_v<SummaryOptions, nn::SummaryOptions>);
static_assert(std::is_constructible_v<SummaryWriter, std::string, SummaryWriterOptions>);
}  // namespace both

namespace volta {
namespace {

using Summaries = TemporaryFolder;

// A decoded message: its fields in order, with numbers as bytes.
struct Field {
  int number;
  std::uint64_t integer;  // for varints
  std::string bytes;      // for all other fields
};
std::vector<Field> fields_of(std::string_view message) {
  std::vector<Field> fields;
  std::size_t at = 0;
  const auto varint = [&] {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(message.at(at++));
      value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
  };
  while (at < message.size()) {
    const std::uint64_t key = varint();
    Field field{static_cast<int>(key >> 3), 0, ""};
    const std::uint64_t kind = key & 7;
    if (kind == 0) {
      field.integer = varint();
    } else {
      const std::uint64_t size = kind == 1 ? 8 : kind == 5 ? 4 : varint();
      field.bytes = message.substr(at, size);
      at += size;
    }
    fields.push_back(field);
  }
  return fields;
}
const Field& field(const std::vector<Field>& fields, int number) {
  for (const Field& candidate : fields)
    if (candidate.number == number) return candidate;
  ADD_FAILURE() << "no field " << number;
  return fields.at(0);
}
template <class T>
std::vector<T> numbers_in(const std::string& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::uint64_t number_at(const std::string& bytes, std::size_t at, int size) {
  std::uint64_t value = 0;
  for (int i = size; i-- > 0;)
    value = value << 8 | static_cast<unsigned char>(bytes.at(at + static_cast<std::size_t>(i)));
  return value;
}

// The events of a file after the first one, which states the version.
std::vector<std::vector<Field>> events_in(const std::string& path) {
  const std::string bytes = platform::read_file(path);
  std::vector<std::vector<Field>> events;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::uint64_t size = number_at(bytes, at, 8);
    EXPECT_EQ(number_at(bytes, at + 8, 4), io::masked_crc32c(bytes.substr(at, 8)));
    const std::string data = bytes.substr(at + 12, size);
    EXPECT_EQ(number_at(bytes, at + 12 + size, 4), io::masked_crc32c(data));
    events.push_back(fields_of(data));
    at += 16 + size;
  }
  EXPECT_EQ(field(events.at(0), 3).bytes, "brain.Event:2");
  events.erase(events.begin());
  return events;
}
std::vector<Field> value_of(const std::vector<Field>& event) {
  return fields_of(field(fields_of(field(event, 5).bytes), 1).bytes);
}

TEST_F(Summaries, ChecksumsAreCastagnolis) {
  EXPECT_EQ(io::crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(io::crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(io::crc32c(std::string(32, '\xFF')), 0x62A8AB43u);
  EXPECT_EQ(io::crc32c(""), 0u);
}

TEST_F(Summaries, ScalarsAreRecords) {
  std::string file;
  {
    SummaryWriter writer(path("run"));
    file = writer.path();
    writer.add_scalar("loss/train", 0.25, 3, 1234.5);
    writer.add_scalar("loss/train", full({1}, 2, {.device = test_device()}) * 2, 4);
  }
  const auto events = events_in(file);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(numbers_in<double>(field(events[0], 1).bytes), std::vector{1234.5});
  EXPECT_EQ(field(events[0], 2).integer, 3u);
  EXPECT_EQ(field(value_of(events[0]), 1).bytes, "loss/train");
  EXPECT_EQ(numbers_in<float>(field(value_of(events[0]), 2).bytes), std::vector{0.25f});
  EXPECT_EQ(numbers_in<float>(field(value_of(events[1]), 2).bytes), std::vector{4.0f});
  EXPECT_GT(numbers_in<double>(field(events[1], 1).bytes)[0], 1.7e9);  // the current time
}

TEST_F(Summaries, CurvesOfOneChartAreRunsOfTheirOwn) {
  SummaryWriter writer(path("run"));
  writer.add_scalars("losses/all", {{"train", 1}, {"test", 2}}, 7);
  writer.add_scalars("losses/all", {{"train", 0.5}}, 8);
  writer.close();
  std::size_t files = 0;
  for (const char* name : {"losses_all_train", "losses_all_test"}) {
    for (const auto& entry :
         std::filesystem::directory_iterator(path("run/" + std::string(name)))) {
      ++files;
      const auto events = events_in(entry.path().string());
      EXPECT_EQ(events.size(), std::string(name).ends_with("train") ? 2u : 1u);
      EXPECT_EQ(field(value_of(events.at(0)), 1).bytes, "losses/all");
    }
  }
  EXPECT_EQ(files, 2u);
}

TEST_F(Summaries, HistogramsCountEverything) {
  SummaryWriter writer(path("run"));
  const std::vector<float> values{-1, 0, 0, 1e-13f, 0.5f, 0.52f, 100};
  writer.add_histogram("w", from_vector(values, {.device = test_device()}), 1);
  writer.close();
  const auto histogram = fields_of(field(value_of(events_in(writer.path()).at(0)), 5).bytes);
  const auto number = [&](int which) {
    return numbers_in<double>(field(histogram, which).bytes).at(0);
  };
  EXPECT_EQ(number(1), -1);
  EXPECT_EQ(number(2), 100);
  EXPECT_EQ(number(3), 7);
  EXPECT_NEAR(number(4), 100.02, 1e-5);
  EXPECT_NEAR(number(5), 1 + 0.25 + 0.2704 + 10000, 1e-3);
  const auto limits = numbers_in<double>(field(histogram, 6).bytes),
             counts = numbers_in<double>(field(histogram, 7).bytes);
  ASSERT_EQ(limits.size(), counts.size());
  EXPECT_TRUE(std::ranges::is_sorted(limits));
  for (std::size_t i = 1; i < limits.size(); ++i) {
    const auto here = std::ranges::count_if(
        values, [&](float value) { return limits[i - 1] <= value && value < limits[i]; });
    EXPECT_EQ(counts[i], static_cast<double>(here)) << limits[i];
  }
  EXPECT_EQ(counts[0], 0);
  EXPECT_GT(counts.back(), 0);
}

TEST_F(Summaries, HistogramsOfTheLargestNumbers) {
  SummaryWriter writer(path("run"));
  const double most = std::numeric_limits<double>::max();
  const double values[] = {-most, most, 1e25};
  writer.add_histogram("w", values);
  writer.close();
  const auto histogram = fields_of(field(value_of(events_in(writer.path()).at(0)), 5).bytes);
  double total = 0;
  for (const double count : numbers_in<double>(field(histogram, 7).bytes)) total += count;
  EXPECT_EQ(total, 3);
}

TEST_F(Summaries, ImagesArePngs) {
  SummaryWriter writer(path("run"));
  writer.add_image(
      "grey", from_vector<float>({0, 0.5f, 1, 7, -1, 0.25f}, {2, 3}, {.device = test_device()}));
  writer.add_image("colour", ones({3, 4, 5}, {.dtype = DType::u8}), 2);
  writer.close();
  const auto events = events_in(writer.path());
  const auto image = fields_of(field(value_of(events.at(0)), 4).bytes);
  EXPECT_EQ(field(image, 1).integer, 2u);
  EXPECT_EQ(field(image, 2).integer, 3u);
  EXPECT_EQ(field(image, 3).integer, 1u);
  const std::uint8_t pixels[] = {0, 127, 255, 255, 0, 63};
  EXPECT_EQ(field(image, 4).bytes, io::encode_png(pixels, 3, 2, 1));
  EXPECT_TRUE(field(image, 4).bytes.starts_with("\x89PNG\r\n\x1a\n"));
  EXPECT_EQ(field(fields_of(field(value_of(events.at(1)), 4).bytes), 3).integer, 3u);
}

TEST_F(Summaries, TextHasItsPlugin) {
  SummaryWriter writer(path("run"));
  writer.add_text("notes", "# hello", 5);
  writer.close();
  const auto value = value_of(events_in(writer.path()).at(0));
  EXPECT_EQ(field(value, 1).bytes, "notes/text_summary");
  const auto tensor = fields_of(field(value, 8).bytes);
  EXPECT_EQ(field(tensor, 1).integer, 7u);
  EXPECT_EQ(field(tensor, 8).bytes, "# hello");
  const auto plugin = fields_of(field(fields_of(field(value, 9).bytes), 1).bytes);
  EXPECT_EQ(field(plugin, 1).bytes, "text");
}

TEST_F(Summaries, EntriesAreWrittenInTimeAndOnDemand) {
  SummaryWriter writer(path("run"), {.filename_suffix = ".mine", .max_queue = 3});
  EXPECT_TRUE(writer.path().ends_with(".mine"));
  writer.add_scalar("a", 1);
  writer.add_scalar("a", 2);
  EXPECT_EQ(events_in(writer.path()).size(), 0u);
  writer.add_scalar("a", 3);
  EXPECT_EQ(events_in(writer.path()).size(), 3u);
  writer.add_scalar("a", 4);
  writer.flush();
  EXPECT_EQ(events_in(writer.path()).size(), 4u);
  SummaryWriter hasty(path("run"), {.flush_seconds = 0});
  EXPECT_NE(hasty.path(), writer.path());
  hasty.add_scalar("a", 1);
  EXPECT_EQ(events_in(hasty.path()).size(), 1u);
}

TEST_F(Summaries, MistakesAreNamed) {
  SummaryWriter writer(path("run"));
  EXPECT_EQ(problem_of([&] { writer.add_histogram("h", zeros({0})); }),
            "add_histogram: 'h' has no values");
  EXPECT_EQ(problem_of([&] { writer.add_histogram("h", full({1}, NAN)); }),
            "add_histogram: 'h' has a value of nan");
  EXPECT_EQ(problem_of([&] { writer.add_image("i", ones({2, 4, 4})); }),
            "add_image: 'i' is [2, 4, 4], not [1, 3 or 4 channels, height, width] or "
            "[height, width]");
  EXPECT_THROW(writer.add_image("i", ones({3, 0, 4})), ShapeError);
  EXPECT_THROW(writer.add_image("i", ones({3, 4, 4}, {.dtype = DType::i64})), DTypeError);
  EXPECT_THROW(writer.add_image("i", Tensor()), ArgumentError);
  EXPECT_THROW(writer.add_scalar("", 1), ArgumentError);
  EXPECT_THROW(writer.add_scalar("\xFF", 1), ArgumentError);
  writer.close();
  EXPECT_EQ(problem_of([&] { writer.add_scalar("a", 1); }), "add_scalar: the writer is closed");
  EXPECT_EQ(problem_of([&] { writer.add_scalars("a", {{"b", 1}}); }),
            "add_scalars: the writer is closed");
  put("file", "x");
  EXPECT_THROW(SummaryWriter(path("file")), IoError);
}

}  // namespace
}  // namespace volta
