#include "tests/conformance/communicator_conformance.h"

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/support/sanitizers.h"

namespace lockstep {
namespace conformance {
namespace {

void OnEachRank(int size, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&body, rank] { body(rank); });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

std::vector<Case> Cases(std::function<std::unique_ptr<World>()> make_world,
                        const Promises& promises) {
  std::vector<Case> cases;
  for (int size : {1, 2, 3, 4, 8}) {
    if (size == 8 && kUnderSanitizer) continue;
    cases.push_back({make_world, size, promises});
  }
  return cases;
}

std::string CaseName(const testing::TestParamInfo<Case>& info) {
  return absl::StrCat("Of", info.param.size);
}

}  // namespace conformance

CommunicatorConformance::CommunicatorConformance()
    : world_(GetParam().make_world()) {
  Reconnect();
  for (int rank = 0; rank < size(); ++rank) {
    streams_.push_back(world_->MakeStream(rank, absl::StrCat("rank-", rank)));
  }
}

CommunicatorConformance::~CommunicatorConformance() = default;

void CommunicatorConformance::Reconnect() {
  comms_ = conformance::Connect(*world_, size(), "conformance");
}

void CommunicatorConformance::Together(
    const std::function<void(conformance::Member&)>& body) {
  ASSERT_EQ(comms_.size(), static_cast<size_t>(size()));
  conformance::OnEachRank(size(), [&](int rank) {
    conformance::Member member{rank, size(), *comms_[rank], *streams_[rank],
                               *world_};
    body(member);
  });
}

}  // namespace lockstep
