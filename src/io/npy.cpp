// npy files: a header in the form of a Python dictionary, then the elements.
#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "encoding/json.h"
#include "io/common/owned_bytes.h"
#include "io/npy_format.h"
#include "platform/files.h"
#include "volta/creation.h"
#include "volta/error.h"
#include "volta/io/npy.h"

namespace volta {
namespace io {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kAlignment = 64;

// The fields of a header.
struct NpyHeader {
  std::string descr;
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
};

// Parses the few Python literals that occur in headers.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& source) : text_(text), source_(source) {}

  NpyHeader parse() {
    NpyHeader header;
    bool has_descr = false, has_order = false, has_shape = false;
    expect('{');
    while (!take('}')) {
      const std::string key = parse_string();
      expect(':');
      const auto once = [&](bool& seen) {
        if (seen) fail("the header has " + json_quoted(key) + " twice");
        seen = true;
      };
      if (key == "descr") {
        once(has_descr);
        if (peek() == '[') fail("records are not supported");
        header.descr = parse_string();
      } else if (key == "fortran_order") {
        once(has_order);
        header.fortran_order = parse_bool();
      } else if (key == "shape") {
        once(has_shape);
        header.shape = parse_shape();
      } else {
        fail("the header has an unknown " + json_quoted(key));
      }
      if (!take(',') && peek() != '}') fail("the header is no dictionary");
    }
    skip_space();
    if (at_ != text_.size()) fail("text after the header's dictionary");
    if (!has_descr || !has_order || !has_shape)
      fail("the header lacks one of descr, fortran_order, shape");
    return header;
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    throw IoError(source_ + ": " + problem);
  }
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t'))
      ++at_;
  }
  char peek() {
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) {
    if (peek() != c || at_ >= text_.size()) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail(std::string("the header is malformed: expected '") + c + "'");
  }
  std::string parse_string() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') fail("the header is malformed: expected a string");
    const std::size_t begin = ++at_;
    at_ = std::min(text_.find(quote, begin), text_.size());
    if (at_ == text_.size()) fail("the header has an unterminated string");
    std::string value(text_.substr(begin, at_++ - begin));
    if (value.find('\\') != std::string::npos || valid_utf8_prefix(value) != value.size())
      fail("the header has a string that is no name");
    return value;
  }
  bool parse_bool() {
    skip_space();
    for (const bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(at_, word.size()) != word) continue;
      at_ += word.size();
      return value;
    }
    fail("fortran_order is neither True nor False");
  }
  std::vector<std::int64_t> parse_shape() {
    std::vector<std::int64_t> sizes;
    expect('(');
    while (!take(')')) {
      skip_space();
      std::int64_t size = 0;
      const char* begin = text_.data() + at_;
      const auto [stop, failure] = std::from_chars(begin, text_.data() + text_.size(), size);
      if (failure != std::errc() || size < 0)
        fail("shape holds something other than integers from 0 to 2^63 - 1");
      at_ += static_cast<std::size_t>(stop - begin);
      take('L');  // Python 2 writes long integers with L
      sizes.push_back(size);
      if (!take(',') && peek() != ')') fail("shape is malformed");
    }
    return sizes;
  }

  std::string_view text_;
  const std::string& source_;
  std::size_t at_ = 0;
};

// How the elements of a file are converted to those of a tensor.
struct Elements {
  DType dtype;             // dtype of the tensor
  std::size_t size;        // bytes per element in the file
  bool swapped = false;    // the file has the other byte order
  bool is_signed = false;  // sign of integers that are widened
  bool widened() const { return size != size_of(dtype); }
};

Elements elements_of(const std::string& descr, const std::string& source) {
  struct Known {
    std::string_view code;
    DType dtype;
    std::size_t size;
    bool is_signed;
  };
  static constexpr Known kKnown[] = {
      {"f2", DType::f16, 2, true},      {"f4", DType::f32, 4, true}, {"f8", DType::f64, 8, true},
      {"i4", DType::i32, 4, true},      {"i8", DType::i64, 8, true}, {"u1", DType::u8, 1, false},
      {"b1", DType::boolean, 1, false}, {"i1", DType::i32, 1, true}, {"i2", DType::i32, 2, true},
      {"u2", DType::i32, 2, false},     {"u4", DType::i64, 4, false}};
  const std::string_view orders = "<>|=";
  const bool has_order = descr.size() == 3 && orders.find(descr[0]) != std::string_view::npos;
  if (has_order) {
    const auto known = std::ranges::find(kKnown, std::string_view(descr).substr(1), &Known::code);
    const bool single = known != std::end(kKnown) && known->size == 1;
    if (known != std::end(kKnown) && (single || descr[0] != '|'))
      return {known->dtype, known->size, descr[0] == '>' && !single, known->is_signed};
  }
  const bool objects = descr.find('O') != std::string::npos;
  throw IoError(fmt::format("{}: dtype {} is not supported{}", source, json_quoted(descr),
                            objects ? ": Python objects are not read" : ""));
}

// Converts the elements to the machine's byte order and the tensor's element size.
OwnedBytes converted(std::span<const std::byte> data, const Elements& elements,
                     const std::string& source) {
  const std::size_t count = data.size() / elements.size, size = size_of(elements.dtype);
  const OwnedBytes result(count * size, source);
  for (std::size_t i = 0; i < count; ++i) {
    const std::byte* from = data.data() + i * elements.size;
    std::byte* to = result.bytes().data() + i * size;
    for (std::size_t b = 0; b < elements.size; ++b)
      to[b] = from[elements.swapped ? elements.size - 1 - b : b];
    const bool negative = elements.is_signed && (to[elements.size - 1] >> 7) == std::byte{1};
    for (std::size_t b = elements.size; b < size; ++b) to[b] = std::byte(negative ? 0xFF : 0);
  }
  return result;
}

