# SPDX-FileCopyrightText: The permafrost authors
# SPDX-License-Identifier: Apache-2.0
include(GoogleTest)
find_package(GTest REQUIRED)

# permafrost_test(NAME arena.moe_fp8_layout SOURCES x_test.cc [LIBS ...]
#   [LABELS arena unit ...] [TIMEOUT seconds] [DEFINES ...])
#
# One program, and one ctest entry per test case, named NAME.Suite.Case.
# Labels: the component's name; `unit` for what needs no driver at all; `soft`
# for what needs softcuda; `sanitize` for what makes no failing driver call.
function(permafrost_test)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;TIMEOUT" "SOURCES;LIBS;LABELS;DEFINES")
  string(REPLACE "." "_" target "${arg_NAME}_test")
  add_executable(${target} ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE ${arg_LIBS} GTest::gmock_main
    permafrost_warnings)
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_compile_definitions(${target} PRIVATE ${arg_DEFINES}
    $<$<BOOL:${PERMAFROST_CHECKED}>:PERMAFROST_CHECKED=1>)
  if(PERMAFROST_BUILD_SOFTCUDA AND TARGET permafrost_softcuda)
    add_dependencies(${target} permafrost_softcuda)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  gtest_discover_tests(${target} TEST_PREFIX "${arg_NAME}."
    DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT ${arg_TIMEOUT})
  # A list does not survive PROPERTIES above, so ctest sets the labels itself, on the
  # list of tests that the discovery leaves behind.
  set(labels_script "${CMAKE_CURRENT_BINARY_DIR}/${target}_labels.cmake")
  file(WRITE "${labels_script}"
    "if(${target}_TESTS)\n"
    "  set_tests_properties(\${${target}_TESTS} PROPERTIES LABELS \"${arg_LABELS}\")\n"
    "endif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${labels_script}")
endfunction()
