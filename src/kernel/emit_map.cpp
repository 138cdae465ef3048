// Map kernels: one thread per iteration point, or per `vec` consecutive points of the last axis.
#include <algorithm>
#include <vector>

#include "kernel/dependence.h"
#include "kernel/emit_printer.h"

namespace volta::kernel {
namespace {

class MapPrinter {
 public:
  MapPrinter(Printer& printer, Dialect dialect)
      : out_(printer),
        cuda_(dialect == Dialect::Cuda),
        vec_(printer.program().schedule.vec),
        axes_(static_cast<int>(printer.program().axes.size())),
        live_(live_instructions(printer.program())) {}

  void print() {
    out_.line("const uindex_t point = (uindex_t)block * {} + thread;",
              block_threads(out_.program()));
    vec_ == 1 ? print_points() : print_chunks();
  }

 private:
  bool live(int n) const { return live_[static_cast<std::size_t>(n)]; }

  // Values that are the same everywhere, and `once` Stores, are written by the first point alone.
  std::string guard(int n, const char* first) const {
    return out_.instr(n).once || out_.info_of(n).domain == Domain::Uniform ? first : "";
  }

  void print_points() {
    out_.line("if (point >= {}) return;", out_.extent_product(Role::Par, "uindex_t"));
    out_.digits("point", 0, axes_);
    for (int n = 0; n < out_.instr_count(); ++n) {
      if (out_.instr(n).kind == InstrKind::Store) {
        out_.store(n, guard(n, "point == 0"));
      } else if (live(n)) {
        out_.define(n);
      }
    }
  }

  void print_chunks() {
    const int last = axes_ - 1;
    out_.line("const uindex_t chunks = ((uindex_t){} + {}) / {};", out_.extent(last), vec_ - 1,
              vec_);
    std::string total = "chunks";
    for (int axis = 0; axis < last; ++axis) total += " * (uindex_t)" + out_.extent(axis);
    out_.line("if (point >= {}) return;", total);
    if (axes_ == 1) {
      out_.line("const index_t first = (index_t)(point * {});", vec_);
    } else {
      out_.line("const uindex_t outer = point / chunks;");
      out_.line("const index_t first = (index_t)((point - outer * chunks) * {});", vec_);
      out_.digits("outer", 0, last);
    }
    hoist(last);
    print_vector(last);
    out_.open(
        fmt::format("for (int k = 0; k < {} && first + k < {}; ++k)", vec_, out_.extent(last)));
    print_body(last, false);
    out_.close();
  }

  void hoist(int last) {
    const std::vector<std::uint64_t> axes = axis_dependence(out_.program());
    hoisted_.assign(axes.size(), false);
    for (int n = 0; n < out_.instr_count(); ++n) {
      const std::size_t at = static_cast<std::size_t>(n);
      if (!live(n) || out_.instr(n).kind == InstrKind::Store || (axes[at] >> last & 1) != 0)
        continue;
      hoisted_[at] = true;
      out_.define(n);
    }
  }

  // Consecutive points take consecutive elements.
  bool is_vector_access(int n, int last) const {
    const Instr& self = out_.instr(n);
    if (!live(n) || (self.kind != InstrKind::Load && self.kind != InstrKind::Store)) return false;
    if (!self.mask.empty() || self.once || (self.kind == InstrKind::Load && self.a >= 0))
      return false;
    return !self.index.terms.empty() && self.index.terms.back().axis == last &&
           self.index.terms.back().coefficient.is_literal(1);
  }

  // Consecutive points take the words of whole Philox blocks.
  bool is_vector_philox(int n, int last) const {
    const Instr& self = out_.instr(n);
    return live(n) && self.kind == InstrKind::Philox && vec_ % 4 == 0 && hoisted(self.a) &&
           hoisted(self.b) && !self.index.terms.empty() && self.index.terms.back().axis == last &&
           self.index.terms.back().coefficient.is_literal(1);
  }

