/* SPDX-FileCopyrightText: The permafrost authors */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SOFTCUDA_CONTROL_H_
#define SOFTCUDA_CONTROL_H_

/* What softcuda offers beyond the CUDA Driver API. Plain C: callers look the
 * functions up by name in the loaded library and find none in a real driver.
 * All may be called from any thread, before cuInit too, and in any capture. */

#include <cuda.h>
#include <stddef.h>
#include <stdint.h>

#define SOFTCUDA_CONTROL_VERSION 1

#if defined(__GNUC__)
#define SOFTCUDA_CONTROL_EXPORT __attribute__((visibility("default")))
#else
#define SOFTCUDA_CONTROL_EXPORT
#endif

#ifdef __cplusplus
extern "C" {
#endif

/** Returns SOFTCUDA_CONTROL_VERSION of the library. A caller refuses a number
 * it does not know; functions are only added within one number. */
SOFTCUDA_CONTROL_EXPORT int softcuda_control_version(void);

/** Returns how many findings the checkers had since the start of the process,
 * also those whose text was dropped or already taken. */
SOFTCUDA_CONTROL_EXPORT int64_t softcuda_report_count(void);

/** Hands over the kept report texts, one a line, newlines between them.
 *
 * Returns the bytes of all lines, 0 when there are none. They are written to
 * `buffer`, and forgotten, only when `capacity` is at least that; a NUL follows
 * where there is room. So a call with (NULL, 0) asks for the size, and a caller
 * repeats when more reports came between asking and taking. */
SOFTCUDA_CONTROL_EXPORT size_t softcuda_take_reports(char* buffer,
                                                     size_t capacity);

/** From now on, device memory starts undefined and kernels report reads of
 * undefined bytes (enabled != 0), or not (0). Memory allocated before keeps
 * the state it has. */
SOFTCUDA_CONTROL_EXPORT void softcuda_enable_initcheck(int enabled);

/** From now on (enabled != 0), accesses are compared and races reported:
 * between warps and blocks of a kernel, and between operations of streams and
 * graphs that no path of streams, events, graph edges and host waits orders.
 * Work enqueued before counts as ordered. Kernels run on one host thread. */
SOFTCUDA_CONTROL_EXPORT void softcuda_enable_racecheck(int enabled);

/** Sets an option by its name. Each can be set through the environment too, as
 * SOFTCUDA_ and the name in capitals, which is read when the process first
 * calls the driver.
 *
 *   initcheck, racecheck  0 or 1, as the functions of that name
 *   leakcheck      0 or 1: reports what is left when the primary context ends
 *   hostcheck      0 or 1: reports host memory that changes, or goes, while a
 *                  copy has yet to read it
 *   quiet          0 or 1: no lines on stderr
 *   report_format  text or json
 *   report_file    a path: lines are added there too; nothing ends it
 *   exit_code      0 to 255: how the process ends if anything was reported and
 *                  this is not 0; what runs at exit before that is cut off
 *   poison         off, or a byte that fresh memory is filled with
 *   address_reuse  round, never, always: when freed addresses come back
 *   late_work      0 or 1: work runs when somebody waits or asks for it
 *   step_limit     instructions of one warp until its launch is given up
 *   compute_capability  8.0 or 9.0: of the device; before modules are loaded
 *   driver_version      12000 to 99999
 *
 * Returns a CUresult: CUDA_ERROR_INVALID_VALUE for an unknown option or a value
 * that it does not take, with a line on stderr that says what it does. */
SOFTCUDA_CONTROL_EXPORT int softcuda_set_option(const char* name,
                                                const char* value);

/** From now on (enabled != 0), the bytes that each kernel, copy and memset
 * accesses are kept, for softcuda_take_accesses. */
SOFTCUDA_CONTROL_EXPORT void softcuda_enable_access_log(int enabled);

/** Hands over what operations accessed, as JSON, one line for each operation
 * and buffer, oldest first: operation (a number), origin, what, kernel, buffer,
 * buffer_bytes, read_bytes, read_begin, read_end, write_bytes, write_begin,
 * write_end. Bytes count once however often they are accessed; begin and end
 * are offsets in the buffer, 0 without an access. An atomic update reads and
 * writes. A buffer is a named region, else an allocation or mapping.
 * Buffer, capacity and result are those of softcuda_take_reports. */
SOFTCUDA_CONTROL_EXPORT size_t softcuda_take_accesses(char* buffer,
                                                      size_t capacity);

/** Makes device bytes undefined, as if nobody had ever written them: kernels
 * that read them are reported while initcheck is enabled.
 *
 * Bytes aliased through another mapping become undefined there too. Waits for
 * no work: the caller orders it against launches.
 * Returns a CUresult: CUDA_ERROR_INVALID_VALUE when any of the bytes is not
 * mapped device memory; then nothing is marked. */
SOFTCUDA_CONTROL_EXPORT int softcuda_mark_undefined(CUdeviceptr address,
                                                    size_t bytes);

/** Returns the bytes of device memory that exist: allocations, VMM handles
 * that are referenced or mapped, and globals of loaded modules. */
SOFTCUDA_CONTROL_EXPORT int64_t softcuda_live_bytes(void);

/** Returns how many driver objects exist: allocations (pinned and registered
 * host memory too), VMM handles, reservations, mappings, streams, events,
 * graphs, executable graphs, modules. A program that destroys all it made
 * comes back to the number it started from. */
SOFTCUDA_CONTROL_EXPORT int64_t softcuda_live_handles(void);

/** Chooses the schedule of later launches: the same seed gives the same order
 * of blocks and warps, and of independent operations enqueued from now on.
 * 0 is the natural order. With another seed kernels run on one host thread. */
SOFTCUDA_CONTROL_EXPORT void softcuda_set_schedule_seed(uint64_t seed);

/** Whether later launches run their kernels (1, at the start) or only do the
 * driver's part, leaving memory as it is (0): for measuring the latter. */
SOFTCUDA_CONTROL_EXPORT void softcuda_set_execution(int enabled);

/** Returns how many kernel launches have run, eager and in graphs. */
SOFTCUDA_CONTROL_EXPORT int64_t softcuda_kernels_executed(void);

/** Stops (1) or starts (0) the line a report writes to stderr. */
SOFTCUDA_CONTROL_EXPORT void softcuda_set_quiet(int quiet);

/** Sets the memory of every device, in bytes. What is allocated stays, even
 * when it is more; further allocations then fail until enough is freed. */
SOFTCUDA_CONTROL_EXPORT void softcuda_set_device_memory(size_t bytes);

/** The same for one device. Returns CUDA_ERROR_INVALID_DEVICE when there is no
 * such device. */
SOFTCUDA_CONTROL_EXPORT int softcuda_set_memory_of_device(int device,
                                                          size_t bytes);

/** Sets the host memory that all device memory together may take, in bytes.
 * Device memory takes it in steps of 2 MiB where it is first touched; beyond
 * it copies and memsets return CUDA_ERROR_OUT_OF_MEMORY, and a kernel or a
 * replay ends its context. What is committed stays. */
SOFTCUDA_CONTROL_EXPORT void softcuda_set_memory_budget(size_t bytes);

/** Returns the bytes of host memory that device memory has taken. */
SOFTCUDA_CONTROL_EXPORT int64_t softcuda_committed_bytes(void);

/** Sets how many devices there are, 0 to 16, instead of what the environment
 * says. With none, cuInit returns CUDA_ERROR_NO_DEVICE.
 *
 * Returns CUDA_ERROR_ILLEGAL_STATE after cuInit, CUDA_ERROR_INVALID_VALUE for
 * any other number. */
SOFTCUDA_CONTROL_EXPORT int softcuda_set_device_count(int count);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* SOFTCUDA_CONTROL_H_ */
