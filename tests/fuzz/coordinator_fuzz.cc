// The coordinator's core against hostile workers and operators: any messages
// that the codec passes, on any streams, in any order and at any time. It may
// refuse them; it may not abort, and its records must give the same state
// again.
//
//   | event | fields | event | fields | ...

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "plan/ir.h"
#include "proto/codec.h"
#include "proto/plan_chunks.h"
#include "server/core/coordinator.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_source.h"

namespace lockstep::fuzz {
namespace {

using core::Coordinator;
using core::SessionId;

constexpr int kEventsMax = 200;
constexpr int kSessions = 6;

class History {
 public:
  explicit History(FuzzInput* input) : input_(*input), source_(input) {}

  void Run() {
    for (int i = 0; i < kEventsMax && !input_.empty(); ++i) Next();
    Look();
    Coordinator replayed({});
    for (const record::Record& record : records_) {
      const auto read = proto::ParseRecord(proto::RecordBytes(record));
      Require(read.ok(), "a record of the coordinator is read");
      Require(replayed.Replay(*read).ok(), "its records can be replayed");
    }
    Require(replayed.durable() == core_.durable(),
            "a replay gives the same state");
  }

 private:
  // What a stream's worker learned, as a real one would.
  struct Stream {
    std::string job = "a";
    std::string worker = "w-0";
    Generation generation;
    std::string secret;
    EpochId epoch;
    int rank = -1;
    protocol::PlanReady plan;
    uint64_t step = 0;
    uint32_t chunk = 0;
  };

  void Next() {
    switch (input_.Below(16)) {
      case 0: return SayHello();
      case 1: return Say(AnyBody());
      case 2:
      case 3:
      case 4:
      case 5:
      case 6: return GoOn();
      case 7: return Step(core::SessionClosed{AnySession(), "reset"});
      case 8: {
        now_ += absl::Milliseconds(100) * input_.Byte();
        return Step(core::TimerExpired{});
      }
      case 9: return Step(core::CreateJob{{1}, AnySpec(), AnyToken()});
      case 10: return Operate();
      case 11: return ReportEvidence();
      case 12:
      case 13: return Compile();
      case 14: return Look();
      default:
        if (input_.Byte() == 255) Step(core::ShuttingDown{});
    }
  }

  // --- Events ---------------------------------------------------------------

  void Step(const core::Event& event) {
    for (core::Effect& effect : core_.Step(now_, event)) {
      if (auto* send = std::get_if<core::Send>(&effect)) Learn(*send);
      if (auto* persist = std::get_if<core::Persist>(&effect)) {
        records_.push_back(std::move(persist->record));
      }
      if (auto* compile = std::get_if<core::Compile>(&effect)) {
        compilations_.push_back(std::move(*compile));
      }
    }
  }

  void Learn(const core::Send& send) {
    Stream& stream = streams_[send.session];
    if (send.message.epoch.value != 0) stream.epoch = send.message.epoch;
    const auto* body = &send.message.body;
    if (const auto* welcome = std::get_if<protocol::Welcome>(body)) {
      stream.generation = welcome->generation;
      if (!welcome->secret.empty()) {
        secrets_[stream.job + "/" + stream.worker] = welcome->secret;
      }
    } else if (const auto* formed = std::get_if<protocol::EpochFormed>(body)) {
      stream.rank = formed->rank;
      stream.chunk = 0;
      stream.step = formed->first_step;
    } else if (const auto* ready = std::get_if<protocol::PlanReady>(body)) {
      stream.plan = *ready;
    }
  }

  SessionId AnySession() { return {1 + input_.Number(kSessions - 1)}; }
  Stream& StreamOf(SessionId session) { return streams_[session]; }

  // As the wire permits: what the codec refuses never reaches the core.
  void Send(SessionId session, protocol::ToCoordinatorBody body) {
    const Stream& stream = StreamOf(session);
    protocol::ToCoordinator message{
        .job = {input_.Byte() % 16 == 0 ? "b" : stream.job},
        .epoch =
            input_.Byte() % 16 == 0 ? EpochId{input_.Number(8)} : stream.epoch,
        .body = std::move(body)};
    auto received = proto::FromProto(proto::ToProto(message));
    if (!received.ok()) return;
    Step(core::MessageReceived{session, *std::move(received)});
  }

  void Say(protocol::ToCoordinatorBody body) {
    Send(AnySession(), std::move(body));
  }

  protocol::ToCoordinatorBody AnyBody() {
    auto kinds = fill::EachBody<protocol::ToCoordinator>();
    protocol::ToCoordinator& message = kinds[input_.Byte() % kinds.size()];
    Fill(source_, message.body);
    return std::move(message.body);
  }

  std::string AnyToken() { return input_.Byte() % 8 == 0 ? "token" : ""; }

  JobSpec AnySpec() {
    JobSpec spec;
    if (input_.Byte() % 8 == 0) fill::Fill(source_, spec);
    spec.name = input_.Byte() % 4 == 0 ? "b" : "a";
    const int world = 1 + input_.Below(3);
    spec.mesh = {{{"data", world}}};
    const uint8_t modes = input_.Byte();
    if ((modes & 1) != 0) spec.limits.max_restarts = 3;
    if ((modes & 2) != 0) spec.elastic.axis = "data";
    if ((modes & 4) != 0) spec.limits.spares = 1;
    if ((modes & 8) != 0) spec.sync = SyncMode::kNegotiated;
    if ((modes & 16) != 0) spec.on_stuck = OnStuck::kEvict;
    if ((modes & 32) != 0) spec.buckets.rebuild = Rebuild::kOnDemand;
    if ((modes & 64) != 0) spec.checked = true;
    return spec;
  }

