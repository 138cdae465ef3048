// Writes zip archives.
#include <algorithm>

#include <zlib.h>

#include "io/zip/zip.h"
#include "io/zip/zip_format.h"
#include "volta/error.h"

namespace volta::io {
namespace {

constexpr std::uint64_t kVersion = 20, kVersion64 = 45;
// 1 January 1980, so that equal content gives equal files.
constexpr std::uint64_t kFirstDate = 0x21;

void put(std::string& out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

std::uint32_t crc_of(std::uint32_t before, std::span<const std::byte> bytes) {
  if (bytes.empty()) return before;  // zlib returns 0 for a null pointer
  return static_cast<std::uint32_t>(
      crc32_z(before, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

// Compresses the concatenated parts with raw deflate.
std::vector<std::byte> deflate_parts(std::span<const std::span<const std::byte>> parts) {
  z_stream stream{};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) !=
      Z_OK)
    throw IoError("zlib: no memory to compress");
  struct End {
    z_stream& stream;
    ~End() { deflateEnd(&stream); }
  } const end{stream};
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  std::vector<std::byte> packed;
  const auto run = [&](std::span<const std::byte> piece, int flush) {
    stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(piece.data()));
    stream.avail_in = static_cast<uInt>(piece.size());
    do {
      const std::size_t had = packed.size();
      packed.resize(had + kPiece);
      stream.next_out = reinterpret_cast<Bytef*>(packed.data() + had);
      stream.avail_out = static_cast<uInt>(kPiece);
      deflate(&stream, flush);
      packed.resize(had + kPiece - stream.avail_out);
    } while (stream.avail_out == 0);
  };
  for (std::span<const std::byte> part : parts) {
    while (!part.empty()) {
      const std::size_t size = std::min(part.size(), kPiece);
      run(part.first(size), Z_NO_FLUSH);
      part = part.subspan(size);
    }
  }
  run({}, Z_FINISH);
  return packed;
}

}  // namespace

void ZipWriter::add(std::string_view name, std::span<const std::byte> head,
                    std::span<const std::byte> body, bool deflated) {
  if (name.size() > kFull16) throw ArgumentError("zip: a name of more than 65535 bytes");
  Written entry{std::string(name),         deflated, crc_of(crc_of(0, head), body),
                head.size() + body.size(), 0,        file_.written()};
  std::vector<std::byte> packed;
  if (deflated) {
    const std::span<const std::byte> parts[] = {head, body};
    packed = deflate_parts(parts);
  }
  entry.packed = deflated ? packed.size() : entry.size;

  const bool large = is_large(entry.size) || is_large(entry.packed);
  std::string header;
  put(header, kLocalSignature, 4);
  put(header, large ? kVersion64 : kVersion, 2);
  put(header, kUtf8, 2);
  put(header, deflated ? kDeflated : kStored, 2);
  put(header, 0, 2);
  put(header, kFirstDate, 2);
  put(header, entry.crc, 4);
  put(header, large ? kFull32 : entry.packed, 4);
  put(header, large ? kFull32 : entry.size, 4);
  put(header, name.size(), 2);
  put(header, large ? 20 : 0, 2);
  header += name;
  if (large) {
    put(header, kExtra64, 2);
    put(header, 16, 2);
    put(header, entry.size, 8);
    put(header, entry.packed, 8);
  }
  file_.write(header);
  if (deflated) {
    file_.write(packed);
  } else {
    file_.write(head);
    file_.write(body);
  }
  entries_.push_back(std::move(entry));
}

std::string ZipWriter::directory_entry(const Written& entry) const {
  std::string extra;
  const auto field = [&](std::uint64_t value) {
    if (!is_large(value)) return value;
    put(extra, value, 8);
    return kFull32;
  };
  const std::uint64_t size = field(entry.size), packed = field(entry.packed),
                      offset = field(entry.offset);
  std::string text;
  put(text, kDirectorySignature, 4);
  put(text, extra.empty() ? kVersion : kVersion64, 2);
  put(text, extra.empty() ? kVersion : kVersion64, 2);
  put(text, kUtf8, 2);
  put(text, entry.deflated ? kDeflated : kStored, 2);
  put(text, 0, 2);
  put(text, kFirstDate, 2);
  put(text, entry.crc, 4);
  put(text, packed, 4);
  put(text, size, 4);
  put(text, entry.name.size(), 2);
  put(text, extra.empty() ? 0 : 4 + extra.size(), 2);
  put(text, 0, 2);  // comment
  put(text, 0, 2);  // disk
  put(text, 0, 2);  // attributes
  put(text, 0, 4);
  put(text, offset, 4);
  text += entry.name;
  if (!extra.empty()) {
    put(text, kExtra64, 2);
    put(text, extra.size(), 2);
    text += extra;
  }
  return text;
}

void ZipWriter::finish() {
  const std::uint64_t begin = file_.written();
  for (const Written& entry : entries_) file_.write(directory_entry(entry));
  const std::uint64_t end = file_.written(), size = end - begin, count = entries_.size();
  std::string text;
  const bool large = is_large(begin) || is_large(size) || count >= kFull16;
  if (large) {
    put(text, kEnd64Signature, 4);
    put(text, kEnd64Bytes - 12, 8);
    put(text, kVersion64, 2);
    put(text, kVersion64, 2);
    put(text, 0, 8);  // disks
    put(text, count, 8);
    put(text, count, 8);
    put(text, size, 8);
    put(text, begin, 8);
    put(text, kLocatorSignature, 4);
    put(text, 0, 4);
    put(text, end, 8);
    put(text, 1, 4);
  }
  put(text, kEndSignature, 4);
  put(text, 0, 4);
  put(text, large ? kFull16 : count, 2);
  put(text, large ? kFull16 : count, 2);
  put(text, large ? kFull32 : size, 4);
  put(text, large ? kFull32 : begin, 4);
  put(text, 0, 2);
  file_.write(text);
}

}  // namespace volta::io
