#include "bench/bare_server.h"

#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <vector>

#include "base/check.h"
#include "base/mutex.h"
#include "lockstep/v1/session.grpc.pb.h"
#include "proto/codec.h"

namespace lockstep::bench {
namespace {

class Stream;

// Counts the streams that have written, and answers all of them.
class Round {
 public:
  explicit Round(int streams) : streams_(streams) {
    answer_ = proto::ToProto(protocol::ToWorker{
        .job = {"bench"},
        .epoch = {1},
        .term = {1},
        .body = protocol::Decide{
            .decisions = {{.announcers = static_cast<uint32_t>(streams)},
                          {}}}});
  }
  void Enter(Stream* stream) {
    MutexLock lock(&mutex_);
    open_.push_back(stream);
  }
  void Written();
  const v1::ToWorker& answer() const { return answer_; }

 private:
  const int streams_;
  v1::ToWorker answer_;
  Mutex mutex_;
  std::vector<Stream*> open_ ABSL_GUARDED_BY(mutex_);
  int written_ ABSL_GUARDED_BY(mutex_) = 0;
};

class Stream final
    : public grpc::ServerBidiReactor<v1::ToCoordinator, v1::ToWorker> {
 public:
  explicit Stream(Round* round) : round_(round) {
    round_->Enter(this);
    StartRead(&in_);
  }
  void Answer() { StartWrite(&round_->answer()); }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::OK);
    StartRead(&in_);
    round_->Written();
  }
  void OnDone() override { delete this; }

  Round* const round_;
  v1::ToCoordinator in_;
};

void Round::Written() {
  MutexLock lock(&mutex_);
  if (++written_ < streams_) return;
  written_ = 0;
  for (Stream* stream : open_) stream->Answer();
}

class Service final : public v1::Coordinator::CallbackService {
 public:
  explicit Service(int streams) : round_(streams) {}
  grpc::ServerBidiReactor<v1::ToCoordinator, v1::ToWorker>* Session(
      grpc::CallbackServerContext*) override {
    return new Stream(&round_);
  }

 private:
  Round round_;
};

[[noreturn]] void Serve(int streams, int tell_port) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  Service service(streams);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                           &port);
  builder.RegisterService(&service);
  const auto server = builder.BuildAndStart();
  Check(write(tell_port, &port, sizeof port) == sizeof port, "nobody reads");
  server->Wait();
  _exit(0);
}

}  // namespace

int StartBareServer(int streams) {
  int ends[2];
  Check(pipe(ends) == 0, "no pipe");
  const pid_t child = fork();
  Check(child >= 0, "no process");
  if (child == 0) Serve(streams, ends[1]);
  int port = 0;
  Check(read(ends[0], &port, sizeof port) == sizeof port && port > 0,
        "the bare server does not listen");
  close(ends[0]);
  close(ends[1]);
  return port;
}

}  // namespace lockstep::bench
