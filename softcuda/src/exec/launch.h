// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_EXEC_LAUNCH_H_
#define SOFTCUDA_EXEC_LAUNCH_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "check/access_log.h"

namespace softcuda::check {
class Reporter;
}  // namespace softcuda::check
namespace softcuda::memory {
class Snapshot;
}  // namespace softcuda::memory
namespace softcuda::ptx {
class Kernel;
}  // namespace softcuda::ptx

namespace softcuda::exec {

/// Which bytes of device memory a launch accessed; sites are indices of
/// instructions, plus 1.
struct LaunchAccesses {
  check::AccessLog early;  ///< by warps before their griddepcontrol.wait
  check::AccessLog late;   ///< after it
  bool waited = false;     ///< some access came after one
};

struct Dim3 {
  uint32_t x = 1;
  uint32_t y = 1;
  uint32_t z = 1;
};

/// One kernel launch with everything it needs: nothing in it refers to the
/// caller's stack, so that a launch can be kept and run later.
struct Launch {
  const ptx::Kernel* kernel = nullptr;
  /// Keeps the kernel's module alive.
  std::shared_ptr<const void> keep_alive;
  Dim3 grid;
  Dim3 block;
  uint32_t dynamic_shared_bytes = 0;
  /// The parameter space: `kernel->param_bytes()` bytes, laid out as
  /// `kernel->params()` says.
  std::vector<std::byte> params;
  /// What reports call this launch, such as "graph node 3".
  std::string origin;
  /// Order of blocks and warps, and the length of their turns; 0 is the
  /// natural order.
  uint64_t seed = 0;
  /// Instructions one warp may execute before the launch is given up as hung;
  /// 0 is the default, which takes minutes.
  uint64_t step_limit = 0;
  /// Where to record what it accesses; may be null, and then costs nothing.
  LaunchAccesses* accesses = nullptr;
};

/// The source line of a site of `kernel`'s accesses.
check::AccessSite SiteOf(const ptx::Kernel& kernel, uint32_t site);

/// Runs a launch to its end on this thread and the interpreter's pool.
///
/// Memory is read and written while it runs: a kernel that spins on a word the
/// host changes sees the change. Blocks take turns, so blocks may wait for each
/// other. Kernels whose result may depend on the order of their blocks run on
/// one host thread, so that one seed always gives the same bits.
/// Errors: CUDA_SUCCESS, or the code a device would make sticky, with a report
///   added: ILLEGAL_ADDRESS, MISALIGNED_ADDRESS, ILLEGAL_INSTRUCTION,
///   LAUNCH_FAILED, LAUNCH_TIMEOUT. The first fault ends the launch.
///   INVALID_VALUE for a launch with a block or parameters of a wrong size.
/// Threads: any, several launches at once too.
CUresult Run(const Launch& launch, const memory::Snapshot& snapshot,
             check::Reporter& reporter);

}  // namespace softcuda::exec

#endif  // SOFTCUDA_EXEC_LAUNCH_H_
