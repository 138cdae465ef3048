// Row kernels: `lanes` threads share each Par point. A phase loops over the thread's row elements
// in groups of `vec` neighbouring elements (or, with one lane, of neighbouring Par points); then
// the lanes combine their reductions.
#include "kernel/emit/emit_row.h"

#include <algorithm>
#include <vector>

#include "kernel/dependence.h"
#include "kernel/emit/emit_scan.h"
#include "kernel/vectors.h"

namespace volta::kernel {
namespace {

constexpr int kUnrolledRows = 8;             // Loads in flight when a row is read in a loop
constexpr int kUnrolledInstructions = 1024;  // bounds the unrolled body
constexpr int kBatchedRows = 32;             // Loads in flight when there is little else to do
constexpr int kBatchedInstructions = 2;      // a Load and its Reduce

class RowPrinter {
 public:
  RowPrinter(Printer& printer, Dialect dialect)
      : out_(printer),
        reductions_(printer, dialect),
        cuda_(dialect == Dialect::Cuda),
        lanes_(printer.program().schedule.lanes),
        items_(printer.program().schedule.items),
        whole_(printer.program().schedule.whole),
        vec_(printer.program().schedule.vec),
        peeled_(printer.program().schedule.peeled),
        threads_(block_threads(printer.program())),
        axes_(static_cast<int>(printer.program().axes.size())),
        axis_(vector_axis(printer.program())),
        live_(live_instructions(printer.program())),
        depends_(axis_dependence(printer.program())),
        groups_(peeled_ ? peeled_accesses(printer.program()) : std::vector<bool>()),
        plan_(plan_row(printer.program())) {
    while (reds_ < axes_ &&
           printer.program().axes[static_cast<std::size_t>(reds_)].role == Role::Par)
      ++reds_;
  }

  void print() {
    reductions_.print_scratch(plan_);
    if (lanes_ > 1 && !cuda_) print_scan_scratch(out_, threads_);
    print_point();
    for (int n = 0; n < out_.instr_count(); ++n) {
      if (plan_.kept[static_cast<std::size_t>(n)])
        out_.line("{} k{}[{}];", Printer::type(out_.instr(n).dtype), n, items_ + (peeled_ ? 1 : 0));
    }
    for (int phase = 0; phase < out_.analysis().phases; ++phase) {
      print_par_values(phase);
      print_row_values(plan_.phases[static_cast<std::size_t>(phase)]);
      print_results(plan_.phases[static_cast<std::size_t>(phase)].reduces);
    }
  }

 private:
  bool is(int n, InstrKind kind) const { return out_.instr(n).kind == kind; }
  bool varies(int n) const { return (depends_[static_cast<std::size_t>(n)] >> axis_ & 1) != 0; }
  bool kept(int n) const { return plan_.kept[static_cast<std::size_t>(n)]; }
  int width() const { return single_ ? 1 : vec_; }
  // Whether groups consist of neighbouring Par points, whose values are then arrays too.
  bool columns() const { return lanes_ == 1 && vec_ > 1; }

  // Whether an access takes the elements of a whole group. The start of a gathered row must be
  // known before the loop over the group's elements.
  bool is_vector_access(int n) const {
    if (single_) return false;
    if (peeled_) return groups_[static_cast<std::size_t>(n)];
    if (vec_ == 1 || !is_contiguous(out_.program(), n, axis_, depends_)) return false;
    const Instr& self = out_.instr(n);
    return self.kind == InstrKind::Store || self.a < 0 ||
           out_.info_of(self.a).domain != Domain::Full;
  }

  // ---- Points.

  void print_point() {
    const std::string points = out_.extent_product(Role::Par, "uindex_t");
    if (columns()) return print_group_of_points();
    if (lanes_ == 1) {
      out_.line("const uindex_t par = (uindex_t)block * {} + thread;", threads_);
      out_.line("if (par >= {}) return;", points);
    } else if (lanes_ < threads_) {
      out_.line("const index_t lane = thread % {};", lanes_);
      out_.line("const uindex_t row = (uindex_t)block * {} + thread / {};", threads_ / lanes_,
                lanes_);
      // Every thread takes part in the exchanges, so threads past the end stay, with an empty row
      // at point 0.
      out_.line("const bool active = row < {};", points);
      out_.line("const uindex_t par = active ? row : 0;");
    } else {
      out_.line("const index_t lane = thread;");
      out_.line("const uindex_t par = block;");
    }
    out_.digits("par", 0, reds_);
    if (lanes_ > 1) {
      const std::string length = out_.extent_product(Role::Red, "index_t");
      out_.line("const index_t length = {};",
                lanes_ < threads_ ? fmt::format("active ? {} : 0", length) : length);
    }
    if (peeled_) {
      const auto start = std::find(groups_.begin(), groups_.end(), true) - groups_.begin();
      print_ends(out_.affine(out_.instr(static_cast<int>(start)).index));
    }
  }

