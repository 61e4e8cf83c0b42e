# SPDX-FileCopyrightText: The permafrost authors
# SPDX-License-Identifier: Apache-2.0
#
# Finds what we use of a CUDA Toolkit: nvcc, cuda.h and the NVTX headers. It does
# not call find_package(CUDAToolkit), which demands a linkable runtime that the
# toolkit's Python wheels do not lay out.
#
# Sets: PERMAFROST_NVCC, PERMAFROST_CUDA_VERSION (major.minor), and the target
# permafrost_cuda_headers (system includes, no library: the driver is dlopen'd).
set(_permafrost_cuda_hints
  "${CUDAToolkit_ROOT}" "$ENV{CUDAToolkit_ROOT}" "$ENV{CUDA_HOME}" "$ENV{CUDA_PATH}")
find_program(PERMAFROST_NVCC nvcc HINTS ${_permafrost_cuda_hints}
  PATHS /usr/local/cuda /opt/cuda PATH_SUFFIXES bin)
if(NOT PERMAFROST_NVCC)
  message(FATAL_ERROR "No nvcc found: looked in PATH, CUDAToolkit_ROOT, CUDA_HOME, "
    "CUDA_PATH and /usr/local/cuda; run script/setup, which fetches one.")
endif()
file(REAL_PATH "${PERMAFROST_NVCC}" _permafrost_nvcc_real)
cmake_path(GET _permafrost_nvcc_real PARENT_PATH _permafrost_cuda_bin)
cmake_path(GET _permafrost_cuda_bin PARENT_PATH PERMAFROST_CUDA_ROOT)
find_path(PERMAFROST_CUDA_INCLUDE_DIR cuda.h
  HINTS "${PERMAFROST_CUDA_ROOT}/include"
        "${PERMAFROST_CUDA_ROOT}/targets/x86_64-linux/include"
        "${PERMAFROST_CUDA_ROOT}/targets/sbsa-linux/include"
  NO_DEFAULT_PATH REQUIRED)
if(NOT EXISTS "${PERMAFROST_CUDA_INCLUDE_DIR}/nvtx3/nvToolsExtMem.h")
  message(FATAL_ERROR "NVTX memory headers are missing: looked for "
    "nvtx3/nvToolsExtMem.h under ${PERMAFROST_CUDA_INCLUDE_DIR}; "
    "CUDA Toolkit 12.8 or newer carries them.")
endif()
file(STRINGS "${PERMAFROST_CUDA_INCLUDE_DIR}/cuda.h" _permafrost_cuda_version_line
  REGEX "^#define CUDA_VERSION [0-9]+")
string(REGEX MATCH "[0-9]+$" _permafrost_cuda_number "${_permafrost_cuda_version_line}")
math(EXPR _permafrost_cuda_major "${_permafrost_cuda_number} / 1000")
math(EXPR _permafrost_cuda_minor "${_permafrost_cuda_number} % 1000 / 10")
set(PERMAFROST_CUDA_VERSION "${_permafrost_cuda_major}.${_permafrost_cuda_minor}")
if(PERMAFROST_CUDA_VERSION VERSION_LESS 12.8)
  message(FATAL_ERROR "CUDA Toolkit ${PERMAFROST_CUDA_VERSION} at ${PERMAFROST_CUDA_ROOT} "
    "is too old: 12.8 or newer is needed; script/setup fetches one with "
    "PERMAFROST_CUDA=wheels.")
endif()
message(STATUS "CUDA Toolkit ${PERMAFROST_CUDA_VERSION}: ${PERMAFROST_NVCC}")

add_library(permafrost_cuda_headers INTERFACE)
target_include_directories(permafrost_cuda_headers SYSTEM INTERFACE
  $<BUILD_INTERFACE:${PERMAFROST_CUDA_INCLUDE_DIR}>)

# permafrost_fatbin(OUTPUT var NAME name SOURCES a.cu ... [HEADERS b.cuh ...]
#   [INCLUDE_DIRS dir ...] [DEFINES D ...] [ARCHS sm_80 ... compute_90 ...])
#
# One uncompressed fatbin: cubins for a real driver, and PTX that is plain text
# inside it, which softcuda reads. -lineinfo gives reports their file and line.
# Without PERMAFROST_CUBINS only the PTX is made.
function(permafrost_fatbin)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "OUTPUT;NAME"
    "SOURCES;HEADERS;INCLUDE_DIRS;DEFINES;ARCHS")
  set(flags -std=c++20 -O3 -fatbin --no-compress -lineinfo -Xptxas -warn-spills
    --Werror all-warnings)
  foreach(dir IN LISTS arg_INCLUDE_DIRS)
    list(APPEND flags -I "${dir}")
  endforeach()
  foreach(define IN LISTS arg_DEFINES)
    list(APPEND flags -D "${define}")
  endforeach()
  if(NOT PERMAFROST_CUBINS)
    list(FILTER arg_ARCHS INCLUDE REGEX "^compute_")
  endif()
  foreach(arch IN LISTS arg_ARCHS)
    string(REGEX REPLACE "^(sm|compute)_" "" number "${arch}")
    list(APPEND flags -gencode "arch=compute_${number},code=${arch}")
  endforeach()
  set(out "${CMAKE_CURRENT_BINARY_DIR}/${arg_NAME}.fatbin")
  list(LENGTH arg_SOURCES source_count)
  if(NOT source_count EQUAL 1)
    message(FATAL_ERROR "permafrost_fatbin(${arg_NAME}): one .cu makes one fatbin")
  endif()
  add_custom_command(OUTPUT "${out}"
    COMMAND "${PERMAFROST_NVCC}" ${flags} -o "${out}" ${arg_SOURCES}
    DEPENDS ${arg_SOURCES} ${arg_HEADERS}
    WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}"
    COMMENT "nvcc ${arg_NAME}.fatbin" VERBATIM COMMAND_EXPAND_LISTS)
  set(${arg_OUTPUT} "${out}" PARENT_SCOPE)
endfunction()