  bool hoisted(int n) const { return hoisted_[static_cast<std::size_t>(n)]; }

  // The path for whole chunks whose accesses are aligned; it returns.
  void print_vector(int last) {
    out_.name_axis(last, "first");
    std::string condition = fmt::format("first + {} <= {}", vec_, out_.extent(last));
    for (int n = 0; n < out_.instr_count(); ++n) {
      const Instr& self = out_.instr(n);
      if (cuda_ && is_vector_access(n, last)) {
        const DType dtype = out_.program().slots[static_cast<std::size_t>(self.slot)].dtype;
        const int bytes = std::min(16, vec_ * static_cast<int>(size_of(dtype)));
        condition += fmt::format(" && is_aligned(s{} + ({}), {})", self.slot,
                                 out_.affine(self.index), bytes);
      }
      if (is_vector_philox(n, last))
        condition += fmt::format(" && (({}) & 3) == 0", out_.affine(self.index));
    }
    out_.open("if (" + condition + ")");
    for (int n = 0; n < out_.instr_count(); ++n) print_vector_source(n, last);
    out_.raw("#pragma unroll");
    out_.open(fmt::format("for (int k = 0; k < {}; ++k)", vec_));
    print_body(last, true);
    out_.close();
    out_.name_axis(last, "first");
    for (int n = 0; n < out_.instr_count(); ++n) {
      const Instr& self = out_.instr(n);
      if (self.kind != InstrKind::Store || !is_vector_access(n, last)) continue;
      out_.line("STORE_PACK({}, s{} + ({}), y{});", vec_, self.slot, out_.affine(self.index), n);
    }
    out_.line("return;");
    out_.close();
  }

  void print_vector_source(int n, int last) {
    const Instr& self = out_.instr(n);
    if (is_vector_philox(n, last)) {
      out_.line("u32 w{}[{}];", n, vec_);
      for (int k = 0; k < vec_; k += 4) {
        out_.line("philox_block((u64){}, (u64){} + ((u64)({}) >> 2) + {}, w{} + {});",
                  Printer::value(self.a), Printer::value(self.b), out_.affine(self.index), k / 4, n,
                  k);
      }
    } else if (is_vector_access(n, last)) {
      const DType dtype = out_.program().slots[static_cast<std::size_t>(self.slot)].dtype;
      const bool load = self.kind == InstrKind::Load;
      out_.line("{} {}{}[{}];", Printer::type(dtype), load ? "l" : "y", n, vec_);
      if (load)
        out_.line("LOAD_PACK({}, l{}, s{} + ({}));", vec_, n, self.slot, out_.affine(self.index));
    }
  }

  void print_body(int last, bool vector) {
    out_.line("const index_t x{} = first + k;", last);
    out_.name_axis(last, fmt::format("x{}", last));
    for (int n = 0; n < out_.instr_count(); ++n) {
      const Instr& self = out_.instr(n);
      if (!live(n) || hoisted(n)) continue;
      if (self.kind == InstrKind::Store) {
        if (vector && is_vector_access(n, last)) {
          out_.line("y{}[k] = {};", n, Printer::value(self.a));
        } else {
          out_.store(n, guard(n, "point == 0 && k == 0"));
        }
      } else if (vector && is_vector_access(n, last)) {
        out_.line("const {} {} = l{}[k];", Printer::type(self.dtype), Printer::value(n), n);
      } else if (vector && is_vector_philox(n, last)) {
        out_.line("const {0} {1} = philox_{0}(w{2}[k]);", Printer::type(self.dtype),
                  Printer::value(n), n);
      } else {
        out_.define(n);
      }
    }
  }

  Printer& out_;
  const bool cuda_;
  const int vec_, axes_;
  const std::vector<bool> live_;
  std::vector<bool> hoisted_;
};

}  // namespace

void print_map(Printer& printer, Dialect dialect) { MapPrinter(printer, dialect).print(); }

}  // namespace volta::kernel
