// Kernel programs: canonical text, analysis, and one error per invariant.
#include <gtest/gtest.h>

#include <functional>

#include "kernel/kernel_samples.h"
#include "volta/error.h"

namespace volta::testing {
namespace {

using kernel::Int;
using kernel::Program;

TEST(KernelText, EqualProgramsHaveEqualText) {
  EXPECT_EQ(kernel::to_text(softmax_sample(32, 4).program),
            kernel::to_text(softmax_sample(32, 4).program));
}

TEST(KernelText, EverySampleHasATextOfItsOwn) {
  std::vector<std::string> texts;
  for (const Sample& sample : samples()) {
    const std::string text = kernel::to_text(sample.program);
    // Samples with NaNs or bad indices in their data repeat another program.
    if (sample.with_nans || sample.bad_index) continue;
    for (const std::string& other : texts) EXPECT_NE(text, other) << sample.name;
    texts.push_back(text);
  }
}

TEST(KernelText, SeesEveryField) {
  const Program original = pad_sample().program;
  const std::function<void(Program&)> changes[] = {
      [](Program& p) { p.slots[0].dtype = DType::f64; },
      [](Program& p) { p.slots[0].read = false; },
      [](Program& p) { p.slots[1].written = false; },
      [](Program& p) { p.args.push_back(DType::f32); },
      [](Program& p) { p.axes[0].extent = Int::literal(1); },
      [](Program& p) { p.axes[1].role = kernel::Role::Red; },
      [](Program& p) { p.schedule.kind = kernel::ScheduleKind::Row; },
      [](Program& p) { p.schedule.vec = 2; },
      [](Program& p) { p.schedule.index64 = true; },
      [](Program& p) { p.schedule.horizontal = true; },
      [](Program& p) { ++p.int_params; },
      [](Program& p) { p.instrs[0].slot = 1; },
      [](Program& p) { p.instrs[0].dtype = DType::f64; },
      [](Program& p) { p.instrs[0].constant = 0.5; },
      [](Program& p) { p.instrs[0].index.offset = Int::literal(3); },
      [](Program& p) { p.instrs[0].index.terms[0].coefficient = Int::literal(3); },
      [](Program& p) { p.instrs[0].mask[0].high = Int::literal(3); },
      [](Program& p) { p.instrs[0].mask.pop_back(); },
      [](Program& p) { p.instrs[1].once = true; },
      [](Program& p) { p.instrs.pop_back(); },
  };
  int n = 0;
  for (const auto& change : changes) {
    Program changed = original;
    change(changed);
    EXPECT_NE(kernel::to_text(changed), kernel::to_text(original)) << "change " << n;
    ++n;
  }
}

TEST(KernelText, LiteralAndParameterDiffer) {
  Program a = column_sum_sample().program, b = a;
  a.axes[0].extent = Int::literal(1);
  b.axes[0].extent = Int::param(1);
  EXPECT_NE(kernel::to_text(a), kernel::to_text(b));
}

TEST(KernelText, IgnoresWhatTheKindDoesNotUse) {
  Program a = column_sum_sample().program, b = a;
  b.instrs[1].constant = 7;  // a Reduce has no constant, so this is ignored
  EXPECT_EQ(kernel::to_text(a), kernel::to_text(b));
}

TEST(KernelAnalysis, PhasesOfLayerNorm) {
  const Program program = layer_norm_sample(32, 0).program;
  const kernel::Analysis analysis = kernel::analyze(program);
  EXPECT_EQ(analysis.phases, 3);
  EXPECT_FALSE(analysis.has_bounded);
  std::vector<int> reduce_phases;
  for (std::size_t n = 0; n < program.instrs.size(); ++n) {
    const kernel::InstrInfo& info = analysis.instrs[n];
    switch (program.instrs[n].kind) {
      case kernel::InstrKind::Reduce:
        reduce_phases.push_back(info.phase);
        EXPECT_EQ(info.domain, kernel::Domain::Par);
        break;
      case kernel::InstrKind::Arg:
        EXPECT_EQ(info.domain, kernel::Domain::Uniform);
        break;
      case kernel::InstrKind::Load:
        EXPECT_EQ(info.domain, kernel::Domain::Full);
        break;
      case kernel::InstrKind::Store:
        EXPECT_EQ(info.last_use, -1);
        break;
      default:
        break;
    }
  }
  EXPECT_EQ(reduce_phases, (std::vector<int>{0, 1}));
  // x is needed for the mean and for the centred values of phase 1, which are needed in phase 2.
  EXPECT_EQ(analysis.instrs[2].last_use, 1);
}

TEST(KernelAnalysis, FindsBounded) {
  EXPECT_TRUE(kernel::analyze(gather_sample(DType::i64, false).program).has_bounded);
}

// ---- Errors.

int find(const Program& program, kernel::InstrKind kind, int skip = 0) {
  for (std::size_t n = 0; n < program.instrs.size(); ++n) {
    if (program.instrs[n].kind == kind && skip-- == 0) return static_cast<int>(n);
  }
  return -1;
}

kernel::Instr& first(Program& program, kernel::InstrKind kind, int skip = 0) {
  return program.instrs[static_cast<std::size_t>(find(program, kind, skip))];
}

void expect_refused(const Program& program, const std::string& words) {
  try {
    kernel::validate(program);
    FAIL() << "accepted, expected: " << words;
  } catch (const BackendError& error) {
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

using Kind = kernel::InstrKind;

TEST(KernelValidate, OperandsPrecedeUses) {
  Program program = elementwise_sample(1).program;
  first(program, Kind::Op).a = static_cast<int>(program.instrs.size()) - 1;
  expect_refused(program, "does not precede its use");
}

TEST(KernelValidate, OperandIsNoStore) {
  Program program = elementwise_sample(1).program;
  first(program, Kind::Store, 1).a = find(program, Kind::Store);
  expect_refused(program, "is a Store");
}

TEST(KernelValidate, OperandsMatchTheArity) {
  Program program = elementwise_sample(1).program;
  kernel::Instr& op = first(program, Kind::Op, 2);  // tanh
  op.b = op.a;
  expect_refused(program, "takes 1 operand");
}

TEST(KernelValidate, OperandDTypesAreEqual) {
  Program program = gather_sample(DType::i64, false).program;
  const int index = find(program, Kind::Bounded), value = find(program, Kind::Load, 1);
  program.instrs.push_back(
      {.kind = Kind::Op, .dtype = DType::f32, .op = Op::add, .a = value, .b = index});
  expect_refused(program, "operands are f32 and i64");
}

TEST(KernelValidate, ResultDTypeIsTheTables) {
  Program program = elementwise_sample(1).program;
  first(program, Kind::Op).dtype = DType::f64;
  expect_refused(program, "result is f64, not f32");
}

TEST(KernelValidate, WhereTakesABool) {
  Program program = dropout_sample().program;
  for (kernel::Instr& instr : program.instrs) {
    if (instr.kind == Kind::Op && instr.op == Op::where) instr.a = instr.b;
  }
  expect_refused(program, "condition is f32, not bool");
}

TEST(KernelValidate, StorageTypesAreNotComputedWith) {
  Program program = storage_types_sample(2).program;
  program.instrs.push_back({.kind = Kind::Op, .dtype = DType::bf16, .op = Op::neg, .a = 0});
  expect_refused(program, "storage only");
}

TEST(KernelValidate, OperationExistsForTheDType) {
  Program program = gather_sample(DType::i64, false).program;
  program.instrs.push_back({.kind = Kind::Op, .dtype = DType::i64, .op = Op::exp, .a = 0});
  expect_refused(program, "exp does not exist for i64");
}

TEST(KernelValidate, LoadHasTheSlotsDType) {
  Program program = elementwise_sample(1).program;
  program.slots[0].dtype = DType::f64;
  expect_refused(program, "loads f32 from a slot of f64");
}

TEST(KernelValidate, StoreHasTheSlotsDType) {
  Program program = elementwise_sample(1).program;
  program.slots[2].dtype = DType::f64;
  expect_refused(program, "stores f32 to a slot of f64");
}

TEST(KernelValidate, ParAxesComeFirst) {
  Program program = column_sum_sample().program;
  std::swap(program.axes[0], program.axes[1]);
  expect_refused(program, "a Par axis follows a Red axis");
}

TEST(KernelValidate, MapHasNoRedAxes) {
  Program program = elementwise_sample(1).program;
  program.axes[1].role = kernel::Role::Red;
  expect_refused(program, "a Map has no Red axes");
}

TEST(KernelValidate, MapHasNoReduce) {
  Program program = elementwise_sample(1).program;
  program.instrs.push_back({.kind = Kind::Reduce, .a = find(program, Kind::Load)});
  expect_refused(program, "a Map has no Reduce");
}

TEST(KernelValidate, RowHasARedAxis) {
  Program program = elementwise_sample(1).program;
  program.schedule = row_schedule(32);
  expect_refused(program, "a Row needs a Red axis");
}

TEST(KernelValidate, IndexAxesAreInRange) {
  Program program = elementwise_sample(1).program;
  first(program, Kind::Load).index.terms[1].axis = 2;
  expect_refused(program, "axis 2 of 2");
}

TEST(KernelValidate, IndexAxesIncrease) {
  Program program = elementwise_sample(1).program;
  auto& terms = first(program, Kind::Load).index.terms;
  std::swap(terms[0], terms[1]);
  expect_refused(program, "must increase");
}

TEST(KernelValidate, SlotIsInRange) {
  Program program = elementwise_sample(1).program;
  first(program, Kind::Load).slot = 4;
  expect_refused(program, "slot 4 of 4");
}

TEST(KernelValidate, SlotReadFlagIsTrue) {
  Program program = elementwise_sample(1).program;
  program.slots[0].read = false;
  expect_refused(program, "slot 0 is not marked as read");
  program.slots[0].read = true;
  program.slots[2].read = true;
  expect_refused(program, "slot 2 is marked as read");
}

TEST(KernelValidate, SlotWrittenFlagIsTrue) {
  Program program = elementwise_sample(1).program;
  program.slots[2].written = false;
  expect_refused(program, "slot 2 is not marked as written");
}

TEST(KernelValidate, OneStorePerSlot) {
  Program program = elementwise_sample(1).program;
  program.instrs.push_back(first(program, Kind::Store));
  expect_refused(program, "more than one Store");
}

TEST(KernelValidate, StoreIndexesWhatItsValueVariesOver) {
  Program program = elementwise_sample(1).program;
  first(program, Kind::Store).index.terms.pop_back();
  expect_refused(program, "does not index axis 1");
}

TEST(KernelValidate, InPlaceLoadHasTheStoresIndex) {
  Program program = adam_sample(1, false).program;
  for (kernel::Instr& instr : program.instrs) {
    if (instr.kind == Kind::Load && instr.slot == 0) instr.index.offset = Int::literal(1);
  }
  expect_refused(program, "reads another element");
}

TEST(KernelValidate, InPlaceLoadPrecedesTheStore) {
  Program program = adam_sample(1, false).program;
  program.instrs.push_back(first(program, Kind::Load, 3));
  program.instrs.back().slot = 0;
  expect_refused(program, "reads it after its Store");
}

TEST(KernelValidate, OnceDoesNotUpdateWhatOthersRead) {
  Program program = adam_sample(1, false).program;
  for (kernel::Instr& instr : program.instrs) {
    if (instr.kind == Kind::Store && instr.once) instr.slot = 4;
  }
  program.slots[4].written = true;
  program.slots[5].written = false;
  expect_refused(program, "updated in place by fewer points than read it");
}

TEST(KernelValidate, NoLoadIsEvaluatedAgainAfterItsSlotIsUpdated) {
  // Phase 0 computes sum x; phase 1 stores x = 2x and has a second Reduce of x - mean; phase 2
  // needs x again.
  Build b;
  const auto rows = b.param(), length = b.param();
  const int i = b.axis(rows), r = b.red(length);
  const int x = b.slot(DType::f32), y = b.slot(DType::f32);
  const auto here = Build::at({{i, length}, {r, Build::one()}});
  const int value = b.load(x, here);
  const int centred = b.op(Op::sub, value, b.reduce(kernel::ReduceOp::Sum, value));
  b.store(x, here, b.op(Op::add, value, value));
  b.store(y, here, b.op(Op::mul, centred, b.reduce(kernel::ReduceOp::Max, centred)));
  expect_refused(b.finish(row_schedule(32, 0)), "evaluated again in phase");
  EXPECT_NO_THROW(kernel::validate(b.finish(row_schedule(32, 4))));
}

TEST(KernelValidate, ValueIndexIsBounded) {
  Program program = gather_sample(DType::i64, false).program;
  first(program, Kind::Load, 1).a = find(program, Kind::Load);
  expect_refused(program, "is not Bounded");
}

TEST(KernelValidate, BoundedTakesIntegers) {
  Program program = elementwise_sample(1).program;
  program.instrs.push_back(
      {.kind = Kind::Bounded, .dtype = DType::f32, .a = find(program, Kind::Load)});
  expect_refused(program, "bounds f32");
}

TEST(KernelValidate, ArgumentIsInRange) {
  Program program = elementwise_sample(1).program;
  first(program, Kind::Arg).slot = 1;
  expect_refused(program, "argument 1 of 1");
}

TEST(KernelValidate, ArgumentHasItsDType) {
  Program program = elementwise_sample(1).program;
  program.args[0] = DType::f64;
  expect_refused(program, "argument 0 is f64, not f32");
}

TEST(KernelValidate, IntegerParametersAreInRange) {
  for (const int where : {0, 1, 2, 3}) {
    Program program = gather_sample(DType::i64, false).program;
    const Int bad = Int::param(4);
    if (where == 0) program.axes[0].extent = bad;
    if (where == 1) first(program, Kind::Load, 1).index.terms[0].coefficient = bad;
    if (where == 2) first(program, Kind::Load, 1).value_stride = bad;
    if (where == 3) first(program, Kind::Bounded).high = bad;
    expect_refused(program, "integer parameter 4 of 4");
  }
}

TEST(KernelValidate, IntegerConstantsAreExact) {
  Program program = running_state_sample(1).program;
  for (kernel::Instr& instr : program.instrs) {
    if (instr.kind == Kind::Const && instr.dtype == DType::i32) instr.constant = 0x1p60;
  }
  expect_refused(program, "beyond 2^53");
}

TEST(KernelValidate, IndexIsAnInteger) {
  Program program = index_sample().program;
  first(program, Kind::Index).dtype = DType::f32;
  expect_refused(program, "an Index is i32 or i64");
}

TEST(KernelValidate, PhiloxDTypes) {
  Program program = dropout_sample().program;
  first(program, Kind::Philox).dtype = DType::i32;
  expect_refused(program, "Philox gives i64, f32 or f64");
  first(program, Kind::Philox).a = find(program, Kind::Arg, 2);
  expect_refused(program, "i64 seed");
}

TEST(KernelValidate, ArgReduceGivesI64) {
  Program program = reductions_sample(DType::f32, 32).program;
  for (kernel::Instr& instr : program.instrs) {
    if (instr.kind == Kind::Reduce && instr.reduce == kernel::ReduceOp::ArgMax)
      instr.dtype = DType::f32;
  }
  expect_refused(program, "reduces to i64, not f32");
}

TEST(KernelValidate, ScheduleNumbers) {
  Program row = column_sum_sample().program;
  row.schedule.lanes = 48;
  expect_refused(row, "power of two");
  row.schedule.lanes = 2048;
  expect_refused(row, "power of two");
  row.schedule = row_schedule(1, 2);
  expect_refused(row, "items need lanes > 1");
  row.schedule = row_schedule(32, 6);
  row.schedule.vec = 4;
  expect_refused(row, "not a multiple of vec");
  row.schedule = row_schedule(32);
  row.schedule.tile = 32;
  expect_refused(row, "a Row has no tile");
  Program softmax = softmax_sample(32, 0).program;
  softmax.schedule.peeled = true;
  expect_refused(softmax, "peeled rows need vectors");
  softmax.schedule.vec = 4;
  EXPECT_NO_THROW(kernel::validate(softmax));
  EXPECT_NE(kernel::to_text(softmax).find("vec 4 peeled"), std::string::npos);
  softmax.schedule.lanes = 4;
  expect_refused(softmax, "too few for both ends");
  row.schedule = row_schedule(32);  // it varies along the rows
  row.schedule.vec = 4;
  row.schedule.peeled = true;
  expect_refused(row, "no access says where");
  Program map = elementwise_sample(1).program;
  map.schedule.peeled = true;
  expect_refused(map, "nothing peeled");
  map.schedule.peeled = false;
  map.schedule.vec = 3;
  expect_refused(map, "vec must be");
  map.schedule = map_schedule();
  map.schedule.lanes = 32;
  expect_refused(map, "a Map has one lane");
  map.schedule = map_schedule(4);
  map.schedule.tile = 48;
  map.schedule.tile_axis = 0;
  expect_refused(map, "tile must be 32 or 64");
  map.schedule.tile = 64;
  EXPECT_NO_THROW(kernel::validate(map));
  map.schedule.tile_axis = 1;
  expect_refused(map, "tile axis 1 of 2");
  map.schedule = map_schedule(1);
  map.schedule.tile = 64;
  map.schedule.tile_axis = 0;
  expect_refused(map, "a tile needs vec > 1");
  Program scalar = scalar_sample().program;
  scalar.schedule.vec = 4;
  expect_refused(scalar, "vec > 1 needs an axis");
}

}  // namespace
}  // namespace volta::testing
