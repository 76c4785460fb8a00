// A worker that fails on request, and prints the result.
//
//   trouble_worker STEPS [die=N] [fail=N] [stop=N] [vanish=N] [shape=K]
//   [wrong_calls]
//
//   die=N          raises SIGKILL before step N
//   stop=N         raises SIGSTOP before step N
//   hang=N         does not submit in step N, and lives, until it is killed
//   fail=N         reports a failure of its own at step N
//   vanish=N       exits at step N without leaving
//   skip=N         skips step N: neither Submit nor Finish
//   unfinished=N   omits the Finish of step N
//   shape=K        registers its parameter with K elements instead of 4
//   name=NAME      the parameter's name, instead of w
//   quiet=N        prints no more positions from step N on
//   compute=MS     sleeps MS milliseconds in each step before it submits
//   files=N        may have N open files, from the beginning
//   wrong_calls    makes every wrong call first, and prints the results
//
// In negotiated mode it announces its parameter in each step.
//
// Prints "at N" before each step, "last N" if the verdict of step N is the last
// of all ranks, then "done" or "error CODE: message".

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "lockstep/gradient_sync.h"
#include "lockstep/session.h"

namespace {

using lockstep::GradientSync;
using lockstep::Session;

struct Orders {
  int steps = 0;
  std::map<std::string, std::string> words;

  bool Has(const std::string& word) const { return words.count(word) > 0; }
  bool At(const std::string& word, int step) const {
    const auto it = words.find(word);
    return it != words.end() && std::atoi(it->second.c_str()) == step;
  }
  std::string Get(const std::string& word, const std::string& otherwise) const {
    const auto it = words.find(word);
    return it == words.end() ? otherwise : it->second;
  }
};

Orders Parse(int argc, char** argv) {
  Orders orders;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const size_t equals = word.find('=');
    if (i == 1) {
      orders.steps = std::atoi(argv[1]);
    } else {
      orders.words[word.substr(0, equals)] =
          equals == std::string::npos ? "" : word.substr(equals + 1);
    }
  }
  return orders;
}

// Inherited files do not count.
void LimitFiles(int most) {
  close_range(STDERR_FILENO + 1, ~0U, 0);
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = static_cast<rlim_t>(most);
  setrlimit(RLIMIT_NOFILE, &files);
}

void Log(const std::string& what, const absl::Status& status) {
  std::printf("%s: %s\n", what.c_str(),
              absl::StatusCodeToString(status.code()).c_str());
  std::fflush(stdout);
}

void MakeWrongRegistrations(GradientSync& sync) {
  Log("duplicate", sync.Register({.name = "w", .shape = {4}}).status());
  Log("integer",
      sync.Register({.name = "i", .dtype = lockstep::DType::kI32}).status());
  Log("axis", sync.Register({.name = "a", .axes = {"nowhere"}}).status());
  Log("unsealed", sync.Finish().status());
}

void MakeWrongCalls(GradientSync& sync, lockstep::ParameterId id) {
  const float buffer[4] = {};
  Log("late", sync.Register({.name = "late"}).status());
  Log("unknown", sync.Submit({17}));
  Log("size", sync.Submit(id, buffer, sizeof buffer - 1));
  Log("submit", sync.Submit(id));
  Log("twice", sync.Submit(id));
}

absl::Status Train(Session& session, const Orders& orders) {
  auto sync = GradientSync::Create(session);
  if (!sync.ok()) return sync.status();
  auto id = (*sync)->Register(
      {.name = orders.Get("name", "w"),
       .shape = {std::atoi(orders.Get("shape", "4").c_str())}});
  if (!id.ok()) return id.status();
  if (orders.Has("wrong_calls")) MakeWrongRegistrations(**sync);
  if (absl::Status sealed = (*sync)->Seal(); !sealed.ok()) return sealed;

  const int quiet_from = std::atoi(orders.Get("quiet", "2147483647").c_str());
  const auto compute_us =
      static_cast<useconds_t>(std::atoi(orders.Get("compute", "0").c_str())) *
      1000;
  for (int step = 0; step < orders.steps; ++step) {
    if (step < quiet_from) std::printf("at %d\n", step);
    std::fflush(stdout);
    if (orders.At("die", step)) raise(SIGKILL);
    if (orders.At("stop", step)) raise(SIGSTOP);
    if (orders.At("vanish", step)) _exit(0);
    while (orders.At("hang", step)) pause();
    if (orders.At("fail", step)) {
      session.ReportFailure("forward",
                            absl::InternalError("the loss is not a number"));
    }
    if (orders.At("skip", step)) continue;
    if (compute_us > 0) usleep(compute_us);
    if (session.spec().sync == lockstep::SyncMode::kNegotiated) {
      if (absl::Status s = (*sync)->BeginPass({*id}); !s.ok()) return s;
    }
    if (step == 0 && orders.Has("wrong_calls")) {
      MakeWrongCalls(**sync, *id);
    } else if (absl::Status s = (*sync)->Submit(*id); !s.ok()) {
      return s;
    }
    if (orders.At("unfinished", step)) continue;
    auto verdict = (*sync)->Finish({.samples = 1});
    if (!verdict.ok()) return verdict.status();
    if (verdict->IsLast()) {
      std::printf("last %d\n", step);
      break;
    }
  }
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  const Orders orders = Parse(argc, argv);
  if (orders.Has("files")) {
    LimitFiles(std::atoi(orders.Get("files", "").c_str()));
  }
  auto session = Session::Join({});
  absl::Status status = session.status();
  if (status.ok()) status = Train(**session, orders);
  if (status.ok()) status = (*session)->Leave();
  if (status.ok()) {
    std::puts("done");
    return 0;
  }
  std::printf("error %s: %s\n", absl::StatusCodeToString(status.code()).c_str(),
              std::string(status.message()).c_str());
  return 1;
}