  void SayHello() {
    const SessionId session = AnySession();
    Stream& stream = StreamOf(session);
    stream.worker = "w-" + std::to_string(input_.Below(4));
    stream.job = input_.Byte() % 4 == 0 ? "b" : "a";
    protocol::Hello hello;
    if (input_.Byte() % 8 == 0) fill::Fill(source_, hello);
    hello.version = input_.Byte() % 64 == 0 ? 2 : protocol::kVersion;
    hello.worker = {stream.worker};
    hello.generation = {input_.Number(4)};
    hello.incarnation = input_.Number(4);
    if (input_.Byte() % 2 == 0) hello.spec = AnySpec();
    hello.token = AnyToken();
    hello.process = {.host = "h",
                     .pid = 1 + input_.Below(4),
                     .boot_id = "boot",
                     .start_time = 1};
    if (hello.generation.value != 0) {
      hello.secret = secrets_[stream.job + "/" + stream.worker];
      protocol::ResumeState& resume = hello.resume.emplace();
      resume.epoch = {input_.Number(4)};
      resume.rank = input_.Below(4) - 1;
      resume.position.step = input_.Number(8);
      const uint8_t state = input_.Byte();
      resume.started = (state & 1) != 0;
      resume.ended = (state & 2) != 0;
      resume.leaving = (state & 4) != 0;
      resume.world = input_.Below(4);
      resume.members_digest = "d";
    }
    Send(session, std::move(hello));
  }

  // The next message of a worker that follows the protocol, so that histories
  // get far.
  void GoOn() {
    const SessionId session = AnySession();
    Stream& stream = StreamOf(session);
    switch (input_.Below(8)) {
      case 0: {
        protocol::RegisterChunk chunk{.index = stream.chunk++,
                                      .last = input_.Byte() % 4 != 0};
        if (input_.Byte() % 8 == 0) {
          fill::Fill(source_, chunk.parameters);
        } else {
          chunk.parameters = {{.name = "p", .shape = {4}}};
        }
        if (input_.Byte() % 8 == 0) fill::Fill(source_, chunk.groups);
        if (input_.Byte() % 8 == 0) fill::Fill(source_, chunk.halos);
        if (input_.Byte() % 8 == 0) fill::Fill(source_, chunk.states);
        return Send(session, std::move(chunk));
      }
      case 1:
        return Send(session, protocol::PlanAck{stream.plan.revision,
                                               stream.plan.digest});
      case 2: {
        protocol::PublishHandles handles;
        for (int i = 0; i < 8; ++i) handles.handles.push_back({i, "handle"});
        handles.handles.resize(static_cast<size_t>(input_.Below(8)));
        return Send(session, std::move(handles));
      }
      case 3: return Send(session, protocol::Connected{});
      case 4: {
        stream.step += input_.Number(2);
        return Send(session,
                    protocol::Progress{
                        .position = {stream.step, protocol::Phase::kCompute}});
      }
      case 5: return Send(session, protocol::Heartbeat{});
      case 6:
        return Send(session,
                    protocol::EpochReport{
                        .position = {stream.step, protocol::Phase::kCompute}});
      default:
        return Send(session, protocol::Leave{.clean = input_.Byte() % 2 == 0,
                                             .steps = stream.step});
    }
  }

  void Operate() {
    const JobName job{input_.Byte() % 4 == 0 ? "b" : "a"};
    const std::string token = AnyToken();
    switch (input_.Below(3)) {
      case 0: return Step(core::StopJob{{2}, job, token, "why"});
      case 1:
        return Step(core::DeleteJob{{3}, job, token, input_.Byte() % 2 == 0});
      default:
        return Step(
            core::CommandJob{{4},
                             job,
                             token,
                             static_cast<JobCommand>(1 + input_.Below(6)),
                             "why"});
    }
  }

  void ReportEvidence() {
    protocol::Evidence evidence;
    fill::Fill(source_, evidence);
    evidence.subject = {"w-" + std::to_string(input_.Below(4))};
    if (input_.Byte() % 4 != 0) {
      evidence.process = {.host = "h",
                          .pid = 1 + input_.Below(4),
                          .boot_id = "boot",
                          .start_time = 1};
    }
    const auto received = proto::FromProto(proto::ToProto(evidence));
    if (!received.ok()) return;
    Step(core::ReportEvidence{{5}, {"a"}, AnyToken(), *received});
  }

  void Compile() {
    if (compilations_.empty()) return;
    core::Compile next = std::move(compilations_.front());
    compilations_.erase(compilations_.begin());
    Step(core::Compiled{next.id, next.job,
                        core::MakePlan(*next.input, {&proto::PlanBytes,
                                                     &proto::PlanFromBytes})});
  }

  void Look() {
    for (const JobSummary& job : core_.Jobs()) {
      const auto view = core_.Describe(job.name, now_);
      Require(view.ok(), "a listed job can be described");
      const auto read = proto::FromProto(proto::ToProto(*view));
      Require(read.ok(), "a view is read by clients");
    }
    Require(core_.NextWake() >= absl::UnixEpoch(), "a wake has a time");
    core_.LimitUses();
  }

  FuzzInput& input_;
  FuzzSource source_;
  Coordinator core_{{}};
  absl::Time now_ = absl::UnixEpoch() + absl::Hours(1);
  std::map<SessionId, Stream> streams_;
  std::map<std::string, std::string> secrets_;  // by job and worker
  std::vector<core::Compile> compilations_;
  std::vector<record::Record> records_;
};

}  // namespace
}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  lockstep::fuzz::FuzzInput input(data, size);
  lockstep::fuzz::History(&input).Run();
  return 0;
}
