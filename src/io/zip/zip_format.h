// Numbers of the zip format, shared by its reader and writer.
#pragma once

#include <cstdint>

namespace volta::io {

inline constexpr std::uint64_t kLocalSignature = 0x04034b50, kDirectorySignature = 0x02014b50,
                               kEndSignature = 0x06054b50, kEnd64Signature = 0x06064b50,
                               kLocatorSignature = 0x07064b50;
inline constexpr std::uint64_t kLocalBytes = 30, kDirectoryEntryBytes = 46, kEndBytes = 22,
                               kEnd64Bytes = 56, kLocatorBytes = 20, kMaxComment = 0xFFFF;
// The value is in the 64-bit field.
inline constexpr std::uint64_t kFull16 = 0xFFFF, kFull32 = 0xFFFFFFFF;
inline constexpr std::uint64_t kExtra64 = 1;
inline constexpr std::uint64_t kStored = 0, kDeflated = 8;
inline constexpr std::uint64_t kEncrypted = 1, kUtf8 = 0x800;  // flags
inline constexpr std::uint64_t kMaxRatio = 1032;               // of deflate, unpacked to packed

}  // namespace volta::io
