// safetensors: handwritten bytes, round trips, and files that are malformed in every way that the
// format allows.
#include "volta/safetensors.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "encoding/json.h"
#include "platform/files.h"
#include "volta/error.h"

namespace volta {
namespace {

namespace fs = std::filesystem;

std::string with_length(std::uint64_t length, const std::string& header, const std::string& data) {
  std::string file(8, '\0');
  for (int i = 0; i < 8; ++i)
    file[static_cast<std::size_t>(i)] = static_cast<char>(length >> (8 * i));
  return file + header + data;
}

std::string file_of(const std::string& header, const std::string& data = "") {
  return with_length(header.size(), header, data);
}

template <class T>
std::vector<T> values_in(std::span<const std::byte> bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

class Safetensors : public testing::Test {
 protected:
  Safetensors() {
    std::string name = (fs::temp_directory_path() / "volta_safetensors_XXXXXX").string();
    folder_ = mkdtemp(name.data());
    path_ = (folder_ / "model.safetensors").string();
  }
  ~Safetensors() override { fs::remove_all(folder_); }

  void put(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }

  // Returns the message of opening a file with these bytes, without the path at its beginning.
  std::string problem_with(const std::string& bytes) const {
    put(bytes);
    try {
      const SafetensorsFile file(path_);
    } catch (const IoError& error) {
      const std::string message = error.what();
      EXPECT_TRUE(message.starts_with(path_ + ": ")) << message;
      return message.substr(std::min(message.size(), path_.size() + 2));
    }
    return "(accepted)";
  }

  fs::path folder_;
  std::string path_;
};

TEST_F(Safetensors, ReadsBytesBuiltByHand) {
  const std::string header = R"({"__metadata__":{"format":"pt","note":"caf\u00e9"},)"
                             R"("b":{"dtype":"I64","shape":[],"data_offsets":[8,16]},)"
                             R"("a":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},)"
                             R"("none":{"dtype":"BF16","shape":[0,3],"data_offsets":[16,16]}}   )";
  const float floats[] = {1.5f, -2.0f};
  const std::int64_t whole = 1'234'567'890'123;
  std::string data(16, '\0');
  std::memcpy(data.data(), floats, 8);
  std::memcpy(data.data() + 8, &whole, 8);
  put(file_of(header, data));

  const SafetensorsFile file(path_);
  EXPECT_EQ(file.path(), path_);
  ASSERT_EQ(file.tensors().size(), 3u);
  EXPECT_EQ(file.tensors()[0].name, "a");
  EXPECT_EQ(file.tensors()[1].name, "b");
  EXPECT_EQ(file.tensors()[2].name, "none");
  EXPECT_EQ(file.metadata(), (SafetensorsMetadata{{"format", "pt"}, {"note", "caf\xC3\xA9"}}));

  const TensorEntry* a = file.find("a");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->dtype, DType::f32);
  EXPECT_EQ(a->shape, (Shape{1, 2}));
  EXPECT_EQ(a->offset, 8 + header.size());
  ASSERT_EQ(file.data(*a).size(), 8u);
  EXPECT_EQ(values_in<float>(file.data(*a)), (std::vector<float>{1.5f, -2.0f}));
  EXPECT_EQ(values_in<std::int64_t>(file.data(*file.find("b"))), std::vector{whole});
  EXPECT_TRUE(file.data(*file.find("none")).empty());
  EXPECT_EQ(file.find("c"), nullptr);
}

TEST_F(Safetensors, WritesTheBytesOfTheFormat) {
  const std::uint8_t data[] = {1, 2, 3};
  const TensorData tensors[] = {{"z", DType::u8, Shape{3}, data},
                                {"a\"b", DType::f64, Shape{0}, nullptr}};
  write_safetensors(path_, tensors, {{"k", "v\n"}});
  std::string header =
      R"({"__metadata__":{"k":"v\u000a"},"a\"b":{"dtype":"F64","shape":[0],"data_offsets":[0,0]},)"
      R"("z":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  EXPECT_EQ(platform::read_file(path_), file_of(header, "\1\2\3"));
}

TEST_F(Safetensors, RoundTripsEveryDtype) {
  std::vector<std::vector<std::byte>> contents;
  std::vector<TensorData> tensors;
  std::mt19937 random(3);
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const Shape shape{3, 1, 5};
    auto& bytes = contents.emplace_back(15 * size_of(dtype));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    tensors.push_back(
        {"layer." + std::to_string(i) + ".w\xC3\xA9ight", dtype, shape, bytes.data()});
  }
  write_safetensors(path_, tensors);
  const SafetensorsFile file(path_);
  EXPECT_TRUE(file.metadata().empty());
  ASSERT_EQ(file.tensors().size(), tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    ASSERT_NE(file.find(tensors[i].name), nullptr);
    const TensorEntry& entry = *file.find(tensors[i].name);
    EXPECT_EQ(entry.offset % size_of(entry.dtype), 0u);
    EXPECT_EQ(entry.dtype, tensors[i].dtype);
    EXPECT_EQ(entry.shape, tensors[i].shape);
    ASSERT_EQ(file.data(entry).size(), contents[i].size());
    EXPECT_EQ(std::memcmp(file.data(entry).data(), contents[i].data(), contents[i].size()), 0);
  }
}

