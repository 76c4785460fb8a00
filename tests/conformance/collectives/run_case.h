// Runs one conformance case on the ranks of this process.

#ifndef LOCKSTEP_TESTS_CONFORMANCE_COLLECTIVES_RUN_CASE_H_
#define LOCKSTEP_TESTS_CONFORMANCE_COLLECTIVES_RUN_CASE_H_

#include <string>

#include "tests/conformance/cases/groups.h"
#include "tests/conformance/collectives/case_file.h"

namespace lockstep::conformance {

// Empty if the case passed; else what is wrong: the rank, the element, what was
// got and what was wanted.
std::string RunCase(const CollectiveCase& test, Groups& groups, bool checked);

}  // namespace lockstep::conformance

#endif  // LOCKSTEP_TESTS_CONFORMANCE_COLLECTIVES_RUN_CASE_H_
