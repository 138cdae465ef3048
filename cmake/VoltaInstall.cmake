# Installation, in components that can be installed alone (cmake --install build --component cuda):
#   runtime  libvolta                     cuda, opencl  the backends, beside libvolta
#   tools    the volta command            dev           headers, CMake package, pkg-config file
# Everything is found relative to what needs it, so an installation can be moved as a whole.
if(NOT VOLTA_INSTALL)
  return()
endif()
include(CMakePackageConfigHelpers)
foreach(folder BIN LIB INCLUDE DATAROOT)
  if(IS_ABSOLUTE "${CMAKE_INSTALL_${folder}DIR}")
    message(FATAL_ERROR "CMAKE_INSTALL_${folder}DIR is ${CMAKE_INSTALL_${folder}DIR}; it must be relative to "
                        "the prefix, because an installation of Volta can be moved")
  endif()
endforeach()

# Inside another project the components have names that cannot be taken for that project's own.
set(component_prefix)
if(NOT PROJECT_IS_TOP_LEVEL)
  set(component_prefix volta_)
endif()

get_property(backend_targets GLOBAL PROPERTY VOLTA_BACKEND_TARGETS)
list(TRANSFORM backend_targets REPLACE "^volta_" "" OUTPUT_VARIABLE backends)
set(volta_components runtime dev ${backends})
set(installed_targets volta ${backend_targets})

install(TARGETS volta EXPORT VoltaTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        COMPONENT ${component_prefix}runtime NAMELINK_COMPONENT ${component_prefix}dev)
foreach(backend IN LISTS backends)
  install(TARGETS volta_${backend} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
          COMPONENT ${component_prefix}${backend})
endforeach()
if(TARGET volta_cli)
  list(APPEND volta_components tools)
  list(APPEND installed_targets volta_cli)
  install(TARGETS volta_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT ${component_prefix}tools)
endif()
add_custom_target(volta_installed)  # what an installation needs built, and no more
add_dependencies(volta_installed ${installed_targets})

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Volta)
set(pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/volta DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        COMPONENT ${component_prefix}dev FILES_MATCHING PATTERN "*.h")
install(EXPORT VoltaTargets NAMESPACE Volta:: DESTINATION ${package_dir} COMPONENT ${component_prefix}dev)
set(library_dir ${CMAKE_INSTALL_LIBDIR})
set(program_dir ${CMAKE_INSTALL_BINDIR})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/VoltaConfig.cmake.in
  ${PROJECT_BINARY_DIR}/VoltaConfig.cmake INSTALL_DESTINATION ${package_dir} PATH_VARS library_dir program_dir)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/VoltaConfigVersion.cmake
  VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/VoltaConfig.cmake ${PROJECT_BINARY_DIR}/VoltaConfigVersion.cmake
        DESTINATION ${package_dir} COMPONENT ${component_prefix}dev)
file(RELATIVE_PATH pc_to_prefix /prefix/${pc_dir} /prefix)
configure_file(${PROJECT_SOURCE_DIR}/cmake/volta.pc.in ${PROJECT_BINARY_DIR}/volta.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/volta.pc DESTINATION ${pc_dir} COMPONENT ${component_prefix}dev)

# The licences of Volta and of what is compiled into it, with every component under the name of its package.
set(volta_runtime_package libvolta${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})  # after its SONAME
foreach(component IN LISTS volta_components)
  if(NOT component STREQUAL "runtime")
    set(volta_${component}_package volta-${component})
  endif()
  set(licences ${PROJECT_SOURCE_DIR}/cmake/licences/copyright)
  if(component MATCHES "^(runtime|cuda)$")
    list(APPEND licences ${PROJECT_SOURCE_DIR}/cmake/licences/Apache-2.0)
  endif()
  install(FILES ${licences} COMPONENT ${component_prefix}${component}
          DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/${volta_${component}_package})
endforeach()
