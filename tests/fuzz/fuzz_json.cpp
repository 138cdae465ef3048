// JSON texts give an IoError, or a value whose text reads the same when it is written again.
// Indices of sharded models are JSON too.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "encoding/json.h"
#include "fuzz/memory_file.h"
#include "io/safetensors/shards.h"
#include "volta/error.h"

namespace {

using volta::io::JsonValue;

std::string written(const JsonValue& value) {
  if (const std::string* text = value.as_string()) return volta::io::json_quoted(*text);
  if (const auto* number = std::get_if<JsonValue::Number>(&value.value)) return number->text;
  if (const bool* truth = std::get_if<bool>(&value.value)) return *truth ? "true" : "false";
  std::string out;
  if (const auto* items = value.as_array()) {
    for (const JsonValue& item : *items) out += (out.empty() ? "" : ",") + written(item);
    return "[" + out + "]";
  }
  if (const auto* members = value.as_object()) {
    for (const auto& [key, item] : *members)
      out += (out.empty() ? "" : ",") + volta::io::json_quoted(key) + ":" + written(item);
    return "{" + out + "}";
  }
  return "null";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const std::string once = written(volta::io::parse_json(text, "fuzz"));
    if (written(volta::io::parse_json(once, "fuzz")) != once) std::abort();
    const MemoryFile memory(data, size);
    for (const std::string& file : volta::io::read_shard_index(memory.path()).files)
      if (file.find('/') != std::string::npos || file == "..") std::abort();
  } catch (const volta::IoError&) {
  }
  return 0;
}
