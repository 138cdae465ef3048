# Installed targets are compiled with more than volta_compile: without the paths of this machine, with the usual
# protections of a distribution, and with only those symbols exported that others may use.
if(PROJECT_IS_TOP_LEVEL)  # the check sets variables, which a parent project decides itself
  include(CheckPIESupported)
  check_pie_supported(LANGUAGES CXX)  # programs are linked as position-independent executables
endif()

add_library(volta_hardened INTERFACE)
# __FILE__ and std::source_location are relative to the root of the sources, also if ccache has made paths relative.
file(RELATIVE_PATH build_to_source ${CMAKE_BINARY_DIR} ${PROJECT_SOURCE_DIR}/)
target_compile_options(volta_hardened INTERFACE
  -ffile-prefix-map=${PROJECT_SOURCE_DIR}/= -ffile-prefix-map=${build_to_source}=)
if(VOLTA_HARDENED AND NOT VOLTA_SANITIZE)
  target_compile_options(volta_hardened INTERFACE -fstack-protector-strong)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|i.86")
    target_compile_options(volta_hardened INTERFACE -fcf-protection)
  endif()
  # Without optimisation glibc warns that _FORTIFY_SOURCE has no effect.
  target_compile_options(volta_hardened INTERFACE
    $<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE> $<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=2>)
  target_link_options(volta_hardened INTERFACE -Wl,-z,relro -Wl,-z,now)
endif()

# A library exports the symbols that its version script lists.
function(volta_exports target script)
  target_link_options(${target} PRIVATE -Wl,--version-script=${script})
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${script})
endfunction()
