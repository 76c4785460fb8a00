#include <memory>
#include <utility>

#include "client/transport/collectives/link_operation.h"
#include "client/transport/collectives/link_transport.h"
#include "client/transport/common/collective_executor.h"
#include "client/transport/common/cpu_communicator.h"
#include "client/transport/common/link.h"
#include "client/transport/common/scratch.h"
#include "client/transport/failed_peer.h"

namespace lockstep::transport {
namespace {

class LinkExecutor final : public CollectiveExecutor {
 public:
  explicit LinkExecutor(std::unique_ptr<Link> link) : link_(std::move(link)) {}

  int rank() const override { return link_->rank(); }
  int size() const override { return link_->size(); }
  std::string_view transport() const override { return link_->transport(); }

  bool sums_in_pairs() const override { return true; }

  absl::Status Execute(std::span<const CollectiveOp> calls) override {
    std::vector<std::unique_ptr<LinkOperation>> operations;
    operations.reserve(calls.size());
    for (const CollectiveOp& call : calls) {
      operations.push_back(MakeOperation(call, LinkContext{*link_, scratch_}));
      absl::Status started = operations.back()->Start();
      if (!started.ok()) return started;
    }
    for (auto& operation : operations) {
      absl::Status finished = operation->Finish();
      if (!finished.ok()) return finished;
    }
    return absl::OkStatus();
  }

  void Shutdown(const absl::Status& why) override {
    link_->Shutdown(FailedPeer(why).value_or(link_->rank()));
  }

 private:
  ScratchPool scratch_;
  const std::unique_ptr<Link> link_;
};

}  // namespace

std::unique_ptr<Communicator> MakeLinkCommunicator(const GroupSpec& group,
                                                   std::unique_ptr<Link> link) {
  return MakeCpuCommunicator(group,
                             std::make_unique<LinkExecutor>(std::move(link)));
}

}  // namespace lockstep::transport