  // Prints where the groups of a peeled row begin if the row starts at element `start` of memory,
  // and which element before or after the groups belongs to the lane, or -1.
  void print_ends(const std::string& start) {
    out_.line("const index_t gap = -({}) & {};", start, vec_ - 1);
    out_.line("const index_t head = gap < length ? gap : length;");
    out_.line("const index_t tail = (length - head) & {};", vec_ - 1);
    out_.line(
        "const index_t end = lane < head ? lane : lane >= {0} && lane - {0} < tail ? length - tail "
        "+ lane - {0} : -1;",
        vec_);
    out_.line("const index_t begin = head + lane * {};", vec_);
  }

  // Takes `vec` points from `first` on along the last Par axis; vec divides its extent.
  void print_group_of_points() {
    out_.line("const uindex_t groups = (uindex_t){} / {};", out_.extent(axis_), vec_);
    std::string total = "groups";
    for (int axis = 0; axis < axis_; ++axis) total += " * (uindex_t)" + out_.extent(axis);
    out_.line("const uindex_t par = (uindex_t)block * {} + thread;", threads_);
    out_.line("if (par >= {}) return;", total);
    out_.line("const uindex_t outer = par / groups;");
    out_.line("const index_t first = (index_t)((par - outer * groups) * {});", vec_);
    out_.digits("outer", 0, axis_);
    out_.name_axis(axis_, "first");
  }

  // ---- Instructions of Par points, once per thread; lane 0 stores.

  std::string par_guard(int n) const {
    std::string guard;
    if (lanes_ > 1) guard = lanes_ < threads_ ? "active && lane == 0" : "lane == 0";
    if (out_.instr(n).once || out_.info_of(n).domain == Domain::Uniform) {
      guard += guard.empty() ? "par == 0" : " && par == 0";
      if (columns() && varies(n)) guard += " && e == 0";
    }
    return guard;
  }

  void print_par_values(int phase) {
    std::vector<int> values;
    // Threads past the last row stay for the exchanges; their rows are empty.
    out_.element_exists_if(lanes_ > 1 && lanes_ < threads_ ? "active" : "");
    for (int n = 0; n < out_.instr_count(); ++n) {
      const InstrInfo& known = out_.info_of(n);
      if (!live_[static_cast<std::size_t>(n)] || known.domain == Domain::Full ||
          known.phase != phase || is(n, InstrKind::Reduce))
        continue;
      if (columns() && varies(n)) {
        values.push_back(n);
      } else {
        print_par_value(n);
      }
    }
    if (!values.empty()) print_columns(values);
  }

  void print_par_value(int n) {
    if (divides_beside_a_row(n)) {
      const Instr& self = out_.instr(n);
      return out_.line("const f32 {} = quotient_f32({}, {});", out_.value(n), out_.value(self.a),
                       out_.value(self.b));
    }
    if (!is(n, InstrKind::Store)) return out_.define(n);
    // The other lanes must have read the memory before lane 0 overwrites it.
    const bool updates = out_.program().slots[static_cast<std::size_t>(out_.instr(n).slot)].read;
    if (updates && lanes_ > 1) out_.line("BARRIER;");
    out_.store(n, par_guard(n));
  }

  bool divides_beside_a_row(int n) const {
    return cuda_ && fills_registers(out_.program()) && is(n, InstrKind::Op) &&
           out_.instr(n).op == ScalarOp::div && out_.instr(n).dtype == DType::f32;
  }

