// The parts of a Row kernel that belong to Scans: the running sum of a thread, and rounds in which
// the lanes of a row exchange theirs.
#pragma once

#include "kernel/emit_printer.h"

namespace volta::kernel {

// OpenCL: local memory for the exchange, one array per dtype that is scanned.
void print_scan_scratch(Printer& printer, int threads);
// Before the loop over the row: the sum so far.
void print_scan_start(Printer& printer, int n);
// One lane: the next element.
void print_scan_step(Printer& printer, int n);
// Several lanes: an element of each; `inside` says whether it has one.
void print_scan_round(Printer& printer, int n, int lanes, bool cuda);

}  // namespace volta::kernel
