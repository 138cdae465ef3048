// gzip through zlib.
#include <zlib.h>

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "data/codecs/codecs.h"
#include "volta/error.h"

namespace volta::data {
namespace {

class Inflater {
 public:
  Inflater(std::span<const std::byte> file, const std::string& name) : name_(name), left_(file) {
    constexpr int kGzipOnly = 16 + MAX_WBITS;
    if (inflateInit2(&stream_, kGzipOnly) != Z_OK) throw IoError(name + ": zlib does not start");
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  // Fills `to` as far as there is content and returns the number of bytes.
  std::size_t read(std::span<std::byte> to) {
    std::size_t done = 0;
    while (done < to.size() && !ended_) {
      constexpr std::size_t kMostAtOnce = std::numeric_limits<uInt>::max();
      if (stream_.avail_in == 0) {
        const std::size_t piece = std::min(left_.size(), kMostAtOnce);
        // zlib does not write to its input.
        stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(left_.data()));
        stream_.avail_in = static_cast<uInt>(piece);
        left_ = left_.subspan(piece);
      }
      const std::size_t space = std::min(to.size() - done, kMostAtOnce);
      stream_.next_out = reinterpret_cast<Bytef*>(to.data() + done);
      stream_.avail_out = static_cast<uInt>(space);
      const int status = inflate(&stream_, Z_NO_FLUSH);
      done += space - stream_.avail_out;
      if (status == Z_STREAM_END) {
        ended_ = true;
      } else if (status == Z_BUF_ERROR && left_.empty() && stream_.avail_in == 0) {
        throw IoError(name_ + ": gzip data ends early");
      } else if (status != Z_OK && status != Z_BUF_ERROR) {
        throw IoError(fmt::format("{}: gzip: {}", name_,
                                  stream_.msg != nullptr ? stream_.msg : "damaged data"));
      }
    }
    return done;
  }

 private:
  const std::string& name_;
  std::span<const std::byte> left_;
  z_stream stream_{};
  bool ended_ = false;
};

}  // namespace

std::vector<std::byte> gunzip(
    std::span<const std::byte> file, const std::string& name, std::size_t head_bytes,
    const std::function<std::uint64_t(std::span<const std::byte>)>& wanted) {
  Inflater inflater(file, name);
  std::vector<std::byte> content(head_bytes);
  content.resize(inflater.read(content));
  const std::uint64_t bytes = wanted(content);
  if (bytes > kMaxInflation * file.size() || bytes < content.size()) {
    throw IoError(fmt::format("{}: {} bytes of gzip data cannot be the {} bytes that are announced",
                              name, file.size(), bytes));
  }
  if (bytes > kUsualInflation * file.size() + kFreeInflation) {
    throw IoError(
        fmt::format("{}: {} bytes of gzip data announce {}, more than {} times as many: unpack the "
                    "file with gunzip to read it",
                    name, file.size(), bytes, kUsualInflation));
  }
  const std::size_t head = content.size();
  content.resize(bytes);
  const std::size_t done = head + inflater.read(std::span(content).subspan(head));
  if (done < bytes)
    throw IoError(fmt::format("{}: {} bytes where {} are announced", name, done, bytes));
  std::byte more;
  if (inflater.read({&more, 1}) != 0)
    throw IoError(fmt::format("{}: more than the {} bytes that are announced", name, bytes));
  return content;
}

LibraryInfo gzip_library() { return {.name = "zlib", .version = zlibVersion()}; }

}  // namespace volta::data
