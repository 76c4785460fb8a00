#include "bench/bench_worker.h"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

namespace lockstep::bench {

void Must(const absl::Status& status, const char* what) {
  if (status.ok()) return;
  std::fprintf(stderr, "bench: %s: %s\n", what, status.ToString().c_str());
  std::fflush(nullptr);
  std::_Exit(1);  // threads of other workers go on until then
}

void BenchWorker::Join(const JoinOptions& options, int parameters,
                       int64_t elements) {
  auto session = Session::Join(options);
  Must(session.status(), "join");
  session_ = *std::move(session);
  auto sync = GradientSync::Create(*session_);
  Must(sync.status(), "create");
  sync_ = *std::move(sync);
  for (int p = 0; p < parameters; ++p) {
    auto id =
        sync_->Register({.name = absl::StrCat("layers.", p / 10, ".weight.", p),
                         .shape = {elements}});
    Must(id.status(), "register");
    ids_.push_back(*id);
  }
  Must(sync_->Seal(), "seal");
  negotiated_ =
      options.spec.has_value() && options.spec->sync == SyncMode::kNegotiated;
}

void BenchWorker::Step() {
  if (negotiated_) Must(sync_->BeginPass(ids_), "a pass");
  for (const ParameterId& id : ids_) Must(sync_->Submit(id), "submit");
  Must(sync_->Finish({.samples = 1}).status(), "a step");
}

void BenchWorker::Leave() { Must(session_->Leave(), "leave"); }

void AllAtOnce(std::vector<BenchWorker>& workers,
               const std::function<void(BenchWorker&, int)>& work) {
  std::vector<std::thread> threads;
  for (size_t i = 0; i < workers.size(); ++i) {
    threads.emplace_back([&, i] { work(workers[i], static_cast<int>(i)); });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace lockstep::bench
