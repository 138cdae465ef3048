// What large buffers hold and who made it: the table in the message of OutOfMemory.
#pragma once

#include <cstdint>
#include <string>

#include "graph/node.h"
#include "volta/place.h"
#include "volta/shape.h"

namespace volta::graph {

// What is smaller than this is not listed.
inline constexpr std::size_t kListedBytes = std::size_t{64} << 10;

// A large buffer comes and goes.
void list_buffer(Buffer* buffer);
void unlist_buffer(Buffer* buffer) noexcept;

// What a large buffer holds from now on: the node's value, or something without a node.
void note_holding(Buffer* buffer, const Node& node) noexcept;
void note_holding(Buffer* buffer, const char* what) noexcept;

// "held by:" and a line for each of the largest holders of the device's memory; empty where there
// are none.
std::string holders_table(const DeviceEntry& entry);

}  // namespace volta::graph
