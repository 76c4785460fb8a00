// The latency of a decision in negotiated mode, compared to a bare gRPC server
// that answers N streams once the last has written: the same client, the same
// messages, N streams each, in alternating rounds.
//
//   all but one rank have submitted ── 1 ms ──▶ the last writes     t0
//                                               all N have received t1
//
//   streams   ours p50    p99   bare p50    p99   ratio of the medians
//
// Usage: negotiate_bench [ROUNDS]

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "bench/bare_server.h"
#include "lockstep/v1/session.grpc.pb.h"
#include "plan/ir.h"
#include "proto/codec.h"
#include "proto/plan_chunks.h"
#include "tools/launch/local_daemon.h"
#include "tools/launch/supervisor.h"

namespace lockstep::bench {
namespace {

using Clock = std::chrono::steady_clock;

// --- One rank's stream ------------------------------------------------------

class Line {
 public:
  Line(const std::shared_ptr<grpc::Channel>& channel, std::string job)
      : stub_(v1::Coordinator::NewStub(channel)),
        job_(std::move(job)),
        stream_(stub_->Session(&call_)) {}

  void Post(protocol::ToCoordinatorBody body) {
    Check(stream_->Write(proto::ToProto(protocol::ToCoordinator{
              .job = {job_}, .epoch = epoch_, .body = std::move(body)})),
          "the stream ended");
  }

  // Returns the next message of this kind.
  template <typename Body>
  Body Receive() {
    v1::ToWorker wire;
    while (stream_->Read(&wire)) {
      auto message = proto::FromProto(wire);
      Check(message.ok(), "a message does not decode");
      if (message->epoch.value != 0) epoch_ = message->epoch;
      if (auto* body = std::get_if<Body>(&message->body)) {
        return std::move(*body);
      }
    }
    Fatal("the stream ended");
  }

  EpochId epoch() const { return epoch_; }

