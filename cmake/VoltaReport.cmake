# volta_report writes the HTML report of a training run. The command and its tests link it.
file(GLOB report_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tools/volta/report/*.cpp)
volta_united(report_sources ${PROJECT_SOURCE_DIR}/tools/volta SOURCES ${report_sources} APART ^report/results)
add_library(volta_report STATIC EXCLUDE_FROM_ALL ${report_sources})
target_include_directories(volta_report PUBLIC ${PROJECT_SOURCE_DIR}/tools/volta)
target_link_libraries(volta_report PUBLIC volta PRIVATE volta_compile volta_hardened fmt::fmt)
