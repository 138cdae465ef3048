# Installation: library, backends beside it, headers, a CMake package and a pkg-config file, all
# relocatable.
include(CMakePackageConfigHelpers)

get_property(backend_targets GLOBAL PROPERTY VOLTA_BACKEND_TARGETS)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Volta)

install(TARGETS volta EXPORT VoltaTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(backend_targets)
  install(TARGETS ${backend_targets} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/volta DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h")
install(EXPORT VoltaTargets NAMESPACE Volta:: DESTINATION ${package_dir})

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/VoltaConfig.cmake.in
  ${PROJECT_BINARY_DIR}/VoltaConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/VoltaConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/VoltaConfig.cmake ${PROJECT_BINARY_DIR}/VoltaConfigVersion.cmake
        DESTINATION ${package_dir})

set(pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH pc_to_prefix /prefix/${pc_dir} /prefix)
configure_file(${PROJECT_SOURCE_DIR}/cmake/volta.pc.in ${PROJECT_BINARY_DIR}/volta.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/volta.pc DESTINATION ${pc_dir})
