// Files of torch.save: PyTorch's exact values (tests/golden/make_torch_files.py), refused files and
// their messages, and malicious files.
#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <map>
#include <numeric>
#include <set>

#include "fuzz/memory_file.h"
#include "io/io_files.h"
#include "io/zip/zip.h"
#include "support/paths.h"
#include "support/test_device.h"
#include "volta/io/npy.h"
#include "volta/io/state_dict_mapper.h"
#include "volta/volta.h"

namespace volta {
namespace {

namespace fs = std::filesystem;

using TorchFiles = TemporaryFolder;

const fs::path kFolder = fs::path(paths::golden_dir()) / "torch_files";

std::string golden_file(const std::string& name) { return (kFolder / (name + ".pt")).string(); }

void expect_equal(const Tensor& loaded, const Tensor& wanted, const std::string& name) {
  ASSERT_EQ(loaded.dtype(), wanted.dtype()) << name;
  ASSERT_EQ(loaded.shape(), wanted.shape()) << name;
  const Tensor here = loaded.to(Device::cpu()).contiguous();
  const auto a = here.span<std::byte>(), b = wanted.span<std::byte>();
  EXPECT_TRUE(std::ranges::equal(a, b)) << name << ": " << here << " is not " << wanted;
}

// The content that PyTorch reports, by file.
std::map<std::string, StateDict> expected() {
  std::map<std::string, StateDict> files;
  for (const auto& [name, tensor] : load((kFolder / "expected.safetensors").string())) {
    const std::size_t slash = name.find('/');
    files[name.substr(0, slash)].add(name.substr(slash + 1), tensor);
  }
  return files;
}

void expect_file(const std::string& path, const StateDict& wanted, Device device) {
  const StateDict loaded = load(path, {.device = device});
  EXPECT_EQ(loaded.size(), wanted.size()) << path;
  for (const auto& [name, tensor] : wanted) {
    ASSERT_TRUE(loaded.contains(name)) << path << ": " << name;
    EXPECT_EQ(loaded.at(name).device(), device);
    expect_equal(loaded.at(name), tensor, path + ": " + name);
  }
}

TEST_F(TorchFiles, HavePyTorchsValues) {
  const std::map<std::string, StateDict> files = expected();
  EXPECT_EQ(files.size(), 12u);
  for (const auto& [file, wanted] : files) {
    expect_file(golden_file(file), wanted, Device::cpu());
    if (test_device() != Device::cpu()) expect_file(golden_file(file), wanted, test_device());
  }
  expect_file(golden_file("deflated"), files.at("views"), test_device());
  EXPECT_TRUE(load(golden_file("empty")).empty());
}

TEST_F(TorchFiles, TensorsComeInTheOrderOfTheDict) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : load(golden_file("state_dict"))) names.push_back(name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"conv.weight", "conv.bias", "norm.weight", "norm.bias",
                                      "norm.running_mean", "norm.running_var",
                                      "norm.num_batches_tracked", "embed.weight", "head.weight"}));
}

struct Net : nn::Module {
  nn::Conv2d conv{1, 2, 3};
  nn::BatchNorm2d norm{2};
  nn::Embedding embed{4, 3};
  nn::Linear head{3, 4, {.bias = false}};
  Net() {
    add("conv", conv);
    add("norm", norm);
    add("embed", embed);
    add("head", head);
  }
  Tensor forward(const Tensor& x) override { return norm(conv(x)); }
};

TEST_F(TorchFiles, LoadIntoModules) {
  Net net;
  net.load_state_dict(load(golden_file("state_dict")));
  expect_equal(net.conv.weight, load(golden_file("state_dict")).at("conv.weight"), "conv.weight");
  // A training checkpoint has the same weights.
  Net again;
  again.load_state_dict(StateDictMapper()
                            .select(NamePattern::regex("^model\\."))
                            .strip("model.")(load(golden_file("checkpoint_protocol2"))));
  const StateDict trained = expected().at("checkpoint_protocol2");
  expect_equal(again.embed.weight, trained.at("model.embed.weight"), "embed.weight");
}

