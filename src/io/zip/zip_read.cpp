// Reads zip archives: the end record, then the directory, then each entry's own header, which must
// match the directory. Everything is read from the file, not through its mapping, so a file that is
// truncated meanwhile is an error.
#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <zlib.h>

#include "encoding/json.h"
#include "io/zip/zip.h"
#include "io/zip/zip_format.h"
#include "volta/error.h"

namespace volta::io {
namespace {

// A part of an archive in memory. Positions are those in the archive; the caller checks that they
// are in the part.
class Part {
 public:
  Part(const platform::MappedFile& archive, std::uint64_t begin, std::uint64_t end)
      : begin_(begin), bytes_(end - begin) {
    archive.read(begin, bytes_);
  }

  // Returns a little-endian number of 2, 4 or 8 bytes.
  std::uint64_t number(std::uint64_t at, std::size_t size) const {
    std::uint64_t value = 0;
    for (std::size_t i = size; i-- > 0;)
      value = value << 8 | std::to_integer<std::uint64_t>(bytes_[at - begin_ + i]);
    return value;
  }
  std::string text(std::uint64_t at, std::uint64_t size) const {
    return {reinterpret_cast<const char*>(bytes_.data()) + (at - begin_),
            static_cast<std::size_t>(size)};
  }

 private:
  std::uint64_t begin_;
  std::vector<std::byte> bytes_;
};

class Archive {
 public:
  Archive(const platform::MappedFile& file, const std::string& source)
      : file_(file), bytes_(file.bytes().size()), source_(source) {}

  std::vector<ZipEntry> entries() {
    const Directory directory = find_directory();
    const Part text(file_, directory.begin, directory.end);
    std::vector<ZipEntry> result;
    std::vector<Range> ranges;
    std::uint64_t at = directory.begin;
    for (std::uint64_t i = 0; i < directory.count; ++i) {
      if (directory.end - at < kDirectoryEntryBytes) fail("the directory is truncated");
      result.push_back(read_entry(text, at, directory, ranges));
    }
    if (at != directory.end) fail("the directory has more than its entries");
    refuse_overlaps(ranges);
    refuse_duplicates(result);
    return result;
  }

 private:
  struct Directory {
    std::uint64_t begin, end, count;
  };
  struct Range {
    std::uint64_t begin, end;
  };

  [[noreturn]] void fail(const std::string& problem) const {
    throw IoError(source_ + ": " + problem);
  }

  std::uint64_t find_end_record(const Part& tail) const {
    const std::uint64_t last = bytes_ - kEndBytes;
    const std::uint64_t first = last - std::min<std::uint64_t>(last, kMaxComment);
    for (std::uint64_t at = last + 1; at-- > first;) {
      if (tail.number(at, 4) == kEndSignature && at + kEndBytes + tail.number(at + 20, 2) == bytes_)
        return at;
    }
    fail("not a zip archive, or a truncated one: there is no directory");
  }

  Directory find_directory() const {
    if (bytes_ < kEndBytes) fail("not a zip archive");
    const Part tail(file_, bytes_ - std::min(bytes_, kEndBytes + kMaxComment + kLocatorBytes),
                    bytes_);
    const std::uint64_t end = find_end_record(tail);
    std::uint64_t disks = tail.number(end + 4, 2) | tail.number(end + 6, 2);
    std::uint64_t here = tail.number(end + 8, 2), count = tail.number(end + 10, 2);
    std::uint64_t size = tail.number(end + 12, 4), begin = tail.number(end + 16, 4);
    std::uint64_t limit = end;
    const bool large = here == kFull16 || count == kFull16 || size == kFull32 || begin == kFull32;
    if (large && end >= kLocatorBytes && tail.number(end - kLocatorBytes, 4) == kLocatorSignature) {
      const std::uint64_t record = tail.number(end - kLocatorBytes + 8, 8);
      limit = end - kLocatorBytes;
      const auto misplaced = [&] { fail("the 64-bit end record is not where it should be"); };
      if (record > limit || limit - record < kEnd64Bytes) misplaced();
      const Part large_end(file_, record, record + kEnd64Bytes);
      if (large_end.number(record, 4) != kEnd64Signature) misplaced();
      limit = record;
      disks = large_end.number(record + 16, 4) | large_end.number(record + 20, 4);
      here = large_end.number(record + 24, 8);
      count = large_end.number(record + 32, 8);
      size = large_end.number(record + 40, 8);
      begin = large_end.number(record + 48, 8);
    }
    if (disks != 0 || here != count) fail("archives in several parts are not supported");
    if (size > limit || begin > limit - size)
      fail(fmt::format("the directory at {} of {} bytes is outside of the archive", begin, size));
    return {begin, begin + size, count};
  }

