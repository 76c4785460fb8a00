// The admission rule, compared with a table of its own.

#include "server/core/admission.h"

#include "gtest/gtest.h"
#include "tests/server/core/coordinator_fixture.h"

namespace lockstep::core {
namespace {

enum class Holder { kNobody, kJoining, kReady, kSuspect, kLost, kLeft };
enum class Speaks {
  kNewcomer,
  kSameIncarnation,
  kNewest,
  kOlder,
  kUnknown,
  kNewestOfAnotherLife,
  kNewestWithoutSecret,
  kNewestWithAnotherSecret,
  kNewcomerWithoutLife,
  kNewestWithoutLife,
};
constexpr int kSpeakers = 10;

struct Case {
  Holder holder;
  Speaks speaks;
  bool arrived;
  bool same_process;
  bool epoch_lives;
  bool full;
  bool dead;
  bool has_secret;
};

constexpr Generation kNewest{3};

std::string Judged(const Case& c) {
  const JobSpec spec = SpecOf(2);
  const protocol::ProcessInfo process{.host = "a", .pid = 101};
  Roster roster;
  if (c.holder != Holder::kNobody) {
    Worker& worker = roster.Begin(W(1), kNewest, process, At(0));
    roster.SetArrived(&worker, c.arrived);
    switch (c.holder) {
      case Holder::kNobody:
      case Holder::kJoining: break;
      case Holder::kReady: roster.Move(&worker, WorkerState::kReady); break;
      case Holder::kSuspect: roster.Move(&worker, WorkerState::kSuspect); break;
      case Holder::kLost: roster.Move(&worker, WorkerState::kLost); break;
      case Holder::kLeft: roster.Move(&worker, WorkerState::kLeft); break;
    }
    if (c.dead) worker.exited = "signal 9";
    worker.has_secret = c.has_secret;
  }
  while (c.full && roster.ranks_held() < 2) {
    roster.Begin(W(10 + roster.ranks_held()), {1}, process, At(0));
  }

  protocol::Hello hello{.worker = W(1), .incarnation = 8, .process = process};
  if (!c.same_process) hello.process.pid = 999;
  const auto Bears = [&hello](uint64_t incarnation, const std::string& secret) {
    hello.generation = kNewest;
    hello.incarnation = incarnation;
    hello.secret = secret;
  };
  switch (c.speaks) {
    case Speaks::kNewcomer: break;
    case Speaks::kSameIncarnation: hello.incarnation = 7; break;
    case Speaks::kNewest: Bears(7, "secret"); break;
    case Speaks::kNewestOfAnotherLife: Bears(8, "secret"); break;
    case Speaks::kNewestWithoutSecret: Bears(7, ""); break;
    case Speaks::kNewestWithAnotherSecret: Bears(7, "secrets"); break;
    case Speaks::kNewcomerWithoutLife: hello.incarnation = 0; break;
    case Speaks::kNewestWithoutLife: Bears(0, "secret"); break;
    case Speaks::kOlder: hello.generation = {2}; break;
    case Speaks::kUnknown: hello.generation = {4}; break;
  }
  const Admission admission = Admit({.spec = spec,
                                     .roster = roster,
                                     .newest = {kNewest, 7, Sha256("secret")},
                                     .members = c.epoch_lives ? 2 : 0,
                                     .is_member = c.epoch_lives},
                                    hello, At(1));
  if (std::holds_alternative<NewIncarnation>(admission))
    return "new incarnation";
  if (std::holds_alternative<SameIncarnation>(admission))
    return "same incarnation";
  if (const auto* stranger = std::get_if<Stranger>(&admission)) {
    return absl::StrCat("stranger: ",
                        absl::StatusCodeToString(stranger->why.code()));
  }
  return absl::StatusCodeToString(std::get<absl::Status>(admission).code());
}

// The table of admission.h, repeated in the order of its lines.
std::string Expected(const Case& c) {
  const bool nobody = c.holder == Holder::kNobody;
  const bool gone = nobody || c.holder >= Holder::kLost;
  if (c.speaks >= Speaks::kNewcomerWithoutLife) return "INVALID_ARGUMENT";
  if (c.speaks >= Speaks::kNewestOfAnotherLife) {
    return "stranger: PERMISSION_DENIED";
  }
  if (c.speaks == Speaks::kOlder) return "FAILED_PRECONDITION";
  if (c.speaks == Speaks::kUnknown) return "stranger: FAILED_PRECONDITION";
  const bool same =
      c.speaks == Speaks::kNewest || c.speaks == Speaks::kSameIncarnation;
  if (same && c.dead && !nobody) return "FAILED_PRECONDITION";
  if (c.speaks == Speaks::kSameIncarnation && c.has_secret && !nobody)
    return "stranger: ABORTED";
  if (same) return "same incarnation";
  if (c.holder == Holder::kSuspect) return "new incarnation";
  if (!gone) {
    const bool again = !c.epoch_lives && !c.arrived && c.same_process;
    return again ? "new incarnation" : "ALREADY_EXISTS";
  }
  return c.full || c.epoch_lives ? "FAILED_PRECONDITION" : "new incarnation";
}

TEST(AdmissionTest, AgreesWithItsTableInEveryCase) {
  int cases = 0;
  for (int holder = 0; holder < 6; ++holder) {
    for (int speaks = 0; speaks < kSpeakers; ++speaks) {
      for (int bits = 0; bits < 64; ++bits) {
        const Case c{.holder = static_cast<Holder>(holder),
                     .speaks = static_cast<Speaks>(speaks),
                     .arrived = (bits & 1) != 0 && holder < 4,
                     .same_process = (bits & 2) != 0,
                     .epoch_lives = (bits & 4) != 0,
                     .full = (bits & 8) != 0,
                     .dead = (bits & 16) != 0,
                     .has_secret = (bits & 32) != 0};
        EXPECT_EQ(Judged(c), Expected(c)) << "holder " << holder << ", speaks "
                                          << speaks << ", bits " << bits;
        ++cases;
      }
    }
  }
  EXPECT_EQ(cases, 6 * kSpeakers * 64);
}

}  // namespace
}  // namespace lockstep::core
