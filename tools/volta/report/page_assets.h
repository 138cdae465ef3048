// The report's style sheet and script. Both are free of "</" and "]]>".
#pragma once

namespace volta::report {

extern const char* const kStyle;
// Only adds to the page: values under the pointer, buttons that copy, sections open when printed.
extern const char* const kScript;

}  // namespace volta::report