  // Reads sizes and the offset from the extra field if their 32-bit fields are full.
  void read_large(const Part& part, std::uint64_t at, std::uint64_t bytes,
                  std::span<std::uint64_t* const> values) const {
    while (bytes >= 4) {
      const std::uint64_t id = part.number(at, 2), size = part.number(at + 2, 2);
      if (size > bytes - 4) break;
      if (id == kExtra64) {
        std::uint64_t field = at + 4, left = size;
        for (std::uint64_t* value : values) {
          if (*value != kFull32) continue;
          if (left < 8) fail("a 64-bit size is missing");
          *value = part.number(field, 8);
          field += 8;
          left -= 8;
        }
        return;
      }
      at += 4 + size;
      bytes -= 4 + size;
    }
  }

  ZipEntry read_entry(const Part& text, std::uint64_t& at, const Directory& directory,
                      std::vector<Range>& ranges) const {
    if (text.number(at, 4) != kDirectorySignature) fail("the directory is malformed");
    const std::uint64_t flags = text.number(at + 8, 2), method = text.number(at + 10, 2);
    ZipEntry entry;
    entry.crc = static_cast<std::uint32_t>(text.number(at + 16, 4));
    std::uint64_t packed = text.number(at + 20, 4), size = text.number(at + 24, 4);
    const std::uint64_t name_bytes = text.number(at + 28, 2), extra_bytes = text.number(at + 30, 2);
    const std::uint64_t whole =
        kDirectoryEntryBytes + name_bytes + extra_bytes + text.number(at + 32, 2);
    std::uint64_t offset = text.number(at + 42, 4);
    if (whole > directory.end - at) fail("the directory is truncated");
    entry.name = text.text(at + kDirectoryEntryBytes, name_bytes);
    if (valid_utf8_prefix(entry.name) != entry.name.size()) fail("a name is not valid UTF-8");
    std::uint64_t* const large[] = {&size, &packed, &offset};
    read_large(text, at + kDirectoryEntryBytes + name_bytes, extra_bytes, large);
    at += whole;

    const std::string where = "entry " + json_quoted(entry.name) + ": ";
    if ((flags & kEncrypted) != 0) fail(where + "encrypted");
    if (method != kStored && method != kDeflated)
      fail(fmt::format("{}compression method {} is not supported", where, method));
    entry.deflated = method == kDeflated;
    entry.size = size;
    const std::uint64_t limit = directory.begin;
    const auto misplaced = [&] { fail(where + "it is not where the directory says"); };
    if (offset > limit || limit - offset < kLocalBytes) misplaced();
    // Its own header, with the name if that is as long as in the directory.
    const Part own(file_, offset, offset + std::min(limit - offset, kLocalBytes + name_bytes));
    if (own.number(offset, 4) != kLocalSignature) misplaced();
    const std::uint64_t head =
        kLocalBytes + own.number(offset + 26, 2) + own.number(offset + 28, 2);
    if (head > limit - offset || packed > limit - offset - head)
      fail(where + "it ends outside of the archive");
    if (own.number(offset + 8, 2) != method || own.number(offset + 26, 2) != name_bytes ||
        own.text(offset + kLocalBytes, name_bytes) != entry.name)
      fail(where + "its own header differs from the directory");
    // Deflated data expands by at most kMaxRatio.
    const bool possible = entry.deflated ? size / kMaxRatio <= packed : size == packed;
    if (!possible)
      fail(fmt::format("{}{} bytes cannot be what {} bytes unpack to", where, size, packed));
    entry.begin = offset + head;
    entry.packed = packed;
    ranges.push_back({offset, offset + head + packed});
    return entry;
  }