TEST_F(TorchFiles, TensorsLieInTheMappedFileWhereThatIsAskedFor) {
  fs::copy_file(golden_file("views"), path("views.pt"));
  const auto is_mapped = [&](const void* pointer) {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      std::uintptr_t begin = 0, end = 0;
      const int read = std::sscanf(line.c_str(), "%zx-%zx", &begin, &end);
      const auto at = reinterpret_cast<std::uintptr_t>(pointer);
      if (read == 2 && line.find(path("views.pt")) != std::string::npos &&
          (pointer == nullptr || (begin <= at && at < end)))
        return true;
    }
    return false;
  };
  Tensor row;
  {
    const StateDict state = load(path("views.pt"), {.mapped = true});
    row = state.at("row");
    EXPECT_TRUE(is_mapped(state.at("whole").span<float>().data()));
    EXPECT_TRUE(is_mapped(state.at("odd_bytes").span<std::uint8_t>().data()));
    EXPECT_FALSE(is_mapped(state.at("part").span<float>().data()));
  }
  EXPECT_TRUE(is_mapped(row.span<float>().data()));
  row += 1;  // gets memory of its own
  EXPECT_EQ(row.to_vector<float>()[0], 21);
  EXPECT_FALSE(is_mapped(nullptr));
  EXPECT_EQ(load(path("views.pt")).at("row").to_vector<float>()[0], 20);
}

// PyTorch stores the CRCs of its entries, unless an option leaves them out; then they are 0.
TEST_F(TorchFiles, AFlippedBitIsFound) {
  const std::string bytes = platform::read_file(golden_file("state_dict"));
  int flips = 0;
  const platform::MappedFile archive(golden_file("state_dict"));
  for (const io::ZipEntry& entry : io::read_zip(archive, "golden")) {
    if (entry.name.find("/data/") == std::string::npos || entry.packed == 0) continue;
    std::string flipped = bytes;
    flipped[entry.begin] ^= 1;
    const std::string problem = problem_of([&] { load(put("flipped.pt", flipped)); });
    EXPECT_EQ(problem, path("flipped.pt") + ": entry \"" + entry.name +
                           "\": its CRC does not match its content");
    for (std::size_t i = 0; i + 46 < flipped.size(); ++i)  // the entries of the directory
      if (flipped.compare(i, 4, "PK\1\2") == 0) flipped.replace(i + 16, 4, 4, '\0');
    EXPECT_EQ(load(put("without.pt", flipped)).size(), load(golden_file("state_dict")).size());
    ++flips;
  }
  EXPECT_GE(flips, 2);
}

TEST_F(TorchFiles, AFolderMayHavePyTorchsFile) {
  const std::map<std::string, StateDict> files = expected();
  fs::copy_file(golden_file("state_dict"), path("pytorch_model.bin"));
  expect_file(folder_.string(), files.at("state_dict"), Device::cpu());
  fs::remove(path("pytorch_model.bin"));
  fs::copy_file(golden_file("scalar"), path("pytorch_model-00001-of-00002.bin"));
  fs::copy_file(golden_file("parameter"), path("pytorch_model-00002-of-00002.bin"));
  put("pytorch_model.bin.index.json",
      R"({"weight_map": {"s": "pytorch_model-00001-of-00002.bin",
                         "i": "pytorch_model-00001-of-00002.bin",
                         "p": "pytorch_model-00002-of-00002.bin",
                         "q": "pytorch_model-00002-of-00002.bin"}})");
  StateDict both;
  for (const char* file : {"scalar", "parameter"})
    for (const auto& [name, tensor] : files.at(file)) both.add(name, tensor);
  expect_file(folder_.string(), both, Device::cpu());
}

// Returns the message of load() for a file, without the path.
std::string problem_in(const std::string& path) {
  const std::string message = problem_of([&] { load(path); });
  return message.starts_with(path + ": ") ? message.substr(path.size() + 2) : message;
}

