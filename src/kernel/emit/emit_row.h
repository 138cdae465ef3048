// The reductions of Row kernels: the accumulators of a thread, and how lanes combine their results.
#pragma once

#include <string>
#include <vector>

#include "kernel/emit/emit_printer.h"
#include "kernel/row_plan.h"

namespace volta::kernel {

class ReductionPrinter {
 public:
  ReductionPrinter(Printer& printer, Dialect dialect);

  // Declares the local memory that print_join needs; OpenCL requires this at the top of a kernel.
  void print_scratch(const RowPlan& plan);
  // Declares the accumulator a<n> of a Reduce (and at<n>, its position): an array of `count`, or
  // one variable if `count` is 0.
  void print_accumulator(int n, int count);
  // Combines a<n> with the value of the operand at `position`; `element` is "[e]" in an array.
  void print_accumulation(int n, const std::string& element, const std::string& position);
  // Combines the accumulators of the lanes; afterwards each lane has the result.
  void print_join(const std::vector<int>& reduces);

  bool has_position(int n) const;

 private:
  DType operand_dtype(int n) const { return out_.instr(out_.instr(n).a).dtype; }
  void combine(int n, const std::string& into, const std::string& into_position,
               const std::string& value, const std::string& position);
  void butterfly(int n, int width);
  void join_warps(const std::vector<int>& reduces);
  void join_in_local_memory(int n);

  Printer& out_;
  const bool cuda_;
  const int lanes_, threads_;
};

}  // namespace volta::kernel
