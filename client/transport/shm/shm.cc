#include "client/transport/shm/shm.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/transport/common/cpu_communicator.h"
#include "client/transport/common/group_check.h"
#include "client/transport/common/pending_group_base.h"
#include "client/transport/shm/rendezvous.h"
#include "client/transport/shm/shm_executor.h"
#include "client/transport/shm/shm_handle.h"
#include "client/transport/shm/shm_host.h"

namespace lockstep::transport {
namespace {

class PendingShmGroup final : public PendingGroupBase {
 public:
  PendingShmGroup(const GroupSpec& group, const ShmHost& host,
                  std::unique_ptr<Rendezvous> rendezvous)
      : PendingGroupBase(group, Format(rendezvous->handle())),
        host_(host),
        rendezvous_(std::move(rendezvous)) {}

 private:
  absl::Status ConnectAll(const std::vector<std::string>& handles,
                          const Deadline& deadline) override {
    absl::StatusOr<std::vector<Peer>> peers =
        rendezvous_->ConnectAll(handles, deadline);
    if (peers.ok()) peers_ = *std::move(peers);
    return peers.status();
  }
  void Interrupt() override { rendezvous_->Abort(); }
  std::unique_ptr<Communicator> Finish() override {
    rendezvous_ = nullptr;
    return MakeCpuCommunicator(
        group(), MakeShmExecutor(host_.MakeGroup({.rank = group().rank},
                                                 std::move(peers_))));
  }
  void Discard() override {
    rendezvous_ = nullptr;
    peers_.clear();
  }

  const ShmHost host_;
  std::unique_ptr<Rendezvous> rendezvous_;
  std::vector<Peer> peers_;
};

class ShmTransport final : public Transport {
 public:
  explicit ShmTransport(const ShmOptions& options) : host_(options.silence) {}

  std::string_view name() const override { return "shm"; }

  // Connects only ranks of one place.
  TransportFacts facts() const override {
    return {.place = PlaceOf(EndpointOfThisProcess()),
            .pairs_in_one_place = true};
  }

  absl::StatusOr<std::unique_ptr<PendingGroup>> Prepare(
      const GroupSpec& group) override {
    absl::Status checked = CheckGroup(group);
    checked.Update(host_.Sound());
    if (!checked.ok()) return checked;
    if (group.size > kRanksMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("group '", group.name, "' has ", group.size,
                       " ranks; transport 'shm' connects at most ", kRanksMax));
    }
    absl::StatusOr<std::unique_ptr<Rendezvous>> rendezvous = Rendezvous::Open(
        group.rank, ShmHost::ShapeOf(group.size, group.traffic));
    if (!rendezvous.ok()) return std::move(rendezvous).status();
    return std::make_unique<PendingShmGroup>(group, host_,
                                             *std::move(rendezvous));
  }

  std::unique_ptr<Arena> MakeArena() override { return host_.MakeArena(); }

 private:
  const ShmHost host_;
};

}  // namespace

std::unique_ptr<Transport> MakeShmTransport(const ShmOptions& options) {
  return std::make_unique<ShmTransport>(options);
}

}  // namespace lockstep::transport
