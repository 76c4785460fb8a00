#include "tests/support/inproc/inproc.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/deadline.h"
#include "base/mutex.h"
#include "client/transport/collectives/link_transport.h"
#include "client/transport/failed_peer.h"
#include "tests/support/inproc/local_exchange.h"

namespace lockstep::transport {

// A group whose members are still connecting.
struct InprocRendezvous {
  explicit InprocRendezvous(int size)
      : room(std::make_shared<LocalExchange>(size)), come(size) {}

  bool complete() const {
    return std::count(come.begin(), come.end(), true) ==
           static_cast<ptrdiff_t>(come.size());
  }

  absl::Status Missing() const {
    std::vector<int> missing;
    for (size_t rank = 0; rank < come.size(); ++rank) {
      if (!come[rank]) missing.push_back(static_cast<int>(rank));
    }
    const absl::Status late = absl::DeadlineExceededError(
        absl::StrCat("no connection from rank ", absl::StrJoin(missing, ", ")));
    return missing.size() == 1 ? WithFailedPeer(late, missing[0]) : late;
  }

  const std::shared_ptr<LocalExchange> room;
  std::vector<bool> come;
};

// All groups that are connecting, by the handles of their members.
class InprocHub::Rendezvouses {
 public:
  uint64_t NextNumber() {
    MutexLock lock(&mutex_);
    return ++numbers_;
  }

  // Blocks until all members have called it, `deadline` has passed, or
  // `aborted` is not OK.
  absl::StatusOr<std::shared_ptr<LocalExchange>> Meet(
      const std::string& key, const GroupSpec& group, const Deadline& deadline,
      const absl::Status& aborted) {
    MutexLock lock(&mutex_);
    std::shared_ptr<InprocRendezvous>& entry = rendezvous_[key];
    if (entry == nullptr)
      entry = std::make_shared<InprocRendezvous>(group.size);
    const std::shared_ptr<InprocRendezvous> rendezvous = entry;
    rendezvous->come[group.rank] = true;
    if (rendezvous->complete()) rendezvous_.erase(key);
    changed_.NotifyAll();
    while (!rendezvous->complete() && !deadline.Passed() && aborted.ok()) {
      changed_.WaitFor(&mutex_, deadline.Left());
    }
    if (!aborted.ok()) return aborted;
    if (!rendezvous->complete()) return rendezvous->Missing();
    return rendezvous->room;
  }

  // Sets `*aborted`, which a Meet may wait for, unless it is set.
  void Abort(absl::Status cause, absl::Status* aborted) {
    MutexLock lock(&mutex_);
    if (aborted->ok()) *aborted = std::move(cause);
    changed_.NotifyAll();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  uint64_t numbers_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, std::shared_ptr<InprocRendezvous>> rendezvous_
      ABSL_GUARDED_BY(mutex_);
};

InprocHub::InprocHub() : rendezvous_(std::make_unique<Rendezvouses>()) {}
InprocHub::~InprocHub() = default;

namespace {

class PendingInprocLink final : public PendingLink {
 public:
  PendingInprocLink(InprocHub::Rendezvouses* meetings, const GroupSpec& group)
      : rendezvous_(meetings),
        group_(group),
        handle_(absl::StrCat("inproc ", group.rank, "/", group.size, " #",
                             meetings->NextNumber())) {}

  const std::string& handle() const override { return handle_; }

  absl::Status Connect(const std::vector<std::string>& handles,
                       const Deadline& deadline) override {
    for (int rank = 0; rank < group_.size; ++rank) {
      absl::Status checked = CheckHandle(handles[rank], rank);
      if (!checked.ok()) return checked;
    }
    absl::StatusOr<std::shared_ptr<LocalExchange>> room = rendezvous_->Meet(
        absl::StrJoin(handles, "\n"), group_, deadline, aborted_);
    if (!room.ok()) return std::move(room).status();
    MutexLock lock(&mutex_);
    link_ = MakeInprocLink(*std::move(room), group_.rank, group_.size);
    return absl::OkStatus();
  }

  Link& link() override { return *link_; }
  std::unique_ptr<Link> Take() override { return std::move(link_); }

  void Abort() override {
    rendezvous_->Abort(absl::CancelledError("the group was aborted"),
                       &aborted_);
    MutexLock lock(&mutex_);
    if (link_ != nullptr) link_->Shutdown(link_->rank());
  }

 private:
  absl::Status CheckHandle(const std::string& handle, int rank) const {
    const std::string expected =
        absl::StrCat("inproc ", rank, "/", group_.size, " #");
    if (absl::StartsWith(handle, expected)) return absl::OkStatus();
    return WithFailedPeer(
        absl::InvalidArgumentError(
            absl::StrCat("group '", group_.name, "': '", handle,
                         "' is no handle of rank ", rank, " of ", group_.size)),
        rank);
  }

  InprocHub::Rendezvouses* const rendezvous_;
  const GroupSpec group_;
  const std::string handle_;
  absl::Status aborted_;  // guarded by the mutex of Rendezvouses
  Mutex mutex_;
  std::unique_ptr<Link> link_;  // set under mutex_
};

class InprocLinks final : public LinkFactory {
 public:
  explicit InprocLinks(InprocHub* hub) : hub_(hub) {}

  std::string_view name() const override { return "inproc"; }

  absl::StatusOr<std::unique_ptr<PendingLink>> Prepare(
      const GroupSpec& group) override {
    return std::make_unique<PendingInprocLink>(&hub_->meetings(), group);
  }

 private:
  InprocHub* const hub_;
};

}  // namespace

std::unique_ptr<LinkFactory> MakeInprocLinks(InprocHub* hub) {
  return std::make_unique<InprocLinks>(hub);
}

std::unique_ptr<Transport> MakeInprocTransport(InprocHub* hub) {
  return MakeLinkTransport(MakeInprocLinks(hub));
}

}  // namespace lockstep::transport
