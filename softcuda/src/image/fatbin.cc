// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "image/fatbin.h"

#include <cstring>

namespace softcuda::image {
namespace {

constexpr uint32_t kFatbinMagic = 0xBA55ED50;
constexpr size_t kFatbinHeaderBytes = 16;
constexpr uint16_t kKindPtx = 1;
constexpr uint16_t kKindElf = 2;
constexpr size_t kEntryHeaderMinBytes = 48;
// Of the entry's flags: set when the payload is compressed, in the two ways
// that nvcc has had.
constexpr uint64_t kCompressedFlags = 0x2000 | 0x8000;

template <class T>
T ReadAt(const unsigned char* data, size_t offset) {
  T value;
  std::memcpy(&value, data + offset, sizeof(T));
  return value;
}

bool IsElf(const unsigned char* data, size_t bytes) {
  return bytes >= 4 && std::memcmp(data,
                                   "\x7f"
                                   "ELF",
                                   4) == 0;
}

PtxChoice Refuse(CUresult code, std::string message) {
  PtxChoice choice;
  choice.code = code;
  choice.message = std::move(message);
  return choice;
}

bool LooksLikeText(std::string_view text) {
  for (const char c : text.substr(0, 256)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 && c != '\n' && c != '\r' && c != '\t') return false;
    if (byte >= 0x7f) return false;
  }
  return !text.empty();
}

std::string_view UpToNul(const unsigned char* data, size_t bytes) {
  const std::string_view all(reinterpret_cast<const char*>(data), bytes);
  return all.substr(0, all.find('\0'));
}

PtxChoice WalkFatbin(const unsigned char* data, size_t bytes, int capability) {
  const auto truncated = [](const char* what) {
    return Refuse(CUDA_ERROR_INVALID_IMAGE,
                  std::string("fatbin: ") + what +
                      " lies outside the image; it is truncated or damaged");
  };
  if (bytes < kFatbinHeaderBytes) return truncated("the header");
  const size_t header_bytes = ReadAt<uint16_t>(data, 6);
  const uint64_t payload_bytes = ReadAt<uint64_t>(data, 8);
  if (header_bytes < kFatbinHeaderBytes || header_bytes > bytes ||
      payload_bytes > bytes - header_bytes) {
    return truncated("the payload");
  }
  const size_t end = header_bytes + static_cast<size_t>(payload_bytes);
  PtxChoice best;
  int best_arch = -1;
  int lowest_above = 0;
  bool has_compressed = false;
  bool has_cubin = false;
  size_t at = header_bytes;
  while (at < end) {
    if (end - at < kEntryHeaderMinBytes) return truncated("an entry header");
    const uint16_t kind = ReadAt<uint16_t>(data, at);
    const size_t entry_header = ReadAt<uint32_t>(data, at + 4);
    const uint64_t entry_bytes = ReadAt<uint64_t>(data, at + 8);
    const uint32_t compressed_bytes = ReadAt<uint32_t>(data, at + 16);
    const uint32_t arch = ReadAt<uint32_t>(data, at + 28);
    const uint64_t flags = ReadAt<uint64_t>(data, at + 40);
    if (entry_header < kEntryHeaderMinBytes || entry_header > end - at ||
        entry_bytes > end - at - entry_header) {
      return truncated("an entry");
    }
    const unsigned char* payload = data + at + entry_header;
    if (kind == kKindElf) {
      has_cubin = true;
    } else if (kind == kKindPtx && arch <= 1000) {
      if (compressed_bytes != 0 || (flags & kCompressedFlags) != 0) {
        has_compressed = true;
      } else if (static_cast<int>(arch) > capability) {
        if (lowest_above == 0 || static_cast<int>(arch) < lowest_above) {
          lowest_above = static_cast<int>(arch);
        }
      } else if (static_cast<int>(arch) > best_arch) {
        best_arch = static_cast<int>(arch);
        best.text = UpToNul(payload, static_cast<size_t>(entry_bytes));
      }
    }
    at += entry_header + static_cast<size_t>(entry_bytes);
  }
  if (best_arch >= 0) return best;
  if (has_compressed) {
    return Refuse(CUDA_ERROR_NO_BINARY_FOR_GPU,
                  "fatbin: its PTX is compressed, which softcuda cannot read; "
                  "build it with nvcc --no-compress");
  }
  if (lowest_above != 0) {
    return Refuse(
        CUDA_ERROR_NO_BINARY_FOR_GPU,
        "fatbin: its PTX is for compute_" + std::to_string(lowest_above) +
            " and newer, the device is " + std::to_string(capability) +
            "; add code=compute_" + std::to_string(capability));
  }
  return Refuse(CUDA_ERROR_NO_BINARY_FOR_GPU,
                has_cubin
                    ? "fatbin: it has cubins only, and softcuda runs PTX; add "
                      "code=compute_80 or compute_90 and build it with nvcc "
                      "--no-compress"
                    : "fatbin: it has no PTX");
}

}  // namespace

PtxChoice FindPtx(const void* image, size_t bytes, int capability) {
  const auto* data = static_cast<const unsigned char*>(image);
  if (data == nullptr || bytes == 0) {
    return Refuse(CUDA_ERROR_INVALID_IMAGE, "image: it is empty");
  }
  if (bytes >= sizeof(uint32_t) && ReadAt<uint32_t>(data, 0) == kFatbinMagic) {
    return WalkFatbin(data, bytes, capability);
  }
  if (IsElf(data, bytes)) {
    return Refuse(CUDA_ERROR_NO_BINARY_FOR_GPU,
                  "image: it is a cubin, and softcuda runs PTX; load a fatbin "
                  "built with nvcc --no-compress and code=compute_80 or "
                  "compute_90");
  }
  PtxChoice choice;
  choice.text = UpToNul(data, bytes);
  if (!LooksLikeText(choice.text)) {
    return Refuse(CUDA_ERROR_INVALID_IMAGE,
                  "image: it is neither a fatbin, a cubin nor PTX text");
  }
  return choice;
}

std::optional<size_t> ImageBytes(const void* image) {
  const auto* data = static_cast<const unsigned char*>(image);
  if (data == nullptr || data[0] == 0) return std::nullopt;
  static constexpr unsigned char kMagic[] = {0x50, 0xED, 0x55, 0xBA};
  // Byte by byte: a short text may end before the fourth.
  size_t same = 0;
  while (same < 4 && data[same] == kMagic[same]) ++same;
  if (same == 4) {
    const size_t header_bytes = ReadAt<uint16_t>(data, 6);
    const uint64_t payload_bytes = ReadAt<uint64_t>(data, 8);
    if (payload_bytes > (uint64_t{1} << 40)) return std::nullopt;
    return header_bytes + static_cast<size_t>(payload_bytes);
  }
  if (data[0] == 0x7f) return 4;
  return std::strlen(reinterpret_cast<const char*>(data));
}

}  // namespace softcuda::image
