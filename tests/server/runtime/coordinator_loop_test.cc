#include "server/runtime/coordinator_loop.h"

#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/runtime/fakes.h"
#include "tests/server/scripted_worker.h"
#include "tests/support/manual_clock.h"
#include "tests/support/plans_as_text.h"

namespace lockstep::runtime {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

// A worker whose stream ends in this process.
struct FakeLine final : WorkerLine {
  FakeLine(CoordinatorLoop* loop, size_t room)
      : loop(loop),
        stream(std::make_shared<FakeStream>(room)),
        session(loop->Open(stream)) {}
  void Post(const protocol::ToCoordinator& message) override {
    loop->Receive(session, message);
  }
  protocol::ToWorker Receive() override { return stream->Next(); }

  CoordinatorLoop* const loop;
  const std::shared_ptr<FakeStream> stream;
  const core::SessionId session;
};

struct SharedEyes final : Watcher {
  void Show(const JobView& view) override {
    MutexLock lock(&mutex);
    views.push_back(view);
  }
  void End(const absl::Status& status) override { ended.set_value(status); }
  size_t seen() {
    MutexLock lock(&mutex);
    return views.size();
  }
  Mutex mutex;
  std::vector<JobView> views ABSL_GUARDED_BY(mutex);
  std::promise<absl::Status> ended;
};

class CoordinatorLoopTest : public testing::Test {
 protected:
  CoordinatorLoopTest()
      : loop_({.coordinator = &coordinator_,
               .journal = std::make_unique<FakeJournal>(&disk_),
               .codec = {.record_bytes =
                             [this](const record::Record& record) {
                               return absl::StrCat(record.number,
                                                   std::string(padding_, ' '));
                             },
                         .snapshot_parts =
                             [](const record::StateSnapshot& snapshot) {
                               return std::vector<std::string>{
                                   absl::StrCat(snapshot.records)};
                             }},
               .plans = PlansAsText(),
               .clock = &clock_,
               .events = &log_,
               .metrics = &metrics_,
               .on_journal_failure = [this](const absl::Status& status) {
                 journal_failed_.set_value(status);
               }}) {}

  FakeLine& Open(size_t room = 1000) {
    lines_.push_back(std::make_unique<FakeLine>(&loop_, room));
    return *lines_.back();
  }

  // --- Queries that wait for their reply ---------
  absl::StatusOr<JobView> Describe(const JobName& job,
                                   const std::string& token = "") {
    return Await<absl::StatusOr<JobView>>(
        [&](auto reply) { loop_.DescribeJob(job, token, std::move(reply)); });
  }
  absl::Status Create(const JobSpec& spec, const std::string& token = "") {
    return Await<absl::Status>([&](auto done) {
      loop_.CreateJob(spec, {.token = token}, std::move(done));
    });
  }
  absl::StatusOr<std::shared_ptr<const plan::Plan>> FindPlan(
      const JobName& job, const std::string& digest) {
    return Await<absl::StatusOr<std::shared_ptr<const plan::Plan>>>(
        [&](auto reply) { loop_.FindPlan(job, "", digest, std::move(reply)); });
  }
  // Waits until everything posted before has been applied.
  void AwaitIdle() { (void)Describe({"no such job"}); }

  template <typename T, typename Ask>
  T Await(Ask ask) {
    std::promise<T> answered;
    ask([&](T answer) { answered.set_value(std::move(answer)); });
    return answered.get_future().get();
  }

