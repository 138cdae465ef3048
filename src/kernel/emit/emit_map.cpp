// Map kernels: a thread per iteration point or per `vec` neighbouring points of the last axis, or a
// block per tile of two axes.
#include <algorithm>
#include <map>
#include <vector>

#include "kernel/dependence.h"
#include "kernel/emit/emit_printer.h"
#include "kernel/vectors.h"

namespace volta::kernel {
namespace {

class MapPrinter {
 public:
  MapPrinter(Printer& printer, Dialect dialect)
      : out_(printer),
        cuda_(dialect == Dialect::Cuda),
        vec_(printer.program().schedule.vec),
        tile_(printer.program().schedule.tile),
        turned_(printer.program().schedule.tile_axis),
        last_(static_cast<int>(printer.program().axes.size()) - 1),
        live_(live_instructions(printer.program())),
        depends_(axis_dependence(printer.program())),
        known_(printer.program().instrs.size(), false) {}

  void print() {
    out_.element_exists_if("");  // only printed after the tests for points and groups
    if (tile_ > 0) return print_tile();
    out_.line("const uindex_t point = (uindex_t)block * {} + thread;",
              block_threads(out_.program()));
    vec_ == 1 ? print_points() : print_groups();
  }

 private:
  bool live(int n) const { return live_[static_cast<std::size_t>(n)]; }
  bool known(int n) const { return known_[static_cast<std::size_t>(n)]; }
  bool is(int n, InstrKind kind) const { return out_.instr(n).kind == kind; }
  bool varies(int n, int axis) const {
    return (depends_[static_cast<std::size_t>(n)] >> axis & 1) != 0;
  }
  DType slot_dtype(int n) const {
    return out_.program().slots[static_cast<std::size_t>(out_.instr(n).slot)].dtype;
  }

  // Only the first point writes uniform values and `once` Stores.
  std::string guard(int n, const std::string& first) const {
    return out_.instr(n).once || out_.info_of(n).domain == Domain::Uniform ? first : "";
  }

  void print_points() {
    out_.line("if (point >= {}) return;", out_.extent_product(Role::Par, "uindex_t"));
    out_.digits("point", 0, last_ + 1);
    for (int n = 0; n < out_.instr_count(); ++n) {
      if (is(n, InstrKind::Store)) {
        out_.store(n, guard(n, "point == 0"));
      } else if (live(n)) {
        out_.define(n);
      }
    }
  }

  void print_groups() {
    out_.line("const uindex_t groups = ((uindex_t){} + {}) / {};", out_.extent(last_), vec_ - 1,
              vec_);
    std::string total = "groups";
    for (int axis = 0; axis < last_; ++axis) total += " * (uindex_t)" + out_.extent(axis);
    out_.line("if (point >= {}) return;", total);
    if (last_ == 0) {
      out_.line("const index_t first = (index_t)(point * {});", vec_);
    } else {
      out_.line("const uindex_t outer = point / groups;");
      out_.line("const index_t first = (index_t)((point - outer * groups) * {});", vec_);
      out_.digits("outer", 0, last_);
    }
    define_constant_over({last_});
    print_group("point == 0 && k == 0");
  }

  // Defines the instructions that do not vary over any of `axes` and are not defined yet.
  void define_constant_over(const std::vector<int>& axes) {
    for (int n = 0; n < out_.instr_count(); ++n) {
      const bool constant =
          std::none_of(axes.begin(), axes.end(), [&](int axis) { return varies(n, axis); });
      if (!live(n) || is(n, InstrKind::Store) || known(n) || !constant) continue;
      known_[static_cast<std::size_t>(n)] = true;
      out_.define(n);
    }
  }

  // ---- Groups of `vec` points of the last axis, starting at `first`.

  bool is_vector_access(int n) const {
    return live(n) && is_contiguous(out_.program(), n, last_, depends_);
  }

  // Whether neighbouring points use the words of whole Philox blocks.
  bool is_vector_philox(int n) const {
    const Instr& self = out_.instr(n);
    return live(n) && self.kind == InstrKind::Philox && vec_ % 4 == 0 && known(self.a) &&
           known(self.b) && !self.index.terms.empty() && self.index.terms.back().axis == last_ &&
           self.index.terms.back().coefficient.is_literal(1);
  }

  // Whole groups with aligned accesses use vectors; others go element by element.
  void print_group(const std::string& first_point) {
    out_.name_axis(last_, "first");
    out_.open(fmt::format("if ({})", vector_condition()));
    print_vector(first_point);
    out_.close();
    out_.open("else");
    out_.open(
        fmt::format("for (int k = 0; k < {} && first + k < {}; ++k)", vec_, out_.extent(last_)));
    print_elements(first_point, false);
    out_.close();
    out_.close();
  }

