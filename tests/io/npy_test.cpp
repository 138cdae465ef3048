// npy and npz: bytes as NumPy writes them, round trips, and malformed files.
#include "volta/io/npy.h"

#include <cstring>

#include "io/io_files.h"
#include "io/zip/zip.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

using Npy = TemporaryFolder;
using Npz = TemporaryFolder;

// An npy file of format 1.0.
std::string npy(const std::string& header, const std::string& data = "") {
  std::string file = "\x93NUMPY";
  file +=
      {'\1', '\0', static_cast<char>(header.size() & 0xFF), static_cast<char>(header.size() >> 8)};
  return file + header + data;
}
std::string npy(const std::string& descr, bool fortran, const std::string& shape,
                const std::string& data) {
  return npy("{'descr': '" + descr + "', 'fortran_order': " + (fortran ? "True" : "False") +
                 ", 'shape': " + shape + ", }",
             data);
}

template <class T>
std::string bytes_of(std::initializer_list<T> values) {
  return {reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(T)};
}
std::string swapped(std::string bytes, std::size_t size) {
  for (std::size_t at = 0; at < bytes.size(); at += size)
    std::reverse(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                 bytes.begin() + static_cast<std::ptrdiff_t>(at + size));
  return bytes;
}

TEST_F(Npy, ReadsEveryDType) {
  const auto read = [&](const std::string& descr, const std::string& data) {
    return load_npy(put("a", npy(descr, false, "(2,)", data)), {.device = test_device()});
  };
  const auto expect = [&](const std::string& descr, const std::string& data, DType dtype,
                          std::vector<double> values) {
    const Tensor tensor = read(descr, data);
    EXPECT_EQ(tensor.dtype(), dtype) << descr;
    EXPECT_EQ(tensor.device(), test_device());
    EXPECT_EQ(tensor.to(Device::cpu()).to(DType::f64).to_vector<double>(), values) << descr;
  };
  expect("<f2", bytes_of<std::uint16_t>({0x3C00, 0xC100}), DType::f16, {1, -2.5});
  expect("<f4", bytes_of<float>({1.5f, -2}), DType::f32, {1.5, -2});
  expect("<i4", bytes_of<std::int32_t>({-7, 1 << 20}), DType::i32, {-7, 1 << 20});
  expect("<i8", bytes_of<std::int64_t>({-7, 1LL << 40}), DType::i64, {-7, 1LL << 40});
  expect("|u1", bytes_of<std::uint8_t>({0, 255}), DType::u8, {0, 255});
  expect("|b1", bytes_of<std::uint8_t>({1, 0}), DType::boolean, {1, 0});
  expect("|i1", bytes_of<std::int8_t>({-128, 127}), DType::i32, {-128, 127});
  expect("<i2", bytes_of<std::int16_t>({-300, 300}), DType::i32, {-300, 300});
  expect("<u2", bytes_of<std::uint16_t>({40000, 1}), DType::i32, {40000, 1});
  expect("<u4", bytes_of<std::uint32_t>({4'000'000'000u, 1}), DType::i64, {4e9, 1});
  expect(">f4", swapped(bytes_of<float>({1.5f, -2}), 4), DType::f32, {1.5, -2});
  expect(">i2", swapped(bytes_of<std::int16_t>({-300, 300}), 2), DType::i32, {-300, 300});
  expect(">i8", swapped(bytes_of<std::int64_t>({-7, 1LL << 40}), 8), DType::i64, {-7, 1LL << 40});
}

TEST_F(Npy, DoublesAreRead) {
  const std::string file = put("a", npy("<f8", false, "(2,)", bytes_of<double>({0.1, -1e300})));
  EXPECT_EQ(load_npy(file).to_vector<double>(), (std::vector<double>{0.1, -1e300}));
}

TEST_F(Npy, FortranOrderIsTransposed) {
  // [[1, 2, 3], [4, 5, 6]]
  const std::string columns = bytes_of<float>({1, 4, 2, 5, 3, 6});
  for (const bool other_order : {false, true}) {
    const Tensor tensor = load_npy(put("a", npy(other_order ? ">f4" : "<f4", true, "(2, 3)",
                                                other_order ? swapped(columns, 4) : columns)),
                                   {.device = test_device()});
    EXPECT_EQ(tensor.shape(), (Shape{2, 3}));
    EXPECT_EQ(tensor.to_vector<float>(), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  }
}

TEST_F(Npy, HeadersOfOtherWritersAreRead) {
  const std::string data = bytes_of<float>({5});
  for (const std::string header : {R"({"shape":(1L,),"fortran_order":False,"descr":"=f4"})",
                                   "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}   \n"})
    EXPECT_EQ(load_npy(put("a", npy(header, data))).item(), 5);
  std::string second = npy("<f4", false, "()", data);
  second[6] = 2;
  second.insert(10, 2, '\0');  // the length has 32 bits
  EXPECT_EQ(load_npy(put("a", second)).shape(), Shape{});
}

TEST_F(Npy, WhatIsWrittenIsNumPysFormat) {
  save_npy(from_vector<float>({1, 2, 3, 4, 5, 6}, {2, 3}, {.device = test_device()}), path("a"));
  const std::string file = platform::read_file(path("a"));
  const std::size_t head = file.size() - 24;
  EXPECT_EQ(head % 64, 0u);
  EXPECT_EQ(file[head - 1], '\n');
  EXPECT_TRUE(file.starts_with("\x93NUMPY\1"));
  EXPECT_NE(file.find("{'descr': '<f4', 'fortran_order': False, 'shape': (2,3,), }"),
            std::string::npos);
  const Tensor back = load_npy(path("a"));
  EXPECT_EQ(back.shape(), (Shape{2, 3}));
  EXPECT_EQ(back.to_vector<float>(), (std::vector<float>{1, 2, 3, 4, 5, 6}));
}

TEST_F(Npy, BadFilesAreNamed) {
  const auto problem = [&](const std::string& bytes) {
    const std::string file = put("bad", bytes);
    const std::string message = problem_of([&] { load_npy(file); });
    return message.starts_with(file + ": ") ? message.substr(file.size() + 2) : message;
  };
  const std::string good = npy("<f4", false, "(2,)", bytes_of<float>({1, 2}));
  EXPECT_EQ(problem(good), "(accepted)");
  for (std::size_t length = 0; length < good.size(); ++length)
    EXPECT_NE(problem(good.substr(0, length)), "(accepted)") << length;
  EXPECT_EQ(problem(good + "x"), "9 bytes of data are not the size of <f4 [2]");
  EXPECT_EQ(problem(""), "not an npy file");
  EXPECT_EQ(problem("\x93NUMPY\7\1xxxxxx"), "npy format 7 is not known");
  EXPECT_EQ(problem(npy("|O", false, "(2,)", "x")),
            "dtype \"|O\" is not supported: Python objects are not read");
  for (const char* descr : {"<u8", "<c8", "<f16", "<U4", "|V2", "<M8[ns]", "", "f4", "|f4", "<x4"})
    EXPECT_TRUE(problem(npy(descr, false, "(2,)", std::string(16, '\0'))).starts_with("dtype "))
        << descr;
  EXPECT_EQ(problem(npy("<f8", false, "(2305843009213693952,)", "")),
            "0 bytes of data are not the size of <f8 [2305843009213693952]");
  EXPECT_EQ(problem(npy("<f4", false, "(4294967296, 4294967296)", "")),
            "shape: the number of elements of [4294967296, 4294967296] exceeds 2^63 - 1");
  EXPECT_EQ(problem(npy("<f4", false, "(-1,)", "")),
            "shape holds something other than integers from 0 to 2^63 - 1");
  EXPECT_EQ(problem(npy("<f4", false, "(99999999999999999999,)", "")),
            "shape holds something other than integers from 0 to 2^63 - 1");
  EXPECT_EQ(problem(npy("<f4", false, "(1,1,1,1,1,1,1,1,1)", "")), "shape: 9 axes, at most 8");
  EXPECT_EQ(problem(npy("|b1", false, "(1,)", "\3")), "a bool is neither 0 nor 1");
  EXPECT_EQ(problem(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}")),
            "records are not supported");
  EXPECT_EQ(problem(npy("{'descr': '<f4', 'descr': '<f4'}")), "the header has \"descr\" twice");
  EXPECT_EQ(problem(npy("{'descr': '<f4'}")),
            "the header lacks one of descr, fortran_order, shape");
  EXPECT_EQ(problem(npy("{'more': 1}")), "the header has an unknown \"more\"");
  EXPECT_EQ(problem(npy("{'descr")), "the header has an unterminated string");
  EXPECT_EQ(problem(npy("{'fortran_order': 1}")), "fortran_order is neither True nor False");
  std::string long_header = good;
  long_header[8] = '\xFF';
  EXPECT_EQ(problem(long_header),
            "header length 255 exceeds the file (" + std::to_string(good.size()) + " bytes)");
}

TEST_F(Npy, NumPyHasNoBf16) {
  EXPECT_THROW(save_npy(ones({1}, {.dtype = DType::bf16}), path("a")), DTypeError);
  EXPECT_EQ(file_count(), 0u);
}

// ---- npz

StateDict several() {
  StateDict state;
  state.add("weights/first", from_vector<float>({1, 2, 3, 4}, {2, 2}, {.device = test_device()}));
  state.add("n", scalar(7, {.dtype = DType::i64}));
  state.add("zeros", zeros({100, 100}));
  state.add("none", zeros({0, 3}));
  return state;
}

void expect_same(const StateDict& a, const StateDict& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) {
    ASSERT_EQ(b.at(name).dtype(), tensor.dtype()) << name;
    ASSERT_EQ(b.at(name).shape(), tensor.shape()) << name;
    EXPECT_EQ(b.at(name).to(Device::cpu()).to(DType::f64).to_vector<double>(),
              tensor.to(Device::cpu()).to(DType::f64).to_vector<double>())
        << name;
  }
}

TEST_F(Npz, RoundTripsStoredAndDeflated) {
  save_npz(several(), path("a.npz"));
  expect_same(several(), load_npz(path("a.npz"), {.device = test_device()}));
  save_npz(several(), path("b.npz"), {.compress = true});
  expect_same(several(), load_npz(path("b.npz")));
  EXPECT_LT(std::filesystem::file_size(path("b.npz")), 2000u);
  EXPECT_GT(std::filesystem::file_size(path("a.npz")), 40000u);
  save_npz({}, path("c.npz"));
  EXPECT_TRUE(load_npz(path("c.npz")).empty());
}

TEST_F(Npz, The64BitFieldsAreWrittenAndRead) {
  const std::string first = npy("<f4", false, "(1,)", bytes_of<float>({5})),
                    second = npy("<i4", false, "()", bytes_of<std::int32_t>({6}));
  for (const bool deflated : {false, true}) {
    platform::AtomicFile file(path("a.npz"));
    io::ZipWriter archive(file, 16);  // with this limit every size counts as large
    archive.add("x.npy", std::as_bytes(std::span(first)), {}, deflated);
    archive.add("y.npy", {}, std::as_bytes(std::span(second)), deflated);
    archive.finish();
    file.commit();
    const StateDict state = load_npz(path("a.npz"));
    EXPECT_EQ(state.at("x").item(), 5);
    EXPECT_EQ(state.at("y").item(), 6);
  }
}

TEST_F(Npz, EveryTruncationAndEveryFlippedByteIsHandled) {
  save_npz({{"a", from_vector<float>({1, 2})}, {"b", ones({3}, {.dtype = DType::u8})}},
           path("good.npz"), {.compress = true});
  const std::string good = platform::read_file(path("good.npz"));
  for (std::size_t length = 0; length < good.size(); ++length)
    EXPECT_NE(problem_of([&] { load_npz(put("bad.npz", good.substr(0, length))); }), "(accepted)")
        << length;
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (const int flip : {1, 0x20, 0x80}) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ flip);
      problem_of([&] { load_npz(put("bad.npz", bad)); });
    }
  }
}

