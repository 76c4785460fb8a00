#include "client/transport/collectives/link_transport.h"

#include <utility>

#include "client/transport/common/group_check.h"
#include "client/transport/common/link_factory.h"
#include "client/transport/common/pending_group_base.h"

namespace lockstep::transport {
namespace {

class LinkGroup final : public PendingGroupBase {
 public:
  LinkGroup(const GroupSpec& group, std::unique_ptr<PendingLink> pending)
      : PendingGroupBase(group, pending->handle()),
        pending_(std::move(pending)) {}

 private:
  absl::Status ConnectAll(const std::vector<std::string>& handles,
                          const Deadline& deadline) override {
    return pending_->Connect(handles, deadline);
  }
  void Interrupt() override { pending_->Abort(); }
  std::unique_ptr<Communicator> Finish() override {
    auto communicator = MakeLinkCommunicator(group(), pending_->Take());
    pending_ = nullptr;
    return communicator;
  }
  void Discard() override { pending_ = nullptr; }

  std::unique_ptr<PendingLink> pending_;
};

class LinkTransport final : public Transport {
 public:
  explicit LinkTransport(std::unique_ptr<LinkFactory> links)
      : links_(std::move(links)) {}

  std::string_view name() const override { return links_->name(); }

  // Links work the same within and across places.
  TransportFacts facts() const override {
    return {.pairs_in_one_place = true,
            .pairs_across_places = true,
            .pairs_in_mixed_places = true};
  }

  absl::StatusOr<std::unique_ptr<PendingGroup>> Prepare(
      const GroupSpec& group) override {
    if (absl::Status checked = CheckGroup(group); !checked.ok()) return checked;
    absl::StatusOr<std::unique_ptr<PendingLink>> pending =
        links_->Prepare(group);
    if (!pending.ok()) return std::move(pending).status();
    return std::make_unique<LinkGroup>(group, *std::move(pending));
  }

 private:
  const std::unique_ptr<LinkFactory> links_;
};

}  // namespace

std::unique_ptr<Transport> MakeLinkTransport(
    std::unique_ptr<LinkFactory> links) {
  return std::make_unique<LinkTransport>(std::move(links));
}

}  // namespace lockstep::transport
