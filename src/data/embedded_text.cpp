// A text to train on: scenes, speeches and sonnets by William Shakespeare (1564-1616).
#include "volta/data/text.h"

namespace volta::data {

std::string_view embedded_text() {
  return
#include "data/embedded_scenes.def"
#include "data/embedded_sonnets.def"
      ;
}

}  // namespace volta::data