TEST_F(TorchFiles, WhatIsNotReadIsNamed) {
  const std::string advice =
      "torch.save(model.state_dict(), path), or convert it to safetensors: "
      "safetensors.torch.save_file(model.state_dict(), path)";
  EXPECT_EQ(problem_in(golden_file("module")),
            "it has an object of Python's \"__main__.Net\", and no code is run to read it: save "
            "the tensors alone, " +
                advice);
  EXPECT_EQ(problem_in(golden_file("script")),
            "a TorchScript archive has code: save its tensors alone, "
            "torch.save(torch.jit.load(path).state_dict(), path), or convert it to safetensors: "
            "safetensors.torch.save_file(model.state_dict(), path)");
  const auto problem_of_x = [](const std::string& name) {
    const std::string file = golden_file(name);
    return problem_of([&] { load(file).at("x"); }).substr(file.size() + 2);
  };
  EXPECT_EQ(problem_of_x("sparse"),
            "tensor \"x\": sparse tensors are not supported: save x.to_dense() "
            "(torch._utils._rebuild_sparse_tensor)");
  EXPECT_EQ(problem_in(golden_file("negated")),
            "tensor \"x\": it is a view of other signs than its storage: save x.resolve_neg() or "
            "x.resolve_conj()");
  EXPECT_EQ(problem_of_x("dtype_complex64"),
            "tensor \"x\": dtype torch.complex64 is not supported: convert it before it is saved, "
            "x.to(torch.float32) or another of Volta's dtypes");
  save_npz({{"a", ones({2})}}, path("a.npz"));
  EXPECT_EQ(problem_in(path("a.npz")),
            "a zip archive without a data.pkl is no file of torch.save; load_npz reads NumPy's "
            "archives");
}

// A tensor that cannot be read does not prevent the others from being read.
TEST_F(TorchFiles, OtherDtypesAreWidenedOrLeftOut) {
  for (const std::string dtype : {"int8", "int16", "uint16", "float8_e4m3fn"}) {
    const Tensor x = load(golden_file("dtype_" + dtype)).at("x");
    EXPECT_EQ(x.dtype(), dtype[0] == 'f' ? DType::f32 : DType::i32) << dtype;
    EXPECT_EQ(x.sum().item(), 2) << dtype;
  }
  for (const Device device : {Device::cpu(), test_device()}) {
    const StateDict state = load(golden_file("mixed"), {.device = device});
    EXPECT_EQ(state.at("w").to_vector<float>(), (std::vector<float>{0, 1, 2, 3}));
    EXPECT_EQ(state.at("i8").to_vector<std::int32_t>(), (std::vector<std::int32_t>{-128, 0, 127}));
    EXPECT_EQ(state.at("i8_turned").contiguous().to_vector<std::int32_t>(),
              (std::vector<std::int32_t>{0, 3, 1, 4, 2, 5}));
    EXPECT_EQ(state.at("i16").to_vector<std::int32_t>(),
              (std::vector<std::int32_t>{-32768, 32767}));
    EXPECT_EQ(state.at("u16").to_vector<std::int32_t>(), std::vector<std::int32_t>{65535});
    EXPECT_EQ(state.at("u32").to_vector<std::int64_t>(), std::vector<std::int64_t>{4294967295});
    EXPECT_EQ(state.at("f8").to_vector<float>(), (std::vector<float>{1.5f, -448}));
    EXPECT_EQ(state.at("last").item(), 1);
    EXPECT_EQ(state.size(), 8u);
    EXPECT_EQ(state.unreadable().size(), 2u);
    EXPECT_NE(problem_of([&] { state.at("z"); }).find("dtype torch.complex64 is not supported"),
              std::string::npos);
    EXPECT_NE(problem_of([&] { state.at("sparse"); }).find("sparse tensors are not supported"),
              std::string::npos);
  }
}

