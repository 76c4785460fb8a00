#include <utility>

#include "client/transport/blame.h"
#include "client/transport/executor.h"
#include "client/transport/operation.h"
#include "client/transport/scratch.h"

namespace lockstep::transport {
namespace {

class LinkExecutor final : public Executor {
 public:
  explicit LinkExecutor(std::unique_ptr<Link> link) : link_(std::move(link)) {}

  int rank() const override { return link_->rank(); }
  int size() const override { return link_->size(); }
  std::string_view transport() const override { return link_->transport(); }

  bool sums_in_pairs() const override { return true; }

  absl::Status Execute(std::span<const Call> calls) override {
    std::vector<std::unique_ptr<Operation>> operations;
    operations.reserve(calls.size());
    for (const Call& call : calls) {
      operations.push_back(MakeOperation(call, Wire{*link_, scratch_}));
      absl::Status started = operations.back()->Start();
      if (!started.ok()) return started;
    }
    for (auto& operation : operations) {
      absl::Status finished = operation->Finish();
      if (!finished.ok()) return finished;
    }
    return absl::OkStatus();
  }

  void Cut(const absl::Status& why) override {
    link_->Cut(BlamedRank(why).value_or(link_->rank()));
  }

 private:
  ScratchPool scratch_;
  const std::unique_ptr<Link> link_;
};

}  // namespace

std::unique_ptr<Executor> MakeLinkExecutor(std::unique_ptr<Link> link) {
  return std::make_unique<LinkExecutor>(std::move(link));
}

}  // namespace lockstep::transport
