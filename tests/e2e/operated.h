// A cluster with an operator who uses lockstepctl.

#ifndef LOCKSTEP_TESTS_E2E_OPERATED_H_
#define LOCKSTEP_TESTS_E2E_OPERATED_H_

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/e2e/cluster.h"
#include "tests/e2e/tool.h"

namespace lockstep::e2e {

class OperatedTest : public testing::Test {
 protected:
  explicit OperatedTest(const std::string& spec) : cluster_(2, spec) {}

  Outcome Ctl(std::vector<std::string> words) {
    words.insert(words.begin(),
                 {"lockstepctl", "--address", cluster_.address()});
    return RunTool(words);
  }

  Cluster cluster_;
};

}  // namespace lockstep::e2e

#endif  // LOCKSTEP_TESTS_E2E_OPERATED_H_
