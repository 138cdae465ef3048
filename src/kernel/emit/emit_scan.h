// The parts of a Row kernel that belong to Scans: the running sum of a thread, and rounds in which
// the lanes of a row exchange their sums.
#pragma once

#include "kernel/emit/emit_printer.h"

namespace volta::kernel {

// OpenCL: declares local memory for the exchange, one array per scanned dtype.
void print_scan_scratch(Printer& printer, int threads);
// Declares the sum so far, before the loop over the row.
void print_scan_start(Printer& printer, int n);
// One lane: adds the next element.
void print_scan_step(Printer& printer, int n);
// Several lanes: adds one element of each lane; `inside` says whether the lane has one.
void print_scan_round(Printer& printer, int n, int lanes, bool cuda);

}  // namespace volta::kernel
