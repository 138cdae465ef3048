# Installation, in components that can be installed alone (cmake --install build --component cuda):
#   runtime  libvolta                     cuda, opencl  the backends, beside libvolta
#   tools    the volta command            dev           headers, CMake package, pkg-config file
# Every file is found by a relative path, so an installation can be moved as a whole.
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

# Inside another project the components have a prefix, so that they differ from that project's components.
set(component_prefix)
if(NOT PROJECT_IS_TOP_LEVEL)
  set(component_prefix volta_)
endif()

get_property(backend_targets GLOBAL PROPERTY VOLTA_BACKEND_TARGETS)
list(TRANSFORM backend_targets REPLACE "^volta_" "" OUTPUT_VARIABLE backends)
set(volta_components runtime dev ${backends})
set(installed_targets volta ${backend_targets})

set(backend_dir ${CMAKE_INSTALL_LIBDIR})
if(VOLTA_STATIC)
  set(backend_dir lib/volta)  # backend_loader.cpp searches it beside a program's folder
endif()
install(TARGETS volta EXPORT VoltaTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        COMPONENT ${component_prefix}runtime NAMELINK_COMPONENT ${component_prefix}dev
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${component_prefix}dev)
foreach(backend IN LISTS backends)
  install(TARGETS volta_${backend} LIBRARY DESTINATION ${backend_dir}
          COMPONENT ${component_prefix}${backend})
endforeach()
if(TARGET volta_cli)
  list(APPEND volta_components tools)
  list(APPEND installed_targets volta_cli)
  install(TARGETS volta_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT ${component_prefix}tools)
endif()
add_custom_target(volta_installed)  # builds exactly the targets that are installed
add_dependencies(volta_installed ${installed_targets})

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Volta)
set(pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/volta DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        COMPONENT ${component_prefix}dev FILES_MATCHING PATTERN "*.h")
install(EXPORT VoltaTargets NAMESPACE Volta:: DESTINATION ${package_dir} COMPONENT ${component_prefix}dev)
set(program_dir ${CMAKE_INSTALL_BINDIR})
set(volta_dependencies)
if(VOLTA_STATIC)  # a program that links the archive also links its dependencies
  set(volta_dependencies "include(CMakeFindDependencyMacro)\n")
  set(packages Threads fmt hwy ZLIB)
  foreach(package PNG JPEG)
    if(TARGET ${package}::${package})
      list(APPEND packages ${package})
    endif()
  endforeach()
  if(VOLTA_ONEDNN)
    list(APPEND packages dnnl)
  endif()
  if(VOLTA_OPENMP)
    list(APPEND packages "OpenMP COMPONENTS CXX")
  endif()
  foreach(package IN LISTS packages)
    string(APPEND volta_dependencies "find_dependency(${package})\n")
  endforeach()
endif()
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/VoltaConfig.cmake.in
  ${PROJECT_BINARY_DIR}/VoltaConfig.cmake INSTALL_DESTINATION ${package_dir} PATH_VARS backend_dir program_dir)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/VoltaConfigVersion.cmake
  VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/VoltaConfig.cmake ${PROJECT_BINARY_DIR}/VoltaConfigVersion.cmake
        DESTINATION ${package_dir} COMPONENT ${component_prefix}dev)
file(RELATIVE_PATH pc_to_prefix /prefix/${pc_dir} /prefix)
set(pc_libraries "-lvolta")
if(VOLTA_STATIC)
  # A program links the whole archive, exports its symbols, and links the libraries it was compiled with.
  list(JOIN volta_static_exports "' '" exports)
  set(pc_libraries "-Wl,--whole-archive -lvolta -Wl,--no-whole-archive '${exports}' -lfmt -lhwy -lz")
  foreach(library PNG JPEG)
    if(TARGET ${library}::${library})
      string(TOLOWER ${library} library)
      string(APPEND pc_libraries " -l${library}")
    endif()
  endforeach()
  if(VOLTA_ONEDNN)
    string(APPEND pc_libraries " -ldnnl")
  endif()
  if(VOLTA_OPENMP)
    string(APPEND pc_libraries " -fopenmp")
  endif()
  string(APPEND pc_libraries " -pthread -ldl")
endif()
configure_file(${PROJECT_SOURCE_DIR}/cmake/volta.pc.in ${PROJECT_BINARY_DIR}/volta.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/volta.pc DESTINATION ${pc_dir} COMPONENT ${component_prefix}dev)

# Every component installs the licences of Volta and of the code compiled into it, under the name of its package.
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
