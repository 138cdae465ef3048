// Images: the pixels of every kind of file, scaling, folders of classes, damaged files.
#include "volta/data/images.h"
#include "support/paths.h"

#include <fstream>
#include <iterator>

#include "data/data_testing.h"
#include "volta/data.h"
#include "volta/volta.h"

using namespace volta;
using namespace volta::data_testing;

namespace {

std::string corpus_path(const std::string& name) {
  return volta::paths::golden_dir() + "/../fuzz/corpus/image/" + name;
}
std::string corpus_file(const std::string& name) {
  std::ifstream stream(corpus_path(name), std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// Converts back to bytes, channel by channel.
std::vector<int> pixels(const Tensor& image) {
  std::vector<int> values;
  for (const float value : image.to_vector<float>())
    values.push_back(static_cast<int>(value * 255 + 0.5f));
  return values;
}

bool readable(const std::string& name) {
  try {
    data::read_image(corpus_path(name));
    return true;
  } catch (const IoError& error) {
    EXPECT_NE(std::string(error.what()).find("but this Volta was built without lib"),
              std::string::npos)
        << error.what();
    return false;
  }
}

}  // namespace

TEST(Images, PngOfEveryKind) {
  if (!readable("colour.png")) GTEST_SKIP() << "built without the library for colour.png";
  const std::vector<int> colour{255, 0, 0,  255, 0, 10,  0,   255, 0,
                                255, 0, 20, 0,   0, 255, 255, 0,   30};
  const Tensor image = data::read_image(corpus_path("colour.png"));
  EXPECT_EQ(image.shape(), (Shape{3, 2, 3}));
  EXPECT_EQ(pixels(image), colour);
  EXPECT_EQ(pixels(data::read_image(corpus_path("alpha.png"))), colour);
  EXPECT_EQ(pixels(data::read_image(corpus_path("colour.png"), {.channels = 1})),
            (std::vector<int>{76, 150, 29, 255, 0, 18}));
  EXPECT_EQ(pixels(data::read_image(corpus_path("grey.png"), {.channels = 1})),
            (std::vector<int>{0, 51, 255, 102, 153, 204}));
  EXPECT_EQ(pixels(data::read_image(corpus_path("palette.png"))),
            (std::vector<int>{255, 0, 0, 9, 0, 255, 0, 9, 0, 0, 255, 9}));
  EXPECT_EQ(pixels(data::read_image(corpus_path("deep.png"), {.channels = 1})),
            (std::vector<int>{0, 255}));
}

TEST(Images, Jpeg) {
  if (!readable("colour.jpg")) GTEST_SKIP() << "built without the library for colour.jpg";
  for (const char* name : {"colour.jpg", "progressive.jpg"}) {
    const Tensor image = data::read_image(corpus_path(name));
    EXPECT_EQ(image.shape(), (Shape{3, 8, 16}));
    const auto values = pixels(image);
    EXPECT_NEAR(values[0], 200, 3);
    EXPECT_NEAR(values[128], 100, 3);
    EXPECT_NEAR(values[256], 40, 3);
  }
  const auto ramp = pixels(data::read_image(corpus_path("grey.jpg"), {.channels = 1}));
  for (std::size_t i = 0; i < 16; ++i) EXPECT_NEAR(ramp[i], 16 * i, 6);
  const std::string whole = corpus_file("colour.jpg");
  for (const std::size_t size : {std::size_t{3}, whole.size() / 2, whole.size() - 12}) {
    expect_error<IoError>([&] { data::parse_image(bytes_of(whole.substr(0, size)), "cut.jpg"); },
                          {"cut.jpg: JPEG: "});
  }
  expect_error<IoError>([&] { data::parse_image(bytes_of(whole), "a.jpg", {.max_pixels = 100}); },
                        {"a.jpg: JPEG of 8 x 16 pixels: more than the 100 ", "max_pixels"});
}

// Inks as Adobe stores them, with 255 for none: white, red, black over yellow, half of everything.
TEST(Images, JpegsOfFourInks) {
  if (!readable("colour.jpg")) GTEST_SKIP() << "built without the library for colour.jpg";
  for (const char* name : {"cmyk.jpg", "ycck.jpg"}) {
    const Tensor image = data::read_image(corpus_path(name));
    ASSERT_EQ(image.shape(), (Shape{3, 8, 32})) << name;
    const auto values = pixels(image);
    const int expected[4][3] = {{255, 255, 255}, {255, 0, 0}, {0, 0, 0}, {64, 64, 64}};
    for (std::size_t block = 0; block < 4; ++block) {
      for (std::size_t c = 0; c < 3; ++c)
        EXPECT_NEAR(values[c * 256 + 3 * 32 + block * 8 + 4], expected[block][c], 3)
            << name << " block " << block << " channel " << c;
    }
  }
}

// Files that libjpeg reads with a complaint are read, with one warning.
TEST(Images, DamagedJpegsAreReadWithAWarning) {
  if (!readable("colour.jpg")) GTEST_SKIP() << "built without the library for colour.jpg";
  std::vector<std::string> told;
  set_log_handler([&](LogLevel, std::string_view message) { told.emplace_back(message); });
  const std::string whole = corpus_file("colour.jpg");
  std::string extra = whole;  // bytes without a marker after the first segment
  const auto length = static_cast<std::size_t>(static_cast<unsigned char>(whole[4]) * 256 +
                                               static_cast<unsigned char>(whole[5]));
  extra.insert(4 + length, "xyz");
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(pixels(data::parse_image(bytes_of(extra), "extra.jpg")),
              pixels(data::parse_image(bytes_of(whole), "whole.jpg")));
  }
  ASSERT_EQ(told.size(), 1u);
  EXPECT_TRUE(told[0].starts_with("extra.jpg: JPEG: Corrupt JPEG data: 3 extraneous bytes"))
      << told[0];
  // Damage inside the compressed data.
  const std::size_t scan = whole.find("\xFF\xDA");
  int damaged = 0;
  for (std::size_t at = scan + 14; at + 2 < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x55);
    const std::size_t before = told.size();
    try {
      const Tensor image =
          data::parse_image(bytes_of(changed), "changed" + std::to_string(at) + ".jpg");
      EXPECT_EQ(image.shape(), (Shape{3, 8, 16}));
      damaged += told.size() > before;
    } catch (const IoError&) {
      EXPECT_EQ(told.size(), before);
    }
  }
  EXPECT_GT(damaged, 0);
  set_log_handler({});
}

