// Checkpoints through whole sessions: reports, news, and the end of the epoch.

#include "client/session/checkpoint_channel.h"
#include "tests/client/session/inproc_job_fixture.h"

namespace lockstep::session {
namespace {

using protocol::CheckpointNews;
using protocol::CheckpointReport;

using CheckpointJobTest = InprocJobFixture;

TEST_F(CheckpointJobTest, RanksOpenTheDirectorySaveAndLearnTheOutcome) {
  ASSERT_NO_FATAL_FAILURE(JoinAll());
  ForAll([this](Session& session) {
    Connect(session);
    CheckpointChannel& channel = session.impl().checkpoints();
    const std::string hash(32, static_cast<char>('0' + session.rank()));
    CheckpointReport report;
    if (session.rank() == 0) {
      report.directory = {.path = "/d", .nonce = std::string(32, 'a')};
    }
    channel.Report(report);
    ASSERT_TRUE(channel
                    .Await([](const CheckpointNews& news) {
                      return news.directory.has_value();
                    })
                    .ok());
    report.access = absl::OkStatus();
    channel.Report(report);
    ASSERT_TRUE(
        channel.Await([](const CheckpointNews& news) { return news.opened; })
            .ok());
    report.save = {.number = 1,
                   .step = 20,
                   .stage = protocol::CheckpointSave::Stage::kWritten,
                   .part_hash = hash};
    channel.Report(report);
    const auto news = channel.Await([](const CheckpointNews& newest) {
      return newest.prepared || newest.decided == 1;
    });
    ASSERT_TRUE(news.ok()) << news.status();
    if (news->prepared) {
      EXPECT_EQ(session.rank(), 0);
      EXPECT_EQ(news->prepared->part_hashes[3], std::string(32, '3'));
      report.save->committed = absl::OkStatus();
      channel.Report(report);
    }
    const auto decided = channel.Await(
        [](const CheckpointNews& newest) { return newest.decided == 1; });
    ASSERT_TRUE(decided.ok()) << decided.status();
    EXPECT_TRUE(decided->faults.empty());
  });
}

TEST_F(CheckpointJobTest, AwaitEndsAtItsDeadlineAndWithTheEpoch) {
  ASSERT_NO_FATAL_FAILURE(JoinAll());
  ForAll([this](Session& session) {
    Connect(session);
    CheckpointChannel& channel = session.impl().checkpoints();
    const auto never = [](const CheckpointNews&) { return false; };
    EXPECT_TRUE(absl::IsDeadlineExceeded(
        channel.Await(never, absl::InfinitePast()).status()));
    EXPECT_TRUE(absl::IsDeadlineExceeded(
        channel.Await(never, absl::Now() + absl::Milliseconds(20)).status()));
    connected_.arrive_and_wait();
    if (session.rank() == 1) {
      session.ReportFailure("update", absl::InternalError("no"));
    }
    const absl::Status ended = channel.Await(never).status();
    EXPECT_TRUE(absl::IsAborted(ended)) << ended;
    EXPECT_EQ(ended, session.status());
    EXPECT_TRUE(channel.Await([](const CheckpointNews&) { return true; }).ok())
        << "what is known stays known";
  });
}

}  // namespace
}  // namespace lockstep::session
