// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "ptx/module.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "exec/device_limits.h"
#include "exec/program.h"
#include "image/fatbin.h"
#include "memory/address_space.h"
#include "ptx/assemble.h"
#include "ptx/decoder.h"
#include "ptx/image_cache.h"
#include "ptx/parser.h"

namespace softcuda::ptx {
namespace {

// PTX ISA 9 is what CUDA 13 writes.
constexpr uint32_t kMaxPtxMajor = 9;
constexpr uint64_t kMaxGlobalAlign = 4096;

}  // namespace

Kernel::Kernel(std::string name, std::vector<ParamInfo> params,
               std::unique_ptr<const exec::Program> program)
    : name_(std::move(name)),
      params_(std::move(params)),
      program_(std::move(program)) {}

Kernel::~Kernel() = default;

uint32_t Kernel::param_bytes() const { return program_->param_bytes; }
uint32_t Kernel::static_shared_bytes() const {
  return program_->static_shared_bytes;
}
uint32_t Kernel::max_threads_per_block() const { return program_->max_threads; }
uint32_t Kernel::register_count() const {
  return program_->registers_per_thread;
}
uint32_t Kernel::local_bytes() const { return program_->local_bytes; }

Module::Module() = default;

Module::~Module() {
  for (const Global& global : globals_) {
    memory::AddressSpace::Get().FreeModuleGlobal(global.address);
  }
}

const Kernel* Module::Find(const std::string& name) const {
  for (const std::unique_ptr<Kernel>& kernel : kernels_) {
    if (kernel->name() == name) return kernel.get();
  }
  return nullptr;
}

const Module::Global* Module::FindGlobal(const std::string& name) const {
  for (const Global& global : globals_) {
    if (global.name == name) return &global;
  }
  return nullptr;
}

/// Makes a Module of a parsed text, step by step; the first failure is kept.
class ModuleBuilder {
 public:
  ModuleBuilder(const Syntax& syntax, int capability, LoadError* error,
                int device)
      : syntax_(syntax),
        capability_(capability),
        error_(error),
        device_(device) {}

  std::unique_ptr<Module> Build() {
    module_ = std::make_unique<Module>();
    if (!CheckTarget() || !PlaceGlobals() || !InitializeGlobals() ||
        !BuildKernels()) {
      return nullptr;
    }
    return std::move(module_);
  }

 private:
  bool Fail(CUresult code, std::string message) {
    error_->code = code;
    error_->message = std::move(message);
    return false;
  }

  // `sm_90` runs on 90 and above, `sm_90a` and `sm_90f` on 90 only.
  bool CheckTarget() {
    if (syntax_.version_major > kMaxPtxMajor) {
      return Fail(CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
                  "PTX version " + std::to_string(syntax_.version_major) + "." +
                      std::to_string(syntax_.version_minor) +
                      ": softcuda knows versions up to 9");
    }
    const std::string_view target = syntax_.target;
    int number = 0;
    size_t at = 3;
    for (;
         at < target.size() && at < 7 && target[at] >= '0' && target[at] <= '9';
         ++at) {
      number = number * 10 + (target[at] - '0');
    }
    if (target.substr(0, 3) != "sm_" || number == 0 || target.size() > at + 1) {
      return Fail(CUDA_ERROR_INVALID_PTX,
                  ".target '" + syntax_.target + "' is unknown");
    }
    const bool is_exact = target.size() == at + 1;
    if (number > capability_ || (is_exact && number != capability_)) {
      return Fail(CUDA_ERROR_NO_BINARY_FOR_GPU,
                  "the PTX is for " + syntax_.target + ", the device is sm_" +
                      std::to_string(capability_));
    }
    return true;
  }

  bool PlaceGlobals() {
    for (const Variable& variable : syntax_.variables) {
      if (variable.space == Space::kShared) continue;
      if (variable.is_extern) {
        return Fail(CUDA_ERROR_INVALID_PTX,
                    "the variable '" + variable.name +
                        "' is defined in another module, and softcuda does "
                        "not link");
      }
      if (addresses_.count(variable.name) != 0) {
        return Fail(CUDA_ERROR_INVALID_PTX,
                    "the variable '" + variable.name + "' is defined twice");
      }
      if (variable.align > kMaxGlobalAlign) {
        return Fail(CUDA_ERROR_INVALID_PTX,
                    "the variable '" + variable.name +
                        "' asks for an alignment above a page");
      }
      // Every address must be unlike any other, so none is empty.
      const uint64_t bytes = std::max<uint64_t>(variable.bytes, 1);
      const uint64_t address = memory::AddressSpace::Get().AllocateModuleGlobal(
          bytes, std::max<uint64_t>(variable.align, 16), variable.name,
          device_);
      if (address == 0) {
        return Fail(CUDA_ERROR_OUT_OF_MEMORY,
                    "the variable '" + variable.name + "' of " +
                        std::to_string(variable.bytes) +
                        " bytes does not fit the device");
      }
      addresses_[variable.name] = address;
      module_->globals_.push_back({variable.name, address, variable.bytes});
    }
    return true;
  }

