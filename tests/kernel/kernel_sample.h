// A kernel program with bindings, for the tests of the emitter and of every backend, and the
// builder of such programs.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "kernel/program.h"

namespace volta::testing {

// One use of a sample's program.
struct SampleBinding {
  std::vector<std::int64_t> ints;
  std::vector<std::int64_t> elements;  // for each slot
  std::vector<std::uint64_t> args;
};

struct Sample {
  std::string name;
  kernel::Program program;
  std::vector<SampleBinding> bindings =
      {};  // for horizontal programs, the segments of one launch; otherwise separate runs
  std::int64_t index_high = 100;  // integer slots are filled with values below this
  bool with_nans = false;         // some floats in read slots are NaN
  bool bad_index = false;         // a Bounded gets a value out of range
  double tolerance = 2e-5;        // relative to max(1, |expected|)
};

inline std::uint64_t float_arg(double value) { return std::bit_cast<std::uint64_t>(value); }
inline std::uint64_t int_arg(std::int64_t value) { return std::bit_cast<std::uint64_t>(value); }

// Builds a program; `finish` sets the flags that follow from the instructions.
class ProgramBuilder {
 public:
  using Int = kernel::Int;
  using Affine = kernel::Affine;
  using Instr = kernel::Instr;
  using Kind = kernel::InstrKind;

  Int param() { return Int::param(program_.int_params++); }
  int axis(Int extent, kernel::Role role = kernel::Role::Par) {
    program_.axes.push_back({extent, role});
    return static_cast<int>(program_.axes.size()) - 1;
  }
  int red(Int extent) { return axis(extent, kernel::Role::Red); }
  int slot(DType dtype) {
    program_.slots.push_back({dtype});
    return static_cast<int>(program_.slots.size()) - 1;
  }
  int push(Instr instr) {
    program_.instrs.push_back(std::move(instr));
    return static_cast<int>(program_.instrs.size()) - 1;
  }

  static Affine at(std::vector<kernel::Term> terms, Int offset = {}) {
    return {std::move(terms), offset};
  }
  static Int one() { return Int::literal(1); }

  int constant(DType dtype, double value) {
    return push({.kind = Kind::Const, .dtype = dtype, .constant = value});
  }
  int arg(DType dtype) {
    program_.args.push_back(dtype);
    return push(
        {.kind = Kind::Arg, .dtype = dtype, .slot = static_cast<int>(program_.args.size()) - 1});
  }
  int index(DType dtype, Affine affine) {
    return push({.kind = Kind::Index, .dtype = dtype, .index = std::move(affine)});
  }
  int load(int slot, Affine affine, std::vector<kernel::Bound> mask = {}, double fill = 0) {
    return push({.kind = Kind::Load,
                 .dtype = program_.slots[static_cast<std::size_t>(slot)].dtype,
                 .slot = slot,
                 .index = std::move(affine),
                 .mask = std::move(mask),
                 .constant = fill});
  }
  int gather(int slot, Affine affine, int value, Int stride) {
    const int n = load(slot, std::move(affine));
    program_.instrs.back().a = value;
    program_.instrs.back().value_stride = stride;
    return n;
  }
  int bounded(int a, Int high, Int site) {
    return push({.kind = Kind::Bounded, .dtype = dtype(a), .a = a, .high = high, .site = site});
  }
  int cast(int a, DType to) { return push({.kind = Kind::Cast, .dtype = to, .a = a}); }
  int op(kernel::ScalarOp op, int a, int b = -1, int c = -1) {
    const bool truth = kernel::info(op).result == kernel::ScalarResult::Bool;
    const DType result = op == kernel::ScalarOp::where ? dtype(b)
                         : truth                       ? DType::boolean
                                                       : dtype(a);
    return push({.kind = Kind::Op, .dtype = result, .op = op, .a = a, .b = b, .c = c});
  }
  int philox(DType dtype, int seed, int offset, Affine element) {
    return push({.kind = Kind::Philox,
                 .dtype = dtype,
                 .a = seed,
                 .b = offset,
                 .index = std::move(element)});
  }
  int reduce(kernel::ReduceOp op, int a) {
    const bool arg = op == kernel::ReduceOp::ArgMax || op == kernel::ReduceOp::ArgMin;
    return push({.kind = Kind::Reduce, .dtype = arg ? DType::i64 : dtype(a), .reduce = op, .a = a});
  }
  int scan(int a, bool reverse, int start = -1) {
    return push({.kind = Kind::Scan, .dtype = dtype(a), .a = a, .b = start, .reverse = reverse});
  }
  int search(int slot, int value, Int stride, Int count) {
    return push({.kind = Kind::Search,
                 .dtype = DType::i32,
                 .a = value,
                 .slot = slot,
                 .value_stride = stride,
                 .high = count});
  }
  void bound(int axis, int instr) { program_.axes[static_cast<std::size_t>(axis)].bound = instr; }
  void store(int slot, Affine affine, int a, std::vector<kernel::Bound> mask = {}) {
    push({.kind = Kind::Store,
          .dtype = dtype(a),
          .a = a,
          .slot = slot,
          .index = std::move(affine),
          .mask = std::move(mask)});
  }
  void store_once(int slot, Affine affine, int a) {
    store(slot, std::move(affine), a);
    program_.instrs.back().once = true;
  }

  kernel::Program finish(kernel::Schedule schedule) {
    for (const Instr& instr : program_.instrs) {
      if (instr.kind == Kind::Load || instr.kind == Kind::Search)
        program_.slots[static_cast<std::size_t>(instr.slot)].read = true;
      if (instr.kind == Kind::Store)
        program_.slots[static_cast<std::size_t>(instr.slot)].written = true;
    }
    program_.schedule = schedule;
    return program_;
  }

 private:
  DType dtype(int n) const { return program_.instrs[static_cast<std::size_t>(n)].dtype; }

  kernel::Program program_;
};

using Op = kernel::ScalarOp;
using Build = ProgramBuilder;

inline kernel::Schedule map_schedule(int vec = 1, bool horizontal = false) {
  return {.kind = kernel::ScheduleKind::Map, .vec = vec, .horizontal = horizontal};
}
inline kernel::Schedule row_schedule(int lanes, int items = 0, bool horizontal = false) {
  return {
      .kind = kernel::ScheduleKind::Row, .lanes = lanes, .items = items, .horizontal = horizontal};
}
inline std::string row_suffix(int lanes, int items) {
  return "_lanes" + std::to_string(lanes) + "_items" + std::to_string(items);
}

}  // namespace volta::testing
