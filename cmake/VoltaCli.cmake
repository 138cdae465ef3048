# The `volta` program. It uses the public headers only.
if(NOT VOLTA_CLI)
  return()
endif()
find_package(CLI11 QUIET CONFIG)
find_package(nlohmann_json QUIET CONFIG)
set(missing)
if(NOT TARGET CLI11::CLI11)
  list(APPEND missing "CLI11 (libcli11-dev)")
endif()
if(NOT TARGET nlohmann_json::nlohmann_json)
  list(APPEND missing "nlohmann_json (nlohmann-json3-dev)")
endif()
if(missing)
  list(JOIN missing ", " missing)
  message(STATUS "The volta command is not built, missing ${missing}")
  return()
endif()

file(GLOB cli_sources CONFIGURE_DEPENDS
     ${PROJECT_SOURCE_DIR}/tools/volta/*.cpp ${PROJECT_SOURCE_DIR}/tools/volta/commands/*.cpp
     ${PROJECT_SOURCE_DIR}/tools/volta/output/*.cpp ${PROJECT_SOURCE_DIR}/tools/volta/train/*.cpp)
list(FILTER cli_sources EXCLUDE REGEX "/main\\.cpp$")
volta_united(cli_sources ${PROJECT_SOURCE_DIR}/tools/volta SOURCES ${cli_sources} APART
  ^commands/doctor_steps ^commands/inspect)
# Everything but main(), for the program and its tests.
add_library(volta_cli_parts STATIC ${cli_sources})
target_include_directories(volta_cli_parts PUBLIC ${PROJECT_SOURCE_DIR}/tools/volta)
target_link_libraries(volta_cli_parts PUBLIC Volta::volta volta_compile volta_report fmt::fmt ${CMAKE_DL_LIBS}
                      PRIVATE volta_hardened)
# Headers of other projects are system headers, so that they cause no warnings here.
foreach(package CLI11::CLI11 nlohmann_json::nlohmann_json)
  target_include_directories(volta_cli_parts SYSTEM PUBLIC
    $<TARGET_PROPERTY:${package},INTERFACE_INCLUDE_DIRECTORIES>)
endforeach()
add_executable(volta_cli ${PROJECT_SOURCE_DIR}/tools/volta/main.cpp)
target_link_libraries(volta_cli PRIVATE volta_cli_parts volta_hardened)
# The command finds libvolta by a relative path, in the build tree and in an installation that was moved.
file(RELATIVE_PATH bin_to_lib /prefix/${CMAKE_INSTALL_BINDIR} /prefix/${CMAKE_INSTALL_LIBDIR})
set_target_properties(volta_cli PROPERTIES
  OUTPUT_NAME volta
  INSTALL_RPATH $ORIGIN/${bin_to_lib})
get_property(backend_targets GLOBAL PROPERTY VOLTA_BACKEND_TARGETS)
if(backend_targets)
  add_dependencies(volta_cli ${backend_targets})
endif()
