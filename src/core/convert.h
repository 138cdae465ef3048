// Values on the host: conversion, upload, observation.
#pragma once

#include <cstddef>
#include <span>

#include "graph/node.h"

namespace volta::graph {

// Element by element; floats to integers truncate. Memory need not be aligned.
void convert(const void* from, DType from_dtype, void* to, DType to_dtype, std::size_t count);
// The nearest number that a floating dtype has.
double nearest(double number, DType dtype);

// Whether the dtype has the number, fractions apart; floats and bool take any.
bool fits(Scalar value, DType dtype);
// Throws ArgumentError "<op>: 300 does not fit u8" where it does not.
void require_fits(const char* op, Scalar value, DType dtype);
// As convert, of values that all fit.
void convert_fitting(const char* op, const void* from, DType from_dtype, void* to, DType to_dtype,
                     std::size_t count);

// Whether every value of `from` is one of `to`, and whether the host has memory for the elements:
// throw DTypeError and OutOfMemory in the name of `op` where not.
void require_holds(const char* op, DType from, DType to);
void require_host_memory(const char* op, const Tensor& tensor, std::size_t element_bytes);

Tensor upload(const void* bytes, const Shape& shape, DType dtype, Device device);
// A copy of a CPU tensor in page-locked memory; the tensor itself where there is none to have.
Tensor pinned(const Tensor& x);

// The node's values on the host, computed and copied if need be; kept until the node dies.
std::span<const std::byte> observe(Node* node);
// A CPU tensor of the values of another device's node, in the memory that observing takes.
Tensor on_host(Node* node);

}  // namespace volta::graph
