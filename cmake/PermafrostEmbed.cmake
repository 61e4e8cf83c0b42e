# SPDX-FileCopyrightText: The permafrost authors
# SPDX-License-Identifier: Apache-2.0
#
# permafrost_embed(TARGET target SYMBOL name FILE path)
#
# Puts a file's bytes into `target` as `extern "C" const unsigned char name[]`
# and `name_end[]`, followed by a NUL that lies outside [name, name_end). The
# symbols are hidden: nothing of them leaves a shared object.
function(permafrost_embed)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "TARGET;SYMBOL;FILE" "")
  set(asm "${CMAKE_CURRENT_BINARY_DIR}/${arg_TARGET}_${arg_SYMBOL}.S")
  file(GENERATE OUTPUT "${asm}" CONTENT
"  .section .rodata
  .balign 64
  .global ${arg_SYMBOL}
  .hidden ${arg_SYMBOL}
  .type ${arg_SYMBOL}, %object
${arg_SYMBOL}:
  .incbin \"${arg_FILE}\"
  .global ${arg_SYMBOL}_end
  .hidden ${arg_SYMBOL}_end
${arg_SYMBOL}_end:
  .byte 0
  .size ${arg_SYMBOL}, ${arg_SYMBOL}_end - ${arg_SYMBOL}
  .section .note.GNU-stack,\"\",%progbits
")
  set_source_files_properties("${asm}" PROPERTIES OBJECT_DEPENDS "${arg_FILE}")
  target_sources(${arg_TARGET} PRIVATE "${asm}")
endfunction()
