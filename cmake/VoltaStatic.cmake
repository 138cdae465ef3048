# libvolta.a (BUILD_SHARED_LIBS=OFF). The backends are still loaded at run time. They take the library's symbols from
# the program that the archive was linked into, so that there is one copy of the library's state in a process.
# A program that links the archive therefore gets all of it, and exports what VOLTA_API and VOLTA_BACKEND_API mark.
set(volta_static_exports
  -Wl,--export-dynamic-symbol=_ZN5volta*
  -Wl,--export-dynamic-symbol=_ZN[KRO]5volta*
  -Wl,--export-dynamic-symbol=_ZNK[RO]5volta*
  -Wl,--export-dynamic-symbol=_ZT[ISTV]N5volta*
  -Wl,--export-dynamic-symbol=_ZZN5volta*)
target_link_options(volta INTERFACE
  "$<BUILD_INTERFACE:-Wl,--whole-archive,$<TARGET_FILE:volta>,--no-whole-archive>"
  "$<INSTALL_INTERFACE:-Wl,--whole-archive,$<TARGET_FILE:Volta::volta>,--no-whole-archive>"
  ${volta_static_exports})