TEST_F(TorchFiles, FormatsFromBefore16AreRead) {
  EXPECT_EQ(load(golden_file("old_format")).at("x").to_vector<float>(), (std::vector<float>{1, 1}));
  for (const bool mapped : {false, true}) {
    const StateDict state = load(golden_file("legacy"), {.mapped = mapped});
    std::vector<float> x(12);
    std::iota(x.begin(), x.end(), 0.0f);
    EXPECT_EQ(state.at("model.x").to_vector<float>(), x);
    EXPECT_EQ(state.at("model.x").shape(), (Shape{3, 4}));
    EXPECT_EQ(state.at("model.turned").contiguous().to_vector<float>(),
              (std::vector<float>{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11}));
    EXPECT_EQ(state.at("model.row").to_vector<float>(), (std::vector<float>{4, 5, 6, 7}));
    EXPECT_EQ(state.at("model.half").dtype(), DType::bf16);
    EXPECT_EQ(state.at("model.half").sum().item(), 3);
    EXPECT_EQ(state.at("model.flags").to_vector<bool>(), (std::vector<bool>{true, false}));
    EXPECT_EQ(state.at("model.bytes").to_vector<std::uint8_t>(),
              (std::vector<std::uint8_t>{0, 1, 2, 3, 4}));
    EXPECT_EQ(state.at("model.chars").to_vector<std::int32_t>(),
              (std::vector<std::int32_t>{-128, 127}));
    EXPECT_EQ(state.at("model.none").shape(), (Shape{0, 2}));
    EXPECT_EQ(state.at("history.0").item(), 0.5);
    EXPECT_EQ(state.at("history.1").item(), 7);
    EXPECT_EQ(state.at("p").to_vector<float>(), (std::vector<float>{1, 1}));
    EXPECT_EQ(state.unreadable().size(), 1u);  // z, which is complex64
  }
}

TEST_F(TorchFiles, LoadedTensorsAreTheirOwn) {
  for (const char* name : {"views", "legacy"}) {
    const std::string file = path(std::string(name) + ".pt");
    fs::copy_file(golden_file(name), file);
    const StateDict state = load(file), wanted = load(golden_file(name));
    std::ofstream(file, std::ios::binary | std::ios::in) << std::string(fs::file_size(file), '\1');
    fs::resize_file(file, 10);
    for (const auto& [key, tensor] : wanted) expect_equal(state.at(key), tensor, key);
  }
}

// ---- Handwritten pickles.

std::string number(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text.push_back(static_cast<char>(value >> (8 * i)));
  return text;
}
std::string text(const std::string& value) { return "X" + number(value.size(), 4) + value; }
std::string integer(std::int64_t value) {
  return "\x8a\x08" + number(static_cast<std::uint64_t>(value), 8);
}
std::string global(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}
std::string joined(std::initializer_list<std::string> parts) {
  std::string all;
  for (const std::string& part : parts) all += part;
  return all;
}
std::string tuple(std::initializer_list<std::string> parts) { return "(" + joined(parts) + "t"; }
std::string dict(std::initializer_list<std::string> parts) { return "}(" + joined(parts) + "u"; }
std::string integers(std::initializer_list<std::int64_t> values) {
  std::string all = "(";
  for (const std::int64_t value : values) all += integer(value);
  return all + "t";
}
std::string storage(std::int64_t elements, const std::string& key = "0",
                    const std::string& type = "FloatStorage") {
  return tuple(
             {text("storage"), global("torch", type), text(key), text("cpu"), integer(elements)}) +
         "Q";
}
const std::string kRebuild = global("torch._utils", "_rebuild_tensor_v2");
const std::string kHooks = global("collections", "OrderedDict") + ")R";
std::string tensor_of(const std::string& memory, std::int64_t offset, const std::string& sizes,
                      const std::string& strides) {
  return kRebuild + tuple({memory, integer(offset), sizes, strides, "\x89", kHooks}) + "R";
}
std::string pickle(const std::string& body) { return "\x80\2" + body + "."; }
std::string of_x(const std::string& tensor) { return pickle(dict({text("x"), tensor})); }

const std::string kTooMuch =
    "would take more than 8 times the file; save {k: v.contiguous().clone() for k, v in "
    "state_dict.items()}";

