// The part of Job about joining, resuming and messages of workers.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "server/core/commands.h"
#include "server/core/evidence.h"
#include "server/core/job.h"
#include "server/core/status_text.h"
#include "server/core/token.h"

namespace lockstep::core {

using protocol::CauseKind;

// --- Joining ----------------------------------------------------------------

void Job::OnHello(SessionId session, const protocol::Hello& hello,
                  EventContext& context) {
  const auto refuse = [&](const absl::Status& status) {
    context.out.Refuse(session, name(), status);
  };
  if (!TokenOpens(hello.token, durable_.token_hash)) {
    return refuse(absl::PermissionDeniedError(
        absl::StrFormat("the token of %s is not that of job %s",
                        hello.worker.value, spec().name)));
  }
  if (over()) return GreetAfterEnd(session, hello, context);
  if (hello.spec) {
    const absl::Status same = SameSpec(spec(), *hello.spec, hello.worker);
    if (!same.ok()) return refuse(same);
  }

  const Admission admission =
      Admit(AdmissionStateOf(hello.worker), hello, context.now);
  if (const auto* refusal = std::get_if<absl::Status>(&admission)) {
    return refuse(*refusal);
  }
  if (const auto* stranger = std::get_if<Stranger>(&admission)) {
    return context.out.Close(session, stranger->why);
  }
  if (std::holds_alternative<NewIncarnation>(admission)) {
    const absl::Status may =
        context.limits.AdmitJoin(spec(), hello.worker, &joins_, context.now);
    if (!may.ok()) return context.out.Close(session, may);
    BeginLife(session, hello, context);
  } else {
    ContinueLife(session, hello, context);
  }
}

// Tells a worker how the last epoch ended, if it was a member or has been in no
// epoch since.
void Job::GreetAfterEnd(SessionId session, const protocol::Hello& hello,
                        EventContext& context) {
  const Admission admission =
      Admit(AdmissionStateOf(hello.worker), hello, context.now);
  if (const auto* stranger = std::get_if<Stranger>(&admission)) {
    return context.out.Close(session, stranger->why);
  }
  Worker* worker = roster_.Find(hello.worker);
  const bool is_known = worker != nullptr && hello.generation.value != 0 &&
                        std::holds_alternative<SameIncarnation>(admission);
  if (!is_known || !hello.resume) {
    return context.out.Refuse(session, name(), Over());
  }
  Attach(worker, session, hello, {.resumed = true}, context);
  if (worker->state == WorkerState::kLeft) {
    SendTo(*worker, protocol::Left{}, context);
    return Detach(worker, absl::OkStatus(), context);
  }
  context.out.Send(session, name(), hello.resume->epoch,
                   protocol::EpochEnded{durable_.ended->cause, /*final=*/true});
}

void Job::BeginLife(SessionId session, const protocol::Hello& hello,
                    EventContext& context) {
  if (Worker* old = roster_.Find(hello.worker)) {
    if (IsMember(*old)) {
      Lose(CauseKind::kReplaced,
           {{old, absl::StrFormat(
                      "lost its stream (%s), and a new incarnation of it "
                      "(host %s, pid %d) took its place",
                      old->broke, hello.process.host, hello.process.pid)}},
           context);
      if (over()) return context.out.Refuse(session, name(), Over());
    }
    if (old->session == session) old->session = {};
    Detach(old,
           absl::AbortedError(absl::StrFormat(
               "generation %d of %s is over: a new incarnation took the name",
               old->generation.value, old->name.value)),
           context);
  }
  const Generation generation{
      AdmissionStateOf(hello.worker).newest.generation.value + 1};
  std::string secret =
      GiveSecret(hello.worker, generation, hello.incarnation, context);
  Worker& worker =
      roster_.Begin(hello.worker, generation, hello.process, context.now);
  worker.held = ClaimedState(hello.worker, hello, context);
  Attach(&worker, session, hello, {.secret = std::move(secret)}, context);
  JoinAgain(&worker, context);
}

// The record stores only the hash: an incarnation that did not receive its
// secret gets a new one.
std::string Job::GiveSecret(const WorkerName& worker, Generation generation,
                            uint64_t incarnation, EventContext& context) {
  std::string secret = context.secrets.Draw();
  context.out.Record(name(),
                     record::GenerationAssigned{worker, generation, incarnation,
                                                Sha256(secret)});
  return secret;
}

void Job::ContinueLife(SessionId session, const protocol::Hello& hello,
                       EventContext& context) {
  Worker* worker = roster_.Find(hello.worker);
  if (worker == nullptr) {  // known from before a coordinator restart
    worker = &roster_.Begin(hello.worker,
                            AdmissionStateOf(hello.worker).newest.generation,
                            hello.process, context.now);
    roster_.Move(worker, WorkerState::kLost);
  }
  const bool member = IsMember(*worker);
  const bool is_here = worker->arrived;
  const bool left = worker->state == WorkerState::kLeft;
  const EpochId held = hello.resume ? hello.resume->epoch : EpochId{};
  const bool missed_the_end =
      !member && !is_here && !left && held.value != 0 && held <= durable_.epoch;
  const bool comes_again = !member && !is_here && !left && !missed_the_end;
  if (comes_again && !worker->holds_rank()) {
    const AdmissionState state = AdmissionStateOf(hello.worker);
    if (!HasPlace(state)) {
      return context.out.Refuse(session, name(),
                                Full(state, hello.worker, context.now));
    }
    roster_.Move(worker, WorkerState::kJoining);
  }

  protocol::Welcome welcome{.resumed = true};
  if (hello.generation.value == 0) {
    welcome.secret = GiveSecret(worker->name, worker->generation,
                                hello.incarnation, context);
  }
  Attach(worker, session, hello, std::move(welcome), context);
  if (left) {
    SendTo(*worker, protocol::Left{}, context);
    Detach(worker, absl::OkStatus(), context);
  } else if (member) {
    EndIf(epoch_->Resume(RankOf(*worker), hello, context), context);
    ReviseGrowth(context);
  } else if (missed_the_end && !epoch_ &&
             Wants(durable_.wanted, Command::kDrain)) {
    context.out.Send(session, name(), held,
                     protocol::EpochEnded{durable_.cause, /*final=*/true});
    Detach(worker, absl::OkStatus(), context);
  } else if (missed_the_end) {
    context.out.Send(session, name(), held,
                     protocol::EpochEnded{durable_.cause, /*final=*/false});
    if (held == durable_.epoch && durable_.recovery) {
      context.out.Send(session, name(), held, *durable_.recovery);
    }
    // The others went on without it: it holds nothing that they need.
    if (held < durable_.epoch) {
      context.out.Send(
          session, name(), held,
          protocol::RecoveryDecision{.steps = durable_.first_step});
    }
  } else if (comes_again) {
    worker->held = ClaimedState(hello.worker, hello, context);
    JoinAgain(worker, context);
  } else {
    TryForm(context);
    ReviseGrowth(context);
  }
}

// Completes and sends `welcome`.
void Job::Attach(Worker* worker, SessionId session,
                 const protocol::Hello& hello, protocol::Welcome welcome,
                 EventContext& context) {
  if (worker->session != session) {
    context.out.Close(worker->session, absl::AbortedError(absl::StrFormat(
                                           "%s speaks on another stream now",
                                           worker->name.value)));
  }
  context.out.Bind(session, {name(), worker->name});
  worker->session = session;
  worker->awaited = false;
  worker->process = hello.process;
  worker->watch_address = hello.watch_address;
  worker->launch = hello.launch;
  worker->heard = context.now;
  worker->trains_unheard = false;
  resumes_.Clear(worker->name);
  if (worker->state == WorkerState::kSuspect) {
    const int rank = RankOf(*worker);
    const bool ready = rank >= 0 && epoch_->IsConnected(rank);
    roster_.Move(worker, ready ? WorkerState::kReady : WorkerState::kJoining);
    Remember(absl::StrFormat("%s resumes", WhoIs(*worker)), context);
  }
  if (worker->holds_rank() && !over()) {
    leases_.Set(worker->name, context.now + spec().timeouts.lease);
    pulse_ = std::min(pulse_, context.now + stopped_after_);
  }
  welcome.generation = worker->generation;
  welcome.spec = spec();
  SendTo(*worker, std::move(welcome), context);
}

// --- Messages ---------------------------------------------------------------

void Job::Receive(SessionId session, const WorkerName& name,
                  const protocol::ToCoordinator& message,
                  EventContext& context) {
  Worker* worker = roster_.Find(name);
  if (worker == nullptr || worker->session != session) return;
  worker->heard = context.now;
  worker->has_secret = true;
  worker->trains_unheard = false;
  if (worker->holds_rank() && !over()) {
    leases_.Set(name, context.now + spec().timeouts.lease);
  }
  if (const auto* leave = std::get_if<protocol::Leave>(&message.body)) {
    return On(worker, *leave, context);
  }
  if (const auto* report = std::get_if<protocol::EpochReport>(&message.body)) {
    if (message.epoch != durable_.epoch) return;
    if (epoch_ && IsMember(*worker)) {
      const bool grows = report->grows && durable_.wanted.growths > 0;
      grows ? EndGrown(*worker, context) : EndWith(*worker, context);
    }
    if (!epoch_) On(*worker, *report, context);
    return;
  }
  if (const auto* busy = std::get_if<protocol::Busy>(&message.body)) {
    worker->busy_until =
        busy->reason.empty() ? absl::InfinitePast() : context.now + busy->max;
  }
  if (message.epoch != durable_.epoch) return;
  if (const auto* evidence = std::get_if<protocol::Evidence>(&message.body)) {
    return OnEvidence(*evidence, name, context);
  }
  const int rank = RankOf(*worker);
  if (rank < 0) return;
  const bool could_train = MayTrain();
  EndIf(epoch_->Receive(rank, message.body, context), context);
  if (!could_train && MayTrain()) ReviseGrowth(context);
}

void Job::Take(const Compiled& event, EventContext& context) {
  if (epoch_) EndIf(epoch_->Take(event, context), context);
}

}  // namespace lockstep::core
