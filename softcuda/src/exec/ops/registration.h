// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// The groups of opcodes. Each is compiled once for each instruction set of the
// host, so this header has no guard: form_table.cc includes it once for each.

namespace softcuda::exec {
class FormTable;
}  // namespace softcuda::exec

namespace softcuda::exec::SOFTCUDA_ISA {

void AddIntegerForms(FormTable& table);
void AddBitForms(FormTable& table);
void AddCompareForms(FormTable& table);
void AddFloatForms(FormTable& table);
void AddApproximateForms(FormTable& table);
void AddRoundedForms(FormTable& table);
void AddHalfForms(FormTable& table);
void AddConvertForms(FormTable& table);
void AddNarrowConvertForms(FormTable& table);
void AddMoveForms(FormTable& table);
void AddGlobalMemoryForms(FormTable& table);
void AddLocalMemoryForms(FormTable& table);
void AddAsyncCopyForms(FormTable& table);
void AddAtomicForms(FormTable& table);
void AddWarpForms(FormTable& table);
void AddControlForms(FormTable& table);
void AddMatrixForms(FormTable& table);

}  // namespace softcuda::exec::SOFTCUDA_ISA
