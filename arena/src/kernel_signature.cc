// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/arena/kernel_signature.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "permafrost/driver/status.h"

namespace permafrost {
namespace {

constexpr int64_t kAddressBytes = 8;
/// What CUDA lets a kernel take since 12.1; older devices stop at 4096.
constexpr int64_t kMaxParamBytes = 32764;

absl::Status Refuse(const KernelSignature& signature, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("signature of kernel '", signature.kernel, "': ", what));
}

absl::Status RefuseParam(const KernelSignature& signature,
                         const ParamSpec& param, absl::string_view what) {
  return Refuse(signature,
                absl::StrCat("parameter '", param.name, "': ", what));
}

absl::Status CheckPlace(const KernelSignature& signature,
                        const ParamSpec& param) {
  if (param.name.empty()) {
    return Refuse(signature, absl::StrCat("the parameter at offset ",
                                          param.offset_bytes, " has no name"));
  }
  if (param.offset_bytes < 0 || param.offset_bytes > kMaxParamBytes ||
      param.size_bytes < 1 ||
      param.size_bytes > kMaxParamBytes - param.offset_bytes) {
    return RefuseParam(
        signature, param,
        absl::StrCat("place: got offset ", param.offset_bytes, " and size ",
                     param.size_bytes, ", limit at least 1 byte within ",
                     kMaxParamBytes));
  }
  return absl::OkStatus();
}

/// What the parameter may claim; the places of all parameters are known good.
absl::Status CheckMeaning(const KernelSignature& signature,
                          const ParamSpec& param) {
  const auto refuse = [&](absl::string_view what) {
    return RefuseParam(signature, param, what);
  };
  if (param.kind != ParamKind::kAddress) {
    if (param.access != Access::kNone || param.nullable ||
        param.extent != Extent{}) {
      return refuse(absl::StrCat(
          "access, extent or nullable: got one on a parameter of kind ",
          ParamKindName(param.kind), "; only addresses have them"));
    }
    return absl::OkStatus();
  }
  if (param.size_bytes != kAddressBytes ||
      param.offset_bytes % kAddressBytes != 0) {
    return refuse(absl::StrCat("address: got ", param.size_bytes,
                               " bytes at offset ", param.offset_bytes,
                               ", limit 8 bytes at a multiple of 8"));
  }
  if (param.extent.unit_bytes < 0) {
    return refuse(absl::StrCat("extent: got unit_bytes ",
                               param.extent.unit_bytes, ", limit at least 0"));
  }
  if (param.extent.unit_bytes == 0 && !param.extent.factor_params.empty()) {
    return refuse(
        "extent: got factors of unit_bytes 0, which means the whole buffer; "
        "give the unit or drop the factors");
  }
  for (int factor : param.extent.factor_params) {
    const bool in_range =
        factor >= 0 && static_cast<size_t>(factor) < signature.params.size();
    if (!in_range) {
      return refuse(absl::StrCat("extent: got factor ", factor, ", limit 0 to ",
                                 signature.params.size() - 1));
    }
    const ParamSpec& by = signature.params[static_cast<size_t>(factor)];
    const bool readable = by.size_bytes == 1 || by.size_bytes == 2 ||
                          by.size_bytes == 4 || by.size_bytes == 8;
    if (by.kind != ParamKind::kScalar || !readable) {
      return refuse(absl::StrCat("extent: got factor '", by.name, "' (",
                                 ParamKindName(by.kind), " of ", by.size_bytes,
                                 " bytes); it must be a scalar of 1, 2, 4 or "
                                 "8 bytes"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckDisjoint(const KernelSignature& signature) {
  std::vector<const ParamSpec*> by_offset;
  by_offset.reserve(signature.params.size());
  for (const ParamSpec& param : signature.params) by_offset.push_back(&param);
  std::sort(by_offset.begin(), by_offset.end(),
            [](const ParamSpec* a, const ParamSpec* b) {
              return a->offset_bytes < b->offset_bytes;
            });
  for (size_t i = 1; i < by_offset.size(); ++i) {
    const ParamSpec& left = *by_offset[i - 1];
    const ParamSpec& right = *by_offset[i];
    if (right.offset_bytes < left.offset_bytes + left.size_bytes) {
      return Refuse(
          signature,
          absl::StrCat("parameters '", left.name, "' and '", right.name,
                       "' overlap: got ", left.size_bytes, " bytes at offset ",
                       left.offset_bytes, " and ", right.size_bytes,
                       " bytes at offset ", right.offset_bytes));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckNames(const KernelSignature& signature) {
  std::vector<absl::string_view> names;
  names.reserve(signature.params.size());
  for (const ParamSpec& param : signature.params) names.push_back(param.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice == names.end()) return absl::OkStatus();
  return Refuse(signature,
                absl::StrCat("parameter '", *twice, "' is declared twice"));
}

}  // namespace

absl::string_view ParamKindName(ParamKind kind) {
  switch (kind) {
    case ParamKind::kAddress:
      return "address";
    case ParamKind::kScalar:
      return "scalar";
    case ParamKind::kOpaque:
      return "opaque";
  }
  return "?";
}

absl::string_view AccessName(Access access) {
  switch (access) {
    case Access::kNone:
      return "none";
    case Access::kRead:
      return "read";
    case Access::kWrite:
      return "write";
    case Access::kReadWrite:
      return "read and write";
  }
  return "?";
}

absl::Status SignatureSet::Add(KernelSignature signature) {
  if (signature.kernel.empty()) {
    return absl::InvalidArgumentError(
        "kernel signature: kernel name: got an empty one; give the name that "
        "the module exports");
  }
  if (Find(signature.kernel) != nullptr) {
    return absl::AlreadyExistsError(absl::StrCat(
        "signature of kernel '", signature.kernel, "' is declared twice"));
  }
  for (const ParamSpec& param : signature.params) {
    PERMAFROST_RETURN_IF_ERROR(CheckPlace(signature, param));
  }
  for (const ParamSpec& param : signature.params) {
    PERMAFROST_RETURN_IF_ERROR(CheckMeaning(signature, param));
  }
  PERMAFROST_RETURN_IF_ERROR(CheckNames(signature));
  PERMAFROST_RETURN_IF_ERROR(CheckDisjoint(signature));
  std::string name = signature.kernel;
  by_kernel_.emplace(std::move(name), std::move(signature));
  return absl::OkStatus();
}

const KernelSignature* SignatureSet::Find(absl::string_view kernel) const {
  const auto found = by_kernel_.find(kernel);
  return found == by_kernel_.end() ? nullptr : &found->second;
}

absl::Status SignatureSet::MergeFrom(const SignatureSet& other) {
  for (const auto& [name, signature] : other.by_kernel_) {
    const KernelSignature* mine = Find(name);
    if (mine != nullptr && *mine != signature) {
      return absl::AlreadyExistsError(
          absl::StrCat("merging kernel signatures: kernel '", name,
                       "' is declared in both sets, and differently"));
    }
  }
  for (const auto& entry : other.by_kernel_) by_kernel_.insert(entry);
  return absl::OkStatus();
}

}  // namespace permafrost
