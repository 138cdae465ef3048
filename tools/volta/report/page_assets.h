// The report's style sheet and script. Both are free of "</" and "]]>".
#pragma once

namespace volta::report {

extern const char* const kStyle;
// The script only adds to the page: values under the pointer, copy buttons, and open sections in
// print.
extern const char* const kScript;

}  // namespace volta::report
