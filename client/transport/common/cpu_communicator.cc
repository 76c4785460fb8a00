#include "client/transport/common/cpu_communicator.h"

#include <bit>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/transport/common/collective_op.h"
#include "client/transport/common/communicator_base.h"
#include "client/transport/common/communicator_state.h"

namespace lockstep::transport {
namespace {

class CpuCommunicator final : public CommunicatorBase {
 public:
  CpuCommunicator(const GroupSpec& group,
                  std::unique_ptr<CollectiveExecutor> executor)
      : CommunicatorBase(executor->rank(), executor->size()),
        transport_(executor->transport()),
        checks_(executor->checks()),
        moves_boxes_(executor->moves_boxes()),
        sums_in_pairs_(executor->sums_in_pairs() &&
                       std::has_single_bit(static_cast<unsigned>(size()))),
        sent_(size()),
        received_(size()),
        membership_(std::make_shared<CommunicatorState>(
            std::move(executor), absl::StrCat("group '", group.name, "', rank ",
                                              rank(), " of ", size(), ": "))) {}

  ~CpuCommunicator() override { membership_->Close(); }

  std::string_view transport() const override { return transport_; }
  bool CanCheck() const override { return checks_; }
  bool MovesBoxes() const override { return moves_boxes_; }
  bool SumsInPairs() const override { return sums_in_pairs_; }

  void Abort(std::string_view cause) override {
    membership_->Fail(
        absl::AbortedError(absl::string_view(cause.data(), cause.size())));
  }

  absl::Status status() const override { return membership_->status(); }

 private:
  absl::Status CheckStream(const Stream& stream) const override {
    if (typeid(stream) == typeid(HostStream)) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "transport '", absl::string_view(transport_.data(), transport_.size()),
        "' moves host memory: it needs a HostStream"));
  }

  // Tags are assigned here, not when the calls run: two streams may run them in
  // any order.
  void Launch(std::span<CollectiveOp> calls, Stream& stream) override {
    for (CollectiveOp& call : calls) call.tag = NextTag(call);
    HostStream& queue = static_cast<HostStream&>(stream);
    if (queue.TryRun([&] { return membership_->Run(calls); })) return;
    queue.Enqueue([membership = membership_, calls = Moved(calls)] {
      return membership->Run(calls);
    });
  }

  uint64_t NextTag(const CollectiveOp& call) {
    switch (call.kind) {
      case CollectiveKind::kSend: return FirstTag(true, ++sent_[call.peer]);
      case CollectiveKind::kRecv: return FirstTag(true, ++received_[call.peer]);
      default: return FirstTag(false, ++collectives_);
    }
  }

  const std::string_view transport_;
  const bool checks_;
  const bool moves_boxes_;
  const bool sums_in_pairs_;
  uint64_t collectives_ = 0;
  std::vector<uint64_t> sent_;      // to each rank
  std::vector<uint64_t> received_;  // from each rank
  const std::shared_ptr<CommunicatorState> membership_;
};

}  // namespace

std::unique_ptr<Communicator> MakeCpuCommunicator(
    const GroupSpec& group, std::unique_ptr<CollectiveExecutor> executor) {
  return std::make_unique<CpuCommunicator>(group, std::move(executor));
}

}  // namespace lockstep::transport
