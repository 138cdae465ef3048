// IDX, CIFAR-10 and CSV: values, and all kinds of malformed files.
#include <cmath>
#include <cstdlib>

#include "data/data_testing.h"
#include "volta/data.h"
#include "volta/volta.h"

using namespace volta;
using namespace volta::data_testing;

namespace {

// A gzip file with stored, uncompressed content.
std::string gzipped(const std::string& content) {
  const auto little_endian = [](std::uint32_t value, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i) text.push_back(static_cast<char>(value >> 8 * i));
    return text;
  };
  std::uint32_t crc = ~0u;
  for (const char c : content) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0u);
  }
  const auto size = static_cast<std::uint32_t>(content.size());  // below 2^16
  return raw({0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 255, 1}) + little_endian(size, 2) +
         little_endian(~size, 2) + content + little_endian(~crc, 4) + little_endian(size, 4);
}

bool has_gzip() {
  try {
    data::parse_idx(bytes_of(gzipped(raw({0, 0, 8, 0, 5}))), "probe");
    return true;
  } catch (const IoError& error) {
    EXPECT_STREQ(error.what(), "probe: a gzip file, but this Volta was built without zlib");
    return false;
  }
}

std::string idx(int code, const std::vector<std::uint32_t>& sizes, const std::string& elements) {
  std::string file = raw({0, 0, code, static_cast<int>(sizes.size())});
  for (const std::uint32_t size : sizes) file += big_endian(size);
  return file + elements;
}

Tensor parsed(const std::string& file) { return data::parse_idx(bytes_of(file), "a.idx"); }

}  // namespace

TEST(Idx, EveryElementType) {
  const Tensor bytes = parsed(idx(8, {2, 2}, raw({0, 1, 254, 255})));
  EXPECT_EQ(bytes.shape(), (Shape{2, 2}));
  EXPECT_EQ(bytes.to_vector<std::uint8_t>(), (std::vector<std::uint8_t>{0, 1, 254, 255}));
  EXPECT_EQ(parsed(idx(9, {2}, raw({255, 5}))).to_vector<std::int32_t>(),
            (std::vector<std::int32_t>{-1, 5}));
  EXPECT_EQ(parsed(idx(11, {2}, raw({255, 254, 1, 0}))).to_vector<std::int32_t>(),
            (std::vector<std::int32_t>{-2, 256}));
  EXPECT_EQ(parsed(idx(12, {1}, raw({255, 255, 255, 253}))).to_vector<std::int32_t>(),
            (std::vector<std::int32_t>{-3}));
  EXPECT_EQ(parsed(idx(13, {1}, raw({0x3F, 0xC0, 0, 0}))).to_vector<float>(),
            (std::vector<float>{1.5f}));
  EXPECT_EQ(parsed(idx(14, {1}, raw({0xC0, 0x04, 0, 0, 0, 0, 0, 0}))).to_vector<double>(),
            (std::vector<double>{-2.5}));
  EXPECT_EQ(parsed(idx(8, {0, 7}, "")).shape(), (Shape{0, 7}));
  EXPECT_EQ(parsed(idx(8, {}, raw({9}))).shape(), Shape{});
}

TEST(Idx, GzipIsReadAsWell) {
  if (!has_gzip()) GTEST_SKIP() << "built without zlib";
  std::string pixels(5000, '\7');
  pixels[4999] = '\1';
  const std::string file = idx(8, {5000}, pixels);
  EXPECT_EQ(parsed(gzipped(file)).to_vector<std::uint8_t>(),
            parsed(file).to_vector<std::uint8_t>());
}

TEST(Idx, WrongFilesAreRefused) {
  const auto refused = [](const std::string& file, std::string_view why) {
    expect_error<IoError>([&] { parsed(file); }, {"a.idx: ", why});
  };
  refused("", "too short");
  refused("PNG!", "not an IDX file");
  refused(raw({0, 0, 10, 1, 0, 0, 0, 1, 0}), "IDX element type 0x0a is not known");
  refused(raw({0, 0, 8, 9}) + std::string(40, '\0'), "IDX array of 9 axes");
  refused(raw({0, 0, 8, 2, 0, 0}), "ends within its header");
  refused(idx(8, {3}, raw({1, 2})), "IDX array [3] needs 11 bytes, the file has 10");
  refused(idx(8, {1}, raw({1, 2})), "needs 9 bytes, the file has 10");
  refused(idx(14, {0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}, ""), "its sizes are too large");
  refused(idx(8, {0xFFFFFFFF}, "x"), "the file has 9");
  // Compressed files that are truncated, changed, promise impossible sizes, or contain more than
  // promised.
  if (!has_gzip()) return;
  const std::string packed = gzipped(idx(8, {5000}, std::string(5000, 'a')));
  refused(packed.substr(0, packed.size() - 9), "a.idx");
  refused(packed.substr(0, 20), "a.idx");
  std::string changed = packed;
  changed[changed.size() - 6] = static_cast<char>(changed[changed.size() - 6] ^ 0x55);
  refused(changed, "gzip");
  refused(gzipped(idx(8, {1u << 30}, "")), "cannot be the 1073741832 bytes that are announced");
  refused(gzipped(idx(8, {100}, "abc")), "11 bytes where 108 are announced");
  refused(gzipped(idx(8, {2}, "abc")), "announced");
  refused(gzipped(""), "too short");
}