class HostileTorchFiles : public TemporaryFolder {
 protected:
  using Entries = std::vector<std::pair<std::string, std::string>>;

  std::string archive(const Entries& entries, bool deflated = false) const {
    platform::AtomicFile file(path("made.pt"));
    io::ZipWriter writer(file);
    for (const auto& [name, content] : entries)
      writer.add(name, std::as_bytes(std::span(content)), {}, deflated);
    writer.finish();
    file.commit();
    return path("made.pt");
  }
  // Writes a file with this pickle and four floats as storage 0.
  std::string made(const std::string& data_pkl) const {
    return archive({{"m/data.pkl", data_pkl}, {"m/data/0", floats_}});
  }
  std::string problem(const std::string& data_pkl) const { return problem_in(made(data_pkl)); }
  // Returns the problem of a tensor x.
  std::string problem_of_x(const std::string& tensor) const {
    const std::string message = problem(of_x(tensor)), start = "tensor \"x\": ";
    return message.starts_with(start) ? message.substr(start.size()) : message;
  }

  const std::string floats_ = [] {
    const float values[] = {1, 2, 3, 4};
    return std::string(reinterpret_cast<const char*>(values), sizeof values);
  }();
};

TEST_F(HostileTorchFiles, HandMadePicklesAreRead) {
  const StateDict state = load(made(of_x(tensor_of(storage(4), 1, integers({3}), integers({1})))));
  EXPECT_EQ(state.at("x").to_vector<float>(), (std::vector<float>{2, 3, 4}));
}

TEST_F(HostileTorchFiles, TensorsStayWithinTheirStorage) {
  const auto of = [&](std::int64_t offset, std::initializer_list<std::int64_t> sizes,
                      std::initializer_list<std::int64_t> strides) {
    return problem_of_x(tensor_of(storage(4), offset, integers(sizes), integers(strides)));
  };
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  EXPECT_EQ(of(0, {4}, {1}), "(accepted)");
  EXPECT_EQ(of(0, {2, 2}, {1, 2}), "(accepted)");
  EXPECT_EQ(of(3, {}, {}), "(accepted)");
  EXPECT_EQ(of(0, {1, 2, 2}, {kHuge, 1, 2}), "(accepted)");
  EXPECT_EQ(of(0, {5}, {1}),
            "shape [5] with strides [1] at 0 reaches past its storage of 4 elements");
  EXPECT_EQ(of(1, {4}, {1}),
            "shape [4] with strides [1] at 1 reaches past its storage of 4 elements");
  EXPECT_EQ(of(4, {}, {}), "shape [] with strides [] at 4 reaches past its storage of 4 elements");
  EXPECT_EQ(of(0, {2}, {4}),
            "shape [2] with strides [4] at 0 reaches past its storage of 4 elements");
  EXPECT_EQ(of(0, {3, 1}, {kHuge, 1}),
            "shape [3, 1] with strides [4611686018427387904, 1] at 0 reaches past its storage of 4 "
            "elements");
  EXPECT_EQ(of(kHuge, {2, 2, 2}, {kHuge, kHuge, kHuge}).substr(0, 15), "shape [2, 2, 2]");
  EXPECT_EQ(of(-1, {1}, {1}), "its offset is no integer from 0 on");
  EXPECT_EQ(of(0, {2}, {-1}), "its strides must be integers from 0 to 2^63 - 1");
  EXPECT_EQ(of(0, {-2}, {1}), "its sizes must be integers from 0 to 2^63 - 1");
  EXPECT_EQ(of(0, {2, 2}, {1}), "2 axes have 1 strides");
  EXPECT_EQ(of(0, {1, 1, 1, 1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1, 1, 1}), "9 axes, at most 8");
  EXPECT_EQ(of(0, {kHuge, 4}, {0, 0}),
            "shape: the number of elements of [4611686018427387904, 4] exceeds 2^63 - 1");
  EXPECT_EQ(of(0, {kHuge}, {0}), "a tensor [4611686018427387904] is too large");
  // Without elements nothing is read.
  EXPECT_EQ(of(kHuge, {0, kHuge}, {kHuge, kHuge}), "(accepted)");
  EXPECT_EQ(of(0, {0, kHuge, 5}, {5, 5, 1}), "(accepted)");
}

