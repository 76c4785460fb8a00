#include "tests/plan/mutation/wrong_kinds.h"

namespace lockstep::plan {

const std::vector<Mutation>& WrongKinds() {
  static const auto* const all = [] {
    auto* const kinds = new std::vector<Mutation>;
    for (const auto* part : {&WrongTasks(), &WrongMessages(), &WrongGradients(),
                             &WrongLanes(), &WrongOperations()}) {
      kinds->insert(kinds->end(), part->begin(), part->end());
    }
    return kinds;
  }();
  return *all;
}

}  // namespace lockstep::plan