TEST_F(Npz, HostileArchivesAreRefused) {
  const std::string array = npy("<f4", false, "(1,)", bytes_of<float>({5}));
  const auto archive_of = [&](std::vector<std::string> names, bool deflated = false) {
    platform::AtomicFile file(path("made.npz"));
    io::ZipWriter archive(file);
    for (const std::string& name : names)
      archive.add(name, std::as_bytes(std::span(array)), {}, deflated);
    archive.finish();
    file.commit();
    return platform::read_file(path("made.npz"));
  };
  const auto problem = [&](const std::string& bytes) {
    const std::string file = put("bad.npz", bytes);
    const std::string message = problem_of([&] { load_npz(file); });
    return message.starts_with(file + ": ") ? message.substr(file.size() + 2) : message;
  };
  const auto changed = [](std::string bytes, const std::string& signature, std::size_t offset,
                          const std::string& value) {
    const std::size_t at = bytes.find(signature);
    EXPECT_NE(at, std::string::npos);
    return bytes.replace(at + offset, value.size(), value);
  };
  const std::string good = archive_of({"x.npy"}), directory = "PK\1\2", end = "PK\5\6";
  EXPECT_EQ(problem(good), "(accepted)");
  EXPECT_EQ(problem(archive_of({"x.npy", "x.npy"})), "entry \"x.npy\" occurs twice");
  EXPECT_EQ(problem(archive_of({"notes.txt"})), "entry \"notes.txt\" is not an npy file");
  EXPECT_EQ(problem(changed(good, directory, 16, "\1\2\3\4")),
            "entry \"x.npy\": its CRC does not match its content");
  EXPECT_EQ(problem(changed(good, directory, 8, std::string("\1\0", 2))),
            "entry \"x.npy\": encrypted");
  EXPECT_EQ(problem(changed(good, directory, 10, std::string("\14\0", 2))),
            "entry \"x.npy\": compression method 12 is not supported");
  EXPECT_EQ(problem(changed(good, directory, 42, std::string("\xFF\xFF\0\0", 4))),
            "entry \"x.npy\": it is not where the directory says");
  EXPECT_EQ(problem(changed(good, directory, 20, std::string("\xFF\xFF\0\0\xFF\xFF\0\0", 8))),
            "entry \"x.npy\": it ends outside of the archive");
  EXPECT_EQ(problem(changed(good, directory, 46, "y")),
            "entry \"y.npy\": its own header differs from the directory");
  EXPECT_EQ(problem(changed(good, end, 16, std::string("\xFF\xFF\0\0", 4))).substr(0, 22),
            "the directory at 65535");
  EXPECT_EQ(problem(changed(good, end, 10, std::string("\2\0", 2))),
            "archives in several parts are not supported");
  EXPECT_EQ(problem(changed(changed(good, end, 10, std::string("\2\0", 2)), end, 8,
                            std::string("\2\0", 2))),
            "the directory is truncated");
  // A few bytes claim to be four gigabytes.
  const std::string packed = archive_of({"x.npy"}, true);
  EXPECT_TRUE(problem(changed(packed, directory, 24, "\xFE\xFF\xFF\xFF")).find("cannot be what") !=
              std::string::npos);
  EXPECT_EQ(problem(changed(packed, directory, 24, std::string("\x41\0\0\0", 4))),
            "entry \"x.npy\": its deflated data is damaged");
  // Two entries with the same content.
  std::string twice = archive_of({"x.npy", "y.npy"});
  const std::size_t second = twice.rfind(directory);
  twice.replace(second + 42, 4, std::string(4, '\0'));
  twice[second + 46] = 'x';
  EXPECT_EQ(problem(twice), "entries overlap");
  EXPECT_EQ(problem("PK"), "not a zip archive");
  EXPECT_EQ(problem(std::string(100, 'x')),
            "not a zip archive, or a truncated one: there is no directory");
}

TEST_F(Npz, WhatCannotBeWrittenLeavesNothing) {
  EXPECT_THROW(save_npz({{"a", ones({1}, {.dtype = DType::bf16})}}, path("a.npz")), DTypeError);
  EXPECT_THROW(save_npz({{"\xFF", ones({1})}}, path("a.npz")), ArgumentError);
  EXPECT_EQ(file_count(), 0u);
}

}  // namespace
}  // namespace volta
