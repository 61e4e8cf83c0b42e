// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_RUNTIME_HANDLE_H_
#define SOFTCUDA_RUNTIME_HANDLE_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>

namespace softcuda::runtime {

enum class HandleKind : uint8_t {
  kContext = 1,
  kStream,
  kEvent,
  kModule,
  kLibrary,
  kFunction,
  kKernel,
  kGraph,
  kNode,
  kExec,
  kUserObject,
  kPool,
};

/// Handles are numbers, not addresses: a tag that makes them no valid pointer,
/// the kind, and a serial that is never used again. So a destroyed handle, a
/// handle of another kind and garbage are told apart without touching memory.
inline constexpr uint64_t kHandleTag = 0x5C;

constexpr uint64_t HandleBits(HandleKind kind, uint64_t serial) {
  return kHandleTag << 56 | uint64_t{static_cast<uint8_t>(kind)} << 48 |
         serial << 4;
}

template <typename Handle>
uint64_t HandleBits(Handle handle) {
  return std::bit_cast<uint64_t>(handle);
}

constexpr bool HasKind(uint64_t bits, HandleKind kind) {
  return bits >> 48 == (kHandleTag << 8 | static_cast<uint8_t>(kind));
}

/// The live objects of one kind, by handle.
///
/// Threads: none; the runtime's lock guards it.
template <typename Handle, typename T, HandleKind kKind>
class HandleTable {
 public:
  static constexpr HandleKind kind() { return kKind; }

  Handle Add(std::shared_ptr<T> object) {
    const uint64_t bits = HandleBits(kKind, next_serial_++);
    objects_.emplace(bits, std::move(object));
    return std::bit_cast<Handle>(bits);
  }

  std::shared_ptr<T> Find(Handle handle) const {
    const auto it = objects_.find(HandleBits(handle));
    return it == objects_.end() ? nullptr : it->second;
  }

  bool Erase(Handle handle) { return objects_.erase(HandleBits(handle)) != 0; }

  /// Whether the handle was given out once, alive or not.
  bool WasGiven(Handle handle) const {
    const uint64_t bits = HandleBits(handle);
    return HasKind(bits, kKind) && (bits & 15) == 0 &&
           (bits & ((uint64_t{1} << 48) - 1)) >> 4 < next_serial_;
  }

  size_t size() const { return objects_.size(); }
  const std::unordered_map<uint64_t, std::shared_ptr<T>>& objects() const {
    return objects_;
  }
  template <typename Predicate>
  void EraseIf(const Predicate& predicate) {
    std::erase_if(objects_,
                  [&](const auto& item) { return predicate(item.second); });
  }

 private:
  std::unordered_map<uint64_t, std::shared_ptr<T>> objects_;
  uint64_t next_serial_ = 1;
};

}  // namespace softcuda::runtime

#endif  // SOFTCUDA_RUNTIME_HANDLE_H_
