// Limits of readers: memory and time in proportion to the file, whatever the file claims. The
// bounds are those of SECURITY.md.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <zlib.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "encoding/json.h"
#include "io/io_files.h"
#include "io/name_glob.h"
#include "io/safetensors/shards.h"
#include "io/zip/zip.h"
#include "platform/files.h"
#include "support/peak_memory.h"
#include "volta/data/csv.h"
#include "volta/data/idx.h"
#include "volta/data/images.h"
#include "volta/data/text.h"
#include "volta/io/checkpoint.h"
#include "volta/io/npy.h"
#include "volta/io/state_dict_mapper.h"
#include "volta/models.h"
#include "volta/safetensors.h"
#include "volta/text/tokenizer.h"
#include "volta/volta.h"

namespace volta {
namespace {

double seconds_of(const std::function<void()>& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

class Bounds : public TemporaryFolder {
 protected:
  // A zip archive of entries that unpack to the given contents.
  std::string archive(const std::string& name,
                      const std::vector<std::pair<std::string, std::string>>& entries,
                      bool deflated = true) const {
    platform::AtomicFile file(path(name));
    io::ZipWriter writer(file);
    for (const auto& [entry, content] : entries)
      writer.add(entry, std::as_bytes(std::span(content)), {}, deflated);
    writer.finish();
    file.commit();
    return path(name);
  }
  std::uint64_t size_of_file(const std::string& file) const {
    return std::filesystem::file_size(file);
  }
};

// ---- safetensors.

std::string header_of(int tensors, const std::string& prefix) {
  std::string header = "{";
  for (int i = 0; i < tensors; ++i) {
    if (i > 0) header += ',';
    header +=
        '"' + prefix + std::to_string(i) + R"(":{"dtype":"F32","shape":[0],"data_offsets":[0,0]})";
  }
  return header + "}";
}

TEST_F(Bounds, AHeaderOfFiftyMegabytesTakesThreeTimesItsSize) {
  const std::string header = header_of(500'000, "transformer.h.0.attention.self.query.weight.");
  const std::string file = put("many.safetensors", safetensors_bytes(header));
  double seconds = 0;
  const std::uint64_t peak = peak_bytes([&] {
    seconds = seconds_of([&] { EXPECT_EQ(SafetensorsFile(file).tensors().size(), 500'000u); });
  });
  EXPECT_LT(peak, 3 * header.size());
  RecordProperty("peak_per_byte", std::to_string(static_cast<double>(peak) / header.size()));
  RecordProperty("seconds", std::to_string(seconds));
}

TEST_F(Bounds, AMillionOfTheShortestTensorsTakesFourTimesTheHeader) {
  const std::string header = header_of(1'000'000, "");
  const std::string file = put("many.safetensors", safetensors_bytes(header));
  const std::uint64_t peak = peak_bytes([&] { const SafetensorsFile opened(file); });
  EXPECT_LT(peak, 4 * header.size());
  RecordProperty("peak_per_byte", std::to_string(static_cast<double>(peak) / header.size()));
}

// What is wrong with a long header is told as that of a short one is, though its text is discarded
// while it is read.
TEST_F(Bounds, ProblemsAtTheEndOfALongHeader) {
  const std::string good = header_of(100'000, "a"), first = "\"a0\":";
  ASSERT_GT(good.size(), 5 * kMiB);
  const auto problem_with = [&](const std::string& end) {
    const std::string file =
        put("long.safetensors", safetensors_bytes(good.substr(0, good.size() - 1) + end));
    return problem_of([&] { SafetensorsFile{file}; }).substr(file.size());
  };
  const std::string tensor = R"({"dtype":"F32","shape":[0],"data_offsets":[0,0]})";
  EXPECT_EQ(problem_with("," + first + tensor + "}"),
            ": header: not valid JSON at byte " +
                std::to_string(good.size() + 1 + 5 + tensor.size()) + ": key \"a0\" occurs twice");
  EXPECT_EQ(problem_with(R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[0,0]}})"),
            ": tensor \"b\": data_offsets [0, 0] hold 0 bytes, which is not the size of F32 [1]");
  EXPECT_NE(problem_with("").find("not valid JSON"), std::string::npos);
}

TEST_F(Bounds, HeadersThatAreNoTensorsTakeLittle) {
  const std::uint64_t megabytes = 16 * kMiB;
  for (const auto& [begin, unit, end] :
       {std::tuple{R"({"t":{"dtype":"U8","data_offsets":[0,0],"shape":[0)", ",0", "]}}"},
        {R"({"t":{"x":[0)", ",[]", "]}}"},
        {R"({"t":{"x":[0)", R"(,{"a":0})", "]}}"},
        {R"({"t":{"dtype":")", "x", R"("}})"},
        {R"({"__metadata__":{"a":")", "x", R"("}})"}}) {
    std::string header = begin;
    while (header.size() < megabytes) header += unit;
    const std::string file = put("odd.safetensors", safetensors_bytes(header + end));
    const std::uint64_t peak = peak_bytes([&] { problem_of([&] { SafetensorsFile{file}; }); });
    EXPECT_LT(peak, 4 * megabytes + 16 * kMiB) << begin;
  }
  std::string metadata = R"({"__metadata__":{"k":"")";
  for (int i = 0; i < 200'000; ++i) metadata += ",\"" + std::to_string(i) + "\":\"\"";
  const std::string file = put("metadata.safetensors", safetensors_bytes(metadata + "}}"));
  EXPECT_EQ(problem_of([&] { SafetensorsFile{file}; }),
            file + ": __metadata__ has more than 100000 entries");
}

// ---- JSON.

TEST_F(Bounds, ReadersOfJsonAreNotRecursive) {
  const std::string deep = R"({"a":)" + std::string(2'000'000, '[');
  EXPECT_NE(problem_of([&] { io::JsonReader(deep, "x").skip(); }).find("nested deeper than 64"),
            std::string::npos);
  for (const std::string& text :
       {deep, R"({"model_type":)" + std::string(100'000, '['), std::string(100'000, '{')}) {
    const std::string file = put("config.json", text);
    EXPECT_NE(problem_of([&] { models::read_gpt2_config(file); }), "(accepted)");
    EXPECT_NE(problem_of([&] { text::BPETokenizer::from_tokenizer_json(file); }), "(accepted)");
    EXPECT_NE(problem_of([&] { text::BPETokenizer::from_files(file, file); }), "(accepted)");
    EXPECT_NE(problem_of([&] { io::read_shard_index(file); }), "(accepted)");
  }
}

TEST_F(Bounds, JsonReaderWalks) {
  io::JsonReader reader(R"( {"a":[1,-2.5e3,"x\n"],"b":{"c":null},"d":[true,false],"e":7} )", "x");
  reader.begin_object();
  EXPECT_EQ(reader.next_key(), "a");
  reader.begin_array();
  EXPECT_TRUE(reader.next_item());
  EXPECT_EQ(reader.integer(), 1);
  EXPECT_TRUE(reader.next_item());
  EXPECT_EQ(reader.number(), "-2.5e3");
  EXPECT_TRUE(reader.next_item());
  EXPECT_EQ(reader.string(), "x\n");
  EXPECT_FALSE(reader.next_item());
  EXPECT_EQ(reader.next_key(), "b");
  const io::JsonReader::Raw raw = reader.skip();
  EXPECT_EQ(raw.text, R"({"c":null})");
  EXPECT_EQ(raw.at, 27u);
  EXPECT_EQ(reader.next_key(), "d");
  EXPECT_EQ(reader.integer(), std::nullopt);  // any other value is skipped
  EXPECT_EQ(reader.next_key(), "e");
  EXPECT_EQ(reader.kind(), io::JsonReader::Kind::number);
  EXPECT_EQ(reader.integer(), 7);
  EXPECT_EQ(reader.next_key(), std::nullopt);
  reader.finish();
}

TEST_F(Bounds, AnIndexTakesFewTimesItsSize) {
  std::string text = R"({"weight_map":{"a":"f.safetensors")";
  for (int i = 0; i < 400'000; ++i)
    text += ",\"model.layers.weight." + std::to_string(i) + R"(":"f.safetensors")";
  const std::string file = put("model.safetensors.index.json", text + "}}");
  const std::uint64_t peak = peak_bytes([&] {
    const io::ShardIndex index = io::read_shard_index(file);
    EXPECT_EQ(index.files, std::vector<std::string>{"f.safetensors"});
    ASSERT_NE(index.file_of("model.layers.weight.399999"), nullptr);
    EXPECT_EQ(index.file_of("model.layers.weight.400000"), nullptr);
  });
  EXPECT_LT(peak, 6 * text.size() + 16 * kMiB);
}

// ---- Compressed archives.

std::string npy_of(const std::string& descr, std::size_t elements, std::size_t size) {
  std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (" +
                       std::to_string(elements) + ",), }";
  header.resize(118, ' ');
  std::string file = "\x93NUMPY\1";
  file += '\0';
  file += '\x76';
  file += '\0';
  return file + header + std::string(elements * size, '\0');
}

TEST_F(Bounds, AnNpzThatUnpacksToAThousandTimesItsSizeIsRefused) {
  const std::string file = archive("zeros.npz", {{"a.npy", npy_of("|u1", 300 << 20, 1)}});
  ASSERT_LT(size_of_file(file), kMiB);
  std::string problem;
  const std::uint64_t peak = peak_bytes([&] { problem = problem_of([&] { load_npz(file); }); });
  const std::uint64_t allowed = 64 * kMiB + 32 * size_of_file(file);
  EXPECT_EQ(problem, file + ": its compressed entries unpack to more than " +
                         std::to_string(allowed) +
                         " bytes; {.max_unpacked_bytes = ...} of LoadOptions allows more");
  EXPECT_LT(peak, 80 * kMiB);
  EXPECT_EQ(load_npz(file, {.max_unpacked_bytes = 512 * kMiB}).at("a").numel(), 300 << 20);
}

TEST_F(Bounds, SeveralEntriesShareTheLimit) {
  std::vector<std::pair<std::string, std::string>> entries;
  for (int i = 0; i < 8; ++i)
    entries.emplace_back("a" + std::to_string(i) + ".npy", npy_of("|u1", 20 << 20, 1));
  const std::string file = archive("several.npz", entries);
  std::string problem;
  const std::uint64_t peak = peak_bytes([&] { problem = problem_of([&] { load_npz(file); }); });
  EXPECT_NE(problem.find("unpack to more than"), std::string::npos) << problem;
  EXPECT_LT(peak, 100 * kMiB);
}

TEST_F(Bounds, ASmallPickleDoesNotUnfold) {
  // 16 KB: a deflated pickle of sixteen million empty lists.
  const std::string lists = "\x80\2" + std::string(16 << 20, ']') + ".";
  const std::string file = archive("lists.pt", {{"m/data.pkl", lists}});
  ASSERT_LT(size_of_file(file), 20'000u);
  std::string problem;
  const std::uint64_t peak = peak_bytes([&] { problem = problem_of([&] { load(file); }); });
  EXPECT_NE(problem.find("its values take more than"), std::string::npos) << problem;
  EXPECT_LT(peak, 128 * kMiB);
  // An uncompressed archive of the same pickle needs at most four times the file plus 64 MiB.
  const std::string large = archive("stored.pt", {{"m/data.pkl", lists}}, false);
  const std::uint64_t stored = peak_bytes([&] { problem = problem_of([&] { load(large); }); });
  EXPECT_NE(problem.find("its values take more than"), std::string::npos) << problem;
  EXPECT_LT(stored, 6 * lists.size() + 80 * kMiB);
}

TEST_F(Bounds, AGzipFileThatUnpacksToAThousandTimesItsSizeIsRefused) {
  std::string idx("\0\0\x08\1\x10\0\0\0", 8);
  idx.resize(8 + (std::size_t{256} << 20));
  const std::string file = path("zeros.gz");
  gzFile gz = gzopen(file.c_str(), "wb9");
  for (std::size_t at = 0; at < idx.size(); at += kMiB)
    gzwrite(gz, idx.data() + at,
            static_cast<unsigned>(std::min<std::size_t>(kMiB, idx.size() - at)));
  gzclose(gz);
  std::string problem;
  const std::uint64_t peak =
      peak_bytes([&] { problem = problem_of([&] { data::read_idx(file); }); });
  EXPECT_NE(problem.find("unpack the file with gunzip to read it"), std::string::npos) << problem;
  EXPECT_LT(peak, 8 * kMiB);
}

// ---- Counts.

TEST_F(Bounds, SizesOfModelsAreChecked) {
  for (const char* key : {"n_layer", "n_embd", "n_head", "n_positions", "vocab_size", "n_inner"}) {
    const std::string file =
        put("config.json", R"({"model_type":"gpt2",")" + std::string(key) + R"(":4294967296})");
    EXPECT_NE(problem_of([&] {
                models::read_gpt2_config(file);
              }).find("\"" + std::string(key) + "\" is no size: \"4294967296\""),
              std::string::npos)
        << key;
  }
  EXPECT_EQ(problem_of([] { models::GPT2({.n_layer = std::int64_t{1} << 32}); }),
            "GPT2: n_layer must be 1 to 10000, got 4294967296");
  EXPECT_EQ(problem_of([] { models::CharLSTM(10, {.layers = std::int64_t{1} << 32}); }),
            "LSTM: num_layers must be 1 to 10000, got 4294967296");
}

// Also numbers that are no doubles, in whose place there was once a default.
TEST_F(Bounds, NumbersOfModelsAreChecked) {
  const auto problem_with = [&](const std::string& key, const std::string& value) {
    const std::string file =
        put("config.json", R"({"model_type":"gpt2",")" + key + "\":" + value + "}");
    return problem_of([&] { models::read_gpt2_config(file); });
  };
  for (const std::string key : {"resid_pdrop", "embd_pdrop", "attn_pdrop"}) {
    for (const std::string value : {"-0.1", "1.5", "1e400", "1e-400"})
      EXPECT_EQ(problem_with(key, value), path("config.json") + ": \"" + key + "\" is \"" + value +
                                              "\", expected is a number from 0 to 1");
    EXPECT_EQ(problem_with(key, "1"), "(accepted)");
  }
  for (const std::string key : {"layer_norm_epsilon", "initializer_range"}) {
    for (const std::string value : {"-1e-5", "1e400"})
      EXPECT_EQ(problem_with(key, value), path("config.json") + ": \"" + key + "\" is \"" + value +
                                              "\", expected is a number from 0 to 1.798e+308");
    EXPECT_EQ(problem_with(key, "0"), "(accepted)");
    EXPECT_EQ(problem_with(key, "\"x\""), path("config.json") + ": \"" + key + "\" is no number");
  }
}

TEST_F(Bounds, AConfigurationOfALargerModelThanTheWeightsIsRefused) {
  put("config.json", R"({"model_type":"gpt2","n_layer":10000,"n_embd":262144,"n_head":1})");
  save({{"wte.weight", ones({4, 4})}}, path("model.safetensors"));
  const std::string problem = problem_of([&] { models::GPT2::from_pretrained(folder_.string()); });
  EXPECT_NE(problem.find("config.json: it describes a model of 8.246e+15 weights"),
            std::string::npos)
      << problem;
}

// ---- Names.

TEST_F(Bounds, LongNamesDoNotOverflowTheStack) {
  const std::string name(200'000, 'a');
  const StateDict state = {{name, ones({1})}};
  const std::string problem =
      problem_of([&] { StateDictMapper().rename(NamePattern::regex("^(a|b)*$"), "x")(state); });
  EXPECT_NE(problem.find("a name of 200000 bytes"), std::string::npos) << problem;
  const StateDict renamed = StateDictMapper().rename(NamePattern::glob("a*"), "b$1")(state);
  EXPECT_EQ(renamed.begin()->first, "b" + name.substr(1));
}

TEST_F(Bounds, GlobsTakeTheProductOfTheLengths) {
  const io::NameGlob glob("*a*a*a*a*a*a*a*a*b");
  EXPECT_LT(seconds_of([&] { EXPECT_FALSE(glob.captures(std::string(20'000, 'a'))); }), 2);
  const std::string name = std::string(2'000, 'a') + "b";
  const auto captures = glob.captures(name);
  ASSERT_TRUE(captures);
  ASSERT_EQ(captures->size(), 9u);
  EXPECT_EQ(captures->front(), std::string(2'000 - 8, 'a'));
  EXPECT_EQ(captures->at(1), "");
}

TEST_F(Bounds, GlobsCaptureWhatTheirWildcardsMatched) {
  const auto replaced = [](const char* glob, const char* name, const char* to) {
    return NamePattern::glob(glob).replaced(name, to);
  };
  EXPECT_EQ(replaced("h.*.attn.?", "h.10.attn.w", "blocks.$1.$2"), "blocks.10.w");
  EXPECT_EQ(replaced("*.*", "a.b.c", "$1|$2"), "a.b|c");
  EXPECT_EQ(replaced("[a-c]x*", "bx", "$1,$2,$$,$&"), "b,,$,bx");
  EXPECT_EQ(replaced("[!a]", "a", "z"), "a");  // no match
  EXPECT_EQ(NamePattern::glob("a*").text(), "glob \"a*\"");
}

// ---- Paths that are not files.

TEST_F(Bounds, PipesDevicesAndSocketsAreNotOpened) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path("socket").copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  std::filesystem::create_symlink(path("pipe"), path("link"));
  for (const std::string& file : {path("pipe"), path("socket"), path("link"),
                                  std::string("/dev/zero"), std::string("/dev/tty")}) {
    const std::string wanted = file + ": cannot read: not a regular file";
    EXPECT_EQ(problem_of([&] { load(file); }), wanted);
    EXPECT_EQ(problem_of([&] { load_npz(file); }), wanted);
    EXPECT_EQ(problem_of([&] { load_npy(file); }), wanted);
    EXPECT_EQ(problem_of([&] { SafetensorsFile{file}; }), wanted);
    EXPECT_EQ(problem_of([&] { load_checkpoint(file, {}); }), wanted);
    EXPECT_EQ(problem_of([&] { models::read_gpt2_config(file); }), wanted);
    EXPECT_EQ(problem_of([&] { text::BPETokenizer::from_tokenizer_json(file); }), wanted);
    EXPECT_EQ(problem_of([&] { data::read_idx(file); }), wanted);
    EXPECT_EQ(problem_of([&] { data::read_csv(file); }), wanted);
    EXPECT_EQ(problem_of([&] { data::read_image(file); }), wanted);
    EXPECT_EQ(problem_of([&] { data::CharCorpus::from_file(file); }), wanted);
    EXPECT_EQ(problem_of([&] { data::cifar10_files({file}); }), wanted);
  }
  ::close(socket);
}

}  // namespace
}  // namespace volta
