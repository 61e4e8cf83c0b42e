// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "exec/form_table.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#define SOFTCUDA_ISA isa_base
#include "exec/ops/registration.h"
#undef SOFTCUDA_ISA
#ifdef SOFTCUDA_HAVE_ISA_V3
#define SOFTCUDA_ISA isa_v3
#include "exec/ops/registration.h"
#undef SOFTCUDA_ISA
#endif

namespace softcuda::exec {
namespace {

OperandSpec ParseSpec(std::string_view word) {
  OperandSpec spec;
  if (word.front() == '=') {
    spec.is_destination = true;
    word.remove_prefix(1);
  }
  if (word.front() >= '0' && word.front() <= '9') {
    spec.kind = OperandSpec::Kind::kVector;
    spec.count = static_cast<uint8_t>(word.front() - '0');
    word.remove_prefix(1);
  }
  switch (word.front()) {
    case 'h':
      spec.bytes = 2;
      break;
    case 'H':
      spec.bytes = 2;
      spec.sign_extends = true;
      break;
    case 'r':
      spec.bytes = 4;
      break;
    case 'R':
      spec.bytes = 4;
      spec.sign_extends = true;
      break;
    case 'l':
      spec.bytes = 8;
      break;
    case 'p':
      spec.bytes = 0;
      break;
    case 'c':
      spec.kind = OperandSpec::Kind::kCarry;
      break;
    case 'i':
      spec.kind = OperandSpec::Kind::kLiteral;
      break;
    case 'm':
      spec.kind = OperandSpec::Kind::kAddress;
      spec.bytes = word == "m64" ? 8 : 4;
      break;
    default:
      std::fprintf(stderr, "softcuda: operand notation '%.*s'\n",
                   static_cast<int>(word.size()), word.data());
      std::abort();
  }
  return spec;
}

template <class AddGroup>
void AddAll(FormTable& table, std::initializer_list<AddGroup*> groups) {
  for (AddGroup* group : groups) group(table);
}

#define SOFTCUDA_GROUPS(isa)                                                 \
  {                                                                          \
    isa::AddIntegerForms, isa::AddBitForms, isa::AddCompareForms,            \
        isa::AddFloatForms, isa::AddConvertForms,                            \
        isa::AddNarrowConvertForms, isa::AddMoveForms,                       \
        isa::AddGlobalMemoryForms, isa::AddLocalMemoryForms,                 \
        isa::AddWarpForms, isa::AddMatrixForms,                              \
        isa_base::AddApproximateForms, isa_base::AddRoundedForms,            \
        isa_base::AddHalfForms, isa_base::AddAsyncCopyForms,                 \
        isa_base::AddAtomicForms, isa_base::AddControlForms                  \
  }

void Fill(FormTable& table) {
#ifdef SOFTCUDA_HAVE_ISA_V3
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("f16c") &&
      std::getenv("SOFTCUDA_BASE_ISA") == nullptr) {
    AddAll<void(FormTable&)>(table, SOFTCUDA_GROUPS(isa_v3));
    return;
  }
#endif
  AddAll<void(FormTable&)>(table, SOFTCUDA_GROUPS(isa_base));
}

}  // namespace

const FormTable& FormTable::Get() {
  static const FormTable* const table = [] {
    auto* built = new FormTable;
    built->forms_.reserve(8192);
    Fill(*built);
    return built;
  }();
  return *table;
}

std::vector<std::string> FormTable::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, form] : forms_) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

void FormTable::Add(const char* form, Handler handler, const char* operands,
                    int64_t imm) {
  Form entry;
  entry.handler = handler;
  entry.imm = imm;
  std::string_view rest = operands;
  while (!rest.empty()) {
    const size_t space = std::min(rest.find(' '), rest.size());
    if (space != 0) entry.operands.push_back(ParseSpec(rest.substr(0, space)));
    rest.remove_prefix(std::min(space + 1, rest.size()));
  }
  if (!forms_.emplace(form, std::move(entry)).second) {
    std::fprintf(stderr, "softcuda: form %s is there twice\n", form);
    std::abort();
  }
}

void FormTable::Add(const char* base, const char* type, Handler handler,
                    const char* operands, const char* scalar, int64_t imm) {
  std::string spelled;
  for (const char* c = operands; *c != '\0'; ++c) {
    if (*c == '?') {
      spelled += scalar;
    } else {
      spelled += *c;
    }
  }
  Add((std::string(base) + type).c_str(), handler, spelled.c_str(), imm);
}

void FormTable::AddParts(std::initializer_list<const char*> form,
                         Handler handler, const char* operands, int64_t imm) {
  std::string name;
  for (const char* part : form) name += part;
  Add(name.c_str(), handler, operands, imm);
}

}  // namespace softcuda::exec