  void refuse_overlaps(std::vector<Range>& ranges) const {
    std::ranges::sort(ranges, {}, &Range::begin);
    for (std::size_t i = 1; i < ranges.size(); ++i)
      if (ranges[i].begin < ranges[i - 1].end) fail("entries overlap");
  }

  void refuse_duplicates(const std::vector<ZipEntry>& entries) const {
    std::vector<std::string_view> names;
    for (const ZipEntry& entry : entries) names.push_back(entry.name);
    std::ranges::sort(names);
    const auto twice = std::ranges::adjacent_find(names);
    if (twice != names.end()) fail("entry " + json_quoted(*twice) + " occurs twice");
  }

  const platform::MappedFile& file_;
  const std::uint64_t bytes_;
  const std::string& source_;
};

// Unpacks the bytes that `next` gives, piece by piece, into `content`. Returns whether they are a
// whole deflated stream of that content and nothing more.
template <class Next>
bool inflates_to(std::span<std::byte> content, const std::string& source, const Next& next) {
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK)
    throw IoError(source + ": zlib: no memory to unpack");
  struct End {
    z_stream& stream;
    ~End() { inflateEnd(&stream); }
  } const end{stream};
  constexpr std::size_t kPiece = std::size_t{1} << 30;  // zlib counts with 32 bits
  std::size_t given = 0;
  int status = Z_OK;
  std::byte none{};
  while (status == Z_OK) {
    if (stream.avail_in == 0) {
      const std::span<const std::byte> piece = next();
      stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(piece.data()));
      stream.avail_in = static_cast<uInt>(piece.size());
    }
    const std::size_t out = std::min(kPiece, content.size() - given);
    stream.next_out = reinterpret_cast<Bytef*>(out > 0 ? content.data() + given : &none);
    stream.avail_out = static_cast<uInt>(out);
    status = inflate(&stream, Z_NO_FLUSH);
    given += out - stream.avail_out;
  }
  return status == Z_STREAM_END && given == content.size() && stream.avail_in == 0 &&
         next().empty();
}

}  // namespace

std::vector<ZipEntry> read_zip(const platform::MappedFile& archive, const std::string& source) {
  return Archive(archive, source).entries();
}

UnpackLimit::UnpackLimit(std::uint64_t wanted, std::uint64_t archive_bytes)
    : most_(wanted != 0 ? wanted : kFreeBytes + kGrowth * archive_bytes), left_(most_) {}

void UnpackLimit::spend(std::uint64_t bytes, const std::string& source) {
  if (bytes > left_)
    throw IoError(
        fmt::format("{}: its compressed entries unpack to more than {} bytes; "
                    "{{.max_unpacked_bytes = ...}} of LoadOptions allows more",
                    source, most_));
  left_ -= bytes;
}

OwnedBytes read_entry(const platform::MappedFile& archive, const ZipEntry& entry,
                      UnpackLimit& limit, const std::string& source) {
  if (!entry.deflated) {
    const OwnedBytes content(entry.size, source);
    archive.read(entry.begin, content.bytes());
    return content;
  }
  limit.spend(entry.size, source);
  const OwnedBytes content(entry.size, source);
  constexpr std::uint64_t kPiece = std::uint64_t{1} << 18;
  std::vector<std::byte> piece(std::min(kPiece, entry.packed));
  std::uint64_t taken = 0;
  const auto next = [&] {
    const std::span<std::byte> read =
        std::span(piece).first(std::min<std::uint64_t>(piece.size(), entry.packed - taken));
    archive.read(entry.begin + taken, read);
    taken += read.size();
    return read;
  };
  if (!inflates_to(content.bytes(), source, next))
    throw IoError(
        fmt::format("{}: entry {}: its deflated data is damaged", source, json_quoted(entry.name)));
  return content;
}

void check_crc(const ZipEntry& entry, std::span<const std::byte> content,
               const std::string& source) {
  if (crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), content.size()) != entry.crc)
    throw IoError(fmt::format("{}: entry {}: its CRC does not match its content", source,
                              json_quoted(entry.name)));
}

}  // namespace volta::io
