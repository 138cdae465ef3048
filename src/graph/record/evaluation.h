// The functions of the runtime that recording needs: evaluation, and copies to and from the host.
// src/runtime defines them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "graph/record/node.h"
#include "volta/device.h"
#include "volta/dtype.h"
#include "volta/shape.h"
#include "volta/source_location.h"
#include "volta/tensor.h"

namespace volta::graph {

// Runs everything pending in the recorder. If that fails, parameters assigned in it get their last
// good value back, other nodes that are still held stay pending but leave the recorder, and the
// error is thrown. `reports_error` is true if the program receives the error.
void submit(Recorder& recorder, bool reports_error = true);
// Makes sure that the node is computed or constant: submits the recorder in which it is pending,
// whichever thread owns it. Rethrows the error of a failed node.
void ensure_computed(Node* node);
// Throws IndexError if the device met a wrong index that was not reported yet. The device must have
// finished all its work.
void check_device_error(DeviceEntry& entry);

// The node's values on the host. They are computed and copied if needed, and kept until the node is
// destroyed.
std::span<const std::byte> observe(Node* node);
// Copies one element of a computed node, counted in row-major order, to the host. Only that element
// is transferred, and nothing if the host has the values.
void read_element(Node* node, std::int64_t element, std::byte* to);
// A CPU tensor of the values of a node on another device. It shares the memory of the node's host
// copy.
Tensor on_host(Node* node);
// Throws OutOfMemory, naming `op`, if the host cannot allocate the tensor's elements at
// `element_bytes` each.
void require_host_memory(const char* op, const Tensor& tensor, std::size_t element_bytes);

// A tensor of values that are in host memory.
Tensor upload(const void* bytes, const Shape& shape, DType dtype, Device device);
// A copy of a CPU tensor in page-locked memory, or the tensor itself if none is available.
Tensor pinned(const Tensor& x);

// The source location that caused this thread's current transfer; empty if there is none.
SourceLocation transfer_place();

}  // namespace volta::graph
