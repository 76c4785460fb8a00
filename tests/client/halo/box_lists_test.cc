// The boxes of one launch are copied, filled or summed in any order and at the
// same time on a device, so they must not touch each other.

#include "client/halo/box_lists.h"

#include <algorithm>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/halo/random_halos.h"
#include "tests/support/sanitizers.h"

namespace lockstep::halo {
namespace {

using halo_model::HaloJob;
using halo_model::RandomHalos;
using kernels::StridedBox;

// Elements by their memory and offset in bytes.
using Elements = std::set<std::pair<int, int64_t>>;

// The elements at one end of a box, each once.
Elements ElementsOf(int memory, int64_t offset, int dims, const int64_t* counts,
                    const int64_t* strides, DType dtype) {
  Elements elements = {{memory, offset}};
  for (int d = 0; d < dims; ++d) {
    Elements more;
    for (const auto& [of, at] : elements) {
      for (int64_t i = 0; i < counts[d]; ++i) {
        more.insert(
            {of, at + i * strides[d] * static_cast<int64_t>(SizeOf(dtype))});
      }
    }
    elements = std::move(more);
  }
  return elements;
}

Elements Read(const StridedBox& box) {
  return ElementsOf(box.in_memory, box.in_offset, box.dims, box.counts,
                    box.in_strides, box.dtype);
}
Elements Written(const StridedBox& box) {
  return ElementsOf(box.out_memory, box.out_offset, box.dims, box.counts,
                    box.out_strides, box.dtype);
}

// Whether no element is in `added` and in `all`, where they are added.
bool AddApart(const Elements& added, Elements* all) {
  return std::all_of(added.begin(), added.end(), [all](const auto& element) {
    return all->insert(element).second;
  });
}

// Whether no box of the list writes what another one writes or any reads.
bool MayRunTogether(const std::vector<StridedBox>& boxes) {
  Elements written;
  for (const StridedBox& box : boxes) {
    if (!AddApart(Written(box), &written)) return false;
  }
  return std::all_of(
      boxes.begin(), boxes.end(), [&written](const StridedBox& box) {
        const Elements read = Read(box);
        return std::none_of(read.begin(), read.end(), [&](const auto& element) {
          return written.count(element) > 0;
        });
      });
}

bool MayFillTogether(const std::vector<kernels::BoxFill>& fills) {
  Elements written;
  return std::all_of(
      fills.begin(), fills.end(), [&written](const kernels::BoxFill& fill) {
        return AddApart(ElementsOf(fill.out_memory, fill.out_offset, fill.dims,
                                   fill.counts, fill.out_strides, fill.dtype),
                        &written);
      });
}

void CheckLists(const PassLists& lists) {
  EXPECT_TRUE(MayFillTogether(lists.fills));
  EXPECT_TRUE(MayRunTogether(lists.copies_before));
  EXPECT_TRUE(MayRunTogether(lists.sums_before));
  for (const auto& adds : lists.adds_before) EXPECT_TRUE(MayRunTogether(adds));
  EXPECT_TRUE(MayRunTogether(lists.copies_then));
  for (const auto& adds : lists.adds_then) EXPECT_TRUE(MayRunTogether(adds));
}

TEST(BoxListsTest, BoxesOfOneLaunchDoNotTouch) {
  constexpr uint64_t kJobs = kUnderSanitizer ? 30 : 300;
  for (uint64_t seed = 1; seed <= kJobs && !testing::Test::HasFailure();
       ++seed) {
    const HaloJob job = RandomHalos(seed).DrawJob();
    SCOPED_TRACE(absl::StrCat("seed ", seed, ": ", job.Describe()));
    const auto plan = conformance::CompileHalos(job.mesh, job.declared);
    ASSERT_TRUE(plan.ok()) << plan.status();
    for (const plan::RankPlan& rank : plan->ranks) {
      for (const plan::HaloRoutes& routes : rank.halos) {
        const plan::Halo& halo = plan->halos[routes.halo];
        const auto r = static_cast<int>(&rank - plan->ranks.data());
        const auto at = std::find(halo.ranks.begin(), halo.ranks.end(), r);
        const std::vector<int> coordinates =
            halo.mesh.CoordinatesOf(static_cast<int>(at - halo.ranks.begin()));
        for (const auto pass :
             {plan::HaloPass::kForward, plan::HaloPass::kAdjoint}) {
          for (const bool in_place : {false, true}) {
            for (const bool moves_boxes : {false, true}) {
              CheckLists(MakeLists(halo, routes, coordinates, pass, in_place,
                                   moves_boxes));
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::halo
