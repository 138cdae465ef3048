# libvolta: everything but the backends that need a driver.
file(GLOB_RECURSE library_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*.cpp)
list(FILTER library_sources EXCLUDE REGEX "/src/backend/(cuda|opencl)/")
include(VoltaCodecs)
volta_united(library_sources ${PROJECT_SOURCE_DIR}/src SOURCES ${library_sources} APART
  ^backend/cpu/vector/ ^backend/cpu/library/sort ^backend/cpu/executor/block_ ^backend/cpu/executor/reduction
  ^backend/system_info ^data/codecs/ ^data/digit_renderer ^io/save_load ^kernel/emit/sort_templates
  ^optim/[a-z]+.cpp$ ^graph/autograd/vjp_reduce ^plan/expand/windows ^plan/calls/convolution ^plan/group/sharing ^plan/group/recompute
  ^runtime/placement/placement_figures)
set(cpu_sources ${library_sources})
list(FILTER cpu_sources INCLUDE REGEX "/backend/cpu/|/unity/backend_cpu_")

if(VOLTA_STATIC)
  add_library(volta STATIC ${library_sources})
else()
  add_library(volta SHARED ${library_sources})
endif()
add_library(Volta::volta ALIAS volta)
set_target_properties(volta PROPERTIES
  DEFINE_SYMBOL ""  # no header needs it, and without it a static library has the same objects
  VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}  # before 1.0 a minor version may break the ABI
  BUILD_WITH_INSTALL_RPATH ON
  INSTALL_RPATH $ORIGIN)
target_compile_features(volta PUBLIC cxx_std_20)
target_include_directories(volta
  PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
  PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_BINARY_DIR}/generated)

# Calls inside the library stay inside it.
target_compile_options(volta PRIVATE -fno-semantic-interposition)
if(VOLTA_STATIC)
  include(VoltaStatic)
else()
  target_link_options(volta PRIVATE -Wl,-Bsymbolic-functions)
  volta_exports(volta ${PROJECT_SOURCE_DIR}/cmake/volta.map)
endif()

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(hwy REQUIRED)
find_package(ZLIB REQUIRED)
target_link_libraries(volta PRIVATE
  $<BUILD_INTERFACE:volta_compile> $<BUILD_INTERFACE:volta_hardened> fmt::fmt hwy::hwy ZLIB::ZLIB Threads::Threads ${codec_libraries} ${CMAKE_DL_LIBS})
# `volta info` reports these options. Only one source has them, so that the others are the same for every build.
set(build_options)
foreach(option VOLTA_ONEDNN VOLTA_OPENMP VOLTA_OPENCL VOLTA_CUDA)
  string(APPEND build_options " ${option}=${${option}}")
endforeach()
set_property(SOURCE ${PROJECT_SOURCE_DIR}/src/backend/system_info.cpp APPEND PROPERTY COMPILE_DEFINITIONS
  "VOLTA_BUILD_TYPE=\"${CMAKE_BUILD_TYPE}\"" "VOLTA_BUILD_SANITIZE=\"${VOLTA_SANITIZE}\""
  "VOLTA_BUILD_OPTIONS=\"${build_options}\"")
# Without fused multiply-adds the drawn digits are the same bytes everywhere.
set_property(SOURCE ${PROJECT_SOURCE_DIR}/src/data/digit_renderer.cpp APPEND PROPERTY COMPILE_OPTIONS -ffp-contract=off)

if(VOLTA_ONEDNN)
  find_package(dnnl REQUIRED)
  target_link_libraries(volta PRIVATE DNNL::dnnl)
  set_property(SOURCE ${cpu_sources} APPEND PROPERTY COMPILE_DEFINITIONS VOLTA_HAS_ONEDNN)
endif()
if(VOLTA_OPENMP)
  find_package(OpenMP REQUIRED COMPONENTS CXX)
  target_link_libraries(volta PRIVATE OpenMP::OpenMP_CXX)
  target_compile_definitions(volta PRIVATE VOLTA_HAS_OPENMP)
endif()

if(VOLTA_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # GCC's variable tracking gives up on the vector code only after a second attempt, and UBSan's checks take ten
  # minutes to compile. AddressSanitizer still checks the accesses.
  file(GLOB simd_sources ${PROJECT_SOURCE_DIR}/src/backend/cpu/vector/simd_*.cpp)
  set_property(SOURCE ${simd_sources} APPEND PROPERTY COMPILE_OPTIONS
               -g1 -fno-var-tracking-assignments -fno-sanitize=undefined)
endif()
# The fuzz targets read files and need no sanitized vector code, which takes ten minutes per file to compile.
if(VOLTA_FUZZ)
  file(GLOB simd_sources ${PROJECT_SOURCE_DIR}/src/backend/cpu/vector/simd_*.cpp)
  set_property(SOURCE ${simd_sources} APPEND PROPERTY COMPILE_OPTIONS -fno-sanitize=all)
endif()
