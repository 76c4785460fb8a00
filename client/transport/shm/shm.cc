#include "client/transport/shm/shm.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/deadline.h"
#include "base/mutex.h"
#include "client/transport/group_check.h"
#include "client/transport/host_communicator.h"
#include "client/transport/shm/meeting.h"
#include "client/transport/shm/shared_arena.h"
#include "client/transport/shm/shm_executor.h"

namespace lockstep::transport {
namespace {

// A rank's chunk holds a part for each rank, in whole cache lines.
Seat::Shape ShapeOf(const GroupSpec& group) {
  const bool bulk = group.traffic == Traffic::kBulk;
  const size_t unit = 64 * static_cast<size_t>(group.size);
  const size_t chunk = bulk ? 512 << 10 : 64 << 10;
  return {.size = group.size,
          .chunk_bytes = (chunk + unit - 1) / unit * unit,
          .block_bytes = static_cast<size_t>(bulk ? 128 << 10 : 16 << 10)};
}

class ShmGroup final : public PendingGroup {
 public:
  ShmGroup(const GroupSpec& group, std::unique_ptr<Meeting> meeting,
           std::shared_ptr<ArenaBook> book,
           std::chrono::nanoseconds cost_of_sleep)
      : group_(group),
        handle_(Format(meeting->handle())),
        book_(std::move(book)),
        cost_of_sleep_(cost_of_sleep),
        meeting_(std::move(meeting)) {}

  const std::string& handle() const override { return handle_; }

  absl::StatusOr<std::unique_ptr<Communicator>> Connect(
      const std::vector<std::string>& handles,
      absl::Duration timeout) override {
    const Deadline deadline(timeout);
    absl::Status open = Open();
    open.Update(CheckHandles(group_, handles, handle_));
    if (!open.ok()) return open;
    absl::StatusOr<std::vector<Peer>> peers = meeting_->Meet(handles, deadline);
    Close();
    if (absl::Status still = aborted(); !still.ok()) return still;
    if (!peers.ok()) return std::move(peers).status();
    const Patience patience =
        PatienceOf(group_.size, CoresOf(*peers), cost_of_sleep_);
    return MakeHostCommunicator(
        group_, MakeShmExecutor(std::make_unique<Board>(
                    group_.rank, *std::move(peers), book_, patience)));
  }

  void Abort(std::string_view cause) override {
    MutexLock lock(&mutex_);
    if (!aborted_.ok()) return;
    aborted_ =
        absl::AbortedError(absl::string_view(cause.data(), cause.size()));
    if (meeting_ != nullptr) meeting_->Abort();
  }

 private:
  absl::Status aborted() {
    MutexLock lock(&mutex_);
    return aborted_;
  }

  absl::Status Open() {
    MutexLock lock(&mutex_);
    if (!aborted_.ok()) return aborted_;
    if (meeting_ != nullptr) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat("group '", group_.name, "' has been connected before"));
  }

  void Close() {
    MutexLock lock(&mutex_);
    meeting_ = nullptr;
  }

  const GroupSpec group_;
  const std::string handle_;
  const std::shared_ptr<ArenaBook> book_;
  const std::chrono::nanoseconds cost_of_sleep_;
  Mutex mutex_;
  absl::Status aborted_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Meeting> meeting_;  // taken under mutex_, by Connect alone
};

class ShmTransport final : public Transport {
 public:
  std::string_view name() const override { return "shm"; }

  absl::StatusOr<std::unique_ptr<PendingGroup>> Prepare(
      const GroupSpec& group) override {
    if (absl::Status checked = CheckGroup(group); !checked.ok()) return checked;
    if (group.size > kRanksMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("group '", group.name, "' has ", group.size,
                       " ranks; transport 'shm' connects at most ", kRanksMax));
    }
    absl::StatusOr<std::unique_ptr<Meeting>> meeting =
        Meeting::Open(group.rank, ShapeOf(group));
    if (!meeting.ok()) return std::move(meeting).status();
    return std::make_unique<ShmGroup>(group, *std::move(meeting), book_,
                                      cost_of_sleep_);
  }

  std::unique_ptr<Arena> MakeArena() override { return MakeSharedArena(book_); }

 private:
  const std::shared_ptr<ArenaBook> book_ = std::make_shared<ArenaBook>();
  const std::chrono::nanoseconds cost_of_sleep_ = CostOfSleep();
};

}  // namespace

std::unique_ptr<Transport> MakeShmTransport() {
  return std::make_unique<ShmTransport>();
}

}  // namespace lockstep::transport
