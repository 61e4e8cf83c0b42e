// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Operands of the text to values of the draft.
#include <bit>

#include "exec/align.h"
#include "ptx/decoder.h"

namespace softcuda::ptx {
namespace {

constexpr uint64_t kMaxSharedBytes = uint64_t{1} << 20;
constexpr uint64_t kMaxLocalBytes = uint64_t{1} << 16;

struct SpecialName {
  std::string_view name;
  exec::Special special;
};
constexpr SpecialName kSpecials[] = {
    {"%tid.x", exec::Special::kTidX},
    {"%tid.y", exec::Special::kTidY},
    {"%tid.z", exec::Special::kTidZ},
    {"%ntid.x", exec::Special::kNtidX},
    {"%ntid.y", exec::Special::kNtidY},
    {"%ntid.z", exec::Special::kNtidZ},
    {"%ctaid.x", exec::Special::kCtaidX},
    {"%ctaid.y", exec::Special::kCtaidY},
    {"%ctaid.z", exec::Special::kCtaidZ},
    {"%nctaid.x", exec::Special::kNctaidX},
    {"%nctaid.y", exec::Special::kNctaidY},
    {"%nctaid.z", exec::Special::kNctaidZ},
    {"%laneid", exec::Special::kLaneId},
    {"%warpid", exec::Special::kWarpId},
    {"%nwarpid", exec::Special::kNwarpId},
    {"%smid", exec::Special::kSmId},
    {"%nsmid", exec::Special::kNsmId},
    {"%gridid", exec::Special::kGridId64},
    {"%lanemask_eq", exec::Special::kLanemaskEq},
    {"%lanemask_le", exec::Special::kLanemaskLe},
    {"%lanemask_lt", exec::Special::kLanemaskLt},
    {"%lanemask_ge", exec::Special::kLanemaskGe},
    {"%lanemask_gt", exec::Special::kLanemaskGt},
    {"%dynamic_smem_size", exec::Special::kDynamicSharedBytes},
    {"%total_smem_size", exec::Special::kTotalSharedBytes},
    // Without clusters a block is a cluster of its own.
    {"%clusterid.x", exec::Special::kCtaidX},
    {"%clusterid.y", exec::Special::kCtaidY},
    {"%clusterid.z", exec::Special::kCtaidZ},
    {"%nclusterid.x", exec::Special::kNctaidX},
    {"%nclusterid.y", exec::Special::kNctaidY},
    {"%nclusterid.z", exec::Special::kNctaidZ},
};

struct FixedName {
  std::string_view name;
  uint32_t value;
};
constexpr FixedName kFixed[] = {
    {"%cluster_ctaid.x", 0},  {"%cluster_ctaid.y", 0},
    {"%cluster_ctaid.z", 0},  {"%cluster_nctaid.x", 1},
    {"%cluster_nctaid.y", 1}, {"%cluster_nctaid.z", 1},
    {"%cluster_ctarank", 0},  {"%cluster_nctarank", 1}};

struct ClockName {
  std::string_view name;
  const char* form;
  RegClass reg_class;
};
constexpr ClockName kClocks[] = {
    {"%clock", ".clock.u32", RegClass::k32},
    {"%clock_hi", ".clock_hi.u32", RegClass::k32},
    {"%clock64", ".clock.u64", RegClass::k64},
    {"%globaltimer", ".clock.u64", RegClass::k64},
    {"%globaltimer_lo", ".clock.u32", RegClass::k32},
    {"%globaltimer_hi", ".clock_hi.u32", RegClass::k32}};

}  // namespace

bool Decoder::BindOperand(const exec::OperandSpec& spec, const Operand& operand,
                          size_t index, DraftInst* inst) {
  using Kind = exec::OperandSpec::Kind;
  switch (spec.kind) {
    case Kind::kScalar:
      return BindScalar(spec, operand, &inst->fields[index]);
    case Kind::kVector: {
      inst->fields[index] = static_cast<uint32_t>(inst->ext.size());
      const bool is_bare = operand.kind != Operand::Kind::kVector;
      const size_t count = is_bare ? 1 : operand.elements.size();
      if (count != spec.count) return FailOperands();
      for (size_t k = 0; k < count; ++k) {
        uint32_t value = 0;
        if (!BindScalar(spec, is_bare ? operand : operand.elements[k],
                        &value)) {
          return false;
        }
        inst->ext.push_back(value);
      }
      return true;
    }
    case Kind::kAddress:
      return BindAddress(spec, operand, index, inst);
    case Kind::kLiteral:
      if (operand.kind != Operand::Kind::kInteger || imm_used_) {
        return FailOperands();
      }
      imm_used_ = true;
      inst->imm = static_cast<int64_t>(operand.bits);
      return true;
    case Kind::kCarry:
      break;
  }
  return FailOperands();
}

bool Decoder::BindScalar(const exec::OperandSpec& spec, const Operand& operand,
                         uint32_t* value) {
  if (!spec.is_destination) return SourceValue(operand, spec.bytes, value);
  if (operand.kind == Operand::Kind::kSink) {
    *value = NewValue(ClassOf(spec.bytes));
    return true;
  }
  if (operand.kind != Operand::Kind::kRegister || operand.negated) {
    return FailOperands();
  }
  const uint32_t target = frame_->registers[operand.index];
  const uint8_t bytes = BytesOf(draft_->values[target].reg_class);
  if (bytes == spec.bytes) {
    *value = target;
    return true;
  }
  if (bytes == 0 || spec.bytes == 0) return FailOperands();
  *value = NewValue(ClassOf(spec.bytes));
  after_.push_back({*value, target, spec.sign_extends});
  return true;
}

bool Decoder::SourceValue(const Operand& operand, uint8_t bytes,
                          uint32_t* value) {
  uint32_t found = 0;
  switch (operand.kind) {
    case Operand::Kind::kRegister:
      found = frame_->registers[operand.index];
      break;
    case Operand::Kind::kInteger:
    case Operand::Kind::kFloat:
      return LiteralValue(operand, bytes, value);
    case Operand::Kind::kName:
      if (operand.name == "WARP_SZ") {
        *value = Constant(exec::kLanes, bytes);
        return true;
      }
      if (operand.name[0] != '%') return SymbolValue(operand, bytes, value);
      if (!SpecialValue(operand, &found)) return false;
      break;
    case Operand::Kind::kVariable:
      return SymbolValue(operand, bytes, value);
    default:
      return FailOperands();
  }
  const uint8_t found_bytes = BytesOf(draft_->values[found].reg_class);
  *value = found;
  if (found_bytes != bytes) {
    if (found_bytes == 0 || bytes == 0) return FailOperands();
    *value = NewValue(ClassOf(bytes));
    AppendResize(found, *value, false);
  } else if (operand.negated) {
    *value = NewValue(RegClass::kPred);
    DraftInst* inst = Append("not.pred");
    inst->fields[0] = *value;
    inst->fields[1] = found;
  }
  return true;
}

void Decoder::AppendResize(uint32_t from, uint32_t to, bool sign_extends) {
  const uint8_t from_bytes = BytesOf(draft_->values[from].reg_class);
  const uint8_t to_bytes = BytesOf(draft_->values[to].reg_class);
  const std::string sign = to_bytes > from_bytes && sign_extends ? "s" : "u";
  const std::string form = ".resize." + sign + std::to_string(8 * to_bytes) +
                           "." + sign + std::to_string(8 * from_bytes);
  DraftInst* inst = Append(form.c_str());
  inst->fields[0] = to;
  inst->fields[1] = from;
}

bool Decoder::LiteralValue(const Operand& operand, uint8_t bytes,
                           uint32_t* value) {
  uint64_t bits = operand.bits;
  if (operand.kind == Operand::Kind::kFloat) {
    if (bytes == 4 && !operand.is_single) {
      bits = std::bit_cast<uint32_t>(
          static_cast<float>(std::bit_cast<double>(bits)));
    } else if (bytes == 8 && operand.is_single) {
      bits = std::bit_cast<uint64_t>(static_cast<double>(
          std::bit_cast<float>(static_cast<uint32_t>(bits))));
    } else if (bytes != 4 && bytes != 8) {
      return FailOperands();
    }
  }
  *value = Constant(bits, bytes);
  return true;
}

bool Decoder::SpecialValue(const Operand& operand, uint32_t* value) {
  for (const ClockName& clock : kClocks) {
    if (clock.name != operand.name) continue;
    *value = NewValue(clock.reg_class);
    Append(clock.form)->fields[0] = *value;
    return true;
  }
  for (const FixedName& fixed : kFixed) {
    if (fixed.name != operand.name) continue;
    *value = Constant(fixed.value, 4);
    return true;
  }
  for (const SpecialName& special : kSpecials) {
    if (special.name != operand.name) continue;
    const auto [found, is_new] =
        specials_.try_emplace(std::string(operand.name), 0);
    if (is_new) {
      found->second =
          NewValue(special.special == exec::Special::kGridId64 ? RegClass::k64
                                                               : RegClass::k32);
      Value& added = draft_->values[found->second];
      added.kind = Value::Kind::kSpecial;
      added.special = special.special;
    }
    *value = found->second;
    return true;
  }
  return Fail("the special register '" + std::string(operand.name) +
              "' is not supported by softcuda");
}

bool Decoder::PlaceShared(const Variable& variable, const std::string& key,
                          uint64_t* offset) {
  const auto [found, is_new] = shared_offsets_.try_emplace(key, 0);
  if (is_new) {
    found->second = AlignUp(draft_->static_shared_bytes, variable.align);
    const uint64_t end = found->second + variable.bytes;
    if (end > kMaxSharedBytes) {
      return Fail("more than 2^20 bytes of shared memory");
    }
    draft_->static_shared_bytes = static_cast<uint32_t>(end);
  }
  *offset = found->second;
  return true;
}

bool Decoder::PlaceLocal(const Variable& variable, uint64_t* offset) {
  *offset = AlignUp(draft_->local_bytes, variable.align);
  const uint64_t end = *offset + variable.bytes;
  if (end > kMaxLocalBytes) {
    return Fail("more than 2^16 bytes of local memory a thread");
  }
  draft_->local_bytes = static_cast<uint32_t>(end);
  return true;
}

bool Decoder::VariableAddress(uint32_t index, uint64_t* address) {
  if (!frame_->variable_known[index]) {
    const Variable& variable = frame_->function->variables[index];
    uint64_t offset = 0;
    if (variable.space == Space::kShared) {
      // One array for all copies of a function's body.
      const std::string key =
          frame_->function->name + "\n" + std::to_string(index);
      if (!PlaceShared(variable, key, &offset)) return false;
    } else if (!PlaceLocal(variable, &offset)) {
      return false;
    }
    frame_->variables[index] = offset;
    frame_->variable_known[index] = true;
  }
  *address = frame_->variables[index];
  return true;
}

bool Decoder::SymbolValue(const Operand& operand, uint8_t bytes,
                          uint32_t* value) {
  if (bytes != 4 && bytes != 8) return FailOperands();
  uint64_t address = 0;
  if (operand.kind == Operand::Kind::kVariable) {
    if (!VariableAddress(operand.index, &address)) return false;
    *value = Constant(address + operand.bits, bytes);
    return true;
  }
  const std::string name(operand.name);
  const auto global = symbols_.find(name);
  if (global != symbols_.end()) {
    if (bytes != 8) return FailOperands();
    *value = Constant(global->second + operand.bits, bytes);
    return true;
  }
  for (const Variable& variable : syntax_.variables) {
    if (variable.space != Space::kShared || variable.name != name) continue;
    if (variable.is_extern || variable.bytes == 0) {
      *value = Constant(operand.bits, bytes, /*is_dynamic_shared=*/true);
      return true;
    }
    if (!PlaceShared(variable, name, &address)) return false;
    *value = Constant(address + operand.bits, bytes);
    return true;
  }
  return Fail("nothing is called '" + name + "'");
}

bool Decoder::BindAddress(const exec::OperandSpec& spec, const Operand& operand,
                          size_t index, DraftInst* inst) {
  if (operand.kind != Operand::Kind::kAddress || operand.elements.size() > 1) {
    return FailOperands();
  }
  uint64_t offset = operand.bits;
  uint32_t base = 0;
  if (operand.elements.empty()) {
    base = Constant(0, spec.bytes);
  } else if (operand.elements[0].kind == Operand::Kind::kRegister) {
    base = frame_->registers[operand.elements[0].index];
    const uint8_t bytes = BytesOf(draft_->values[base].reg_class);
    if (bytes == 8 && spec.bytes == 4) {
      const uint32_t narrow = NewValue(RegClass::k32);
      DraftInst* resize = Append(".resize.address");
      resize->fields[0] = narrow;
      resize->fields[1] = base;
      base = narrow;
    } else if (bytes == 4 && spec.bytes == 8) {
      const uint32_t wide = NewValue(RegClass::k64);
      AppendResize(base, wide, false);
      base = wide;
    } else if (bytes != spec.bytes) {
      return FailOperands();
    }
  } else if (!SourceValue(operand.elements[0], spec.bytes, &base)) {
    return false;
  }
  if (imm_used_ && offset != 0) {
    // Inst::imm has room for one offset.
    const uint32_t sum = NewValue(ClassOf(spec.bytes));
    const uint32_t addend = Constant(offset, spec.bytes);
    DraftInst* add = Append(spec.bytes == 8 ? "add.u64" : "add.u32");
    add->fields[0] = sum;
    add->fields[1] = base;
    add->fields[2] = addend;
    base = sum;
  } else if (!imm_used_) {
    imm_used_ = true;
    inst->imm = static_cast<int64_t>(offset);
  }
  inst->fields[index] = base;
  return true;
}

}  // namespace softcuda::ptx
