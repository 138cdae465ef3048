// Prints the lines of a kernel: expressions over instructions, indices and parameters. Everything
// printed here is common to CUDA C++ and OpenCL C; names that differ come from the dialect's
// prelude.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernel/emit.h"
#include "kernel/program.h"

namespace volta::kernel {

class Printer {
 public:
  explicit Printer(const Program& program);

  const Program& program() const { return program_; }
  const Analysis& analysis() const { return analysis_; }
  const Instr& instr(int n) const { return program_.instrs[static_cast<std::size_t>(n)]; }
  const InstrInfo& info_of(int n) const { return analysis_.instrs[static_cast<std::size_t>(n)]; }
  int instr_count() const { return static_cast<int>(program_.instrs.size()); }

  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    raw(fmt::format(format, std::forward<Args>(args)...));
  }
  void raw(std::string_view text);
  void open(std::string_view head);  // prints "head {" and indents what follows
  void close();
  std::string take() { return std::move(text_); }

  // Sets the C name for the current value of an axis; "0" until set.
  void name_axis(int axis, std::string name) {
    axis_names_[static_cast<std::size_t>(axis)] = std::move(name);
  }
  const std::string& axis_name(int axis) const {
    return axis_names_[static_cast<std::size_t>(axis)];
  }

  static std::string number(Int value);
  std::string affine(const Affine& affine) const;
  std::string condition(const std::vector<Bound>& mask) const;  // "" if there is no mask
  std::string extent(int axis) const {
    return number(program_.axes[static_cast<std::size_t>(axis)].extent);
  }
  // The product of the extents of the axes with `role`, as the C type `type`.
  std::string extent_product(Role role, std::string_view type) const;
  // Splits the linear index `from` (consumed) into the indices of axes [first, last), or of `axes`,
  // with one division per axis.
  void digits(std::string from, int first, int last);
  void digits(std::string from, const std::vector<int>& axes);

  // Sets the C condition under which the following instructions have an element; "" if they are
  // only reached with one. Threads without an element take part in exchanges, and their values must
  // not be reported as a wrong index, so a Bounded instruction is refused until this has been
  // called.
  void element_exists_if(std::string condition) { exists_if_ = std::move(condition); }

  // The C expression of an instruction (not Reduce or Store), and its definition as v<n>.
  std::string expression(int n) const;
  void define(int n);
  // Prints slot[index] = v under the instruction's mask and `guard`, either of which may be empty.
  void store(int n, const std::string& guard);

  static std::string type(DType dtype) {
    return std::string(dtype == DType::boolean ? "b8" : name_of(dtype));
  }
  // The C name of an instruction's value: v<n> unless it was given another name.
  const std::string& value(int n) const { return value_names_[static_cast<std::size_t>(n)]; }
  void name_value(int n, std::string name) {
    value_names_[static_cast<std::size_t>(n)] = std::move(name);
  }
  // Loads or stores schedule.vec neighbouring elements, in accesses of up to 16 bytes: load_pack
  // from Load `n` into the array `to`, store_pack from the array `from` to the memory of Store `n`.
  void load_pack(int n, const std::string& to);
  void store_pack(int n, const std::string& from);
  // The address of the element that a Load or Store accesses.
  std::string address(int n) const;
  static std::string constant(double value, DType dtype);
  static std::string cast(const std::string& expression, DType from, DType to);
  // The name of the C function for a scalar operation on operands of `dtype`.
  static std::string op_function(ScalarOp op, DType dtype) {
    return fmt::format("op_{}_{}", info(op).name, type(dtype));
  }

 private:
  std::string element_index(const Instr& self) const;
  std::string checked_index(const Instr& self) const;

  const Program& program_;
  Analysis analysis_;
  std::vector<std::string> axis_names_, value_names_;
  std::string text_;
  std::optional<std::string> exists_if_;
  int depth_ = 0;
};

// Whether the items of a Row leave few registers for anything else.
inline bool fills_registers(const Program& program) { return program.schedule.whole > 0; }

// Print the schedule's part of the kernel, after slots, arguments and integers have their names.
// `block` and `thread` name the block within the binding and the thread within the block.
void print_map(Printer& printer, Dialect dialect);
void print_row(Printer& printer, Dialect dialect);

// The dialect's names of types and of everything else that differs.
std::string dialect_names(Dialect dialect, bool doubles);
// Conversions between f32 and f16 or bf16.
std::string_view half_functions(DType dtype, Dialect dialect);
// The dialect's names, and the device functions that `program` uses.
std::string prelude(const Program& program, Dialect dialect);
// Functions that load and store `count` elements of a dtype at once.
std::string pack_functions(DType dtype, int count, Dialect dialect);

}  // namespace volta::kernel