TEST_F(Safetensors, AnEmptyFileOfTensorsIsValid) {
  write_safetensors(path_, {});
  EXPECT_TRUE(SafetensorsFile(path_).tensors().empty());
}

TEST_F(Safetensors, CopiesKeepTheMapping) {
  const std::int32_t value = 7;
  const TensorData tensor{"x", DType::i32, Shape{1}, &value};
  write_safetensors(path_, std::span(&tensor, 1));
  auto first = std::make_unique<SafetensorsFile>(path_);
  const SafetensorsFile second = *first;
  first.reset();
  EXPECT_EQ(values_in<std::int32_t>(second.data(second.tensors()[0])), std::vector{value});
}

TEST_F(Safetensors, RefusesWhatItShouldNotWrite) {
  const float value = 1;
  const auto write = [&](const std::vector<TensorData>& tensors,
                         const SafetensorsMetadata& metadata = {}) {
    write_safetensors(path_, tensors, metadata);
  };
  const TensorData good{"x", DType::f32, Shape{1}, &value};
  EXPECT_THROW(write({good, good}), ArgumentError);
  EXPECT_THROW(write({{"__metadata__", DType::f32, Shape{1}, &value}}), ArgumentError);
  EXPECT_THROW(write({{"\xFF", DType::f32, Shape{1}, &value}}), ArgumentError);
  EXPECT_THROW(write({{"x", DType::f32, Shape{1}, nullptr}}), ArgumentError);
  EXPECT_THROW(write({good}, {{"k", "\xC0\x80"}}), ArgumentError);
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(Safetensors, AFailedWriteLeavesTheOldFileAndNothingElse) {
  const float value = 1;
  const TensorData tensor{"x", DType::f32, Shape{1}, &value};
  EXPECT_THROW(write_safetensors((folder_ / "absent" / "f").string(), std::span(&tensor, 1)),
               IoError);
  fs::create_directory(path_);  // a file cannot replace a folder
  std::ofstream(fs::path(path_) / "inside") << "kept";
  EXPECT_THROW(write_safetensors(path_, std::span(&tensor, 1)), IoError);
  EXPECT_TRUE(fs::exists(fs::path(path_) / "inside"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
}

TEST_F(Safetensors, ReplacesWhileTheOldFileIsOpen) {
  const float one = 1, two = 2;
  const TensorData first{"x", DType::f32, Shape{1}, &one}, second{"x", DType::f32, Shape{1}, &two};
  write_safetensors(path_, std::span(&first, 1));
  const SafetensorsFile old(path_);
  write_safetensors(path_, std::span(&second, 1));
  const SafetensorsFile fresh(path_);
  EXPECT_EQ(values_in<float>(old.data(old.tensors()[0])), std::vector{one});
  EXPECT_EQ(values_in<float>(fresh.data(fresh.tensors()[0])), std::vector{two});
}

TEST_F(Safetensors, MissingFilesAndFoldersAreNamed) {
  try {
    SafetensorsFile file(path_);
    FAIL() << "no IoError";
  } catch (const IoError& error) {
    EXPECT_EQ(error.what(), path_ + ": cannot open: No such file or directory");
  }
  EXPECT_THROW(SafetensorsFile(folder_.string()), IoError);
}

// Returns a header that describes one tensor "t" with these fields.
std::string one(const std::string& fields) { return R"({"t":{)" + fields + "}}"; }

TEST_F(Safetensors, WrongLengths) {
  EXPECT_EQ(problem_with(""), "not a safetensors file: 0 bytes, at least 8 needed");
  EXPECT_EQ(problem_with("1234567"), "not a safetensors file: 7 bytes, at least 8 needed");
  EXPECT_EQ(problem_with(with_length(100, "{}", "")),
            "header length 100 exceeds the file (10 bytes)");
  EXPECT_EQ(problem_with(with_length(~0ull, "{}", "")),
            "header length 18446744073709551615 exceeds the limit of 100000000");
  EXPECT_EQ(problem_with(with_length(0, "", "")), "header does not start with '{'");
  EXPECT_EQ(problem_with(file_of(" {}")), "header does not start with '{'");
  EXPECT_EQ(problem_with(file_of("[]")), "header does not start with '{'");
}

TEST_F(Safetensors, WrongHeaders) {
  const auto json = [](int at, const std::string& what) {
    return "header: not valid JSON at byte " + std::to_string(at) + ": " + what;
  };
  EXPECT_EQ(problem_with(file_of("{")), json(1, "expected a key"));
  EXPECT_EQ(problem_with(file_of("{}x")), json(2, "text after the value"));
  EXPECT_EQ(problem_with(file_of(R"({"t":1,})")), json(7, "expected a key"));
  EXPECT_EQ(problem_with(file_of("{\"\xC3(\":1}")), json(2, "invalid UTF-8"));
  const std::string t = R"("t":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  EXPECT_EQ(problem_with(file_of("{" + t + "," + t + "}")), json(105, "key \"t\" occurs twice"));
  EXPECT_EQ(problem_with(file_of(R"({"t":)" + std::string(100, '['))),
            json(69, "nested deeper than 64"));
  EXPECT_EQ(problem_with(file_of(R"({"t":7})")),
            "tensor \"t\": its description is not a JSON object");
  EXPECT_EQ(problem_with(file_of(R"({"__metadata__":[]})")), "__metadata__ is not a JSON object");
  EXPECT_EQ(problem_with(file_of(R"({"__metadata__":{"k":1}})")),
            "__metadata__: value of \"k\" is not a string");
}

TEST_F(Safetensors, WrongDescriptions) {
  const auto of_tensor = [&](const std::string& fields, const std::string& data = "") {
    const std::string problem = problem_with(file_of(one(fields), data));
    EXPECT_TRUE(problem.starts_with("tensor \"t\": ")) << problem;
    return problem.substr(std::min<std::size_t>(problem.size(), 12));
  };
  const std::string u8 = R"("dtype":"U8",)";
  EXPECT_EQ(of_tensor(R"("shape":[0],"data_offsets":[0,0])"), "no dtype");
  EXPECT_EQ(of_tensor(u8 + R"("data_offsets":[0,0])"), "no shape");
  EXPECT_EQ(of_tensor(u8 + R"("shape":[0])"), "no data_offsets");
  EXPECT_EQ(of_tensor(R"("dtype":3,"shape":[0],"data_offsets":[0,0])"), "dtype is not a string");
  EXPECT_EQ(of_tensor(u8 + R"("shape":3,"data_offsets":[0,3])"), "shape is not an array");
  const std::string integers = "shape holds something other than integers from 0 to 2^63 - 1";
  for (const char* shape : {"[-1]", "[1.0]", "[1e2]", "[\"1\"]", "[9223372036854775808]", "[null]"})
    EXPECT_EQ(of_tensor(u8 + R"("shape":)" + shape + R"(,"data_offsets":[0,0])"), integers)
        << shape;
  EXPECT_EQ(of_tensor(u8 + R"("shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1])"),
            "shape: 9 axes, at most 8");
  EXPECT_EQ(of_tensor(u8 + R"("shape":[4294967296,4294967296],"data_offsets":[0,0])"),
            "shape: the number of elements of [4294967296, 4294967296] exceeds 2^63 - 1");
  // The format also defines the sizes of dtypes that Volta lacks; three of four bits are not a
  // whole number of bytes.
  EXPECT_EQ(of_tensor(R"("dtype":"I16","shape":[3],"data_offsets":[0,3])", "123"),
            "data_offsets [0, 3] hold 3 bytes, which is not the size of I16 [3]");
  EXPECT_EQ(of_tensor(R"("dtype":"F4","shape":[3],"data_offsets":[0,1])", "1"),
            "data_offsets [0, 1] hold 1 bytes, which is not the size of F4 [3]");
  // The size of 2^61 elements of eight bytes is 0 modulo 2^64.
  EXPECT_EQ(of_tensor(R"("dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0])"),
            "data_offsets [0, 0] hold 0 bytes, which is not the size of F64 [2305843009213693952]");
}

