# SPDX-FileCopyrightText: The permafrost authors
# SPDX-License-Identifier: Apache-2.0
include(GoogleTest)
find_package(GTest REQUIRED)

# Test programs do little work of their own: quick to compile beats quick to run.
function(permafrost_test_compile_options target)
  target_compile_definitions(${target} PRIVATE
    $<$<BOOL:${PERMAFROST_CHECKED}>:PERMAFROST_CHECKED=1>)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Debug>:-O0>)
endfunction()

# What most tests include, compiled once. Each header is the public one of a
# library outside the project, so that no test can lean on a header of ours that
# it does not name; builds without the option show what it leans on otherwise.
if(PERMAFROST_QUICK_COMPILE)
  file(WRITE "${CMAKE_CURRENT_BINARY_DIR}/test_pch.cc" "int main() { return 0; }\n")
  add_executable(permafrost_test_pch EXCLUDE_FROM_ALL
    "${CMAKE_CURRENT_BINARY_DIR}/test_pch.cc")
  target_link_libraries(permafrost_test_pch PRIVATE GTest::gmock_main
    permafrost_warnings)
  # No more than that: each test instantiates anew what a header in here leaves
  # pending, and with JSON among them the tests took longer than without.
  target_precompile_headers(permafrost_test_pch PRIVATE
    <cstdint> <functional> <map> <memory> <string> <vector>
    <gmock/gmock.h> <gtest/gtest.h>)
  permafrost_test_compile_options(permafrost_test_pch)
endif()

# permafrost_test(NAME arena.moe_fp8_layout SOURCES x_test.cc [LIBS ...]
#   [LABELS arena unit ...] [TIMEOUT seconds] [DEFINES ...] [ENVIRONMENT A=b ...])
#
# One program, and one ctest entry per test case, named NAME.Suite.Case.
# Labels: the component's name; `unit` for what needs no driver at all; `soft`
# for what needs softcuda; `sanitize` for what makes no failing driver call.
function(permafrost_test)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;TIMEOUT"
    "SOURCES;LIBS;LABELS;DEFINES;ENVIRONMENT")
  string(REPLACE "." "_" target "${arg_NAME}_test")
  add_executable(${target} ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE ${arg_LIBS} GTest::gmock_main
    permafrost_warnings)
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_compile_definitions(${target} PRIVATE ${arg_DEFINES})
  permafrost_test_compile_options(${target})
  if(PERMAFROST_QUICK_COMPILE)
    target_precompile_headers(${target} REUSE_FROM permafrost_test_pch)
    # Tests instantiate much the same; together they do it once.
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 6)
  endif()
  if(PERMAFROST_BUILD_SOFTCUDA AND TARGET permafrost_softcuda)
    add_dependencies(${target} permafrost_softcuda)
  endif()
  # script/sanitize builds these and no more.
  if("sanitize" IN_LIST arg_LABELS)
    if(NOT TARGET permafrost_sanitize_tests)
      add_custom_target(permafrost_sanitize_tests)
    endif()
    add_dependencies(permafrost_sanitize_tests ${target})
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  # Sanitizers slow the longest tests down by a factor of five.
  if(PERMAFROST_SANITIZE)
    math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * 5")
  endif()
  gtest_discover_tests(${target} TEST_PREFIX "${arg_NAME}."
    DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT ${arg_TIMEOUT})
  # A list does not survive PROPERTIES above, so ctest sets the labels itself, on the
  # list of tests that the discovery leaves behind.
  set(labels_script "${CMAKE_CURRENT_BINARY_DIR}/${target}_labels.cmake")
  file(WRITE "${labels_script}"
    "if(${target}_TESTS)\n"
    "  set_tests_properties(\${${target}_TESTS} PROPERTIES LABELS \"${arg_LABELS}\""
    " ENVIRONMENT \"${arg_ENVIRONMENT}\")\n"
    "endif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${labels_script}")
endfunction()
