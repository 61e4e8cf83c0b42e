# SPDX-FileCopyrightText: The permafrost authors
# SPDX-License-Identifier: Apache-2.0
#
# Warnings of our own code: private to each target, so embedders never see them.
add_library(permafrost_warnings INTERFACE)
target_compile_options(permafrost_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wconversion -Wsign-conversion
    -Wshadow -Wold-style-cast -Wnon-virtual-dtor -Woverloaded-virtual>
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:Clang>>:-Wthread-safety>
  # GCC 12 warns of overlap inside its own std::string (GCC bug 105651), and at -O3
  # takes the payload of an empty std::optional for one that is read.
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict
    -Wno-maybe-uninitialized>
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${PERMAFROST_WERROR}>>:-Werror>)

# Where the option asks for it: sources are compiled in batches, and what most of
# them include once. That is headers of other libraries alone.
function(permafrost_compile_quickly target)
  if(NOT PERMAFROST_QUICK_COMPILE)
    return()
  endif()
  if(NOT TARGET permafrost_library_pch)
    set(empty "${PROJECT_BINARY_DIR}/library_pch.cc")
    file(WRITE "${empty}" "")
    add_library(permafrost_library_pch OBJECT EXCLUDE_FROM_ALL "${empty}")
    target_link_libraries(permafrost_library_pch PRIVATE permafrost_cuda_headers
      absl::status absl::statusor absl::strings)
    target_compile_options(permafrost_library_pch PRIVATE
      $<TARGET_PROPERTY:permafrost_warnings,INTERFACE_COMPILE_OPTIONS>)
    target_compile_definitions(permafrost_library_pch PRIVATE
      $<$<BOOL:${PERMAFROST_CHECKED}>:PERMAFROST_CHECKED=1>)
    target_precompile_headers(permafrost_library_pch PRIVATE
      <cuda.h> <algorithm> <cstdint> <functional> <map> <memory> <optional> <set>
      <string> <utility> <vector> <absl/status/status.h> <absl/status/statusor.h>
      <absl/strings/str_cat.h> <absl/strings/string_view.h>)
  endif()
  target_precompile_headers(${target} REUSE_FROM permafrost_library_pch)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
endfunction()

# permafrost_component(NAME driver SOURCES ... [PUBLIC_LIBS ...] [PRIVATE_LIBS ...]
#   [PRIVATE_INCLUDES ...])
#
# A static or shared library `permafrost_NAME` with the alias permafrost::NAME.
# It sees its own include and src folders and those of the libraries it names,
# so an include against the arrows of the design does not compile.
function(permafrost_component)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME" 
    "SOURCES;PUBLIC_LIBS;PRIVATE_LIBS;PRIVATE_INCLUDES")
  add_library(permafrost_${arg_NAME} ${arg_SOURCES})
  add_library(permafrost::${arg_NAME} ALIAS permafrost_${arg_NAME})
  target_include_directories(permafrost_${arg_NAME}
    PUBLIC $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include>
           $<INSTALL_INTERFACE:include>
    PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/src)
  target_compile_features(permafrost_${arg_NAME} PUBLIC cxx_std_20)
  target_compile_definitions(permafrost_${arg_NAME} PRIVATE
    $<$<BOOL:${PERMAFROST_CHECKED}>:PERMAFROST_CHECKED=1>)
  target_link_libraries(permafrost_${arg_NAME}
    PUBLIC ${arg_PUBLIC_LIBS}
    PRIVATE ${arg_PRIVATE_LIBS})
  # Copied and not linked: what is linked, even privately, becomes a part of the
  # package that find_package(permafrost) gives.
  target_compile_options(permafrost_${arg_NAME} PRIVATE
    $<TARGET_PROPERTY:permafrost_warnings,INTERFACE_COMPILE_OPTIONS>)
  target_include_directories(permafrost_${arg_NAME} SYSTEM PRIVATE
    ${arg_PRIVATE_INCLUDES})
  permafrost_compile_quickly(permafrost_${arg_NAME})
endfunction()