TEST(Idx, ImagesAndLabels) {
  if (!has_gzip()) GTEST_SKIP() << "built without zlib";
  const Folder folder;
  const std::string images =
      folder.write("t10k-images-idx3-ubyte", idx(8, {2, 1, 2}, raw({0, 255, 51, 102})));
  folder.write("t10k-labels-idx1-ubyte.gz", gzipped(idx(8, {2}, raw({3, 4}))));
  const data::ImageDataset test = data::mnist(folder.path(), data::Split::test);
  EXPECT_EQ(test.size(), 2);
  EXPECT_EQ(test.get(1).x.shape(), (Shape{1, 1, 2}));
  EXPECT_EQ(test.get(1).x.to_vector<float>(), (std::vector<float>{0.2f, 0.4f}));
  EXPECT_EQ(test.get(1).y.item<std::int64_t>(), 4);
  expect_error<IoError>([&] { data::mnist(folder.path(), data::Split::train); },
                        {"has neither train-images-idx3-ubyte nor"});
  const std::string labels = folder.write("labels", idx(8, {3}, raw({1, 2, 3})));
  expect_error<IoError>([&] { data::idx_images(images, labels); },
                        {"labels [3] do not go with the images [2, 1, 2]"});
  expect_error<IoError>([&] { data::idx_images(labels, labels); }, {"expected images"});
  expect_error<IoError>([&] { data::read_idx(folder / "absent"); }, {"absent: cannot open"});
  const std::string floats = folder.write("floats", idx(13, {1, 1, 1}, raw({0, 0, 0, 0})));
  expect_error<IoError>([&] { data::idx_images(floats, labels); }, {"expected bytes"});
}

TEST(Idx, RealMnistWhereItIs) {
  const char* folder = std::getenv("VOLTA_TEST_MNIST");
  if (folder == nullptr) GTEST_SKIP() << "VOLTA_TEST_MNIST names no folder";
  const data::ImageDataset test = data::mnist(folder, data::Split::test);
  EXPECT_EQ(test.size(), 10000);
  EXPECT_EQ(test.get(0).y.item<std::int64_t>(), 7);
  EXPECT_EQ(test.layout()->x.shape, (Shape{1, 28, 28}));
}

TEST(Cifar, Records) {
  std::string file;
  for (int i = 0; i < 3; ++i) file += raw({i + 2}) + std::string(3072, static_cast<char>(10 * i));
  const Folder folder;
  folder.write("test_batch.bin", file);
  for (int i = 1; i <= 5; ++i) folder.write("data_batch_" + std::to_string(i) + ".bin", file);
  const data::ImageDataset test = data::cifar10(folder.path(), data::Split::test);
  EXPECT_EQ(test.size(), 3);
  EXPECT_EQ(test.get(2).x.shape(), (Shape{3, 32, 32}));
  EXPECT_EQ(test.get(2).x.to_vector<float>()[3071], 20 / 255.0f);
  EXPECT_EQ(test.get(2).y.item<std::int64_t>(), 4);
  EXPECT_EQ(data::cifar10(folder.path(), data::Split::train).size(), 15);
  const auto refused = [](const std::string& bytes, std::string_view why) {
    expect_error<IoError>([&] { data::parse_cifar10(bytes_of(bytes), "c.bin"); }, {"c.bin: ", why});
  };
  refused(file.substr(1), "9218 bytes are no whole number of records of 3073");
  file[3073] = 10;
  refused(file, "label 10 in record 1 is not below 10");
}

TEST(Csv, NumbersByColumns) {
  const data::CsvDataset table =
      data::parse_csv("a,\"b, c\",label\r\n1,2.5,0\n\n -3e2 ,\"+4\",1\r\n", "t.csv",
                      {.labels = {"label"}, .label_dtype = DType::i64});
  EXPECT_EQ(table.size(), 2);
  EXPECT_EQ(table.feature_names(), (std::vector<std::string>{"a", "b, c"}));
  EXPECT_EQ(table.get(1).x.to_vector<float>(), (std::vector<float>{-300, 4}));
  EXPECT_EQ(table.get(1).y.dtype(), DType::i64);
  EXPECT_EQ(table.get(1).y.item<std::int64_t>(), 1);
  EXPECT_EQ(table.get(1).y.shape(), Shape{});

  const data::CsvDataset chosen =
      data::parse_csv("x;y;z\n1;2;3\n4;5;6", "t.csv",
                      {.delimiter = ';', .features = {"z", "x"}, .labels = {"y", "z"}});
  EXPECT_EQ(chosen.get(1).x.to_vector<float>(), (std::vector<float>{6, 4}));
  EXPECT_EQ(chosen.get(0).y.to_vector<float>(), (std::vector<float>{2, 3}));

  const data::CsvDataset plain =
      data::parse_csv("1,2\n3,4\n", "t.csv", {.header = false, .labels = {"0"}});
  EXPECT_EQ(plain.get(1).x.to_vector<float>(), (std::vector<float>{4}));
  EXPECT_EQ(plain.get(1).y.item(), 3);
}

