# SPDX-FileCopyrightText: The permafrost authors
# SPDX-License-Identifier: Apache-2.0
set(SOFTCUDA_EXEC_SOURCES
  src/image/fatbin.cc
  src/ptx/assemble.cc
  src/ptx/canonical_form.cc
  src/ptx/control_flow.cc
  src/ptx/decoder.cc
  src/ptx/decoder_flow.cc
  src/ptx/decoder_operands.cc
  src/ptx/image_cache.cc
  src/ptx/lexer.cc
  src/ptx/module.cc
  src/ptx/parser.cc
  src/ptx/parser_body.cc
  src/ptx/slots.cc
  src/exec/block.cc
  src/exec/faults.cc
  src/exec/form_table.cc
  src/exec/grid.cc
  src/exec/launch_state.cc
  src/exec/memory_check.cc
  src/exec/source_lines.cc
  src/exec/warp_order.cc
  src/exec/watch.cc
  src/exec/worker_pool.cc)

# The handlers. Each group is compiled once for each instruction set, through a
# generated file that names it; form_table.cc chooses when the library is first
# used. Groups that are rare in kernels, or gain nothing from wide vectors, are
# compiled once: each costs seconds to compile.
set(_softcuda_groups alu_bits alu_compare alu_float alu_int convert
  convert_narrow matrix mem_global mem_local move warp_ops)
set(_softcuda_plain_groups alu_approx alu_half alu_rounded async_copy atomics
  control)
set(_softcuda_isas base)
set(_softcuda_v3_flags -mavx2 -mfma -mf16c -mbmi -mbmi2 -mlzcnt -mpopcnt)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$"
   AND NOT PERMAFROST_QUICK_COMPILE)
  list(APPEND _softcuda_isas v3)
  set_source_files_properties(src/exec/form_table.cc PROPERTIES
    COMPILE_DEFINITIONS SOFTCUDA_HAVE_ISA_V3=1)
endif()
# The order of operations is what PTX says; errno and traps are nobody's.
set(_softcuda_group_flags -ffp-contract=off -fno-math-errno
  -fno-trapping-math)
set(_softcuda_generated "${CMAKE_CURRENT_BINARY_DIR}/exec_groups")
foreach(isa IN LISTS _softcuda_isas)
  set(groups ${_softcuda_groups})
  if(isa STREQUAL "base")
    list(APPEND groups ${_softcuda_plain_groups})
  endif()
  foreach(group IN LISTS groups)
    set(source "${_softcuda_generated}/${group}_${isa}.cc")
    file(CONFIGURE OUTPUT "${source}" CONTENT
      "#define SOFTCUDA_ISA isa_${isa}\n#include \"exec/ops/${group}.cc\"\n")
    set(flags ${_softcuda_group_flags})
    if(isa STREQUAL "v3")
      list(APPEND flags -O3 ${_softcuda_v3_flags})
    elseif(group IN_LIST _softcuda_groups AND "v3" IN_LIST _softcuda_isas)
      # For processors without AVX2 alone: there it has to work, not to be fast.
      list(APPEND flags -O1)
    elseif(PERMAFROST_QUICK_COMPILE AND group STREQUAL "alu_half")
      # The largest of all, and kernels spend little time in it.
      list(APPEND flags -O1)
    else()
      list(APPEND flags -O2)
    endif()
    if(group STREQUAL "alu_rounded")
      list(APPEND flags -frounding-math)
    endif()
    set_source_files_properties("${source}" PROPERTIES COMPILE_OPTIONS "${flags}")
    list(APPEND SOFTCUDA_EXEC_SOURCES "${source}")
  endforeach()
endforeach()
