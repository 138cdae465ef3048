# How every target of this tree is compiled: standard, warnings, visibility, sanitizers, ccache and
# output folders. Nothing here reaches users of the installed library.
if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(PROJECT_IS_TOP_LEVEL)
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
endif()

# Backends are looked for beside libvolta, in the build tree as in an installation.
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)

# Paths below the sources count as relative ones, so that all clones on a machine share the cached objects. Objects made
# with a precompiled header (the tests') are cached as well.
find_program(VOLTA_CCACHE ccache)
if(VOLTA_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER
    ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
    CCACHE_SLOPPINESS=pch_defines,time_macros ${VOLTA_CCACHE})
endif()

add_library(volta_compile INTERFACE)
target_compile_options(volta_compile INTERFACE -Wall -Wextra -Wpedantic)
# The library is optimised even inside a project that has chosen no build type.
target_compile_options(volta_compile INTERFACE $<$<CONFIG:>:-O3> $<$<CONFIG:>:-DNDEBUG>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 reports "literal" + std::string as overlapping copies (GCC bug 105651).
  target_compile_options(volta_compile INTERFACE -Wno-restrict)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
  # GCC 13 and later report references to static tables as dangling and fmt's buffers as overrun.
  target_compile_options(volta_compile INTERFACE -Wno-dangling-reference -Wno-array-bounds -Wno-stringop-overflow)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # libstdc++ 12 uses its own deprecated get_temporary_buffer in std::stable_sort and its like.
  target_compile_options(volta_compile INTERFACE -Wno-deprecated-declarations)
endif()
if(VOLTA_WERROR)
  target_compile_options(volta_compile INTERFACE -Werror)
endif()
if(VOLTA_SANITIZE)
  target_compile_options(volta_compile INTERFACE
    -fsanitize=${VOLTA_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g)
  # Sanitized builds compile the vector code for two widths only, because GCC takes minutes per file with sanitizers.
  # They also make GCC report uninitialised values where there are none.
  target_compile_definitions(volta_compile INTERFACE
    HWY_DISABLED_TARGETS=0x19FF) # all but AVX2 and the baseline
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_compile_options(volta_compile INTERFACE -Wno-maybe-uninitialized)
    if(VOLTA_SANITIZE STREQUAL "thread")
      # GCC warns that ThreadSanitizer does not see fences; platform/biased_lock.h has some.
      target_compile_options(volta_compile INTERFACE -Wno-tsan)
    endif()
  endif()
  target_link_options(volta_compile INTERFACE -fsanitize=${VOLTA_SANITIZE})
elseif(NOT VOLTA_STATIC)  # then backends have undefined symbols, which the program provides
  target_link_options(volta_compile INTERFACE -Wl,--no-undefined)
endif()
if(VOLTA_FUZZ)
  # All code reports its branches to the fuzzer; only the fuzz targets have its main function.
  target_compile_options(volta_compile INTERFACE -fsanitize=fuzzer-no-link)
endif()
target_link_options(volta_compile INTERFACE -Wl,--as-needed)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(volta_compile INTERFACE -fpch-preprocess)  # ccache requires it; the objects stay the same
endif()