TEST_F(HostileTorchFiles, StoragesAreThoseOfTheArchive) {
  const auto of = [&](const std::string& memory) {
    return problem_of_x(tensor_of(memory, 0, integers({1}), integers({1})));
  };
  EXPECT_EQ(of(storage(3)), "its storage \"0\" has 16 bytes, which are not 3 elements");
  EXPECT_EQ(of(storage(std::int64_t{1} << 62)),
            "its storage \"0\" has 16 bytes, which are not 4611686018427387904 elements");
  EXPECT_EQ(of(storage(-4)), "its storage is not described as torch.save does");
  EXPECT_EQ(of(storage(4, "7")), "its storage \"7\" is not in the archive");
  EXPECT_EQ(of(storage(4, "../data.pkl")), "its storage \"../data.pkl\" is not in the archive");
  EXPECT_EQ(of(text("0")), "it has no storage");
  EXPECT_EQ(of(tuple({text("storage")}) + "Q"), "it has no storage");
  EXPECT_EQ(of(storage(16, "0", "BoolStorage")), "a bool is neither 0 nor 1");
  EXPECT_EQ(problem_of_x(kRebuild + ")R"), "it is described by 0 values");
  EXPECT_EQ(problem_of_x(global("torch._utils", "_rebuild_parameter") + ")R"),
            "a parameter has no tensor");
}

TEST_F(HostileTorchFiles, ArchivesAreCheckedFirst) {
  const std::string good = of_x(tensor_of(storage(4), 0, integers({4}), integers({1})));
  EXPECT_EQ(
      problem_in(archive({{"m/data.pkl", good}, {"m/data/0", floats_}, {"m/byteorder", "big"}})),
      "its byte order is not \"little\": save it again on a little-endian machine");
  EXPECT_EQ(problem_in(archive({{"a/data.pkl", good}, {"b/data.pkl", good}})),
            "two folders of the archive have a data.pkl");
  EXPECT_TRUE(problem_in(archive({{"data.pkl", good}})).starts_with("a zip archive without"));
  EXPECT_EQ(problem_in(archive({{"m/data.pkl", good}, {"m/data/0", floats_}}, true)), "(accepted)");
  // The file unpacks to a thousand times its size.
  const std::string zeros(std::size_t{128} << 20, '\0');
  const std::string large = of_x(tensor_of(storage(32 << 20), 0, integers({1}), integers({1})));
  const std::string packed = archive({{"m/data.pkl", large}, {"m/data/0", zeros}}, true);
  EXPECT_TRUE(problem_in(packed).starts_with("its compressed entries unpack to more than "))
      << packed;
  EXPECT_EQ(load(packed, {.max_unpacked_bytes = std::uint64_t{1} << 30}).at("x").item(), 0);
}

TEST_F(HostileTorchFiles, NothingButKnownNamesIsTaken) {
  for (const auto& [module, name] : {std::pair{"os", "system"},
                                     {"builtins", "eval"},
                                     {"torch", "load"},
                                     {"torch._utils", "_rebuild"},
                                     {"collections", "OrderedDict.x"},
                                     {"", ""},
                                     {"numpy.core.multiarray", "scalar"}}) {
    const std::string named =
        std::string("it has an object of Python's \"") + module + "." + name + "\", and no code";
    EXPECT_TRUE(problem(pickle(global(module, name) + ")R")).starts_with(named)) << name;
    EXPECT_TRUE(problem("\x80\4" + text(module) + text(name) + "\x93.").starts_with(named)) << name;
  }
  EXPECT_EQ(problem(pickle(global(std::string(300, 'a'), "b"))),
            "at byte 2 of the pickle: a global's name is too long");
}

