// The fuzzers' corpora with every prefix and with changed bytes: each input gives values or an
// error.
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

#include "data/data_testing.h"
#include "fuzz/data_targets.h"
#include "support/paths.h"
#include "volta/data/random.h"

using volta::data_testing::bytes_of;

namespace {

using Target = std::function<bool(std::span<const std::byte>)>;

void replay(const std::string& format, const Target& target) {
  int files = 0, read = 0;
  const std::filesystem::path folder =
      std::filesystem::path(volta::paths::golden_dir()).parent_path() / "fuzz" / "corpus" / format;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream stream(entry.path(), std::ios::binary);
    const std::string whole{std::istreambuf_iterator<char>(stream), {}};
    ++files;
    read += target(bytes_of(whole));
    const std::size_t step = whole.size() / 400 + 1;
    // The copy has memory of its own, so that a sanitizer notices reads past the end.
    for (std::size_t size = 0; size < whole.size(); size += step)
      target(bytes_of(std::string(whole.data(), size)));
    volta::data::Random random(whole.size());
    for (int i = 0; i < 400; ++i) {
      std::string changed = whole;
      for (int k = 0; k <= i % 3 && !changed.empty(); ++k)
        changed[random.below(changed.size())] = static_cast<char>(random.next());
      target(bytes_of(changed));
    }
  }
  EXPECT_GT(files, 0);
  EXPECT_GT(read, 0) << "no file of the corpus is sound";
}

}  // namespace

TEST(Corpora, Idx) { replay("idx", volta::fuzz::idx); }
TEST(Corpora, Csv) { replay("csv", volta::fuzz::csv); }
TEST(Corpora, Image) { replay("image", volta::fuzz::image); }
TEST(Corpora, Cifar) { replay("cifar", volta::fuzz::cifar); }