TEST_F(Safetensors, DtypesOfOthersAreListed) {
  put(file_of(R"({"__metadata__":null,)"
              R"("a":{"dtype":"I8","shape":[2],"data_offsets":[0,2],"note":{"more":[1]}},)"
              R"("b":{"dtype":"F33","shape":[7],"data_offsets":[2,3]},)"
              R"("c":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[3,6]},)"
              R"("d":{"dtype":"U8","shape":[1],"data_offsets":[6,7]}})",
              "1234567"));
  const SafetensorsFile file(path_);
  EXPECT_TRUE(file.metadata().empty());
  std::vector<std::string> stored;
  std::vector<TensorContent> contents;
  std::vector<DType> dtypes;
  for (const TensorEntry& entry : file.tensors()) {
    stored.push_back(entry.stored);
    contents.push_back(entry.content);
    dtypes.push_back(entry.dtype);
  }
  EXPECT_EQ(stored, (std::vector<std::string>{"I8", "F33", "F6_E2M3", "U8"}));
  EXPECT_EQ(contents, (std::vector<TensorContent>{TensorContent::widened, TensorContent::unreadable,
                                                  TensorContent::unreadable, TensorContent::same}));
  EXPECT_EQ(dtypes, (std::vector<DType>{DType::i32, DType::u8, DType::u8, DType::u8}));
  EXPECT_EQ(values_in<char>(file.data(*file.find("b"))), (std::vector<char>{'3'}));
  EXPECT_EQ(values_in<char>(file.data(*file.find("d"))), (std::vector<char>{'7'}));
}

