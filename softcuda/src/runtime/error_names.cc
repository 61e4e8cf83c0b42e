// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/error_names.h"

namespace softcuda::runtime {
namespace {

struct ErrorRow {
  const char* name;
  int number;
  const char* text;
};

constexpr ErrorRow kErrors[] = {
#define SOFTCUDA_ERROR(name, number, text) {#name, number, text},
#include "runtime/error_names.inc"
#undef SOFTCUDA_ERROR
};

const ErrorRow* FindError(CUresult result) {
  for (const ErrorRow& row : kErrors) {
    if (row.number == static_cast<int>(result)) return &row;
  }
  return nullptr;
}

}  // namespace

const char* ErrorName(CUresult result) {
  const ErrorRow* row = FindError(result);
  return row == nullptr ? nullptr : row->name;
}

const char* ErrorText(CUresult result) {
  const ErrorRow* row = FindError(result);
  return row == nullptr ? nullptr : row->text;
}

bool IsStickyCode(CUresult result) {
  switch (static_cast<int>(result)) {
    case 226:  // CONTAINED
    case 700:
    case 702:
    case 710:
    case 714:
    case 715:
    case 716:
    case 717:
    case 718:
    case 719:
    case 721:  // TENSOR_MEMORY_LEAK, which older headers lack
    case 911:
      return true;
    default:
      return false;
  }
}

}  // namespace softcuda::runtime
