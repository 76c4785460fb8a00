// The Launcher's registration of memory with NCCL.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/transport/nccl/launcher.h"

namespace lockstep::transport::nccl {

// --- From other threads ---

absl::StatusOr<std::shared_ptr<Window>> Launcher::Register(
    std::shared_ptr<CommState> member, void* memory, size_t bytes,
    absl::Duration timeout) {
  const auto outcome = std::make_shared<LaunchResult>();
  const auto window = std::make_shared<Window>(memory, bytes);
  Post([&](Inbox& inbox) {
    inbox.tasks.push_back(
        [this, member = std::move(member), window, outcome, timeout] {
          if (GivenUp(*member)) return outcome->Set(member->status());
          absl::Status begun = member->BeginRegister(window);
          if (!begun.ok()) {
            Fail(*member, begun);
            return outcome->Set(begun);
          }
          registering_.push_back({member, window, outcome, Deadline(timeout)});
        });
  });
  if (absl::Status done = outcome->Wait(); !done.ok()) return done;
  return window;
}

void Launcher::Deregister(std::shared_ptr<CommState> member,
                          std::shared_ptr<Window> window) {
  (void)Do([member, window](NcclApi&) {
    member->Forget(*window);
    return absl::OkStatus();
  });
}

// --- The launch thread ---

void Launcher::PollRegistering() {
  registering_.erase(
      std::remove_if(registering_.begin(), registering_.end(),
                     [this](Registering& one) { return Registered(one); }),
      registering_.end());
}

// A lost peer or an error ends the communicator: NCCL cannot undo a partly
// created window.
bool Launcher::Registered(Registering& registering) {
  CommState& member = *registering.member;
  absl::Status over;
  if (GivenUp(member)) {
    over = member.status();
  } else {
    const absl::StatusOr<bool> ready = member.Ready();
    if (ready.ok() && *ready) {
      member.EndRegister(*registering.window);
      registering.outcome->Set(absl::OkStatus());
      return true;
    }
    over = ready.status();
    if (over.ok() && registering.deadline.Passed()) {
      over = absl::DeadlineExceededError(
          absl::StrCat("group '", member.name(),
                       "': not all ranks made their memory known in time"));
    }
    if (over.ok()) return false;
    Fail(member, over);
  }
  registering.outcome->Set(over);
  return true;
}

}  // namespace lockstep::transport::nccl