TEST(Images, Scaling) {
  if (!readable("grey.png")) GTEST_SKIP() << "built without the library for grey.png";
  const std::string path = corpus_path("grey.png");  // 0 51 255 / 102 153 204
  EXPECT_EQ(pixels(data::read_image(path, {.channels = 1, .height = 2, .width = 3})),
            (std::vector<int>{0, 51, 255, 102, 153, 204}));
  const Tensor large = data::read_image(path, {.channels = 1, .height = 4, .width = 3});
  EXPECT_EQ(large.shape(), (Shape{1, 4, 3}));
  // Half-pixel centres lie a quarter and three quarters of the way between the two rows.
  EXPECT_EQ(pixels(large.narrow(2, 0, 1)), (std::vector<int>{0, 26, 77, 102}));
  const auto one = pixels(data::read_image(path, {.channels = 1, .height = 1, .width = 1}));
  EXPECT_NEAR(one[0], 122, 6);  // roughly the mean
  expect_error<ArgumentError>([&] { data::read_image(path, {.height = 4}); }, {"go together"});
  expect_error<ArgumentError>([&] { data::read_image(path, {.channels = 2}); },
                              {"channels must be 1 or 3"});
}

TEST(Images, DamagedFilesAreRefused) {
  if (!readable("colour.png")) GTEST_SKIP() << "built without the library for colour.png";
  std::string whole = corpus_file("colour.png");
  expect_error<IoError>([&] { data::parse_image(bytes_of(whole.substr(0, 50)), "cut.png"); },
                        {"cut.png: PNG: "});
  std::string changed = whole;
  changed[45] = static_cast<char>(changed[45] ^ 1);
  expect_error<IoError>([&] { data::parse_image(bytes_of(changed), "a.png"); }, {"a.png: PNG: "});
  expect_error<IoError>([] { data::read_image(corpus_path("huge.png")); },
                        {"60000 x 60000 pixels: more than the 4"});
  expect_error<IoError>([] { data::parse_image(bytes_of("GIF89a"), "a.gif"); },
                        {"a.gif: neither a PNG nor a JPEG file"});
  expect_error<IoError>([] { data::parse_image({}, "empty"); }, {"empty: neither"});
}

