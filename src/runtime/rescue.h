// Recovery after the run of a batch fails: its assignments are undone, values that can be computed
// alone or by the CPU are computed, and the rest is deferred, apart from later batches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>

#include "graph/record/recorder.h"
#include "runtime/device_runtime.h"
#include "runtime/execute.h"

namespace volta::plan {

// Marks a pending node as failed; reading it throws the error.
void mark_failed(graph::Node& node, const std::exception_ptr& error);
// Marks the leaves that a failed run has overwritten as lost, and with them the previous values of
// variables that compute_previous could not compute. Reading a lost value throws. Only the batch
// and its journal refer to these nodes.
void mark_lost(const DeviceRuntime& runtime, const graph::Batch& batch,
               const Overwritten& overwritten);

// Gives variables their last good node back. Reading a node that was assigned by the failed batch
// throws the error.
void undo_assignments(graph::Recorder& recorder, graph::Batch& batch,
                      const std::exception_ptr& error);

// Moves a failed batch out of its recorder, where it would make every later submit fail too. Its
// values stay pending in a separate recorder that no thread records into. Reading one tries the
// batch again, first as a whole and then only the dependencies of that value.
struct Failure {
  bool is_reported = false;    // the program receives the error
  bool lacked_memory = false;  // the error was OutOfMemory
};
void defer(DeviceRuntime& runtime, graph::Recorder& recorder, graph::Batch& batch, Failure failure);
// Puts a deferred batch back into the recorder that it was taken from.
void return_to_its_place(graph::Recorder& deferred, graph::Batch& batch);
// Whether the recorder's deferred batch failed for lack of memory and no more memory has become
// free since.
bool still_lacks_memory(const graph::Recorder& recorder);
// Frees deferred batches none of whose values is wanted any more.
void drop_deferred(DeviceRuntime& runtime);

// Computes a single node of a failed batch; returns false if that fails too.
bool compute_alone(DeviceRuntime& runtime, graph::Batch& batch, std::size_t stream,
                   const graph::Node& node);
// Computes the previous values of variables that are still pending after the batch failed, such as
// the initial values of a model whose first step does not fit into memory. Values that depend on
// `lost` leaves or that cannot be computed now stay pending.
void compute_previous(DeviceRuntime& runtime, graph::Batch& batch, std::size_t stream,
                      std::span<const std::uint32_t> lost);
// Computes the live nodes, or just `only`, on the CPU when the device has no memory, from leaves
// that are copied to the host. The nodes still belong to the device; their values stay on the host
// until a batch on the device reads them (graph::make_resident). Returns false if this fails too.
bool compute_on_cpu(DeviceRuntime& runtime, graph::Batch& batch, const graph::Node* only,
                    bool for_want_of_memory = true);

bool is_out_of_memory(const std::exception_ptr& error);

}  // namespace volta::plan