// The strides of an array in Fortran order, where the first axis varies fastest.
std::vector<std::int64_t> fortran_strides(const Shape& shape) {
  std::vector<std::int64_t> strides;
  std::int64_t stride = 1;
  for (const std::int64_t size : shape) {
    strides.push_back(stride);
    stride *= size;
  }
  return strides;
}

std::string_view header_text(std::span<const std::byte> bytes, const std::string& source) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with(kMagic) || text.size() < kMagic.size() + 2)
    throw IoError(source + ": not an npy file");
  const int major = static_cast<unsigned char>(text[kMagic.size()]);
  if (major < 1 || major > 3)
    throw IoError(fmt::format("{}: npy format {} is not known", source, major));
  const std::size_t length_bytes = major == 1 ? 2 : 4;
  const std::size_t begin = kMagic.size() + 2 + length_bytes;
  if (text.size() < begin) throw IoError(source + ": the header is truncated");
  std::size_t length = 0;
  for (std::size_t i = length_bytes; i-- > 0;)
    length = length << 8 | static_cast<unsigned char>(text[kMagic.size() + 2 + i]);
  if (length > text.size() - begin)
    throw IoError(fmt::format("{}: header length {} exceeds the file ({} bytes)", source, length,
                              text.size()));
  return text.substr(begin, length);
}

const char* descr_of(const char* function, DType dtype) {
  switch (dtype) {
    case DType::f16:
      return "<f2";
    case DType::f32:
      return "<f4";
    case DType::f64:
      return "<f8";
    case DType::i32:
      return "<i4";
    case DType::i64:
      return "<i8";
    case DType::u8:
      return "|u1";
    case DType::boolean:
      return "|b1";
    case DType::bf16:
      break;
  }
  throw DTypeError(fmt::format("{}: NumPy has no {}; convert the tensor first: to(DType::f32)",
                               function, name_of(dtype)));
}

}  // namespace

Tensor read_npy(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                const std::string& source, Device device) {
  const std::string_view text = header_text(bytes, source);
  const NpyHeader header = HeaderParser(text, source).parse();
  const Elements elements = elements_of(header.descr, source);
  const Shape shape = [&] {
    try {
      return Shape(std::span<const std::int64_t>(header.shape));
    } catch (const ShapeError& error) {
      throw IoError(source + ": " + error.what());
    }
  }();
  const auto head = static_cast<std::size_t>(text.data() + text.size() -
                                             reinterpret_cast<const char*>(bytes.data()));
  const std::span<const std::byte> data = bytes.subspan(head);
  std::uint64_t needed = 0;
  if (__builtin_mul_overflow(static_cast<std::uint64_t>(shape.numel()),
                             std::uint64_t{elements.size}, &needed) ||
      needed != data.size())
    throw IoError(fmt::format("{}: {} bytes of data are not the size of {} {}", source, data.size(),
                              header.descr, to_string(shape)));
  if (elements.dtype == DType::boolean &&
      std::ranges::any_of(data, [](std::byte b) { return b > std::byte{1}; }))
    throw IoError(source + ": a bool is neither 0 nor 1");

  BlobOptions options;
  options.device = device;
  if (header.fortran_order) options.strides = fortran_strides(shape);
  if (elements.swapped || elements.widened()) {
    const OwnedBytes values = converted(data, elements, source);
    options.deleter = [owner = values.owner()](void*) {};
    return from_blob(values.bytes().data(), shape, elements.dtype, std::move(options));
  }
  options.deleter = [owner = std::move(owner)](void*) {};
  return from_blob(data.data(), shape, elements.dtype, std::move(options));
}

std::string npy_header(const char* function, const Tensor& tensor) {
  std::string sizes;
  for (const std::int64_t size : tensor.shape()) sizes += fmt::format("{},", size);
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}",
                                 descr_of(function, tensor.dtype()), sizes);
  const std::size_t before = kMagic.size() + 4;
  text.resize((before + text.size() + 1 + kAlignment - 1) / kAlignment * kAlignment - before - 1,
              ' ');
  text += '\n';
  std::string head(kMagic);
  head += {'\1', '\0', static_cast<char>(text.size() & 0xFF), static_cast<char>(text.size() >> 8)};
  return head + text;
}

}  // namespace io

Tensor load_npy(const std::string& path, LoadOptions options) {
  const auto file = std::make_shared<const platform::MappedFile>(path);
  if (options.mapped || !options.device.is_cpu())
    return io::read_npy(file->bytes(), file, path, options.device);
  const io::OwnedBytes content(file->bytes().size(), path);
  file->read(0, content.bytes());
  return io::read_npy(content.bytes(), content.owner(), path, options.device);
}

void save_npy(const Tensor& tensor, const std::string& path) {
  const std::string header = io::npy_header("save_npy", tensor);
  const Tensor host = tensor.detach().to(Device::cpu()).eval();
  platform::AtomicFile file(path);
  file.write(header);
  file.write(host.span<std::byte>());
  file.commit();
}

}  // namespace volta