  // Prints the values of a group of Par points as v<n>[e].
  void print_columns(const std::vector<int>& values) {
    for (const int n : values) {
      if (is(n, InstrKind::Store)) continue;
      out_.line("{} v{}[{}];", Printer::type(out_.instr(n).dtype), n, vec_);
      if (is_vector_access(n)) out_.load_pack(n, fmt::format("v{}", n));
      out_.name_value(n, fmt::format("v{}[e]", n));
    }
    open_elements("first");
    for (const int n : values) {
      if (is(n, InstrKind::Store)) {
        if (!stores_column(n)) out_.store(n, par_guard(n));
      } else if (!is_vector_access(n)) {
        out_.line("v{}[e] = {};", n, out_.expression(n));
      }
    }
    close_elements("first");
    for (const int n : values) {
      if (!stores_column(n)) continue;
      const std::string& element = out_.value(out_.instr(n).a);
      out_.store_pack(n, element.substr(0, element.find('[')));
    }
  }

  bool stores_column(int n) const {
    return is(n, InstrKind::Store) && is_vector_access(n) && varies(out_.instr(n).a);
  }

  // ---- Elements of rows.

  void print_row_values(const RowPhase& plan) {
    for (const int n : plan.reduces)
      reductions_.print_accumulator(n, columns() && varies(n) ? vec_ : 0);
    if (plan.compute.empty() && plan.loads.empty()) return;
    for (const int n : plan.compute) out_.name_value(n, fmt::format("v{}", n));
    out_.element_exists_if("");  // the loops only visit elements that exist
    if (!plan.scans.empty()) return print_scans(plan);
    if (lanes_ == 1) {
      print_serial_loops(plan);
    } else if (items_ > 0) {
      print_items(plan);
    } else {
      print_shared_loop(plan);
    }
  }

  // Each phase that visits the row scans again.
  void print_scans(const RowPhase& plan) {
    out_.open("");
    for (const int n : plan.scans) print_scan_start(out_, n);
    if (lanes_ == 1) {
      print_serial_loops(plan);
    } else {
      print_scan_loop(plan);
    }
    out_.close();
  }

  std::string unroll(const RowPhase& plan) const {
    int times = kUnrolledRows;
    const int body = static_cast<int>(plan.compute.size()) * vec_;
    while (times > 1 && times * body > kUnrolledInstructions) times /= 2;
    return fmt::format("#pragma unroll {}", times);
  }

  // Nested loops over the Red axes, without divisions.
  void print_serial_loops(const RowPhase& plan) {
    const bool position = std::any_of(plan.reduces.begin(), plan.reduces.end(),
                                      [&](int n) { return reductions_.has_position(n); });
    const std::string counter = fmt::format("r{}", loops_++);
    if (position) out_.line("index_t {} = 0;", counter);
    std::string first = "par == 0";
    for (int axis = reds_; axis < axes_; ++axis) {
      const std::string name = fmt::format("x{}", axis);
      if (axis == axes_ - 1 && is_batched(plan)) return print_batches(plan, counter, first);
      if (axis == axes_ - 1) out_.raw(unroll(plan));
      const int bound = out_.program().axes[static_cast<std::size_t>(axis)].bound;
      const std::string end = bound < 0 ? out_.extent(axis) : "(index_t)" + out_.value(bound);
      const bool back = !plan.scans.empty() && out_.instr(plan.scans.front()).reverse;
      out_.open(back ? fmt::format("for (index_t {0} = {1} - 1; {0} >= 0; --{0})", name, end)
                     : fmt::format("for (index_t {0} = 0; {0} < {1}; ++{0})", name, end));
      out_.name_axis(axis, name);
      first += fmt::format(" && {} == 0", name);
    }
    print_group(plan, "first", counter, first);
    if (position) out_.line("++{};", counter);
    for (int axis = reds_; axis < axes_; ++axis) out_.close();
  }

  // Whether Loads are batched: with so little arithmetic a thread would mostly wait for them.
  bool is_batched(const RowPhase& plan) const {
    const int last = axes_ - 1;
    return vec_ == 1 && out_.program().axes[static_cast<std::size_t>(last)].bound < 0 &&
           plan.compute.size() <= kBatchedInstructions && plan.reduces.size() == 1 &&
           !reductions_.has_position(plan.reduces.front());
  }

