# cpack makes one relocatable archive with everything and a Debian package for each component. `make package` puts
# them into build/packages. A static library has no packages.
if(NOT VOLTA_INSTALL OR NOT PROJECT_IS_TOP_LEVEL OR VOLTA_STATIC)
  return()
endif()
set(VOLTA_PACKAGE_MAINTAINER "The Volta authors <volta@volta.invalid>" CACHE STRING
    "Whom the Debian packages name as their maintainer")

string(TOLOWER ${CMAKE_SYSTEM_NAME} system)
set(CPACK_GENERATOR TGZ)
set(CPACK_PACKAGE_NAME volta)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_FILE_NAME volta-${PROJECT_VERSION}-${system}-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_PACKAGE_VENDOR "The Volta authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # else the first line of every package's description
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS  # whatever the umask
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_COMPONENTS_ALL ${volta_components})
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_ARCHIVE_COMPONENT_INSTALL OFF)
set(CPACK_DEB_COMPONENT_INSTALL ON)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_SOURCE volta)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "${VOLTA_PACKAGE_MAINTAINER}")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS ON)

find_program(VOLTA_DPKG dpkg)
find_program(VOLTA_SHLIBDEPS dpkg-shlibdeps)
find_program(VOLTA_FILE file)
mark_as_advanced(VOLTA_DPKG VOLTA_SHLIBDEPS VOLTA_FILE)
if(VOLTA_DPKG)
  list(APPEND CPACK_GENERATOR DEB)
endif()
# These two programs come from dpkg-dev. Without them the packages depend only on each other.
if(VOLTA_SHLIBDEPS AND VOLTA_FILE)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})  # libvolta of this build
endif()
# The shlibs file: packages of programs that link libvolta depend on it. CPack's own generator would warn of the
# backends, which have no SONAME.
set(abi ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
file(CONFIGURE OUTPUT shlibs CONTENT "libvolta @abi@ @volta_runtime_package@ (>= @PROJECT_VERSION@)\n" @ONLY)
file(CONFIGURE OUTPUT triggers CONTENT "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/shlibs ${PROJECT_BINARY_DIR}/triggers)

# Describes the package of a component: its section, a summary, a description, and other components after DEPENDS.
function(volta_package component section summary)
  cmake_parse_arguments(PARSE_ARGV 3 arg "" "DESCRIPTION;SUGGESTS" "DEPENDS")
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${volta_${component}_package} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_DESCRIPTION "${summary}\n${arg_DESCRIPTION}" PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_SUGGESTS "${arg_SUGGESTS}" PARENT_SCOPE)
  set(CPACK_COMPONENT_${upper}_DEPENDS ${arg_DEPENDS} PARENT_SCOPE)
endfunction()

volta_package(runtime libs "machine-learning framework for C++ (library)"
  SUGGESTS "volta-cuda, volta-opencl"
  DESCRIPTION "Volta trains and runs neural networks in C++20. Programs read like eager
code; steps are recorded, planned and fused before they run.
This package has the library with its CPU backend.")
volta_package(dev libdevel "machine-learning framework for C++ (development files)"
  DEPENDS runtime SUGGESTS "volta-cuda, volta-opencl"
  DESCRIPTION "Volta trains and runs neural networks in C++20.
This package has its headers, its CMake package (find_package(Volta)) and
its pkg-config file.")
volta_package(cuda libs "machine-learning framework for C++ (CUDA backend)"
  DEPENDS runtime SUGGESTS "libcuda1, cuda-nvrtc-12-6, libcublas-12-6, libcudnn9-cuda-12"
  DESCRIPTION "Volta trains and runs neural networks in C++20.
This package lets it use NVIDIA's GPUs. The driver, NVRTC and, for speed,
cuBLASLt and cuDNN are opened when a program first mentions a CUDA device,
and may come from anywhere; 'volta doctor' tells what is missing.")
volta_package(opencl libs "machine-learning framework for C++ (OpenCL backend)"
  DEPENDS runtime SUGGESTS "opencl-icd"
  DESCRIPTION "Volta trains and runs neural networks in C++20.
This package lets it use devices with OpenCL 1.2 and a compiler. These need
a driver; pocl-opencl-icd is one that runs OpenCL on any CPU.")
volta_package(tools science "machine-learning framework for C++ (command)"
  DEPENDS runtime SUGGESTS "volta-cuda, volta-opencl"
  DESCRIPTION "Volta trains and runs neural networks in C++20.
This package has the volta command: it trains built-in models and reports on
that, tells what devices are there, checks the set-up of a GPU, and looks
into, compares and converts files of weights.")
include(CPack)