TEST(Images, FoldersOfClasses) {
  if (!readable("colour.png")) GTEST_SKIP() << "built without the library for colour.png";
  const Folder folder;
  const std::string png = corpus_file("colour.png");
  folder.write("dog/2.png", png);
  folder.write("dog/1.PNG", png);
  folder.write("cat/a.png", corpus_file("grey.png"));
  folder.write("cat/notes.txt", "no picture");
  folder.write("readme", "");
  const data::ImageFolder pictures(folder.path());
  EXPECT_EQ(pictures.classes(), (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(pictures.size(), 3);
  EXPECT_EQ(pictures.path(1), folder / "dog/1.PNG");
  EXPECT_EQ(pictures.get(2).y.item<std::int64_t>(), 1);
  data::DataLoader loader(pictures, {.batch_size = 3, .workers = 2});
  for (auto [x, y] : loader) {
    EXPECT_EQ(x.shape(), (Shape{3, 3, 2, 3}));
    EXPECT_EQ(y.to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 1, 1}));
  }
  folder.write("dog/0.png", "broken");
  data::DataLoader broken{data::ImageFolder(folder.path()), {.batch_size = 2}};
  expect_error<IoError>(
      [&] {
        for (auto [x, y] : broken) EXPECT_TRUE(x.defined());
      },
      {"DataLoader: example 1: ", "dog/0.png: neither a PNG nor a JPEG file"});
  const Folder empty;
  expect_error<IoError>([&] { data::ImageFolder{empty.path()}; }, {"no subfolder has a .png"});
  expect_error<IoError>([&] { data::ImageFolder{empty / "absent"}; }, {"cannot list"});
}

// The order of torchvision's ImageFolder: sorted(os.walk(class)), then sorted(files).
TEST(Images, FoldersAreWalkedToTheirEnds) {
  if (!readable("colour.png")) GTEST_SKIP() << "built without the library for colour.png";
  const Folder folder;
  const std::string png = corpus_file("colour.png");
  for (const char* name : {"a/z.png", "a/sub/1.png", "a/sub-b/2.png", "a/sub/deep/3.JPG",
                           "b/only/below/4.jpeg", "a/sub/5.png"})
    folder.write(name, png);
  std::filesystem::create_directory_symlink(folder / "a", folder / "a/sub/again");  // a cycle
  std::filesystem::create_directory_symlink(folder / "b/only", folder / "a/linked");
  const data::ImageFolder pictures(folder.path());
  std::vector<std::string> found;
  for (std::int64_t i = 0; i < pictures.size(); ++i)
    found.push_back(pictures.path(i).substr(folder.path().size() + 1));
  EXPECT_EQ(found, (std::vector<std::string>{"a/z.png", "a/linked/below/4.jpeg", "a/sub/1.png",
                                             "a/sub/5.png", "a/sub-b/2.png", "a/sub/deep/3.JPG",
                                             "b/only/below/4.jpeg"}));
  EXPECT_EQ(pictures.get(6).y.item<std::int64_t>(), 1);

  folder.write("c/notes.txt", "");
  folder.write("d/below/notes.txt", "");
  expect_error<IoError>([&] { data::ImageFolder{folder.path()}; },
                        {"no .png, .jpg or .jpeg file for the classes 'c', 'd'"});
  const data::ImageFolder allowed(folder.path(), {}, {.allow_empty = true});
  EXPECT_EQ(allowed.classes(), (std::vector<std::string>{"a", "b", "c", "d"}));
  EXPECT_EQ(allowed.size(), pictures.size());
}
