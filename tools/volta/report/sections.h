// Sections of the page. Each function returns "" if its section is empty.
#pragma once

#include <string>
#include <vector>

#include "report/report_data.h"

namespace volta::report {

std::string confusion_markup(const Confusion& confusion);
std::string images_markup(const std::vector<ImageSample>& images);
std::string texts_markup(const std::vector<TextSample>& texts);
std::string details_markup(const ReportData& data);  // model, plan, configuration, files

}  // namespace volta::report
