#include "client/transport/nccl/event_pool.h"

#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::transport::nccl {
namespace {

// Events are mere addresses here.
class EventPoolTest : public testing::Test {
 protected:
  EventPool::Source Source() {
    return {[this](CudaEventHandle* event) {
              if (made_ == kMost) return CudaResult::kMemoryAllocation;
              *event = reinterpret_cast<CudaEventHandle>(&places_[made_++]);
              living_.insert(*event);
              return CudaResult::kSuccess;
            },
            [this](CudaEventHandle event) {
              EXPECT_EQ(living_.erase(event), 1u);
              return CudaResult::kSuccess;
            }};
  }
  static CudaEventHandle Take(EventPool& pool) {
    CudaEventHandle event = nullptr;
    EXPECT_EQ(pool.Take(&event), CudaResult::kSuccess);
    return event;
  }

  static constexpr int kMost = 4;
  char places_[kMost] = {};
  int made_ = 0;
  std::set<CudaEventHandle> living_;
};

TEST_F(EventPoolTest, MakesNoMoreThanAreTakenAtOnce) {
  {
    EventPool pool(Source());
    for (int step = 0; step < 100; ++step) {
      const CudaEventHandle first = Take(pool);
      const CudaEventHandle second = Take(pool);
      EXPECT_NE(first, second);
      pool.GiveBack(second);
      pool.GiveBack(first);
    }
    EXPECT_EQ(made_, 2);
  }
  EXPECT_THAT(living_, testing::IsEmpty());
}

TEST_F(EventPoolTest, SaysWhyThereIsNone) {
  EventPool pool(Source());
  for (int i = 0; i < kMost; ++i) Take(pool);
  CudaEventHandle event = nullptr;
  EXPECT_EQ(pool.Take(&event), CudaResult::kMemoryAllocation);
}

}  // namespace
}  // namespace lockstep::transport::nccl