TEST_F(Safetensors, WrongOffsets) {
  const auto u8 = [](const std::string& shape, const std::string& offsets) {
    return R"({"dtype":"U8","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
  };
  const auto t = [&](const std::string& shape, const std::string& offsets) {
    return problem_with(file_of(R"({"t":)" + u8(shape, offsets) + "}", "1234"));
  };
  EXPECT_EQ(t("[4]", "[0]"), "tensor \"t\": data_offsets has 1 values, not 2");
  EXPECT_EQ(t("[4]", "[0,4,4]"), "tensor \"t\": data_offsets has 3 values, not 2");
  EXPECT_EQ(t("[4]", "[4,0]"), "tensor \"t\": data_offsets [4, 0] end before they begin");
  EXPECT_EQ(t("[5]", "[0,5]"), "tensor \"t\": data_offsets [0, 5] exceed the data (4 bytes)");
  EXPECT_EQ(t("[4]", "[0,9223372036854775807]"),
            "tensor \"t\": data_offsets [0, 9223372036854775807] exceed the data (4 bytes)");
  EXPECT_EQ(t("[3]", "[0,4]"),
            "tensor \"t\": data_offsets [0, 4] hold 4 bytes, which is not the size of U8 [3]");
  EXPECT_EQ(t("[3]", "[1,4]"), "tensor \"t\": preceded by 1 bytes of no tensor");
  EXPECT_EQ(t("[3]", "[0,3]"), "1 bytes of no tensor at the end of the file");
  const auto two = [&](const std::string& a, const std::string& b) {
    return problem_with(file_of(R"({"a":)" + a + R"(,"b":)" + b + "}", "1234"));
  };
  EXPECT_EQ(two(u8("[3]", "[0,3]"), u8("[2]", "[2,4]")),
            "tensor \"b\": its data overlaps that of another tensor");
  EXPECT_EQ(two(u8("[4]", "[0,4]"), u8("[4]", "[0,4]")),
            "tensor \"b\": its data overlaps that of another tensor");
  EXPECT_EQ(two(u8("[4]", "[0,4]"), u8("[0]", "[2,2]")),
            "tensor \"b\": its data overlaps that of another tensor");
  EXPECT_EQ(two(u8("[1]", "[0,1]"), u8("[2]", "[2,4]")),
            "tensor \"b\": preceded by 1 bytes of no tensor");
  EXPECT_EQ(two(u8("[4]", "[0,4]"), u8("[0]", "[4,4]")), "(accepted)");
}