  bool InitializeGlobals() {
    for (const Variable& variable : syntax_.variables) {
      if (variable.space == Space::kShared || variable.initial.empty()) {
        continue;
      }
      auto* const memory =
          reinterpret_cast<unsigned char*>(addresses_[variable.name]);
      std::memcpy(memory, variable.initial.data(), variable.initial.size());
      for (const Relocation& relocation : variable.relocations) {
        const auto symbol = addresses_.find(std::string(relocation.symbol));
        if (symbol == addresses_.end()) {
          return Fail(CUDA_ERROR_INVALID_PTX,
                      "the variable '" + variable.name +
                          "' is initialised with the address of '" +
                          std::string(relocation.symbol) +
                          "', which is no variable of the module");
        }
        const uint64_t address =
            symbol->second + static_cast<uint64_t>(relocation.addend);
        std::memcpy(memory + relocation.offset, &address, sizeof(address));
      }
    }
    return true;
  }

  bool BuildKernels() {
    for (const Function& function : syntax_.functions) {
      if (!function.is_entry || !function.has_body) continue;
      if (module_->Find(function.name) != nullptr) {
        return Fail(CUDA_ERROR_INVALID_PTX,
                    "the kernel '" + function.name + "' is defined twice");
      }
      Draft draft;
      std::string message;
      Decoder decoder(syntax_, addresses_);
      if (!decoder.Decode(function, &draft, &message)) {
        return Fail(CUDA_ERROR_INVALID_PTX, std::move(message));
      }
      std::unique_ptr<exec::Program> program =
          Assemble(std::move(draft), &message);
      if (program == nullptr) {
        return Fail(CUDA_ERROR_INVALID_PTX,
                    "kernel '" + function.name + "': " + message);
      }
      std::vector<ParamInfo> params;
      const std::vector<uint32_t> offsets =
          Decoder::ParamOffsets(function, &program->param_bytes);
      for (size_t k = 0; k < offsets.size(); ++k) {
        params.push_back({offsets[k],
                          static_cast<uint32_t>(function.params[k].bytes),
                          function.params[k].align});
      }
      program->name = function.name;
      program->max_threads = function.max_threads != 0 ? function.max_threads
                                                       : kMaxThreadsPerBlock;
      program->locations = syntax_.locations;
      program->files = syntax_.files;
      module_->kernels_.push_back(std::make_unique<Kernel>(
          function.name, std::move(params), std::move(program)));
    }
    return true;
  }

  const Syntax& syntax_;
  const int capability_;
  LoadError* error_;
  const int device_;
  std::unique_ptr<Module> module_;
  SymbolAddresses addresses_;
};

// What the CUDA device runtime library has under these names. A condition's
// handle is the address of its word.
constexpr char kDeviceRuntime[] = R"(
.version 8.0
.target sm_70
.address_size 64
.visible .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value)
{
  .reg .b64 %rd<2>;
  .reg .b32 %r<2>;
  ld.param.u64 %rd1, [handle];
  ld.param.u32 %r1, [value];
  st.volatile.global.u32 [%rd1], %r1;
  ret;
}
)";

// Gives functions that are declared only, and that the device runtime library
// would bring, their bodies.
bool LinkDeviceRuntime(Syntax* syntax, std::string* message) {
  Syntax library;
  for (Function& function : syntax->functions) {
    if (function.has_body || function.is_entry) continue;
    if (library.functions.empty() &&
        !Parse(kDeviceRuntime, &library, message)) {
      return false;
    }
    for (const Function& builtin : library.functions) {
      if (builtin.name == function.name) function = builtin;
    }
  }
  return true;
}

std::shared_ptr<const Module> LoadImage(const void* image, size_t bytes,
                                        int capability, LoadError* error,
                                        int device) {
  LoadError ignored;
  if (error == nullptr) error = &ignored;
  *error = LoadError();
  const image::PtxChoice choice = image::FindPtx(image, bytes, capability);
  if (choice.code != CUDA_SUCCESS) {
    error->code = choice.code;
    error->message = choice.message;
    return nullptr;
  }
  std::shared_ptr<const Module> module =
      ImageCache::Get().Find(choice.text, capability);
  if (module != nullptr) return module;
  Syntax syntax;
  if (!Parse(choice.text, &syntax, &error->message) ||
      !LinkDeviceRuntime(&syntax, &error->message)) {
    error->code = CUDA_ERROR_INVALID_PTX;
    return nullptr;
  }
  module = ModuleBuilder(syntax, capability, error, device).Build();
  if (module != nullptr && module->globals().empty()) {
    ImageCache::Get().Add(choice.text, capability, module);
  }
  return module;
}

std::shared_ptr<const Module> LoadImage(const void* image, int capability,
                                        LoadError* error, int device) {
  const std::optional<size_t> bytes = image::ImageBytes(image);
  return LoadImage(image, bytes.value_or(0), capability, error, device);
}

}  // namespace softcuda::ptx
