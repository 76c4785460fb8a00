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
          registering_.push_back({member, window, outcome, Deadline(timeout)});
        });
  });
  if (absl::Status done = outcome->Wait(); !done.ok()) return done;
  return window;
}

void Launcher::Deregister(std::shared_ptr<CommState> member,
                          std::shared_ptr<Window> window) {
  const auto outcome = std::make_shared<LaunchResult>();
  Post([&](Inbox& inbox) {
    inbox.tasks.push_back([this, member = std::move(member),
                           window = std::move(window), outcome] {
      deregistering_.push_back({member, window, outcome});
    });
  });
  (void)outcome->Wait();
}

// --- The launch thread ---

void Launcher::PollRegistering() {
  registering_.erase(
      std::remove_if(registering_.begin(), registering_.end(),
                     [this](Registering& one) { return Registered(one); }),
      registering_.end());
  std::erase_if(deregistering_,
                [this](Deregistering& one) { return Deregistered(one); });
}

absl::StatusOr<bool> Launcher::IsBetweenCalls(CommState& member) {
  const auto half_made = [&](const std::deque<Operation>& queue) {
    return !queue.empty() && queue.front().enqueued &&
           queue.front().Holds(member);
  };
  if (half_made(operations_) || half_made(captured_)) return false;
  for (const Registering& other : registering_) {
    if (other.begun && other.member.get() == &member) return false;
  }
  return member.Ready();
}

bool Launcher::Deregistered(Deregistering& deregistering) {
  CommState& member = *deregistering.member;
  if (!GivenUp(member)) {
    const absl::StatusOr<bool> between = IsBetweenCalls(member);
    if (between.ok() && !*between) return false;
    if (between.ok()) {
      member.Forget(*deregistering.window);
    } else {
      Fail(member, between.status());
    }
  }
  deregistering.outcome->Set(absl::OkStatus());
  return true;
}

absl::Status Launcher::BeginRegistering(Registering* registering) {
  const absl::StatusOr<bool> between = IsBetweenCalls(*registering->member);
  if (!between.ok() || !*between) return between.status();
  registering->begun = true;
  return registering->member->BeginRegister(registering->window);
}

// A lost peer or an error ends the communicator: NCCL cannot undo a partly
// created window.
bool Launcher::Registered(Registering& registering) {
  CommState& member = *registering.member;
  absl::Status over;
  if (GivenUp(member)) {
    over = member.status();
  } else {
    absl::StatusOr<bool> ready = false;
    if (registering.begun) {
      ready = member.Ready();
    } else if (const absl::Status begun = BeginRegistering(&registering);
               !begun.ok()) {
      ready = begun;
    }
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