TEST_F(Safetensors, EveryTruncationAndEveryFlippedByteIsHandled) {
  const float values[] = {1, 2, 3};
  const std::int32_t whole = 4;
  const TensorData tensors[] = {{"weight", DType::f32, Shape{3}, values},
                                {"n", DType::i32, Shape{}, &whole}};
  write_safetensors(path_, tensors, {{"a", "b"}});
  const std::string good = platform::read_file(path_);
  for (std::size_t length = 0; length < good.size(); ++length)
    EXPECT_NE(problem_with(good.substr(0, length)), "(accepted)") << length;
  EXPECT_NE(problem_with(good + "x"), "(accepted)");
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (const int flip :
         {1, 0x20, 0x80}) {  // a letter of a name may change, everything else must be an error
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ flip);
      problem_with(bad);
    }
  }
}

TEST(Json, ReadsValues) {
  const auto value = io::parse_json(R"( {"s":"\"\\\/\b\f\n\r\t\u0041\ud83d\ude00",)"
                                    R"("n":[0,-1,1.5,-2e+10,true,false,null],"o":{}} )",
                                    "x");
  const auto& members = *value.as_object();
  ASSERT_EQ(members.size(), 3u);
  EXPECT_EQ(*members[0].value.as_string(), "\"\\/\b\f\n\r\tA\xF0\x9F\x98\x80");
  const auto& numbers = *members[1].value.as_array();
  EXPECT_EQ(numbers[1].as_integer(), -1);
  EXPECT_EQ(numbers[2].as_integer(), std::nullopt);
  EXPECT_EQ(std::get<io::JsonValue::Number>(numbers[3].value).text, "-2e+10");
  EXPECT_EQ(std::get<bool>(numbers[4].value), true);
  EXPECT_EQ(numbers[6].as_string(), nullptr);
  EXPECT_TRUE(members[2].value.as_object()->empty());
}

TEST(Json, IsStrict) {
  for (const char* text : {"",
                           " ",
                           "nul",
                           "tru",
                           "01",
                           "-",
                           "1.",
                           ".5",
                           "1e",
                           "+1",
                           "0x1",
                           "NaN",
                           "'a'",
                           "\"",
                           "\"\\x\"",
                           "\"\\u12\"",
                           "\"\\u12g4\"",
                           "\"\\ud800\"",
                           "\"\\udc00\"",
                           "\"\\ud800\\u0041\"",
                           "\"\t\"",
                           "[1,]",
                           "[1 2]",
                           "[",
                           "{\"a\"}",
                           "{\"a\":}",
                           "{a:1}",
                           "{\"a\":1 \"b\":2}",
                           "{\"a\":1,\"\\u0061\":2}",
                           "1 2",
                           "\"\xED\xA0\x80\"",
                           "\"\xC0\xAF\"",
                           "\"\xF4\x90\x80\x80\"",
                           "\xEF\xBB\xBF{}",
                           "/* */1"})
    EXPECT_THROW(io::parse_json(text, "x"), IoError) << text;
  EXPECT_THROW(io::parse_json(std::string_view("1\0", 2), "x"), IoError);
}

TEST(Json, QuotedTextReadsBack) {
  std::string text = "plain \"quoted\" back\\slash \xE2\x82\xAC";
  for (char c = 0; c < 0x20; ++c) text.push_back(c);
  EXPECT_EQ(*io::parse_json(io::json_quoted(text), "x").as_string(), text);
}

}  // namespace
}  // namespace volta