  size_t padding_ = 0;  // of each record's bytes
  core::Coordinator coordinator_{{}};
  ManualClock clock_;
  SlowDisk disk_;
  RecordingLog log_;
  RecordingMetrics metrics_;
  std::promise<absl::Status> journal_failed_;
  std::vector<std::unique_ptr<FakeLine>> lines_;
  CoordinatorLoop loop_;
};

// A plan of many parameters takes far longer to compile than the reply to
// another worker's Hello.
TEST_F(CoordinatorLoopTest, AnotherJobIsAnsweredWhileALargePlanCompiles) {
  JobSpec large = SpecOf("large", 1);
  large.buckets.bytes_max = 1;
  FakeLine& line = Open();
  line.Post(
      {{"large"},
       {},
       {},
       protocol::Hello{.worker = {"w"}, .incarnation = 1, .spec = large}});
  line.Receive();  // Welcome
  line.Receive();  // EpochFormed
  protocol::RegisterChunk chunk{.last = true};
  for (int p = 0; p < 30'000; ++p) {
    chunk.parameters.push_back({.name = absl::StrCat("p", p), .shape = {1}});
  }
  FakeLine& other = Open();
  line.Post({{"large"}, {1}, {}, std::move(chunk)});
  other.Post(
      {{"small"},
       {},
       {},
       protocol::Hello{
           .worker = {"w"}, .incarnation = 1, .spec = SpecOf("small", 2)}});
  EXPECT_TRUE(std::holds_alternative<protocol::Welcome>(other.Receive().body));
  other.Post({{"small"}, {}, {}, protocol::Heartbeat{}});
  other.stream->WaitUntilApplied(2);
  EXPECT_EQ(line.stream->sent(), 2u) << "its plan is ready already";
  EXPECT_TRUE(std::holds_alternative<protocol::PlanReady>(line.Receive().body));
}

TEST_F(CoordinatorLoopTest, TwoWorkersJoinAndStart) {
  std::vector<ScriptedWorker> workers;
  for (const char* name : {"worker-0", "worker-1"}) {
    workers.emplace_back(&Open(), SpecOf("digits", 2), name);
  }
  for (auto& worker : workers) worker.PostHello();
  for (auto& worker : workers) worker.Register();
  for (auto& worker : workers) worker.AwaitPlan();
  const auto plan = FindPlan({"digits"}, workers[0].digest());
  ASSERT_TRUE(plan.ok()) << plan.status();
  for (auto& worker : workers) worker.Publish(**plan);
  for (auto& worker : workers) worker.Connect();
  for (auto& worker : workers) worker.AwaitStart();

  const auto view = Describe({"digits"});
  ASSERT_TRUE(view.ok());
  EXPECT_EQ(view->state, JobState::kRunning);
  EXPECT_EQ(view->workers.size(), 2u);
  EXPECT_FALSE(FindPlan({"digits"}, "another").ok());
  EXPECT_THAT(disk_.records(), testing::SizeIs(testing::Ge(5u)));
  EXPECT_EQ(metrics_.Value({"lockstep_sessions"}), 2);
  EXPECT_EQ(metrics_.Value({"lockstep_messages_received_total"}), 10);
  EXPECT_THAT(log_.lines(), Contains(HasSubstr("digits: ")));
}

TEST_F(CoordinatorLoopTest, PromisesNothingBeforeTheJournalHasIt) {
  disk_.SetQuick(false);
  FakeLine& line = Open();
  ScriptedWorker worker(&line, SpecOf("digits", 1), "worker-0");
  worker.PostHello();
  disk_.WaitForRecords(2);  // the job, the generation
  AwaitIdle();
  EXPECT_EQ(line.stream->sent(), 0u);
  disk_.Finish(absl::OkStatus());
  disk_.SetQuick(true);
  EXPECT_EQ(worker.Next<protocol::Welcome>().generation.value, 1u);
}

TEST_F(CoordinatorLoopTest, AnAnswerWaitsForItsRecordToo) {
  disk_.SetQuick(false);
  std::promise<absl::Status> created;
  auto future = created.get_future();
  loop_.CreateJob(SpecOf("digits", 1), {},
                  [&](absl::Status status) { created.set_value(status); });
  disk_.WaitForRecords(1);
  AwaitIdle();
  EXPECT_EQ(future.wait_for(std::chrono::seconds(0)),
            std::future_status::timeout);
  disk_.Finish(absl::OkStatus());
  EXPECT_TRUE(future.get().ok());
}

TEST_F(CoordinatorLoopTest, AJournalThatFailsIsReportedAndNothingIsPromised) {
  disk_.SetQuick(false);
  FakeLine& line = Open();
  ScriptedWorker(&line, SpecOf("digits", 1), "worker-0").PostHello();
  disk_.WaitForRecords(1);
  AwaitIdle();
  disk_.Finish(absl::DataLossError("the disk is gone"));
  EXPECT_EQ(journal_failed_.get_future().get().code(),
            absl::StatusCode::kDataLoss);
  AwaitIdle();
  EXPECT_EQ(line.stream->sent(), 0u);
}

TEST_F(CoordinatorLoopTest, ReadsOnOnlyAfterAMessageWasApplied) {
  FakeLine& line = Open();
  ScriptedWorker worker(&line, SpecOf("digits", 2), "worker-0");
  worker.PostHello();
  worker.Post(protocol::Heartbeat{});
  line.stream->WaitUntilApplied(2);
}

TEST_F(CoordinatorLoopTest, DeadlinesPassByTheClockAlone) {
  JobSpec spec = SpecOf("digits", 2);
  spec.timeouts.join = absl::Seconds(30);
  FakeLine& line = Open();
  ScriptedWorker worker(&line, spec, "worker-0");
  worker.PostHello();
  worker.Next<protocol::Welcome>();
  AwaitIdle();
  // In steps: a coordinator that is late restarts all leases.
  for (int i = 0; i < 300; ++i) {
    worker.Post(protocol::Heartbeat{});
    AwaitIdle();
    clock_.Advance(absl::Milliseconds(101));
  }
  EXPECT_EQ(worker.Next<protocol::Refused>().code,
            absl::StatusCode::kDeadlineExceeded);
}

// --- Streams that end -------------------------------------------------------

TEST_F(CoordinatorLoopTest, AStreamThatReadsTooSlowlyIsClosedThenAbandoned) {
  FakeLine& slow = Open(/*room=*/1);
  ScriptedWorker worker(&slow, SpecOf("digits", 1), "worker-0");
  worker.PostHello();  // Welcome fits, EpochFormed does not
  EXPECT_EQ(slow.stream->WaitUntilClosed().code(),
            absl::StatusCode::kResourceExhausted);
  AwaitIdle();
  EXPECT_FALSE(slow.stream->abandoned());
  clock_.Advance(CoordinatorLoop::kClosePatience);
  AwaitIdle();
  EXPECT_TRUE(slow.stream->abandoned());
}

TEST_F(CoordinatorLoopTest, AStreamThatEndedInTimeIsNotAbandoned) {
  FakeLine& line = Open();
  line.Post({.job = {"digits"}, .body = protocol::Heartbeat{}});  // no Hello
  EXPECT_EQ(line.stream->WaitUntilClosed().code(),
            absl::StatusCode::kInvalidArgument);
  loop_.Closed(line.session, "gone");
  AwaitIdle();
  clock_.Advance(CoordinatorLoop::kClosePatience);
  AwaitIdle();
  EXPECT_FALSE(line.stream->abandoned());
  EXPECT_EQ(metrics_.Value({"lockstep_sessions"}), 0);
}

TEST_F(CoordinatorLoopTest, AClosedStreamIsLetGo) {
  auto stream = std::make_shared<FakeStream>();
  const std::weak_ptr<FakeStream> weak = stream;
  const core::SessionId session = loop_.Open(std::move(stream));
  loop_.Closed(session, "gone");
  AwaitIdle();
  loop_.Stop();
  EXPECT_TRUE(weak.expired());
}

// --- Operators --------------------------------------------------------------

TEST_F(CoordinatorLoopTest, TokensDecideWhatIsSeen) {
  ASSERT_TRUE(Create(SpecOf("mine", 1), "secret").ok());
  ASSERT_TRUE(Create(SpecOf("open", 1)).ok());
  const auto list = [&](const std::string& token) {
    std::vector<std::string> names;
    const auto jobs = Await<absl::StatusOr<std::vector<JobSummary>>>(
        [&](auto reply) { loop_.ListJobs(token, std::move(reply)); });
    for (const JobSummary& job : *jobs) names.push_back(job.name.value);
    return names;
  };
  EXPECT_THAT(list(""), testing::ElementsAre("open"));
  EXPECT_THAT(list("secret"), testing::ElementsAre("mine", "open"));
  EXPECT_EQ(Describe({"mine"}, "wrong").status().code(),
            absl::StatusCode::kPermissionDenied);
  EXPECT_TRUE(Describe({"mine"}, "secret").ok());
  EXPECT_EQ(Describe({"none"}).status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(Create(SpecOf("open", 1)).ok());
  EXPECT_EQ(Create(SpecOf("open", 2)).code(), absl::StatusCode::kAlreadyExists);

  const auto stop = [&](const char* token) {
    return Await<absl::Status>([&](auto done) {
      loop_.StopJob({"mine"}, {.token = token}, "enough", std::move(done));
    });
  };
  EXPECT_EQ(stop("wrong").code(), absl::StatusCode::kPermissionDenied);
  EXPECT_TRUE(stop("secret").ok());
}

TEST_F(CoordinatorLoopTest, AWatcherSeesChangesUntilTheJobIsOver) {
  ASSERT_TRUE(Create(SpecOf("digits", 2)).ok());
  auto eyes = std::make_shared<SharedEyes>();
  loop_.Watch({"digits"}, "", eyes);
  AwaitIdle();
  EXPECT_EQ(eyes->seen(), 1u);
  ScriptedWorker worker(&Open(), SpecOf("digits", 2), "worker-0");
  worker.PostHello();
  worker.Next<protocol::Welcome>();
  AwaitIdle();
  EXPECT_EQ(eyes->seen(), 1u);  // too soon
  clock_.Advance(Watches::kInterval);
  AwaitIdle();
  EXPECT_EQ(eyes->seen(), 2u);

  loop_.StopJob({"digits"}, {}, "enough", [](const absl::Status&) {});
  AwaitIdle();
  clock_.Advance(Watches::kInterval);
  EXPECT_TRUE(eyes->ended.get_future().get().ok());
}

TEST_F(CoordinatorLoopTest, AWatcherThatGoesIsLetGo) {
  ASSERT_TRUE(Create(SpecOf("digits", 2)).ok());
  auto eyes = std::make_shared<SharedEyes>();
  const std::weak_ptr<SharedEyes> weak = eyes;
  const uint64_t watch = loop_.Watch({"digits"}, "", std::move(eyes));
  loop_.Unwatch(watch);
  AwaitIdle();
  loop_.Stop();
  EXPECT_TRUE(weak.expired());
}

// --- The end ----------------------------------------------------------------

TEST_F(CoordinatorLoopTest, DrainingEndsEverythingButTheJobs) {
  FakeLine& silent = Open();  // never sends a Hello
  FakeLine& line = Open();
  ScriptedWorker worker(&line, SpecOf("digits", 2), "worker-0");
  worker.PostHello();
  worker.Next<protocol::Welcome>();
  auto eyes = std::make_shared<SharedEyes>();
  loop_.Watch({"digits"}, "", eyes);
  loop_.Drain();
  for (FakeLine* each : {&silent, &line}) {
    EXPECT_EQ(each->stream->WaitUntilClosed().code(),
              absl::StatusCode::kUnavailable);
  }
  EXPECT_EQ(eyes->ended.get_future().get().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(Create(SpecOf("new", 1)).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Open().stream->WaitUntilClosed().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(Describe({"digits"})->state, JobState::kForming);
}

TEST_F(CoordinatorLoopTest, AnswersThatWaitForTheJournalEndWithTheDrain) {
  disk_.SetQuick(false);
  std::promise<absl::Status> created;
  loop_.CreateJob(SpecOf("digits", 1), {},
                  [&](absl::Status status) { created.set_value(status); });
  disk_.WaitForRecords(1);
  loop_.Drain();
  EXPECT_EQ(created.get_future().get().code(), absl::StatusCode::kUnavailable);
  disk_.Finish(absl::OkStatus());
  AwaitIdle();
}

TEST_F(CoordinatorLoopTest, ManyThreadsMayTalkAtOnce) {
  constexpr int kThreads = 4;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, t] {
      FakeLine line(&loop_, 1000);
      ScriptedWorker worker(&line, SpecOf(absl::StrCat("job-", t), 2), "w");
      worker.PostHello();
      for (int i = 0; i < 200; ++i) worker.Post(protocol::Heartbeat{});
      line.stream->WaitUntilApplied(201);
      loop_.Closed(line.session, "done");
    });
  }
  for (std::thread& thread : threads) thread.join();
  AwaitIdle();
  EXPECT_EQ(metrics_.Value({"lockstep_messages_received_total"}),
            kThreads * 201);
}

TEST_F(CoordinatorLoopTest, RecordsAreReplacedByASnapshotOnceTheyHaveGrown) {
  padding_ = CompactionRule::kBytesMin;
  ASSERT_TRUE(Create(SpecOf("one", 1)).ok());
  EXPECT_EQ(disk_.AwaitSnapshot(1), std::vector<std::string>{"1"});
  AwaitIdle();
  padding_ = 1;
  ASSERT_TRUE(Create(SpecOf("two", 1)).ok());
  AwaitIdle();
  EXPECT_EQ(disk_.snapshots(), 1u) << "two records are small";
  padding_ = CompactionRule::kBytesMin;
  ASSERT_TRUE(Create(SpecOf("three", 1)).ok());
  EXPECT_EQ(disk_.AwaitSnapshot(2), std::vector<std::string>{"3"});
}

TEST_F(CoordinatorLoopTest, AFullDiskIsAWarningOfEveryJobUntilThereIsRoom) {
  ASSERT_TRUE(Create(SpecOf("one", 1)).ok());
  disk_.Tell(absl::ResourceExhaustedError("no room in /journal"));
  AwaitIdle();
  EXPECT_THAT(Describe({"one"})->warnings,
              Contains(HasSubstr("no room in /journal")));
  EXPECT_EQ(metrics_.Value({"lockstep_journal_waits_for_room"}), 1);
  disk_.Tell(absl::OkStatus());
  AwaitIdle();
  EXPECT_THAT(Describe({"one"})->warnings, IsEmpty());
  EXPECT_EQ(metrics_.Value({"lockstep_journal_waits_for_room"}), 0);
}

TEST_F(CoordinatorLoopTest, OnAFullDiskOperatorsAreToldThatNothingIsDurable) {
  disk_.SetQuick(false);
  std::promise<absl::Status> waiting;
  loop_.CreateJob(SpecOf("one", 1), {},
                  [&](absl::Status status) { waiting.set_value(status); });
  disk_.WaitForRecords(1);
  disk_.Tell(absl::ResourceExhaustedError("no room in /journal"));
  const absl::Status told = waiting.get_future().get();
  EXPECT_EQ(told.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(told.message()), HasSubstr("no room in /journal"));
  EXPECT_EQ(Create(SpecOf("two", 1)).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Create(SpecOf("one", 2)).code(), absl::StatusCode::kAlreadyExists)
      << "a refusal needs no record";
  disk_.Finish(absl::OkStatus());
  disk_.SetQuick(true);
  disk_.Tell(absl::OkStatus());
  AwaitIdle();
  EXPECT_TRUE(Create(SpecOf("one", 1)).ok()) << "it was carried out";
  EXPECT_TRUE(Create(SpecOf("three", 1)).ok());
}

}  // namespace
}  // namespace lockstep::runtime