  // One test covers all addresses that need the same alignment.
  std::string vector_condition() const {
    std::map<int, std::string> addresses;
    std::string words;
    for (int n = 0; n < out_.instr_count(); ++n) {
      if (is_vector_access(n)) {
        std::string& all = addresses[std::min(16, vec_ * static_cast<int>(size_of(slot_dtype(n))))];
        all += fmt::format("{}(u64)({})", all.empty() ? "" : " | ", out_.address(n));
      }
      if (is_vector_philox(n))
        words += fmt::format(" && (({}) & 3) == 0", out_.affine(out_.instr(n).index));
    }
    std::string condition = fmt::format("first + {} <= {}", vec_, out_.extent(last_));
    for (const auto& [bytes, all] : addresses)
      condition += fmt::format(" && (({}) & {}) == 0", all, bytes - 1);
    return condition + words;
  }

  void print_vector(const std::string& first_point) {
    for (int n = 0; n < out_.instr_count(); ++n) print_source(n);
    out_.raw("#pragma unroll");
    out_.open(fmt::format("for (int k = 0; k < {}; ++k)", vec_));
    print_elements(first_point, true);
    out_.close();
    out_.name_axis(last_, "first");
    for (int n = 0; n < out_.instr_count(); ++n) {
      if (is(n, InstrKind::Store) && is_vector_access(n)) out_.store_pack(n, fmt::format("y{}", n));
    }
  }

  void print_source(int n) {
    const Instr& self = out_.instr(n);
    if (is_vector_philox(n)) {
      out_.line("u32 w{}[{}];", n, vec_);
      for (int k = 0; k < vec_; k += 4) {
        out_.line("philox_block((u64){}, (u64){} + (u64)((i64)({}) >> 2) + {}, w{} + {});",
                  out_.value(self.a), out_.value(self.b), out_.affine(self.index), k / 4, n, k);
      }
    } else if (is_vector_access(n)) {
      const bool load = self.kind == InstrKind::Load;
      out_.line("{} {}{}[{}];", Printer::type(slot_dtype(n)), load ? "l" : "y", n, vec_);
      if (load) out_.load_pack(n, fmt::format("l{}", n));
    }
  }

  // Prints the instructions at one point of the group.
  void print_elements(const std::string& first_point, bool vector) {
    out_.line("const index_t x{} = first + k;", last_);
    out_.name_axis(last_, fmt::format("x{}", last_));
    for (int n = 0; n < out_.instr_count(); ++n) {
      const Instr& self = out_.instr(n);
      if (!live(n) || known(n)) continue;
      const std::string type = Printer::type(self.dtype);
      if (self.kind == InstrKind::Store) {
        if (vector && is_vector_access(n)) {
          out_.line("y{}[k] = {};", n, out_.value(self.a));
        } else {
          out_.store(n, guard(n, first_point));
        }
      } else if (is_staged_load(n)) {
        out_.line("const {} {} = t{}[(at + k) * {} + line];", type, out_.value(n), n, pitch(n));
      } else if (vector && is_vector_access(n)) {
        out_.line("const {} {} = l{}[k];", type, out_.value(n), n);
      } else if (vector && is_vector_philox(n)) {
        out_.line("const {0} {1} = philox_{0}(w{2}[k]);", type, out_.value(n), n);
      } else {
        out_.define(n);
      }
    }
  }

  // ---- Tiles: `tile` lines of the tile axis by `tile` points of the last axis.

  bool is_staged_load(int n) const {
    return tile_ > 0 && live(n) && is_staged(out_.program(), n, turned_);
  }
  int pitch(int n) const { return tile_pitch(slot_dtype(n), tile_); }

  void print_tile() {
    const std::vector<int> staged = staged_loads();
    for (const int n : staged) {
      out_.line("{} {} t{}[{}];", cuda_ ? "__shared__" : "__local", Printer::type(slot_dtype(n)), n,
                tile_ * pitch(n));
    }
    print_origin();
    define_constant_over({turned_, last_});
    print_staging(staged);
    out_.line("BARRIER;");
    out_.raw("#pragma unroll 2");
    open_groups();
    out_.line("const index_t x{} = line0 + line, first = first0 + at;", turned_);
    out_.name_axis(turned_, fmt::format("x{}", turned_));
    out_.open(fmt::format("if (x{} < {} && first < {})", turned_, out_.extent(turned_),
                          out_.extent(last_)));
    define_constant_over({last_});
    print_group("block == 0 && group == 0 && k == 0");
    out_.close();
    out_.close();
  }

  std::vector<int> staged_loads() const {
    std::vector<int> staged;
    for (int n = 0; n < out_.instr_count(); ++n) {
      if (is_staged_load(n)) staged.push_back(n);
    }
    return staged;
  }