  // Prints the last Red axis in batches, then its remainder; closes the loops around it.
  void print_batches(const RowPhase& plan, const std::string& counter, const std::string& first) {
    const int last = axes_ - 1;
    const std::string name = fmt::format("x{}", last), end = out_.extent(last);
    out_.name_axis(last, name);
    out_.open("");
    out_.line("index_t {} = 0;", name);
    out_.open(fmt::format("while ({} + {} <= {})", name, kBatchedRows, end));
    out_.raw("#pragma unroll");
    out_.open(fmt::format("for (int k = 0; k < {}; ++k, ++{})", kBatchedRows, name));
    print_group(plan, "first", counter, first);
    out_.close();
    out_.close();
    out_.raw(unroll(plan));
    out_.open(fmt::format("for (; {0} < {1}; ++{0})", name, end));
    print_group(plan, "first", counter, first);
    out_.close();
    out_.close();
    for (int axis = reds_; axis < last; ++axis) out_.close();
  }

  // The lanes stride over the linearised Red axes together; `r0` is the first element of a group.
  void print_shared_loop(const RowPhase& plan) {
    const std::vector<int> axes = long_reds();
    if (axes.size() > 1) print_first_digits(axes);
    if (peeled_) print_end([&] { print_row_group(plan); });
    out_.raw(unroll(plan));
    out_.open(fmt::format("for (index_t r0 = {}; {}; r0 += {})", first_group(), group_fits(),
                          lanes_ * vec_));
    if (axes.size() == 1) out_.digits("(uindex_t)r0", reds_, axes_);
    print_row_group(plan);
    if (axes.size() > 1) print_next_digits(axes);
    out_.close();
    if (axes.size() > 1) out_.close();
  }

  // The start of the lane's first group, and whether the group at `r0` lies inside the row.
  std::string first_group() const {
    if (peeled_) return "begin";
    return vec_ == 1 ? "lane" : fmt::format("lane * {}", vec_);
  }
  std::string group_fits() const {
    return peeled_ ? fmt::format("r0 + {} <= length", vec_) : "r0 < length";
  }

  // Prints the lane's element before or after the groups of a peeled row.
  template <class Group>
  void print_end(Group print_group) {
    single_ = true;
    out_.open("if (end >= 0)");
    out_.digits("(uindex_t)end", reds_, axes_);
    print_group();
    out_.close();
    single_ = false;
  }

  // The lanes cover the row side by side and all stay until its end, because they exchange their
  // sums in each round. Lanes past the end read the first element and store nothing.
  void print_scan_loop(const RowPhase& plan) {
    out_.open(fmt::format("for (index_t base = 0; base < {}; base += {})",
                          out_.extent_product(Role::Red, "index_t"), lanes_));
    out_.line("const bool inside = base + lane < length;");
    out_.line("const index_t r = {};", out_.instr(plan.scans.front()).reverse
                                           ? "inside ? length - 1 - base - lane : 0"
                                           : "inside ? base + lane : 0");
    out_.digits("(uindex_t)r", reds_, axes_);
    out_.element_exists_if("inside");
    for (const int n : plan.compute) {
      if (is(n, InstrKind::Reduce)) {
        out_.open("if (inside)");
        reductions_.print_accumulation(n, "", "r");
        out_.close();
      } else if (is(n, InstrKind::Store)) {
        out_.store(n, out_.instr(n).once ? "inside && par == 0 && r == 0" : "inside");
      } else if (is(n, InstrKind::Scan)) {
        print_scan_round(out_, n, lanes_, cuda_);
      } else {
        out_.define(n);
      }
    }
    out_.close();
  }

  // Elements in registers: a thread has `items` of them, in groups. Items known to lie inside the
  // row are not tested for its end, so that their loads can overlap. If none are known to, a test
  // at run time finds rows that fill all items.
  void print_items(const RowPhase& plan) {
    if (vec_ == 1 || whole_ > 0 || peeled_) return print_items(plan, whole_);
    out_.open(fmt::format("if (length == {})", lanes_ * items_));
    print_items(plan, items_);
    out_.close();
    out_.open("else");
    print_items(plan, 0);
    out_.close();
  }

  // The first `whole` items are known to lie inside the row.
  void print_items(const RowPhase& plan, int whole) {
    if (!plan.loads.empty()) print_all_items(whole, [&] { print_item_loads(plan); });
    print_all_items(whole, [&] { print_row_group(plan); });
  }

  template <class Group>
  void print_all_items(int whole, Group print_group) {
    if (peeled_) print_end(print_group);
    if (whole > 0) print_items(0, whole, false, print_group);
    if (whole < items_) print_items(whole, items_, true, print_group);
  }

