# SPDX-FileCopyrightText: The permafrost authors
# SPDX-License-Identifier: Apache-2.0
#
# Every option of the build, and the language level.
option(PERMAFROST_BUILD_SOFTCUDA "Build the software CUDA driver" ON)
option(PERMAFROST_BUILD_BENCH "Build the benchmark programs" ${PROJECT_IS_TOP_LEVEL})
option(PERMAFROST_BUILD_TOOLS "Build the command-line tool" ${PROJECT_IS_TOP_LEVEL})
option(PERMAFROST_BUILD_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(PERMAFROST_INSTALL "Make install rules and a CMake package" ${PROJECT_IS_TOP_LEVEL})
option(PERMAFROST_WERROR "Warnings are errors" ${PROJECT_IS_TOP_LEVEL})
option(PERMAFROST_CHECKED "Check thread rules and invariants at run time" OFF)
option(PERMAFROST_CUBINS
  "Compile kernels for each architecture; OFF leaves that to the GPU's driver" ON)
option(PERMAFROST_QUICK_COMPILE
  "Compile sooner, run slower: for tests, not for use" OFF)
set(PERMAFROST_SANITIZE "" CACHE STRING
  "Sanitizers to build with, as -fsanitize takes them (address,undefined or thread)")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE AND PROJECT_IS_TOP_LEVEL)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
if(PERMAFROST_QUICK_COMPILE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC collects its garbage when it has 128 MiB, some ten times a test: a tenth
  # of the time for memory that no one else asks for.
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=600000>)
endif()
if(PERMAFROST_SANITIZE)
  add_compile_options(-fsanitize=${PERMAFROST_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${PERMAFROST_SANITIZE})
endif()
