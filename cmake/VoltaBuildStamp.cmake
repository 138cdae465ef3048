# The build stamp: what libvolta and a backend library must agree on to be loaded together. It covers
# the version, the compiler, the sanitizers and the contents of every header the two share, so equal
# sources give equal stamps anywhere. The header is rewritten only when the stamp changes.
file(GLOB stamp_headers CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/include/volta/*.h
  ${PROJECT_SOURCE_DIR}/include/volta/detail/*.h
  ${PROJECT_SOURCE_DIR}/src/platform/*.h
  ${PROJECT_SOURCE_DIR}/src/core/*.h
  ${PROJECT_SOURCE_DIR}/src/kernel/*.h
  ${PROJECT_SOURCE_DIR}/src/kernel/*.def
  ${PROJECT_SOURCE_DIR}/src/kernel/emit/*.h
  ${PROJECT_SOURCE_DIR}/src/backend/*.h
  ${PROJECT_SOURCE_DIR}/src/backend/common/*.h)
set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${stamp_headers})

set(stamp_text "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION} ${VOLTA_SANITIZE}")
if(VOLTA_STATIC)
  string(APPEND stamp_text " static")  # its backends take their symbols from the program, others from libvolta.so
endif()
foreach(header IN LISTS stamp_headers)
  file(SHA256 ${header} header_hash)
  cmake_path(RELATIVE_PATH header BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
  string(APPEND stamp_text "\n${header} ${header_hash}")
endforeach()
string(SHA256 stamp_hash "${stamp_text}")
string(SUBSTRING ${stamp_hash} 0 16 stamp_hash)
set(VOLTA_BUILD_STAMP "${PROJECT_VERSION}-${stamp_hash}")
configure_file(${PROJECT_SOURCE_DIR}/cmake/build_stamp.h.in
               ${PROJECT_BINARY_DIR}/generated/core/build_stamp.h @ONLY)