TEST(Csv, NumbersTooSmallAreZeroOrSubnormal) {
  const data::CsvDataset table = data::parse_csv(
      "a\n1e-50\n-1e-50\n1e-40\n0.0000000001e-40\n100000e-60\n1e-99999999999999999999\n0e999\n"
      "0.00000000000000000000000000000000000000000000000000000000000001\n",
      "t.csv");
  std::vector<float> values;
  for (std::int64_t i = 0; i < table.size(); ++i) values.push_back(table.get(i).x.item<float>());
  EXPECT_EQ(values, (std::vector<float>{0, 0, 1e-40f, 0, 0, 0, 0, 0}));
  EXPECT_TRUE(std::signbit(values[1]));
}

TEST(Csv, LinesMayEndInCarriageReturns) {
  const data::CsvDataset table = data::parse_csv("a,b\r1,2\r\r3,\"4\"\r", "t.csv");
  EXPECT_EQ(table.size(), 2);
  EXPECT_EQ(table.get(1).x.to_vector<float>(), (std::vector<float>{3, 4}));
}

TEST(Csv, LabelsByName) {
  const data::CsvDataset table =
      data::parse_csv("x,kind\n1,\"say \"\"hi\"\"\"\n2,ant\n3,\"two\nlines\"\n4,ant\n", "t.csv",
                      {.labels = {"kind"}, .label_names = true});
  EXPECT_EQ(table.classes(), (std::vector<std::string>{"ant", "say \"hi\"", "two\nlines"}));
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < 4; ++i) labels.push_back(table.get(i).y.item<std::int64_t>());
  EXPECT_EQ(labels, (std::vector<std::int64_t>{1, 0, 2, 0}));
}

TEST(Csv, WrongLinesAreNamed) {
  const auto refused = [](std::string_view text, std::string_view why,
                          const data::CsvOptions& options = {}) {
    expect_error<IoError>([&] { data::parse_csv(text, "t.csv", options); }, {"t.csv: ", why});
  };
  refused("", "no lines");
  refused("\n\n", "no lines");
  refused("a,b\n1,2\n3\n", "line 3: 1 fields, expected 2");
  refused("a,b\n1,2,3\n", "line 2: 3 fields, expected 2");
  refused("a,b\n\n1,\n", "line 3: the value of 'b' is missing");
  refused("a,b\n1,nan\n", "line 2: the value of 'b' is missing");
  refused("a,b\n1,two\n", "line 2: 'two' of 'b' is no f32 number");
  refused("a,b\n1,2x\n", "'2x' of 'b' is no f32 number");
  for (const char* large : {"1e999", "-1e50", "3.5e38", "1e99999999999999999999"})
    refused(std::string("a,b\n1,") + large + "\n",
            std::string("'") + large + "' of 'b' is too large for an f32 number");
  refused("a\n9223372036854775808\n",
          "'9223372036854775808' of 'a' is too large for an i64 integer",
          {.labels = {"a"}, .label_dtype = DType::i64});
  refused("a,b\r1,2\r3,x\r", "line 3: 'x' of 'b' is no f32 number");
  refused("a,b\r\"1\r\r\n\",2\r3,x", "line 2: '1");
  refused("a,b\n\"1\n\n\",2\n3,x\n", "line 2: '1");
  refused("a\n\"1", "line 2: a quoted field does not end");
  refused("a\n\"1\"2\n", "line 2: text after a quoted field");
  refused("a\n1\"2\n", "a quote within a field that is not quoted");
  refused("a,a\n1,2\n", "there are two columns 'a'", {.features = {"a"}});
  refused("a\n1\n", "there is no column 'b'", {.labels = {"b"}});
  refused("a\n1.5\n", "'1.5' of 'a' is no i64 integer",
          {.labels = {"a"}, .label_dtype = DType::i64});
  refused("a,b\n1, \n", "the value of 'b' is missing", {.labels = {"b"}, .label_names = true});
  const Folder folder;
  expect_error<IoError>([&] { data::read_csv(folder / "none.csv"); }, {"none.csv: cannot open"});
  EXPECT_EQ(data::read_csv(folder.write("t.csv", "a\n1\n2\n")).size(), 2);
  expect_error<ArgumentError>([] { data::parse_csv("a\n1", "t.csv", {.label_dtype = DType::u8}); },
                              {"label_dtype must be f32 or i64"});
  expect_error<ArgumentError>([] { data::parse_csv("a\n1", "t.csv", {.label_names = true}); },
                              {"label_names is for one column"});
}
