// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_PTX_MODULE_H_
#define SOFTCUDA_PTX_MODULE_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace softcuda::exec {
struct Program;
}  // namespace softcuda::exec

namespace softcuda::ptx {

/// Where one kernel parameter lies in the parameter buffer of a launch.
/// Units: bytes.
struct ParamInfo {
  uint32_t offset = 0;
  uint32_t size = 0;
  uint32_t align = 0;
};

/// One `.entry` of a module, decoded and ready to run. Immutable.
///
/// Threads: any; `exec::Run` may run one kernel from several threads at once.
class Kernel {
 public:
  Kernel(std::string name, std::vector<ParamInfo> params,
         std::unique_ptr<const exec::Program> program);
  ~Kernel();
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  const std::string& name() const { return name_; }
  /// Parameters in declaration order.
  const std::vector<ParamInfo>& params() const { return params_; }
  /// Bytes of the parameter buffer: the end of the last parameter.
  uint32_t param_bytes() const;
  uint32_t static_shared_bytes() const;
  /// The product of `.maxntid` or `.reqntid`, else 1024.
  uint32_t max_threads_per_block() const;
  /// 32-bit registers a thread needs after compaction, at most 255: a model
  /// count, not what ptxas would allocate.
  uint32_t register_count() const;
  /// Bytes of local memory a thread.
  uint32_t local_bytes() const;
  /// The decoded code, for the interpreter.
  const exec::Program& program() const { return *program_; }

 private:
  std::string name_;
  std::vector<ParamInfo> params_;
  std::unique_ptr<const exec::Program> program_;
};

/// A loaded image: its kernels, and its `.global` and `.const` variables, which
/// live in device memory as long as the module does.
///
/// Threads: const methods from any thread. The destructor frees the variables,
/// so no kernel of the module may be running then.
class Module {
 public:
  struct Global {
    std::string name;
    uint64_t address = 0;
    uint64_t bytes = 0;
  };

  Module();
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// Null when the module has no kernel of that name.
  const Kernel* Find(const std::string& name) const;
  /// Null when the module has no variable of that name.
  const Global* FindGlobal(const std::string& name) const;
  const std::vector<std::unique_ptr<Kernel>>& kernels() const {
    return kernels_;
  }
  const std::vector<Global>& globals() const { return globals_; }

 private:
  friend class ModuleBuilder;
  std::vector<std::unique_ptr<Kernel>> kernels_;
  std::vector<Global> globals_;
};

/// Why an image was refused: a driver error code, and a text that names the
/// kernel, the opcode form and the source line where there are any.
struct LoadError {
  CUresult code = CUDA_SUCCESS;
  std::string message;
};

/// Loads a fatbin or a NUL-terminated PTX text, as `cuModuleLoadData` takes it.
///
/// Of a fatbin's PTX entries the one with the highest compute_ version that is
/// not above `capability` (90 for 9.0) is taken.
/// Errors: null, with `*error` set. INVALID_IMAGE for what is neither;
///   NO_BINARY_FOR_GPU for cubins, compressed PTX and newer targets;
///   INVALID_PTX for text that does not parse or uses an opcode form that the
///   interpreter does not have; UNSUPPORTED_PTX_VERSION; OUT_OF_MEMORY when the
///   variables do not fit the device.
/// Variables are placed on `device`; where that is negative, on the first one,
/// open to all. An image without variables may be one that was loaded before.
/// Threads: any.
std::shared_ptr<const Module> LoadImage(const void* image, int capability,
                                        LoadError* error, int device = 0);

/// The same for an image whose size is known: nothing past `bytes` is read.
std::shared_ptr<const Module> LoadImage(const void* image, size_t bytes,
                                        int capability, LoadError* error,
                                        int device = 0);

}  // namespace softcuda::ptx

#endif  // SOFTCUDA_PTX_MODULE_H_
