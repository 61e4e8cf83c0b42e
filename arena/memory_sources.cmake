# SPDX-FileCopyrightText: The permafrost authors
# SPDX-License-Identifier: Apache-2.0
#
# The half of arena/ that holds memory; CMakeLists.txt here includes this list.
set(PERMAFROST_ARENA_MEMORY_SOURCES
  src/arena.cc
  src/arena_checksums.cc
  src/arena_sleep.cc
  src/arena_state.cc
  src/captured_decode_meta.cc
  src/decode_meta_ring.cc
  src/decode_meta_staging.cc
  src/evidence.cc
  src/mapping_properties.cc
  src/rowwise_slab.cc
  src/segment_contents.cc
  src/segment_memory.cc)
