// Counts the cases of the conformance suite: every check of a value against the double-precision
// reference, and of gradients against finite differences, on the device of the run. The number is
// printed at the end. If VOLTA_CASES_DIR names a folder, the cases are listed there: the suite runs
// in shards and on several devices, and count_cases.sh adds them up.
#include <cstdio>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "ops/conformance/conformance.h"

namespace volta::conformance {
namespace {

class CaseList : public ::testing::Environment {
 public:
  void add(const std::string& name) {
    const int again = ++seen_[name];
    names_.push_back(again == 1 ? name : name + " #" + std::to_string(again));
  }

  void TearDown() override {
    if (names_.empty()) return;
    std::printf("conformance cases on %s: %zu\n", to_string(test_device()).c_str(), names_.size());
    if (const char* folder = std::getenv("VOLTA_CASES_DIR")) list_in(folder);
    if (is_whole() && thorough()) {
      EXPECT_GE(names_.size(), kLeast);
    }
  }

 private:
  static constexpr std::size_t kLeast = 2500;

  // Whether the run is neither filtered nor one shard of several.
  static bool is_whole() {
    const ::testing::UnitTest& all = *::testing::UnitTest::GetInstance();
    for (int i = 0; i < all.total_test_suite_count(); ++i) {
      const ::testing::TestSuite& suite = *all.GetTestSuite(i);
      if (std::string(suite.name()).find("Conformance") == std::string::npos) continue;
      if (suite.test_to_run_count() != suite.total_test_count()) return false;
    }
    return true;
  }

  void list_in(const std::string& folder) const {
    const char* shard = std::getenv("GTEST_SHARD_INDEX");
    std::string name = to_string(test_device()) + "_" + (shard == nullptr ? "0" : shard) + ".txt";
    std::replace(name.begin(), name.end(), ':', '_');
    std::ofstream file(folder + "/" + name);
    for (const std::string& one : names_) file << to_string(test_device()) << " " << one << "\n";
    EXPECT_TRUE(file.flush()) << "cannot write to " << folder;
  }

  std::map<std::string, int> seen_;
  std::vector<std::string> names_;
};

// GoogleTest owns this object.
CaseList* const case_list = [] {
  auto* list = new CaseList;
  ::testing::AddGlobalTestEnvironment(list);
  return list;
}();

}  // namespace

void count_case(const char* what, std::span<const Array> inputs) {
  const ::testing::TestInfo* test = ::testing::UnitTest::GetInstance()->current_test_info();
  std::string name = std::string(test->test_suite_name()) + "." + test->name() + " " + what;
  for (const Array& input : inputs)
    name += " " + std::string(name_of(input.dtype)) + to_string(input.shape);
  case_list->add(name);
}

}  // namespace volta::conformance