  template <class Group>
  void print_items(int from, int to, bool tested, Group print_group) {
    out_.raw("#pragma unroll");
    out_.open(fmt::format("for (int k = {}; k < {}; ++k)", from / vec_, to / vec_));
    out_.line("const index_t r0 = {} + k * {};", first_group(), lanes_ * vec_);
    if (tested) out_.open(fmt::format("if ({})", group_fits()));
    out_.digits("(uindex_t)r0", reds_, axes_);
    print_group();
    if (tested) out_.close();
    out_.close();
  }

  void print_item_loads(const RowPhase& plan) {
    const std::string start = out_.axis_name(axis_);
    for (const int n : plan.loads) {
      if (is_vector_access(n)) {
        out_.load_pack(n, fmt::format("k{} + k * {}", n, vec_));
      } else if (width() == 1) {
        out_.line("{} = {};", kept_element(n), out_.expression(n));
      } else {
        open_elements(start);
        out_.line("{} = {};", kept_element(n), out_.expression(n));
        close_elements(start);
      }
    }
  }

  // Prints the group of row elements at `r0`. Values of earlier phases are in k<n>.
  void print_row_group(const RowPhase& plan) {
    for (const int n : plan.compute) out_.name_value(n, fmt::format("v{}", n));
    for (const std::vector<int>* held : {&plan.fetch, &plan.loads}) {
      for (const int n : *held) out_.name_value(n, kept_name(n));
    }
    const std::string start = out_.axis_name(axis_), r = single_     ? "end"
                                                         : vec_ == 1 ? "r0"
                                                                     : "(r0 + e)";
    print_group(plan, start, r, fmt::format("par == 0 && {} == 0", r));
  }

  // The register of an element's value between phases. kept_name names a value that is constant
  // within its group by the group's first element, which is known outside the loop.
  std::string kept_element(int n) const {
    if (single_) return fmt::format("k{}[{}]", n, items_);
    return vec_ == 1 ? fmt::format("k{}[k]", n) : fmt::format("k{}[k * {} + e]", n, vec_);
  }
  std::string kept_name(int n) const {
    if (width() == 1 || varies(n)) return kept_element(n);
    return fmt::format("k{}[k * {}]", n, vec_);
  }

  // Prints `vec` neighbouring points of the vector axis from `start` on: loads vectors, computes
  // once what does not vary within the group and the rest for each element e, then stores vectors.
  void print_group(const RowPhase& plan, const std::string& start, const std::string& position,
                   const std::string& first) {
    std::vector<int> elements;
    for (const int n : plan.compute) {
      // With several lanes a group is part of a row, whose reduction counts every element.
      const bool once = lanes_ == 1 || !(is(n, InstrKind::Reduce) || is(n, InstrKind::Store));
      if (is_vector_access(n)) {
        elements.push_back(n);
        print_vector(n);
      } else if (width() == 1 || (!varies(n) && once)) {
        print_element(n, "", position, first);
        if (kept(n)) elements.push_back(n);
      } else {
        elements.push_back(n);
      }
    }
    if (width() == 1) return keep(elements);
    if (elements.empty()) return;
    open_elements(start);
    for (const int n : elements) {
      if (is_vector_access(n)) {
        if (is(n, InstrKind::Store)) out_.line("y{}[e] = {};", n, out_.value(out_.instr(n).a));
      } else if (varies(n) || is(n, InstrKind::Reduce) || is(n, InstrKind::Store)) {
        columns() ? print_element(n, "[e]", position, first + " && e == 0")
                  : print_element(n, "", position, first);
      }
    }
    keep(elements);
    close_elements(start);
    for (const int n : elements) {
      if (is(n, InstrKind::Store) && is_vector_access(n)) out_.store_pack(n, fmt::format("y{}", n));
    }
  }

  void print_vector(int n) {
    const bool load = is(n, InstrKind::Load);
    const DType dtype = out_.program().slots[static_cast<std::size_t>(out_.instr(n).slot)].dtype;
    out_.line("{} {}{}[{}];", Printer::type(dtype), load ? "l" : "y", n, vec_);
    if (!load) return;
    out_.load_pack(n, fmt::format("l{}", n));
    out_.name_value(n, fmt::format("l{}[e]", n));
  }

  void print_element(int n, const std::string& element, const std::string& position,
                     const std::string& first) {
    if (is(n, InstrKind::Reduce)) {
      reductions_.print_accumulation(n, element, position);
    } else if (is(n, InstrKind::Store)) {
      out_.store(n, out_.instr(n).once ? first : "");
    } else if (is(n, InstrKind::Scan)) {
      print_scan_step(out_, n);
    } else {
      out_.define(n);
    }
  }

