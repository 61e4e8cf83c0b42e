// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// The checkers' catalogue: every planted fault with the checker that must find
// it and the line it must name, and the sound work that all checkers must pass
// in silence.
#ifndef SOFTCUDA_TESTS_CHECK_CATALOGUE_H_
#define SOFTCUDA_TESTS_CHECK_CATALOGUE_H_

#include <cstdint>

namespace softcuda::testing {

/// One launch, in words. Arguments, one word each; a number is an int:
///
///   in, out, undef  512 ints: small numbers; zeros; nobody wrote them
///   gap             as `in`, with byte 2 undefined
///   null            the null pointer
///   freed           memory that was freed
///   asleep, woken   reserved, its memory taken away; and put back
///   closed          mapped, no access set
///   readonly        as `in`, mapped for reading
///   other_device    memory of another device; `peer` with peer access
///   pinned          512 ints of pinned host memory
///   region          region 'first' of a slab: 64 ints, then a gap of as many,
///                   then 'second'; `before_region` is the gap's last int
///   region_readonly, region_closed  the same with permissions
struct KernelCase {
  const char* kernel;
  uint32_t grid;
  uint32_t block;
  const char* args;
  const char* checker;  ///< null: sound
  const char* line;     ///< the mark in check_kernels.cu
  uint32_t dynamic_shared_bytes = 0;
  const char* also = "";       ///< must be in the report too
  const char* name = nullptr;  ///< null: the kernel's
};

/// Calls of the driver, in words: statements with `;` between them.
///
/// Streams: s, t non-blocking; p, q blocking; l the legacy one. Buffers of 256
/// ints, zeros at the start: a, b, c; and h, pinned.
///
///   fill S B, add S B C, histogram S B C   kernels; `add` reads B, writes C
///   head S B, tail S B, long_head S B  fill ints 0-127, 128-255, 0-128
///   early S B C, early_wait S B C   `add` behind a programmatic edge, without
///                                   and with griddepcontrol.wait
///   set S B, copy S B C, upload S B, download S B   copies from and to h
///   order S T       T waits for what S holds now
///   sync S          the host waits
///   capture         S = s captures, until `launch S...`: an executable graph
///                   is launched in each of the streams
///   undefine B      nobody wrote it
///   late            work waits until somebody waits for it
///   change, free    the host changes h; frees it
///   stack_upload S B  a copy from the caller's stack
///   leak X, stale X   leaves X behind; destroys X, then uses it
struct OperationsCase {
  const char* name;
  const char* work;
  const char* checker = nullptr;  ///< null: sound
  const char* line = nullptr;     ///< the mark; null where no kernel takes part
  const char* also = "";
};

inline constexpr KernelCase kFaultyKernels[] = {
    {"f_write_past_end", 1, 32, "out 512", "memcheck", "write_past_end", 0,
     "past the end"},
    {"f_read_before", 1, 1, "in out", "memcheck", "read_before"},
    {"f_misaligned", 1, 1, "out", "memcheck", "misaligned", 0, "misaligned"},
    {"f_misaligned_vector", 1, 1, "out", "memcheck", "misaligned_vector", 0,
     "16 bytes"},
    {"f_null", 1, 1, "null", "memcheck", "null", 0, "null pointer"},
    {"f_atomic_past_end", 1, 32, "out 512", "memcheck", "atomic_past_end"},
    {"f_shared_past_end", 1, 32, "out 32", "memcheck", "shared_past_end", 0,
     "shared memory+128 (128 bytes"},
    {"f_dynamic_shared_past_end", 1, 1, "out 16", "memcheck",
     "dynamic_shared_past_end", 64, "shared memory+64"},
    {"f_async_copy_past_end", 1, 32, "in out 112", "memcheck",
     "async_copy_past_end", 0, "thread (16,0,0)"},
    {"f_inlined", 1, 32, "out 512", "memcheck", "inlined", 0, "inlined at"},
    {"f_one_block_of_many", 5, 128, "out 1", "memcheck", "one_block_of_many", 0,
     "block (4,0,0) thread (0,0,0)"},

    // Whose memory it is.
    {"k_fill", 1, 32, "freed 32 7", "memcheck", "fill", 0,
     "bytes into freed device allocation", "FreedMemory"},
    {"k_add", 1, 32, "asleep out 32", "memcheck", "add_read", 0,
     "not mapped: 0x0 bytes into the reservation", "MemoryAsleep"},
    {"k_fill", 1, 32, "closed 32 7", "memcheck", "fill", 0, "no access set",
     "MappedWithoutAccess"},
    {"k_fill", 1, 32, "readonly 32 7", "memcheck", "fill", 0, ", read-only",
     "ReadOnlyMapping"},
    {"k_fill", 1, 32, "other_device 32 7", "memcheck", "fill", 0,
     "without peer access", "MemoryOfAnotherContext"},
    {"k_fill", 5, 128, "pinned 513 7", "memcheck", "fill", 0,
     "past the end of pinned host memory", "PastPinnedMemory"},
    {"k_fill", 1, 128, "region 65 7", "memcheck", "fill", 0,
     "1 byte past the end of 'first' (256 bytes)", "GuardBehindARegion"},
    {"k_add", 1, 128, "before_region out 1", "memcheck", "add_read", 0,
     "4 bytes before 'second'", "GuardBeforeARegion"},
    {"k_fill", 1, 32, "region_readonly 32 7", "memcheck", "fill", 0,
     "first+0x0 (256 bytes), read-only", "ReadOnlyRegion"},
    {"k_add", 1, 32, "region_closed out 32", "memcheck", "add_read", 0,
     "closed through NVTX permissions", "ClosedRegion"},

    {"f_undefined_global", 1, 32, "undef out", "initcheck", "undefined_global",
     0, "thread (0,0,0)"},
    {"f_undefined_byte", 1, 1, "gap out", "initcheck", "undefined_byte"},
    {"f_undefined_atomic", 1, 1, "undef", "initcheck", "undefined_atomic"},
    {"f_undefined_shared", 1, 64, "out", "initcheck", "undefined_shared", 0,
     "shared memory+64 "},
    {"f_undefined_shared_byte", 1, 32, "out", "initcheck",
     "undefined_shared_byte"},
    {"f_async_copy_no_wait", 1, 32, "in out", "initcheck",
     "async_copy_no_wait"},
    {"f_undefined_shared_atomic", 1, 32, "out", "initcheck",
     "undefined_shared_atomic"},

    {"f_shared_no_barrier", 1, 128, "in out", "racecheck", "shared_no_barrier",
     0, "previous: read by block (0,0,0)"},
    {"f_shared_write_after_read", 1, 128, "in out", "racecheck",
     "shared_write_after_read"},
    {"f_shared_write_write", 1, 128, "out", "racecheck", "shared_write_write",
     0, "previous: write"},
    {"f_two_barriers", 1, 128, "out", "racecheck", "two_barriers"},
    {"f_syncwarp_is_not_enough", 1, 64, "out", "racecheck",
     "syncwarp_is_not_enough"},
    {"f_shared_atomic_and_read", 1, 128, "out", "racecheck",
     "shared_atomic_and_read"},
    {"f_tree_sum_no_barrier", 1, 128, "in out", "racecheck", "tree_write", 0,
     "previous: read"},
    {"f_async_copy_no_barrier", 1, 64, "in out", "racecheck",
     "async_copy_no_barrier"},
    {"f_loop_without_second_barrier", 1, 128, "in out 3", "racecheck",
     "loop_without_second_barrier"},

    {"f_blocks_write_one_word", 2, 32, "out", "racecheck",
     "blocks_write_one_word", 0, "by another block"},
    {"f_reads_other_block", 4, 32, "out out", "racecheck", "reads_other_block"},
    {"f_last_block_no_fence", 4, 32, "out out out", "racecheck",
     "last_block_no_fence"},
    {"f_last_block_block_fence", 4, 32, "out out out", "racecheck",
     "last_block_block_fence"},
    {"f_last_block_late_write", 4, 32, "out out out", "racecheck",
     "last_block_late_write"},
    {"f_flag_without_release", 2, 32, "out out out", "racecheck",
     "flag_without_release"},
    {"f_global_no_barrier", 1, 128, "out out", "racecheck",
     "global_no_barrier"},
    {"f_unaligned_overlap", 3, 1, "out", "racecheck", "unaligned_overlap"},
    {"f_lock_without_fence", 3, 1, "out out", "racecheck",
     "lock_without_fence"},
    {"f_atomic_and_plain", 2, 32, "out", "racecheck", "atomic_and_plain"},

    {"f_divergent_barrier", 1, 32, "out", "synccheck", "divergent_barrier"},
    {"f_missing_participant", 1, 96, "out", "synccheck", "missing_participant"},
    {"f_barrier_count", 1, 32, "out 33", "synccheck", "barrier_count"},
    {"f_barrier_number", 1, 32, "out 16", "synccheck", "barrier_number"},
    {"f_shuffle_absent_lanes", 1, 32, "in out", "synccheck",
     "shuffle_absent_lanes", 0, "16 threads"},
    {"f_vote_absent_lanes", 1, 32, "out", "synccheck", "vote_absent_lanes", 0,
     "24 threads"},
    {"f_syncwarp_absent_lanes", 1, 32, "out", "synccheck",
     "syncwarp_absent_lanes"},
    {"f_spin", 1, 32, "out", "timeout", "spin"},
    {"f_trap", 1, 32, "1", "trap", "trap"},
};

inline constexpr KernelCase kSoundKernels[] = {
    {"k_fill", 4, 128, "undef 500 7", nullptr, nullptr},
    {"k_add", 4, 128, "in undef 512", nullptr, nullptr},
    {"k_increment", 4, 128, "in 512", nullptr, nullptr},
    {"k_reverse_shared", 1, 128, "in undef", nullptr, nullptr},
    {"k_tree_sum", 1, 128, "in undef", nullptr, nullptr},
    {"k_atomic_histogram", 4, 128, "in out 512", nullptr, nullptr},
    {"k_global_exchange", 1, 128, "undef", nullptr, nullptr},
    {"k_last_block_done", 8, 64, "undef out undef", nullptr, nullptr},
    {"k_all_threads_fence", 4, 128, "undef out undef", nullptr, nullptr},
    {"k_flag_handover", 2, 32, "undef out undef", nullptr, nullptr},
    {"k_lock", 5, 32, "out out", nullptr, nullptr},
    {"k_named_barriers", 1, 128, "undef", nullptr, nullptr},
    {"k_half_barriers", 1, 128, "undef", nullptr, nullptr},
    {"k_double_buffer", 1, 128, "in undef 5", nullptr, nullptr},
    {"k_async_copy", 1, 64, "in undef", nullptr, nullptr},
    {"k_warp_sum", 1, 128, "in out", nullptr, nullptr},
    {"k_half_warp_shuffle", 1, 64, "in undef", nullptr, nullptr},
    {"k_warp_exchange", 1, 64, "undef", nullptr, nullptr},
    {"k_early_exit", 1, 128, "undef 3", nullptr, nullptr},
    {"k_bytes_side_by_side", 8, 64, "undef", nullptr, nullptr},
    {"k_shared_bytes_side_by_side", 1, 128, "undef", nullptr, nullptr},
    {"k_shared_atomic_max", 1, 128, "undef", nullptr, nullptr},
    {"k_read_only_sharing", 4, 128, "in undef", nullptr, nullptr},
    {"k_grid_wait_then_add", 4, 128, "in undef 512", nullptr, nullptr},
    {"k_vector_copy", 1, 128, "in undef", nullptr, nullptr},
    {"k_local_array", 1, 64, "in undef", nullptr, nullptr},
    {"k_dynamic_shared", 1, 128, "in undef", nullptr, nullptr, 512},
    {"k_grid_stride", 2, 64, "in undef 500", nullptr, nullptr},
    {"k_compare_and_swap_max", 1, 128, "in out", nullptr, nullptr},
    {"k_ballot_compact", 1, 32, "in undef", nullptr, nullptr},
    {"k_generic_pointer", 1, 64, "undef 1", nullptr, nullptr},
    {"k_fill", 1, 32, "woken 32 7", nullptr, nullptr, 0, "", "MemoryAwake"},
    {"k_add", 4, 128, "readonly undef 512", nullptr, nullptr, 0, "",
     "ReadOfAReadOnlyMapping"},
    {"k_fill", 1, 32, "peer 32 7", nullptr, nullptr, 0, "",
     "MemoryOfAPeerContext"},
    {"k_fill", 4, 128, "pinned 512 7", nullptr, nullptr, 0, "", "PinnedMemory"},
    {"k_fill", 1, 128, "region 64 7", nullptr, nullptr, 0, "", "WithinARegion"},
    {"k_add", 1, 64, "region_readonly undef 64", nullptr, nullptr, 0, "",
     "ReadOfAReadOnlyRegion"},
};

inline constexpr OperationsCase kFaultyOperations[] = {
    // Graph nodes that no path orders.
    {"BranchReadsWhatAnotherWrites",
     "capture; order s t; fill s a; add t a b; order t s; launch s",
     "racecheck", "add_read", "graph node"},
    {"BranchOverwritesWhatAnotherReads",
     "capture; order s t; add s a b; fill t a; order t s; launch s",
     "racecheck", "fill", "no path orders"},
    {"BranchesWriteOneBuffer",
     "capture; order s t; fill s a; add t b a; order t s; launch s",
     "racecheck", "add_write", "no path orders"},
    {"BranchesShareOneInt",
     "capture; order s t; long_head s a; tail t a; order t s; launch s",
     "racecheck", "fill", "+0x200 ("},
    {"BranchJoinsTooLate",
     "capture; fill s a; order s t; add t a b; add s b c; order t s; launch s",
     "racecheck", "add_read", "no path orders"},
    {"MemsetNodeAgainstAKernel",
     "capture; order s t; set s a; add t a b; order t s; launch s", "racecheck",
     "add_read", "memset"},
    {"CopyNodeAgainstAKernel",
     "capture; order s t; copy s b a; fill t a; order t s; launch s",
     "racecheck", "fill", "copy"},
    {"UploadNodeAgainstAKernel",
     "capture; order s t; upload s a; add t a b; order t s; launch s",
     "racecheck", "add_read", "no path orders"},
    {"AtomicNodeAgainstARead",
     "capture; order s t; histogram s a b; add t b c; order t s; launch s",
     "racecheck", "add_read", "atomic update"},
    {"GraphsOfTwoStreamsShareScratch",
     "capture; fill s a; add s a b; launch s t", "racecheck", "fill",
     "graph node"},
    // A programmatic edge alone.
    {"ProgrammaticNodeDoesNotWait", "capture; fill s a; early s a b; launch s",
     "racecheck", "add_read", "no path orders"},
    {"ProgrammaticLaunchDoesNotWait", "fill s a; early s a b", "racecheck",
     "add_read", "no path orders"},
    {"BehindAProgrammaticNodeThatDoesNotWait",
     "capture; fill s a; early s b c; add s a b; early s b a; launch s",
     "racecheck", "add_write", "no path orders"},
    // Streams.
    {"NoEvent", "fill s a; add t a b", "racecheck", "add_read",
     "no path orders"},
    {"EventTooEarly", "order s t; fill s a; add t a b", "racecheck", "add_read",
     "no path orders"},
    {"TheHostWaitsForTheOtherStream", "fill s a; sync t; add t a b",
     "racecheck", "add_read", "no path orders"},
    {"NonBlockingAgainstTheLegacyStream", "fill l a; add s a b", "racecheck",
     "add_read", "no path orders"},
    {"BlockingStreams", "fill p a; add q a b", "racecheck", "add_read",
     "no path orders"},
    {"DownloadAgainstAKernel", "download s a; fill t a", "racecheck", "fill",
     "copy"},
    // Undefined memory.
    {"KernelReadsUndefined", "undefine a; add s a b", "initcheck", "add_read",
     "undefined"},
    {"ReplayReadsUndefined", "capture; add s a b; undefine a; launch s",
     "initcheck", "add_read", "graph node"},
    {"OnlyHalfIsWritten", "undefine a; head s a; add s a b", "initcheck",
     "add_read", "block (1,0,0)"},
    // Host memory.
    {"PinnedSourceChanges", "late; upload s a; change", "hostcheck", nullptr,
     "the host changed the source"},
    {"SourceOfANodeChanges", "late; capture; upload s a; launch s; change",
     "hostcheck", nullptr, "graph node"},
    {"PinnedSourceIsFreed", "late; upload s a; free", "hostcheck", nullptr,
     "cuMemFreeHost"},
    {"CapturedStackAddress", "capture; stack_upload s a; launch s", "hostcheck",
     nullptr, "address on the stack"},
    // What is left behind.
    {"LeakedMemory", "leak memory", "leakcheck", nullptr, "device allocation"},
    {"LeakedPinnedMemory", "leak host", "leakcheck", nullptr,
     "pinned host memory"},
    {"LeakedStream", "leak stream", "leakcheck", nullptr, "stream 0x"},
    {"LeakedEvent", "leak event", "leakcheck", nullptr, "event 0x"},
    // Handles.
    {"StaleStream", "stale stream", "misuse", nullptr, "cuStreamSynchronize"},
    {"StaleEvent", "stale event", "misuse", nullptr, "cuEventRecord"},
    {"StaleGraph", "stale graph", "misuse", nullptr, "cuGraphInstantiate"},
    {"StaleFunction", "stale function", "misuse", nullptr, "cuLaunchKernel"},
};

inline constexpr OperationsCase kSoundOperations[] = {
    {"ChainInAGraph", "capture; fill s a; add s a b; add s b c; launch s s"},
    {"BranchesApart",
     "capture; fill s a; order s t; add s a b; add t a c; order t s; "
     "fill s a; launch s s"},
    {"BranchesOnHalves",
     "capture; order s t; head s a; tail t a; order t s; add s a b; "
     "launch s s"},
    {"BranchesReadOneBuffer",
     "capture; order s t; add s a b; add t a c; order t s; launch s s"},
    {"JoinBeforeUse",
     "capture; fill s a; order s t; add t a b; order t s; add s b c; "
     "launch s s"},
    {"MemsetAndCopyNodesInARow",
     "capture; set s a; copy s a b; add s b c; launch s s"},
    {"UploadAndDownloadNodes",
     "capture; upload s a; add s a b; download s b; launch s s"},
    {"AtomicNodesSideBySide",
     "capture; order s t; histogram s a b; histogram t a b; order t s; "
     "add s b c; launch s s"},
    {"GraphsOfTwoStreamsInOrder",
     "capture; fill s a; add s a b; launch s; order s t; capture; fill s a; "
     "add s a c; launch t"},
    {"ProgrammaticNodeWaits",
     "capture; fill s a; early_wait s a b; fill s a; launch s s"},
    {"ProgrammaticLaunchWaits", "fill s a; early_wait s a b; fill s a"},
    {"ProgrammaticNodeTouchesOtherMemory",
     "capture; fill s a; early s b c; launch s"},
    {"Event", "fill s a; order s t; add t a b"},
    {"EventBothWays", "fill s a; order s t; add t a b; order t s; fill s a"},
    {"TheHostWaits", "fill s a; sync s; add t a b; sync t; fill s a"},
    {"TheLegacyStreamOrdersBlockingOnes", "fill p a; add l a b; add q b c"},
    {"Defined", "undefine a; fill s a; add s a b"},
    {"DefinedByAMemset", "undefine a; set s a; order s t; add t a b"},
    {"DefinedInTheGraph",
     "capture; fill s a; add s a b; undefine a; launch s s"},
    {"DefinedByAnUpload", "undefine a; upload s a; add s a b"},
    {"PinnedSourceChangesAfterAWait", "late; upload s a; sync s; change"},
    {"PinnedSourceIsFreedAfterAWait", "late; upload s a; sync s; free"},
};

}  // namespace softcuda::testing

#endif  // SOFTCUDA_TESTS_CHECK_CATALOGUE_H_
