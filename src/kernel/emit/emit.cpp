// Prints a whole kernel: prelude, signature, the names of its parameters, then the schedule's body.
#include "kernel/emit.h"

#include "kernel/emit/emit_printer.h"
#include "kernel/hash.h"
#include "kernel/vectors.h"

namespace volta::kernel {
namespace {

constexpr int kMapThreads = 256;
constexpr int kSmallRowThreads = 128;  // for Rows in which a block has several Par points

class KernelPrinter {
 public:
  KernelPrinter(const Program& program, Dialect dialect, const std::string& name)
      : program_(program),
        cuda_(dialect == Dialect::Cuda),
        dialect_(dialect),
        name_(name),
        out_(program) {}

  std::string print() {
    std::string text = prelude(program_, dialect_);
    if (program_.int_params > 0 && !program_.schedule.horizontal) text += integers();
    text += signature();
    out_.open("");
    print_names();
    program_.schedule.kind == ScheduleKind::Map ? print_map(out_, dialect_)
                                                : print_row(out_, dialect_);
    out_.close();
    return text + out_.take();
  }

 private:
  std::string integers() const {
    std::string members;
    for (int n = 0; n < program_.int_params; ++n)
      members += fmt::format("{}p{}", n == 0 ? "" : ", ", n);
    return fmt::format("\ntypedef struct {{\n  index_t {};\n}} Integers;\n", members);
  }

  std::string element_pointer(int slot) const {
    const Slot& self = program_.slots[static_cast<std::size_t>(slot)];
    return fmt::format("{}{}{}*", cuda_ ? "" : "__global ", self.written ? "" : "const ",
                       Printer::type(self.dtype));
  }

  std::string signature() const {
    std::vector<std::string> parameters;
    const std::string words = cuda_ ? "const u64* __restrict__ " : "__global const u64* ";
    if (program_.schedule.horizontal) {
      parameters = {words + "table", "const int segments"};
    } else {
      for (int n = 0; n < static_cast<int>(program_.slots.size()); ++n) {
        if (cuda_) {
          parameters.push_back(fmt::format("{} __restrict__ s{}", element_pointer(n), n));
        } else {
          parameters.push_back(
              fmt::format("__global {}char* restrict base{}",
                          program_.slots[static_cast<std::size_t>(n)].written ? "" : "const ", n));
          parameters.push_back(fmt::format("const u64 offset{}", n));
        }
      }
    }
    if (!program_.args.empty()) {
      parameters.push_back(words + "all_args");
      if (!cuda_) parameters.push_back("const u64 first_arg");
    }
    if (out_.analysis().has_bounded) parameters.push_back("GLOBAL ErrorRecord* error");
    if (program_.schedule.horizontal) {
      for (int n = 0; n < kHorizontalBases && !cuda_; ++n) {
        parameters.push_back(fmt::format("__global char* base{}", n));
      }
    } else if (program_.int_params > 0) {
      parameters.push_back("const Integers integers");
    }
    const int threads = block_threads(program_);
    std::string text =
        cuda_ ? fmt::format("\nextern \"C\" __global__ void __launch_bounds__({}) {}(", threads,
                            name_)
              : fmt::format("\n__kernel __attribute__((reqd_work_group_size({}, 1, 1)))\nvoid {}(",
                            threads, name_);
    for (std::size_t n = 0; n < parameters.size(); ++n)
      text += (n == 0 ? "" : ",\n    ") + parameters[n];
    return text + ")\n";
  }

  void print_names() {
    out_.line("const int thread = {};", cuda_ ? "(int)threadIdx.x" : "(int)get_local_id(0)");
    const char* block = cuda_ ? "(int)blockIdx.x" : "(int)get_group_id(0)";
    if (program_.schedule.horizontal) {
      print_segment(block);
    } else {
      out_.line("const int block = {};", block);
      for (int n = 0; n < static_cast<int>(program_.slots.size()) && !cuda_; ++n) {
        out_.line("{0} s{1} = ({0})(base{1} + offset{1});", element_pointer(n), n);
      }
      for (int n = 0; n < program_.int_params; ++n)
        out_.line("const index_t p{0} = integers.p{0};", n);
    }
    if (program_.args.empty()) return;
    std::string first = cuda_ ? "" : " + first_arg";
    if (program_.schedule.horizontal)
      first += fmt::format(" + segment[{}]", row_words(program_) - 1);
    out_.line("{}const u64* args = all_args{};", cuda_ ? "" : "__global ", first);
  }