  // Copies values that later phases need into their registers.
  void keep(const std::vector<int>& values) {
    for (const int n : values) {
      if (!kept(n)) continue;
      out_.line("{} = {};", kept_element(n), out_.value(n));
    }
  }

  void open_elements(const std::string& start) {
    out_.raw("#pragma unroll");
    out_.open(fmt::format("for (int e = 0; e < {}; ++e)", vec_));
    out_.line("const index_t z = {} + e;", start);
    out_.name_axis(axis_, "z");
  }
  void close_elements(const std::string& start) {
    out_.close();
    out_.name_axis(axis_, start);
  }

  // The Red axes that have more than one point.
  std::vector<int> long_reds() const {
    std::vector<int> axes;
    for (int axis = reds_; axis < axes_; ++axis) {
      if (out_.extent(axis) != "1") axes.push_back(axis);
    }
    return axes;
  }

  // Several Red axes: prints the axis indices of the thread's first element and of the stride
  // between its groups, so that the loop adds and carries instead of dividing.
  void print_first_digits(const std::vector<int>& axes) {
    out_.open("");
    std::string element = fmt::format("(uindex_t)lane * {}", vec_),
                stride = fmt::format("(uindex_t){}", lanes_ * vec_);
    for (std::size_t n = axes.size(); n-- > 0;) {
      const int axis = axes[n];
      out_.name_axis(axis, fmt::format("x{}", axis));
      if (n == 0) {
        out_.line("index_t x{} = (index_t)({});", axis, element);
        out_.line("const index_t d{} = (index_t)({});", axis, stride);
        break;
      }
      // If a row is empty, these values are not used, but must not divide by zero.
      out_.line("const uindex_t e{0} = {1} > 0 ? (uindex_t){1} : 1;", axis, out_.extent(axis));
      out_.line("index_t x{0} = (index_t)(({1}) % e{0});", axis, element);
      out_.line("const index_t d{0} = (index_t)(({1}) % e{0});", axis, stride);
      element = fmt::format("({}) / e{}", element, axis);
      stride = fmt::format("({}) / e{}", stride, axis);
    }
  }

  void print_next_digits(const std::vector<int>& axes) {
    for (std::size_t n = axes.size(); n-- > 0;) {
      const int axis = axes[n];
      out_.line("x{0} += d{0};", axis);
      if (n == 0) break;
      out_.open(fmt::format("if (x{} >= {})", axis, out_.extent(axis)));
      out_.line("x{} -= {};", axis, out_.extent(axis));
      out_.line("++x{};", axes[n - 1]);
      out_.close();
    }
  }

  // ---- Results.

  void print_results(const std::vector<int>& reduces) {
    reductions_.print_join(reduces);
    for (const int n : reduces) {
      const bool column = columns() && varies(n);
      if (!reductions_.has_position(n)) {
        out_.name_value(n, fmt::format("a{}{}", n, column ? "[e]" : ""));
      } else if (column) {
        out_.line("i64 v{}[{}];", n, vec_);
        for (int k = 0; k < vec_; ++k)
          out_.line("v{0}[{1}] = at{0}[{1}] == NO_POSITION ? 0 : (i64)at{0}[{1}];", n, k);
        out_.name_value(n, fmt::format("v{}[e]", n));
      } else {
        out_.line("const i64 v{0} = at{0} == NO_POSITION ? 0 : (i64)at{0};", n);
        out_.name_value(n, fmt::format("v{}", n));
      }
    }
  }

  Printer& out_;
  ReductionPrinter reductions_;
  const bool cuda_;
  const int lanes_, items_, whole_, vec_;
  const bool peeled_;
  const int threads_, axes_, axis_;
  const std::vector<bool> live_;
  const std::vector<std::uint64_t> depends_;
  const std::vector<bool> groups_;  // peeled rows: which accesses take whole groups
  const RowPlan plan_;
  int reds_ = 0;         // the first Red axis
  int loops_ = 0;        // serial loops printed so far
  bool single_ = false;  // an element before or after the groups of a peeled row is being printed
};

}  // namespace

void print_row(Printer& printer, Dialect dialect) { RowPrinter(printer, dialect).print(); }

}  // namespace volta::kernel
