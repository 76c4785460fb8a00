#include "client/transport/shm/shm.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/transport/group_check.h"
#include "client/transport/group_half.h"
#include "client/transport/host_communicator.h"
#include "client/transport/shm/meeting.h"
#include "client/transport/shm/shm_executor.h"
#include "client/transport/shm/shm_handle.h"
#include "client/transport/shm/shm_host.h"

namespace lockstep::transport {
namespace {

class ShmGroup final : public GroupHalf {
 public:
  ShmGroup(const GroupSpec& group, const ShmHost& host,
           std::unique_ptr<Meeting> meeting)
      : GroupHalf(group, Format(meeting->handle())),
        host_(host),
        meeting_(std::move(meeting)) {}

 private:
  absl::Status Meet(const std::vector<std::string>& handles,
                    const Deadline& deadline) override {
    absl::StatusOr<std::vector<Peer>> peers = meeting_->Meet(handles, deadline);
    if (peers.ok()) peers_ = *std::move(peers);
    return peers.status();
  }
  void Interrupt() override { meeting_->Abort(); }
  std::unique_ptr<Communicator> Finish() override {
    meeting_ = nullptr;
    return MakeHostCommunicator(
        group(), MakeShmExecutor(
                     host_.Seated({.rank = group().rank}, std::move(peers_))));
  }
  void Discard() override {
    meeting_ = nullptr;
    peers_.clear();
  }

  const ShmHost host_;
  std::unique_ptr<Meeting> meeting_;
  std::vector<Peer> peers_;
};

class ShmTransport final : public Transport {
 public:
  explicit ShmTransport(const ShmOptions& options) : host_(options.silence) {}

  std::string_view name() const override { return "shm"; }

  // Ranks of several places it does not connect.
  TransportFacts facts() const override {
    return {.place = PlaceOf(WhereaboutsOfThisProcess()),
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
    absl::StatusOr<std::unique_ptr<Meeting>> meeting =
        Meeting::Open(group.rank, ShmHost::ShapeOf(group.size, group.traffic));
    if (!meeting.ok()) return std::move(meeting).status();
    return std::make_unique<ShmGroup>(group, host_, *std::move(meeting));
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
