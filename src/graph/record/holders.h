// A list of large buffers with their contents and the source line that computed them. OutOfMemory
// prints it as a table.
#pragma once

#include <cstdint>
#include <string>

#include "graph/record/node.h"
#include "volta/shape.h"
#include "volta/source_location.h"

namespace volta::graph {

// Smaller buffers are not listed.
inline constexpr std::size_t kListedBytes = std::size_t{64} << 10;

// Adds a new large buffer to the list, and removes it when it is freed.
void list_buffer(Buffer* buffer);
void unlist_buffer(Buffer* buffer) noexcept;

// Sets the contents of a large buffer: the value of a node, or a description if there is no node.
void note_holding(Buffer* buffer, const Node& node) noexcept;
void note_holding(Buffer* buffer, const char* what) noexcept;

// "held by:" and one line for each of the largest users of the device's memory; empty if there are
// none.
std::string holders_table(const DeviceEntry& entry);

}  // namespace volta::graph
