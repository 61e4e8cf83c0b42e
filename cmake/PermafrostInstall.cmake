# SPDX-FileCopyrightText: The permafrost authors
# SPDX-License-Identifier: Apache-2.0
#
# `cmake --install` and find_package(permafrost), from the installed tree or from
# the build tree. Included last, when all targets exist.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(_permafrost_targets permafrost permafrost_cuda_headers
  permafrost_driver permafrost_arena permafrost_kernels permafrost_capture)
if(TARGET permafrost_softcuda)
  list(APPEND _permafrost_targets permafrost_softcuda)
endif()
foreach(component driver arena kernels capture softcuda)
  if(TARGET permafrost_${component})
    set_target_properties(permafrost_${component} PROPERTIES EXPORT_NAME ${component})
  endif()
endforeach()
set_target_properties(permafrost_cuda_headers PROPERTIES EXPORT_NAME cuda_headers)
# Below 1.0 every minor version may change the interface, so it names the library.
foreach(component driver arena kernels capture)
  set_target_properties(permafrost_${component} PROPERTIES
    VERSION "${PROJECT_VERSION}"
    SOVERSION "${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}")
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/${component}/include/permafrost/"
    DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/permafrost"
    FILES_MATCHING PATTERN "*.h" PATTERN "*.inc")
endforeach()
install(FILES "${PROJECT_BINARY_DIR}/driver/include/permafrost/driver/version.h"
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/permafrost/driver")
if(TARGET permafrost_softcuda)
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/softcuda/include/softcuda"
    DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
endif()
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE"
  DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/permafrost")
install(TARGETS ${_permafrost_targets} EXPORT permafrost-targets
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")

if(TARGET permafrost_cli)
  set_target_properties(permafrost_cli PROPERTIES
    INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  install(TARGETS permafrost_cli RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()

set(_permafrost_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/permafrost")
configure_package_config_file(
  "${CMAKE_CURRENT_LIST_DIR}/permafrost-config.cmake.in"
  "${PROJECT_BINARY_DIR}/permafrost-config.cmake"
  INSTALL_DESTINATION "${_permafrost_package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/permafrost-config-version.cmake"
  COMPATIBILITY SameMinorVersion)
install(EXPORT permafrost-targets NAMESPACE permafrost::
  DESTINATION "${_permafrost_package_dir}")
install(FILES "${PROJECT_BINARY_DIR}/permafrost-config.cmake"
  "${PROJECT_BINARY_DIR}/permafrost-config-version.cmake"
  DESTINATION "${_permafrost_package_dir}")
export(EXPORT permafrost-targets NAMESPACE permafrost::
  FILE "${PROJECT_BINARY_DIR}/permafrost-targets.cmake")
