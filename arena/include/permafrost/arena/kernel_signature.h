// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_ARENA_KERNEL_SIGNATURE_H_
#define PERMAFROST_ARENA_KERNEL_SIGNATURE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace permafrost {

/// What the bytes of a kernel parameter are.
enum class ParamKind {
  kAddress,  ///< a device address, 8 bytes
  kScalar,   ///< a number
  kOpaque,   ///< bytes whose meaning nobody declared
};

/// What a kernel does with the memory behind an address, or may do at most.
enum class Access { kNone, kRead, kWrite, kReadWrite };

absl::string_view ParamKindName(ParamKind kind);
absl::string_view AccessName(Access access);

/// How much memory a kernel reaches through an address:
/// `unit_bytes` times the values of the scalar parameters that are named.
struct Extent {
  /// 0 says: to the end of the buffer that the address points into.
  int64_t unit_bytes = 0;
  /// Indices into `KernelSignature::params`.
  std::vector<int> factor_params = {};

  friend bool operator==(const Extent&, const Extent&) = default;
};

/// One parameter of a kernel, as it lies in the launch's parameter bytes.
struct ParamSpec {
  std::string name = {};
  int64_t offset_bytes = 0;
  int64_t size_bytes = 0;
  ParamKind kind = ParamKind::kOpaque;
  /// What it is for, in a word or two: "worklist", "rows".
  std::string role = {};
  /// kNone for all but addresses.
  Access access = Access::kNone;
  Extent extent = {};
  /// Whether a null address is a legal argument.
  bool nullable = false;

  friend bool operator==(const ParamSpec&, const ParamSpec&) = default;
};

/// What a kernel reads and writes, said for machines.
struct KernelSignature {
  /// The name under which the module exports it.
  std::string kernel = {};
  std::vector<ParamSpec> params = {};
  /// Whether it waits (`griddepcontrol.wait`) before it touches what an earlier
  /// kernel on a programmatic edge wrote.
  bool waits_on_grid_dependency = false;

  friend bool operator==(const KernelSignature&,
                         const KernelSignature&) = default;
};

/// Signatures by kernel name, each checked when it is added.
///
/// Threads: externally synchronised; const methods from any thread.
class SignatureSet {
 public:
  /// Adds a kernel.
  ///
  /// Errors: kAlreadyExists for a name that the set has; kInvalidArgument for
  /// an
  ///   empty name, a parameter without a name or with one given twice, a
  ///   negative offset, a size below 1, an end beyond 32764 bytes, parameters
  ///   that overlap (both are named), an address that is not 8 aligned bytes,
  ///   access or extent on what is no address, and an extent whose factor is no
  ///   scalar parameter.
  absl::Status Add(KernelSignature signature);

  /// The signature of that kernel; null when there is none. Valid as long as
  /// the set, also after further additions.
  const KernelSignature* Find(absl::string_view kernel) const;

  /// Adds all of `other`; a kernel that both have must be declared alike.
  ///
  /// Errors: kAlreadyExists naming the kernel; this set is then unchanged.
  absl::Status MergeFrom(const SignatureSet& other);

  int64_t size() const { return static_cast<int64_t>(by_kernel_.size()); }

 private:
  std::map<std::string, KernelSignature, std::less<>> by_kernel_;
};

}  // namespace permafrost

#endif  // PERMAFROST_ARENA_KERNEL_SIGNATURE_H_
