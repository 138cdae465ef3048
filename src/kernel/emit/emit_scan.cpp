// Prefix sums. The tree of additions depends on the lanes and the row's length alone.
#include "kernel/emit/emit_scan.h"

#include <algorithm>
#include <vector>

namespace volta::kernel {
namespace {

std::string plus(DType dtype, const std::string& a, const std::string& b) {
  return fmt::format("{}({}, {})", Printer::op_function(ScalarOp::add, dtype), a, b);
}

// CUDA: scans within warps by shuffles, then over the warps' sums in shared memory.
void print_cuda_round(Printer& out, int n, int lanes) {
  const DType dtype = out.instr(n).dtype;
  const std::string type = Printer::type(dtype);
  const int width = std::min(lanes, 32), warps = lanes / 32;
  out.raw("#pragma unroll");
  out.open(fmt::format("for (int m = 1; m < {}; m <<= 1)", width));
  out.line("const {} o = ({})__shfl_up_sync(0xffffffffu, t{}, m, {});", type, type, n, width);
  out.line("if (lane % {} >= m) t{} = {};", width, n, plus(dtype, "o", fmt::format("t{}", n)));
  out.close();
  if (lanes <= 32) {
    out.line("const {} {} = {};", type, out.value(n),
             plus(dtype, fmt::format("c{}", n), fmt::format("t{}", n)));
    out.line(
        "c{0} = {1};", n,
        plus(dtype, fmt::format("c{}", n),
             fmt::format("({})__shfl_sync(0xffffffffu, t{}, {}, {})", type, n, width - 1, width)));
    return;
  }
  out.line("__shared__ {} w{}[{}];", type, n, warps);
  out.line("BARRIER;");
  out.line("if (thread % 32 == 31) w{0}[thread / 32] = t{0};", n);
  out.line("BARRIER;");
  out.line("{0} f{1} = c{1};", type, n);
  out.raw("#pragma unroll");
  out.open(fmt::format("for (int k = 0; k < {}; ++k)", warps));
  out.line("if (k == thread / 32) f{0} = c{0};", n);
  out.line("c{0} = {1};", n, plus(dtype, fmt::format("c{}", n), fmt::format("w{}[k]", n)));
  out.close();
  out.line("const {} {} = {};", type, out.value(n),
           plus(dtype, fmt::format("f{}", n), fmt::format("t{}", n)));
}

// OpenCL 1.2 has no subgroup exchange, so every step goes through local memory.
void print_opencl_round(Printer& out, int n, int lanes) {
  const DType dtype = out.instr(n).dtype;
  const std::string type = Printer::type(dtype), scratch = "scan_" + type;
  out.line("{}[thread] = t{};", scratch, n);
  out.line("BARRIER;");
  out.open(fmt::format("for (int m = 1; m < {}; m <<= 1)", lanes));
  out.line("const {} o = {}[lane >= m ? thread - m : thread];", type, scratch);
  out.line("BARRIER;");
  out.line("if (lane >= m) t{} = {};", n, plus(dtype, "o", fmt::format("t{}", n)));
  out.line("{}[thread] = t{};", scratch, n);
  out.line("BARRIER;");
  out.close();
  out.line("const {} {} = {};", type, out.value(n),
           plus(dtype, fmt::format("c{}", n), fmt::format("t{}", n)));
  out.line("c{} = {};", n,
           plus(dtype, fmt::format("c{}", n),
                fmt::format("{}[thread - lane + {}]", scratch, lanes - 1)));
  out.line("BARRIER;");
}

}  // namespace

void print_scan_scratch(Printer& out, int threads) {
  std::vector<bool> declared(kDTypeCount);
  for (int n = 0; n < out.instr_count(); ++n) {
    const std::size_t dtype = static_cast<std::size_t>(out.instr(n).dtype);
    if (out.instr(n).kind != InstrKind::Scan || declared[dtype]) continue;
    declared[dtype] = true;
    out.line("__local {0} scan_{0}[{1}];", Printer::type(out.instr(n).dtype), threads);
  }
}

void print_scan_start(Printer& out, int n) {
  const Instr& self = out.instr(n);
  out.line("{} c{} = {};", Printer::type(self.dtype), n,
           self.b >= 0 ? out.value(self.b) : Printer::constant(0, self.dtype));
}

void print_scan_step(Printer& out, int n) {
  const Instr& self = out.instr(n);
  out.line("c{} = {};", n, plus(self.dtype, fmt::format("c{}", n), out.value(self.a)));
  out.line("const {} {} = c{};", Printer::type(self.dtype), out.value(n), n);
}

void print_scan_round(Printer& out, int n, int lanes, bool cuda) {
  const Instr& self = out.instr(n);
  out.line("{} t{} = inside ? {} : {};", Printer::type(self.dtype), n, out.value(self.a),
           Printer::constant(0, self.dtype));
  cuda ? print_cuda_round(out, n, lanes) : print_opencl_round(out, n, lanes);
}

}  // namespace volta::kernel
