#include "tests/plan/mutation/mutants.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace lockstep::plan {

Mutant MutantOf(const Mutation& mutation, const std::vector<GoodPlan>& plans,
                uint64_t seed, const std::vector<Mutation>& extra) {
  std::mt19937_64 random(seed);
  for (int tries = 0; tries < 100'000; ++tries) {
    const GoodPlan& good = plans[random() % plans.size()];
    Mutant mutant{absl::StrCat(mutation.name, " in ", good.name), good.plan};
    mutation.apply(mutant.plan, random);
    if (mutant.plan == good.plan) continue;
    if (!extra.empty() && random() % 8 == 0) {
      const Mutation& other = extra[random() % extra.size()];
      other.apply(mutant.plan, random);
      absl::StrAppend(&mutant.what, ", then ", other.name);
      if (mutant.plan == good.plan) continue;
    }
    return mutant;
  }
  ADD_FAILURE() << "no plan has a place for: " << mutation.name;
  return {mutation.name, plans[0].plan};
}

}  // namespace lockstep::plan
