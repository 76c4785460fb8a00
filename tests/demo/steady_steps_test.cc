// Steady steps do not need the coordinator: while it is stopped, training
// continues for thousands of steps, and workers keep their message rate limit.

#include <signal.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "tools/launch/local_daemon.h"
#include "tools/launch/supervisor.h"
#include "tools/launch/worker_environment.h"

namespace lockstep::launch {
namespace {

constexpr int kSteps = 10000;
constexpr int kStopAt = 2000;
constexpr int kContinueAt = 8000;
constexpr int kWorkers = 2;

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2,
                   values.end());
  return values[values.size() / 2];
}

TEST(SteadyStepsTest, TenThousandStepsGoOnWithTheCoordinatorStopped) {
  std::vector<double> running_us;
  std::vector<double> stopped_us;
  std::map<std::string, ProcessExit> endings;
  int done = 0;
  int last_step = 0;
  bool stopped = false;
  Supervisor* self = nullptr;

  Supervisor supervisor({
      .on_ending = [&](const std::string& name, pid_t,
                       const ProcessExit& ending) { endings[name] = ending; },
      .on_output =
          [&](const std::string& name, absl::string_view line) {
            const std::vector<std::string> words = absl::StrSplit(line, ' ');
            if (words[0] == "step") {
              double us = 0;
              ASSERT_TRUE(absl::SimpleAtoi(words[1], &last_step));
              ASSERT_TRUE(absl::SimpleAtod(words[2], &us));
              (stopped ? stopped_us : running_us).push_back(us);
              if (last_step == kStopAt)
                stopped = self->Signal("lockstepd", SIGSTOP);
              if (last_step == kContinueAt) {
                EXPECT_TRUE(stopped)
                    << "all these steps ran without a coordinator";
                EXPECT_TRUE(self->Signal("lockstepd", SIGCONT));
                stopped = false;
              }
            } else if (words[0] == "done") {
              double messages = 0;
              double seconds = 0;
              ASSERT_TRUE(absl::SimpleAtod(words[2], &messages));
              ASSERT_TRUE(absl::SimpleAtod(words[3], &seconds));
              // 10 a second, and a few for join and start.
              EXPECT_LE(messages, 10 * seconds + 20) << name;
              EXPECT_GT(messages, 0) << name;
              std::printf("%s: %.0f messages in %.1f s\n", name.c_str(),
                          messages, seconds);
              done += 1;
            } else {
              ADD_FAILURE() << name << ": " << line;
            }
          },
  });
  self = &supervisor;
  const absl::StatusOr<LocalDaemon> daemon = StartLocalDaemon(supervisor);
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  for (int worker = 0; worker < kWorkers; ++worker) {
    const std::string name = absl::StrCat("worker-", worker);
    ASSERT_TRUE(
        supervisor
            .Start(
                name,
                {.argv = {OwnFolder() + "/steady_worker", absl::StrCat(kSteps)},
                 .environment = EnvironmentOf({.address = daemon->address,
                                               .job = "steady",
                                               .worker = name,
                                               .world_size = kWorkers,
                                               .token = daemon->worker_token}),
                 .capture_output = true})
            .ok());
  }
  EXPECT_EQ(supervisor.Run(), 0);
  EXPECT_EQ(done, kWorkers);
  EXPECT_EQ(last_step, kSteps);
  ASSERT_FALSE(stopped_us.empty());
  std::printf("median step: %.0f us with the coordinator, %.0f us without\n",
              Median(running_us), Median(stopped_us));
}

}  // namespace
}  // namespace lockstep::launch