  // Finds the block's segment: the last one that starts at or before the block. An empty segment
  // starts where the next one does, so it is never the last.
  void print_segment(const char* block) {
    const int words = row_words(program_);
    out_.line("const int all_blocks = {};", block);
    out_.line("int low = 0, high = segments - 1;");
    out_.open("while (low < high)");
    out_.line("const int middle = (low + high + 1) / 2;");
    out_.line("const bool starts_before = (i64)table[(i64)middle * {}] <= (i64)all_blocks;", words);
    out_.line("low = starts_before ? middle : low;");
    out_.line("high = starts_before ? high : middle - 1;");
    out_.close();
    out_.line("{}const u64* segment = table + (i64)low * {};", cuda_ ? "" : "__global ", words);
    out_.line("const int block = all_blocks - (int)segment[0];");
    for (int n = 0; n < program_.int_params; ++n)
      out_.line("const index_t p{} = (index_t)segment[{}];", n, n + 1);
    for (int n = 0; n < static_cast<int>(program_.slots.size()); ++n) {
      const int word = 1 + program_.int_params + n;
      if (cuda_) {
        out_.line("{0} __restrict__ s{1} = ({0})segment[{2}];", element_pointer(n), n, word);
      } else {
        out_.line("const int number{} = (int)(segment[{}] >> 56);", n, word);
        std::string base = fmt::format("base{}", kHorizontalBases - 1);
        for (int k = kHorizontalBases - 1; k-- > 0;)
          base = fmt::format("number{} == {} ? base{} : {}", n, k, k, base);
        out_.line("{0} s{1} = ({0})(({2}) + (segment[{3}] & 0xffffffffffffff));",
                  element_pointer(n), n, base, word);
      }
    }
  }

  const Program& program_;
  const bool cuda_;
  const Dialect dialect_;
  const std::string& name_;
  Printer out_;
};

}  // namespace

KernelSource named_source(const std::string& kind, std::string text) {
  KernelSource source;
  source.name = fmt::format("volta_{}_{:016x}", kind, hash_bytes(text));
  const std::string mark = "KERNEL_NAME";
  text.replace(text.find(mark), mark.size(), source.name);
  source.text = std::move(text);
  return source;
}

KernelSource emit(const Program& program, Dialect dialect) {
  KernelSource source;
  source.name = fmt::format("volta_{:016x}", hash_bytes(to_text(program)));
  source.text = KernelPrinter(program, dialect, source.name).print();
  return source;
}

int block_threads(const Program& program) {
  const Schedule& schedule = program.schedule;
  if (schedule.threads > 0) return schedule.threads;
  if (schedule.kind == ScheduleKind::Map) return kMapThreads;
  return schedule.lanes > 32 ? schedule.lanes : kSmallRowThreads;
}

std::int64_t block_count(const Program& program, const std::vector<std::int64_t>& ints) {
  const Schedule& schedule = program.schedule;
  const int grouped = schedule.vec > 1 ? vector_axis(program) : -1;
  std::int64_t points = 1;
  for (int n = 0; n < static_cast<int>(program.axes.size()); ++n) {
    const Axis& axis = program.axes[static_cast<std::size_t>(n)];
    if (axis.role == Role::Red) continue;
    const bool tiled = schedule.tile > 0 && (n == grouped || n == schedule.tile_axis);
    const std::int64_t side = tiled ? schedule.tile : n == grouped ? schedule.vec : 1;
    points *= (axis.extent.in(ints) + side - 1) / side;
  }
  if (schedule.tile > 0) return points;
  const std::int64_t points_per_block = block_threads(program) / schedule.lanes;
  return (points + points_per_block - 1) / points_per_block;
}

int row_words(const Program& program) {
  return 1 + program.int_params + static_cast<int>(program.slots.size()) + 1;
}

}  // namespace volta::kernel
