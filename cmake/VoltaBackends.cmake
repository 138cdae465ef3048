# The backends loaded at run time: modules beside libvolta that are linked against it and found by name. The backends
# of a static libvolta lie in lib/volta, where a program in bin finds them, and are not linked against Volta.
set(volta_backend_folder lib)
if(VOLTA_STATIC)
  set(volta_backend_folder lib/volta)
endif()

# Sets <result> to whether a backend is built: its option is ON (then its dependencies must be found), or
# AUTO and its dependencies are found. Prints the reason if it is not built.
function(volta_backend_wanted option result)
  set(missing ${ARGN})
  set(${result} FALSE PARENT_SCOPE)
  if(${option} STREQUAL "AUTO")
    if(missing)
      list(JOIN missing ", " missing)
      message(STATUS "${option}: not built, missing ${missing}")
    else()
      set(${result} TRUE PARENT_SCOPE)
    endif()
  elseif(${option})
    if(missing)
      list(JOIN missing ", " missing)
      message(FATAL_ERROR "${option}=ON, but missing ${missing}")
    endif()
    set(${result} TRUE PARENT_SCOPE)
  endif()
endfunction()

function(volta_add_backend name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/backend/${name}/*.cpp)
  volta_united(sources ${PROJECT_SOURCE_DIR}/src SOURCES ${sources} APART ^backend/cuda/cudnn)
  add_library(volta_${name} MODULE ${sources})
  set_target_properties(volta_${name} PROPERTIES BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH $ORIGIN)
  target_include_directories(volta_${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_BINARY_DIR}/generated)
  target_link_libraries(volta_${name} PRIVATE volta_compile volta_hardened fmt::fmt Threads::Threads ${CMAKE_DL_LIBS})
  if(VOLTA_STATIC)
    target_include_directories(volta_${name} PRIVATE ${PROJECT_SOURCE_DIR}/include)
    set_target_properties(volta_${name} PROPERTIES
      LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/${volta_backend_folder})
  else()
    target_link_libraries(volta_${name} PRIVATE volta)
  endif()
  volta_exports(volta_${name} ${PROJECT_SOURCE_DIR}/cmake/backend.map)
  set_property(GLOBAL APPEND PROPERTY VOLTA_BACKEND_TARGETS volta_${name})
endfunction()

set(missing)
if(VOLTA_OPENCL)
  find_package(OpenCL QUIET)
  if(NOT OpenCL_FOUND)
    list(APPEND missing "the OpenCL headers and loader")
  endif()
endif()
volta_backend_wanted(VOLTA_OPENCL build_opencl ${missing})
if(build_opencl)
  volta_add_backend(opencl)
  target_compile_definitions(volta_opencl PRIVATE CL_TARGET_OPENCL_VERSION=120)
  target_link_libraries(volta_opencl PRIVATE OpenCL::OpenCL)
endif()

# The text of the attention kernels as a string of C++. Tests use it too, so it is made in every build.
set(kernel_text)
foreach(part attention_primitives attention_tiles attention_kernel)
  set(kernel_file ${PROJECT_SOURCE_DIR}/src/backend/cuda/${part}.cuh)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${kernel_file})
  file(READ ${kernel_file} part_text)
  string(APPEND kernel_text "${part_text}")
endforeach()
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/backend/cuda/attention_text.h @ONLY CONTENT
  "// Made from src/backend/cuda/attention_*.cuh.
#pragma once

namespace volta::cuda {
inline constexpr const char* kAttentionText = R\"kernel(@kernel_text@)kernel\";
}  // namespace volta::cuda
")

# Only headers are needed: the driver, NVRTC and cuBLASLt are opened at run time.
set(missing)
if(VOLTA_CUDA)
  find_path(VOLTA_CUDA_INCLUDE_DIR NAMES cublasLt.h
    HINTS ENV CUDA_PATH ENV CUDA_HOME
    PATHS /usr/local/cuda /opt/cuda
    PATH_SUFFIXES include targets/x86_64-linux/include)
  foreach(header cuda.h nvrtc.h cublasLt.h)
    if(NOT EXISTS ${VOLTA_CUDA_INCLUDE_DIR}/${header})
      list(APPEND missing ${header})
    endif()
  endforeach()
endif()
volta_backend_wanted(VOLTA_CUDA build_cuda ${missing})
if(build_cuda)
  volta_add_backend(cuda)
  target_include_directories(volta_cuda SYSTEM PRIVATE ${VOLTA_CUDA_INCLUDE_DIR})
  # cuDNN is opened at run time like the others; its graphs are built through the frontend's headers,
  # which scripts/setup.sh brings.
  find_path(VOLTA_CUDNN_FRONTEND_INCLUDE_DIR NAMES cudnn_frontend.h
    HINTS ${PROJECT_SOURCE_DIR}/.deps/cudnn-frontend/include)
  find_path(VOLTA_CUDNN_INCLUDE_DIR NAMES cudnn.h HINTS ${VOLTA_CUDA_INCLUDE_DIR})
  if(VOLTA_CUDNN_FRONTEND_INCLUDE_DIR AND VOLTA_CUDNN_INCLUDE_DIR)
    set(cudnn_sources ${PROJECT_SOURCE_DIR}/src/backend/cuda/cudnn.cpp)
    set_property(SOURCE ${cudnn_sources} APPEND PROPERTY COMPILE_DEFINITIONS VOLTA_HAS_CUDNN)
    set_property(SOURCE ${cudnn_sources} APPEND PROPERTY COMPILE_OPTIONS -O1)  # the headers take long to compile
    target_include_directories(volta_cuda SYSTEM PRIVATE ${VOLTA_CUDNN_FRONTEND_INCLUDE_DIR}
                               ${VOLTA_CUDNN_INCLUDE_DIR})
  else()
    message(STATUS "CUDA backend without cuDNN: convolutions are lowered to products")
  endif()
endif()
