#include "client/transport/hierarchical/auto.h"

#include <unistd.h>

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/text/count.h"
#include "client/transport/collectives/link_transport.h"
#include "client/transport/common/cpu_communicator.h"
#include "client/transport/common/group_check.h"
#include "client/transport/common/pending_group_base.h"
#include "client/transport/hierarchical/agreement.h"
#include "client/transport/hierarchical/auto_handle.h"
#include "client/transport/hierarchical/hierarchical_executor.h"
#include "client/transport/hierarchical/placement.h"
#include "client/transport/shm/rendezvous.h"
#include "client/transport/shm/shm_executor.h"
#include "client/transport/shm/shm_host.h"

namespace lockstep::transport {
namespace {

// Processes with equal endpoints may share memory.
Endpoint WhereaboutsWith(const AutoOptions& options) {
  Endpoint where = EndpointOfThisProcess();
  absl::StrAppend(&where.network, "/user:", geteuid());
  if (!options.pretended_host.empty()) {
    absl::StrAppend(&where.network, "/", options.pretended_host);
  }
  return where;
}

std::string HandleOf(const GroupSpec& group, ShmHandle shm,
                     const PendingLink& link) {
  shm.rank = group.rank;
  shm.size = group.size;
  return Format(AutoHandle{shm, link.handle()});
}

class AutoGroup final : public PendingGroupBase {
 public:
  AutoGroup(const GroupSpec& group, const ShmHost& host,
            std::unique_ptr<PendingLink> link,
            std::unique_ptr<Rendezvous> rendezvous)
      : PendingGroupBase(group, HandleOf(group, rendezvous->handle(), *link)),
        host_(host),
        link_(std::move(link)),
        rendezvous_(std::move(rendezvous)) {}

  std::string choice() const override { return choice_; }

 private:
  absl::Status ConnectAll(const std::vector<std::string>& handles,
                          const Deadline& deadline) override {
    std::vector<std::string> links;
    for (int rank = 0; rank < group().size; ++rank) {
      auto handle = ParseAutoHandle(handles[rank], rank, group().size);
      if (!handle.ok()) return std::move(handle).status();
      shm_.push_back(std::move(handle->shm));
      links.push_back(std::move(handle->link));
    }
    placement_.emplace(Places());
    absl::Status linked = link_->Connect(links, deadline);
    return linked.ok() ? Choose(deadline) : linked;
  }

  std::vector<std::string> Places() const {
    std::vector<std::string> places;
    for (const ShmHandle& handle : shm_) {
      places.push_back(PlaceOf(handle.where));
    }
    return places;
  }

  absl::Status Choose(const Deadline& deadline) {
    if (placement_->most() == 1 && group().size > 1) {
      choice_ = "each rank has a host of its own";
      return absl::OkStatus();
    }
    auto refusal = Agree(link_->link(), ShareMemory(deadline), deadline);
    if (!refusal.ok()) return std::move(refusal).status();
    shares_ = refusal->empty();
    choice_ = shares_ ? Census() : absl::StrCat("no shared memory, ", *refusal);
    return absl::OkStatus();
  }

  std::string Census() const {
    const int hosts = placement_->hosts();
    return hosts == 1
               ? absl::StrCat(Count(group().size, "rank"), " on one host")
               : absl::StrCat(Count(group().size, "rank"), " on ", hosts,
                              " hosts");
  }

  int host() const { return placement_->host(group().rank); }
  int index() const { return placement_->index(group().rank); }

  // Connects all ranks of this host. An error is this rank's vote against.
  absl::Status ShareMemory(const Deadline& deadline) {
    const std::vector<int>& members = placement_->members(host());
    const int size = static_cast<int>(members.size());
    if (size > kRanksMax) {
      return absl::ResourceExhaustedError(
          absl::StrCat(size, " ranks share a host: shared memory connects at ",
                       "most ", kRanksMax));
    }
    std::vector<std::string> texts;
    for (int index = 0; index < size; ++index) {
      ShmHandle handle = shm_[members[index]];
      handle.rank = index;
      handle.size = size;
      texts.push_back(Format(handle));
    }
    absl::Status met = rendezvous_->AllocateControlBlock(
        index(), ShmHost::ShapeOf(size, group().traffic));
    if (met.ok()) {
      auto peers = rendezvous_->ConnectAll(texts, deadline);
      met = peers.status();
      if (peers.ok()) peers_ = *std::move(peers);
    }
    if (!met.ok()) rendezvous_->Decline(texts, index());
    return met;
  }

  void Interrupt() override {
    link_->Abort();
    rendezvous_->Abort();
  }

  std::unique_ptr<Communicator> Finish() override {
    std::unique_ptr<Link> link = link_->Take();
    std::vector<Peer> peers = std::move(peers_);
    Discard();
    if (!shares_) return MakeLinkCommunicator(group(), std::move(link));
    auto shm_group = host_.MakeGroup({.rank = index(),
                                      .in_group = placement_->members(host()),
                                      .group_size = group().size},
                                     std::move(peers));
    if (placement_->hosts() == 1) {
      return MakeCpuCommunicator(group(),
                                 MakeShmExecutor(std::move(shm_group)));
    }
    return MakeCpuCommunicator(
        group(),
        MakeHierarchicalExecutor(group().rank, *placement_, group().traffic,
                                 std::move(shm_group), std::move(link)));
  }

  void Discard() override {
    link_ = nullptr;
    rendezvous_ = nullptr;
    peers_.clear();
  }

  const ShmHost host_;
  std::unique_ptr<PendingLink> link_;
  std::unique_ptr<Rendezvous> rendezvous_;
  std::vector<ShmHandle> shm_;          // by rank
  std::optional<Placement> placement_;  // set by ConnectAll
  std::vector<Peer> peers_;             // on this host, by index
  bool shares_ = false;
  std::string choice_;
};

class AutoTransport final : public Transport {
 public:
  AutoTransport(std::unique_ptr<LinkFactory> links, const AutoOptions& options)
      : links_(std::move(links)),
        where_(WhereaboutsWith(options)),
        host_(options.silence) {}

  std::string_view name() const override { return "auto"; }

  // Groups in one place use shared memory or links; groups across places use
  // links. Those in mixed places may use the hierarchical executor, which has
  // no sums in pairs.
  TransportFacts facts() const override {
    return {.place = PlaceOf(where_),
            .pairs_in_one_place = true,
            .pairs_across_places = true};
  }

  absl::StatusOr<std::unique_ptr<PendingGroup>> Prepare(
      const GroupSpec& group) override {
    absl::Status checked = CheckGroup(group);
    checked.Update(host_.Sound());
    if (!checked.ok()) return checked;
    absl::StatusOr<std::unique_ptr<PendingLink>> link = links_->Prepare(group);
    if (!link.ok()) return std::move(link).status();
    absl::StatusOr<std::unique_ptr<Rendezvous>> rendezvous =
        Rendezvous::Listen(where_);
    if (!rendezvous.ok()) return std::move(rendezvous).status();
    return std::make_unique<AutoGroup>(group, host_, *std::move(link),
                                       *std::move(rendezvous));
  }

  std::unique_ptr<Arena> MakeArena() override { return host_.MakeArena(); }

 private:
  const std::unique_ptr<LinkFactory> links_;
  const Endpoint where_;
  const ShmHost host_;
};

}  // namespace

std::unique_ptr<Transport> MakeAutoTransport(std::unique_ptr<LinkFactory> links,
                                             const AutoOptions& options) {
  return std::make_unique<AutoTransport>(std::move(links), options);
}

}  // namespace lockstep::transport