TEST_F(HostileTorchFiles, BrokenPicklesSayWhere) {
  const auto of = [&](const std::string& bytes) {
    const std::string message = problem(bytes);
    return message.substr(std::min(message.size(), message.find(": ") + 2));
  };
  EXPECT_EQ(of(""), "it is no pickle of protocol 2 or later");
  EXPECT_EQ(of("{}"), "it is no pickle of protocol 2 or later");
  EXPECT_EQ(of("\x80"), "1 bytes are wanted, 0 are left");
  EXPECT_EQ(of("\x80\1."), "protocol 1 is not known");
  EXPECT_EQ(of("\x80\6."), "protocol 6 is not known");
  EXPECT_EQ(of("\x80\2"), "1 bytes are wanted, 0 are left");
  EXPECT_EQ(of(pickle("")), "the stack has too few values");
  EXPECT_EQ(of(pickle("N") + "N"), "1 bytes after the end");
  EXPECT_EQ(of(pickle("X\xff\xff\xff\x7f")), "2147483647 bytes are wanted, 1 are left");
  EXPECT_EQ(of(pickle("\x8d" + number(~std::uint64_t{0}, 8))),
            "18446744073709551615 bytes are wanted, 1 are left");
  EXPECT_EQ(of(pickle("\x95" + number(~std::uint64_t{0}, 8))), "a frame is longer than the pickle");
  EXPECT_EQ(of(pickle("t")), "there is no mark");
  EXPECT_EQ(of(pickle("N(\x85")), "the stack has too few values");
  EXPECT_EQ(of(pickle("}(Nu")), "a key has no value");
  EXPECT_EQ(of(pickle("]NNs")), "items are set in what is no dict");
  EXPECT_EQ(of(pickle("}Na")), "values are appended to what is no list");
  EXPECT_EQ(of(pickle(")Na")), "values are appended to what is no list");
  EXPECT_EQ(of(pickle("h\5")), "memo 5 is asked for where 0 are known");
  EXPECT_EQ(of(pickle("Nr\xff\xff\xff\xff")), "memo 4294967295 is set where 0 are known");
  EXPECT_EQ(of(pickle("N)R")), "what is called is no global");
  EXPECT_EQ(of(pickle(global("torch", "Size") + "NR")), "arguments are no tuple");
  EXPECT_EQ(of(pickle("NNb")), "attributes of what is no object");
  EXPECT_EQ(of(pickle("NN\x93")), "a global's name is no text");
  EXPECT_EQ(of(pickle("cos")), "a line does not end");
  EXPECT_EQ(of(pickle("I1\n")), "opcode 0x49 is none that picklers write since protocol 2");
}

TEST_F(HostileTorchFiles, NamesAreUniqueAndValid) {
  const std::string tensor = tensor_of(storage(4), 0, integers({4}), integers({1}));
  EXPECT_EQ(problem(pickle(dict({text("a"), dict({text("b"), tensor}), text("a.b"), tensor}))),
            "two tensors are named \"a.b\"");
  EXPECT_EQ(problem(pickle(dict({text("\xff"), tensor}))),
            "the name of a tensor is not valid UTF-8");
  EXPECT_EQ(problem(pickle(dict({text("a"), dict({"N", tensor})}))),
            "a tensor after \"a\" has a key that is neither a text nor an integer");
  EXPECT_EQ(problem(pickle(dict({integer(-3), tensor, "N", "N"}))), "(accepted)");
}