 private:
  std::unique_ptr<v1::Coordinator::Stub> stub_;
  const std::string job_;
  EpochId epoch_;
  grpc::ClientContext call_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::ToCoordinator, v1::ToWorker>>
      stream_;
};

using Lines = std::vector<std::unique_ptr<Line>>;

std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address) {
  return grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
}

Lines Open(const std::shared_ptr<grpc::Channel>& channel, int streams) {
  const std::string job = absl::StrCat("bench-", streams);
  Lines lines;
  for (int i = 0; i < streams; ++i) {
    lines.push_back(std::make_unique<Line>(channel, job));
  }
  return lines;
}

// --- A job in negotiated mode, up to its first pass -------------------------

plan::Plan FetchPlan(const std::shared_ptr<grpc::Channel>& channel,
                     const std::string& job, const std::string& token,
                     const std::string& digest) {
  const auto stub = v1::Coordinator::NewStub(channel);
  v1::FetchPlanRequest request;
  request.mutable_header()->set_job(job);
  request.set_token(token);
  request.set_digest(digest);
  grpc::ClientContext call;
  const auto chunks = stub->FetchPlan(&call, request);
  proto::PlanAssembler assembler;
  for (v1::PlanChunk chunk; chunks->Read(&chunk);) {
    Check(assembler.Add(chunk).ok(), "a chunk of the plan is damaged");
  }
  auto plan = assembler.Finish();
  Check(plan.ok(), "the plan could not be fetched");
  return *std::move(plan);
}

void Form(const std::shared_ptr<grpc::Channel>& channel,
          const std::string& token, Lines& lines) {
  JobSpec spec{.name = absl::StrCat("bench-", lines.size()),
               .mesh = {{{"data", static_cast<int>(lines.size())}}},
               .sync = SyncMode::kNegotiated};
  for (size_t i = 0; i < lines.size(); ++i) {
    lines[i]->Post(protocol::Hello{.worker = {absl::StrCat("w-", i)},
                                   .incarnation = i + 1,
                                   .spec = spec,
                                   .token = token,
                                   .process = {.host = "bench", .pid = 1}});
  }
  for (auto& line : lines) {
    line->Receive<protocol::EpochFormed>();
    line->Post(protocol::RegisterChunk{
        .last = true, .parameters = {{.name = "w", .shape = {4}}}});
  }
  for (auto& line : lines) {
    const auto ready = line->Receive<protocol::PlanReady>();
    const plan::Plan plan = FetchPlan(channel, spec.name, token, ready.digest);
    line->Post(protocol::PlanAck{ready.revision, ready.digest});
    protocol::PublishHandles publish;
    for (size_t c = 0; c < plan.communicators.size(); ++c) {
      publish.handles.push_back({static_cast<int>(c), "handle"});
    }
    line->Post(publish);
  }
  for (auto& line : lines) {
    line->Receive<protocol::GroupHandles>();
    line->Post(protocol::Connected{});
  }
  for (auto& line : lines) line->Receive<protocol::Start>();
}

// --- Rounds -----------------------------------------------------------------

// Seconds from the last message sent to the last answer received.
double Decide(Lines& lines, const protocol::ToCoordinatorBody& word) {
  for (size_t i = 0; i + 1 < lines.size(); ++i) lines[i]->Post(word);
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const auto begin = Clock::now();
  lines.back()->Post(word);
  for (auto& line : lines) {
    Check(!line->Receive<protocol::Decide>().decisions.empty(), "no decision");
  }
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double OurRound(Lines& lines, uint64_t pass) {
  for (auto& line : lines) line->Post(protocol::Announce{pass, {0}});
  return Decide(lines, protocol::Submitted{pass, {0}});
}

double BareRound(Lines& lines, uint64_t pass) {
  return Decide(lines, protocol::Submitted{pass, {0}});
}

double Quantile(std::vector<double> values, double q) {
  const auto at =
      values.begin() +
      static_cast<ptrdiff_t>(q * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

void Compare(Lines& ours, Lines& bare, int rounds) {
  constexpr int kWarmUp = 50;
  std::vector<double> our_seconds, bare_seconds;
  for (int round = 0; round < kWarmUp + rounds; ++round) {
    const double our = OurRound(ours, round);
    const double their = BareRound(bare, round);
    if (round < kWarmUp) continue;
    our_seconds.push_back(our);
    bare_seconds.push_back(their);
  }
  const double our = Quantile(our_seconds, 0.5);
  const double their = Quantile(bare_seconds, 0.5);
  std::printf("%7zu  %7.0f %7.0f  %7.0f %7.0f  %6.2f\n", ours.size(), our * 1e6,
              Quantile(our_seconds, 0.99) * 1e6, their * 1e6,
              Quantile(bare_seconds, 0.99) * 1e6, our / their);
  std::fflush(stdout);
}

int Run(int rounds) {
  constexpr int kStreams[] = {2, 8, 32};
  std::vector<int> bare_ports;
  for (const int streams : kStreams) {
    bare_ports.push_back(StartBareServer(streams));
  }
  launch::Supervisor supervisor({});
  const auto daemon = launch::StartLocalDaemon(supervisor);
  Check(daemon.ok(), "lockstepd does not start");

  std::printf("a decision, in us, %d rounds\n", rounds);
  std::printf("streams  ours p50     p99  bare p50    p99   ratio\n");
  const auto our_channel = ChannelTo(daemon->address);
  for (size_t i = 0; i < std::size(kStreams); ++i) {
    const auto bare_channel =
        ChannelTo(absl::StrCat("127.0.0.1:", bare_ports[i]));
    Lines ours = Open(our_channel, kStreams[i]);
    Lines bare = Open(bare_channel, kStreams[i]);
    Form(our_channel, daemon->worker_token, ours);
    Compare(ours, bare, rounds);
  }
  return 0;
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 2000;
  if (rounds < 1) {
    std::fprintf(stderr, "usage: negotiate_bench [ROUNDS]\n");
    return 2;
  }
  return lockstep::bench::Run(rounds);
}