  // Prints the tile's first line and first point, and its position in the other axes.
  void print_origin() {
    out_.line("const uindex_t across = ((uindex_t){} + {}) / {};", out_.extent(last_), tile_ - 1,
              tile_);
    out_.line("const uindex_t down = ((uindex_t){} + {}) / {};", out_.extent(turned_), tile_ - 1,
              tile_);
    out_.line("const uindex_t above = (uindex_t)block / across;");
    out_.line("const uindex_t outer = above / down;");
    out_.line("const index_t first0 = (index_t)(((uindex_t)block - above * across) * {});", tile_);
    out_.line("const index_t line0 = (index_t)((above - outer * down) * {});", tile_);
    std::vector<int> others;
    for (int axis = 0; axis < last_; ++axis) {
      if (axis != turned_) others.push_back(axis);
    }
    out_.digits("outer", others);
  }

  int rounds() const {
    const int threads = block_threads(out_.program());
    return (tile_ * tile_ / vec_ + threads - 1) / threads;
  }

  // Opens a loop over the thread's groups of `vec` elements in the tile: element `at` of `line`.
  void open_groups() {
    out_.open(fmt::format("for (int j = 0; j < {}; ++j)", rounds()));
    out_.line("const int group = thread + j * {};", block_threads(out_.program()));
    if (tile_ * tile_ / vec_ < block_threads(out_.program()))
      out_.line("if (group >= {}) break;", tile_ * tile_ / vec_);
    out_.line("const int line = group / {0}, at = group % {0} * {1};", tile_ / vec_, vec_);
  }

  // Loads along the tile axis into registers, all of them before the first is used, then stores
  // them in the tile. Tiles that cross an edge or are not aligned go element by element.
  void print_staging(const std::vector<int>& staged) {
    std::string whole = fmt::format("line0 + {0} <= {1} && first0 + {0} <= {2}", tile_,
                                    out_.extent(turned_), out_.extent(last_));
    out_.name_axis(turned_, "line0");
    out_.name_axis(last_, "first0");
    for (const int n : staged) {
      if (!is_whole_group(n)) continue;
      const int bytes = std::min(16, vec_ * static_cast<int>(size_of(slot_dtype(n))));
      whole += fmt::format(" && ((u64)({}) & {}) == 0", out_.address(n), bytes - 1);
      for (const Term& term : out_.instr(n).index.terms) {
        if (term.axis == last_)
          whole += fmt::format(" && {} % {} == 0", Printer::number(term.coefficient), vec_);
      }
    }
    out_.line("const bool whole = {};", whole);
    for (const int n : staged)
      out_.line("{} g{}[{}];", Printer::type(slot_dtype(n)), n, rounds() * vec_);
    out_.open("if (whole)");
    print_staged_loads(staged, true);
    out_.close();
    out_.open("else");
    print_staged_loads(staged, false);
    out_.close();
    out_.raw("#pragma unroll");
    open_groups();
    for (const int n : staged) {
      for (int k = 0; k < vec_; ++k)
        out_.line("t{0}[line * {1} + at + {2}] = g{0}[j * {3} + {2}];", n, pitch(n), k, vec_);
    }
    out_.close();
  }

  void print_staged_loads(const std::vector<int>& staged, bool whole) {
    out_.raw("#pragma unroll");
    open_groups();
    out_.line("const index_t x{} = first0 + line, first = line0 + at;", last_);
    out_.name_axis(last_, fmt::format("x{}", last_));
    for (const int n : staged) print_staged_load(n, whole);
    out_.close();
  }

  // Whether all elements of a staged Load's group share one mask.
  bool is_whole_group(int n) const {
    return std::all_of(out_.instr(n).mask.begin(), out_.instr(n).mask.end(), [&](const Bound& b) {
      return std::none_of(b.expression.terms.begin(), b.expression.terms.end(),
                          [&](const Term& term) { return term.axis == turned_; });
    });
  }

  void print_staged_load(int n, bool whole) {
    out_.name_axis(turned_, "first");
    if (whole && is_whole_group(n)) return out_.load_pack(n, fmt::format("g{} + j * {}", n, vec_));
    for (int k = 0; k < vec_; ++k) {
      out_.name_axis(turned_, fmt::format("(first + {})", k));
      std::string element = out_.expression(n);
      if (!whole) {
        element =
            fmt::format("x{} < {} && first + {} < {} ? ({}) : {}", last_, out_.extent(last_), k,
                        out_.extent(turned_), element, Printer::constant(0, slot_dtype(n)));
      }
      out_.line("g{}[j * {} + {}] = {};", n, vec_, k, element);
    }
  }

  Printer& out_;
  const bool cuda_;
  const int vec_, tile_, turned_, last_;
  const std::vector<bool> live_;
  const std::vector<std::uint64_t> depends_;
  std::vector<bool> known_;
};

}  // namespace

void print_map(Printer& printer, Dialect dialect) { MapPrinter(printer, dialect).print(); }

}  // namespace volta::kernel