TEST_F(HostileTorchFiles, ObjectsWithinEachOtherEnd) {
  const std::string refusal =
      "objects lie within each other more than 64 deep, or within themselves";
  EXPECT_EQ(problem(pickle("]q" + std::string(1, '\0') + "h" + std::string(1, '\0') + "a")),
            refusal);
  EXPECT_EQ(problem(pickle(std::string(100'000, ']') + std::string(99'999, 'a'))), refusal);
  EXPECT_EQ(problem(pickle(std::string(60, ']') + std::string(59, 'a'))), "(accepted)");
  // There are 2^60 paths to the innermost of 60 lists.
  std::string laughs = "]q" + std::string(1, '\0');
  for (char i = 0; i < 60; ++i)
    laughs += std::string("](h") + i + "h" + i + "eq" + static_cast<char>(i + 1);
  EXPECT_EQ(problem(pickle(laughs)), "objects occur in too many places");
  // A name of a megabyte is used ten thousand times.
  std::string named = "]" + text(std::string(1 << 20, 'n')) + "q" + std::string(1, '\0') + "0";
  named += tensor_of(storage(4), 0, integers({4}), integers({1})) + "q\1" + "0";
  for (int i = 0; i < 10'000; ++i) named += std::string("}h") + '\0' + "h\1sa";
  EXPECT_EQ(problem(pickle(named)), "the names of its tensors " + kTooMuch);
}

TEST_F(HostileTorchFiles, MemoryIsBoundedByTheFile) {
  const auto most_kb = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
  };
  const long before = most_kb();
  // 2^40 elements that are the same one; a small number of these is allowed.
  const auto expanded = [&](std::int64_t n) {
    return made(of_x(tensor_of(storage(4), 1, integers({n, 1, n}), integers({0, 1, 0}))));
  };
  EXPECT_EQ(problem_in(expanded(1 << 20)), "its tensors, copied, " + kTooMuch);
  EXPECT_EQ(load(expanded(1 << 10)).at("x").sum().item(), 2 << 20);
  // 10,000 transposed copies of a megabyte, and a tensor with overlapping elements.
  const std::string megabyte(std::size_t{1} << 20, '\1');
  std::string many =
      "](" + tensor_of(storage(1 << 18), 0, integers({512, 256}), integers({1, 1024}));
  many += "q" + std::string(1, '\0');
  for (int i = 0; i < 10'000; ++i) many += "h" + std::string(1, '\0');
  EXPECT_EQ(problem_in(archive({{"m/data.pkl", pickle(many + "e")}, {"m/data/0", megabyte}})),
            "its tensors, copied, " + kTooMuch);
  // A small tensor 200,000 times, each taking more memory than the two bytes that refer to it.
  std::string again =
      "](" + tensor_of(storage(16, "0", "ByteStorage"), 0, integers({4}), integers({1}));
  again += "q" + std::string(1, '\0');
  for (int i = 0; i < 200'000; ++i) again += "h" + std::string(1, '\0');
  EXPECT_EQ(problem(pickle(again + "e")), "its tensors " + kTooMuch);
  const std::string overlapping =
      tensor_of(storage(1 << 18), 0, integers({1 << 17, 1 << 17}), integers({1, 1}));
  EXPECT_EQ(problem_in(archive({{"m/data.pkl", of_x(overlapping)}, {"m/data/0", megabyte}})),
            "its tensors, copied, " + kTooMuch);
  EXPECT_LT(most_kb() - before, 200'000);
}

TEST_F(HostileTorchFiles, EveryTruncationAndEveryFlippedByteIsHandled) {
  const auto load_bytes = [](const std::string& bytes) {
    const MemoryFile file(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
    return load(file.path());
  };
  for (const char* name : {"state_dict", "dtypes_protocol5", "old_format"}) {
    const std::string good = platform::read_file(golden_file(name));
    for (std::size_t length = 0; length < good.size(); ++length)
      EXPECT_THROW(load_bytes(good.substr(0, length)), IoError) << length;
    int refused = 0;
    for (std::size_t at = 0; at < good.size(); ++at) {
      for (const int flip : {1, 0x20, 0x80}) {
        std::string bad = good;
        bad[at] = static_cast<char>(bad[at] ^ flip);
        try {
          for (const auto& [key, tensor] : load_bytes(bad))
            if (tensor.numel() < 1000) tensor.contiguous().span<std::byte>();
        } catch (const IoError&) {
          ++refused;
        }
      }
    }
    EXPECT_GT(refused, 600) << name;
  }
}

}  // namespace
}  // namespace volta
