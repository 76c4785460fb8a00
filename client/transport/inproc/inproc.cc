#include "client/transport/inproc/inproc.h"

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
#include "client/transport/blame.h"
#include "client/transport/group_check.h"
#include "client/transport/host_communicator.h"
#include "client/transport/inproc/room.h"

namespace lockstep::transport {
namespace {

// A group whose members are still coming.
struct Meeting {
  explicit Meeting(int size) : room(std::make_shared<Room>(size)), come(size) {}

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
    return missing.size() == 1 ? Blame(late, missing[0]) : late;
  }

  const std::shared_ptr<Room> room;
  std::vector<bool> come;
};

}  // namespace

// All groups that are meeting, by the handles of their members.
class InprocHub::Meetings {
 public:
  uint64_t NextNumber() {
    MutexLock lock(&mutex_);
    return ++numbers_;
  }

  // Blocks until all have come, `deadline` passed, or `aborted` is not OK.
  absl::StatusOr<std::shared_ptr<Room>> Meet(const std::string& key,
                                             const GroupSpec& group,
                                             const Deadline& deadline,
                                             const absl::Status& aborted) {
    MutexLock lock(&mutex_);
    std::shared_ptr<Meeting>& entry = meetings_[key];
    if (entry == nullptr) entry = std::make_shared<Meeting>(group.size);
    const std::shared_ptr<Meeting> meeting = entry;
    meeting->come[group.rank] = true;
    if (meeting->complete()) meetings_.erase(key);
    changed_.NotifyAll();
    while (!meeting->complete() && !deadline.Passed() && aborted.ok()) {
      changed_.WaitFor(&mutex_, deadline.Left());
    }
    if (!aborted.ok()) return aborted;
    if (!meeting->complete()) return meeting->Missing();
    return meeting->room;
  }

  // Sets `*aborted`, which Meet may be looking at, unless it is set.
  void Abort(absl::Status cause, absl::Status* aborted) {
    MutexLock lock(&mutex_);
    if (aborted->ok()) *aborted = std::move(cause);
    changed_.NotifyAll();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  uint64_t numbers_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, std::shared_ptr<Meeting>> meetings_
      ABSL_GUARDED_BY(mutex_);
};

InprocHub::InprocHub() : meetings_(std::make_unique<Meetings>()) {}
InprocHub::~InprocHub() = default;

namespace {

class InprocGroup final : public PendingGroup {
 public:
  InprocGroup(InprocHub::Meetings* meetings, const GroupSpec& group)
      : meetings_(meetings),
        group_(group),
        handle_(absl::StrCat("inproc ", group.rank, "/", group.size, " #",
                             meetings->NextNumber())) {}

  const std::string& handle() const override { return handle_; }

  absl::StatusOr<std::unique_ptr<Communicator>> Connect(
      const std::vector<std::string>& handles,
      absl::Duration timeout) override {
    absl::Status checked = CheckHandles(group_, handles, handle_);
    for (int rank = 0; checked.ok() && rank < group_.size; ++rank) {
      checked.Update(CheckHandle(handles[rank], rank));
    }
    if (!checked.ok()) return checked;
    absl::StatusOr<std::shared_ptr<Room>> room = meetings_->Meet(
        absl::StrJoin(handles, "\n"), group_, Deadline(timeout), aborted_);
    if (!room.ok()) return std::move(room).status();
    return MakeHostCommunicator(
        group_, MakeInprocLink(*std::move(room), group_.rank, group_.size));
  }

  void Abort(std::string_view cause) override {
    meetings_->Abort(
        absl::AbortedError(absl::string_view(cause.data(), cause.size())),
        &aborted_);
  }

 private:
  absl::Status CheckHandle(const std::string& handle, int rank) const {
    const std::string expected =
        absl::StrCat("inproc ", rank, "/", group_.size, " #");
    if (absl::StartsWith(handle, expected)) return absl::OkStatus();
    return Blame(absl::InvalidArgumentError(absl::StrCat(
                     "group '", group_.name, "': '", handle,
                     "' is no handle of rank ", rank, " of ", group_.size)),
                 rank);
  }

  InprocHub::Meetings* const meetings_;
  const GroupSpec group_;
  const std::string handle_;
  absl::Status aborted_;  // guarded by the meetings' mutex
};

class InprocTransport final : public Transport {
 public:
  explicit InprocTransport(InprocHub* hub) : hub_(hub) {}

  std::string_view name() const override { return "inproc"; }

  absl::StatusOr<std::unique_ptr<PendingGroup>> Prepare(
      const GroupSpec& group) override {
    if (absl::Status checked = CheckGroup(group); !checked.ok()) return checked;
    return std::make_unique<InprocGroup>(&hub_->meetings(), group);
  }

 private:
  InprocHub* const hub_;
};

}  // namespace

std::unique_ptr<Transport> MakeInprocTransport(InprocHub* hub) {
  return std::make_unique<InprocTransport>(hub);
}

}  // namespace lockstep::transport
