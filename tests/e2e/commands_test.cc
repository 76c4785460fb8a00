// pause, resume, drain and stop from an operator's view: the output of
// describe, and the exit codes of the workers and their launcher.

#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/operated.h"

namespace lockstep::e2e {
namespace {

using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using Json = nlohmann::json;

constexpr char kEvictingSpec[] =
    "name: trouble\n"
    "mesh: data=2\n"
    "timeouts: {join: 60s, lease: 10s, progress: 2s}\n"
    "on_stuck: evict\n";

class CommandsTest : public OperatedTest {
 protected:
  CommandsTest() : OperatedTest(kEvictingSpec) {}

  Json Describe() {
    return Json::parse(Ctl({"describe", "trouble", "--json"}).output, nullptr,
                       /*allow_exceptions=*/false);
  }

  // Runs describe until `holds`, for a minute at most.
  Json DescribeOnce(const std::function<bool(const Json&)>& holds) {
    const absl::Time deadline = absl::Now() + absl::Minutes(1);
    Json job;
    do {
      job = Describe();
      if (holds(job)) return job;
    } while (absl::Now() < deadline);
    ADD_FAILURE() << "never so: " << job.dump(2);
    return job;
  }

  static bool AllPaused(const Json& job) {
    for (const Json& worker : job["workers"]) {
      if (!worker["paused"]) return false;
    }
    return true;
  }

  std::vector<std::string> RunWords(const std::string& steps) {
    return {"run",
            "-n",
            "2",
            "--job",
            "trouble",
            "-f",
            cluster_.File("spec.yaml"),
            "--",
            launch::OwnFolder() + "/trouble_worker",
            steps,
            "quiet=30"};
  }

  // Runs a launcher as a child; calls `at_20` once, when its job trains.
  void Launch(const std::function<void()>& at_20) {
    std::vector<std::string> argv = {launch::OwnFolder() + "/lockstepctl",
                                     "--address", cluster_.address()};
    for (const std::string& word : RunWords("100000000")) argv.push_back(word);
    cluster_.on_line = [this, at_20](const std::string& name,
                                     const std::string& line) {
      if (name != "launcher") return;
      if (line == "at 20" && !std::exchange(trains_, true)) at_20();
      if (line == "done" && ++done_ == 2 && when_done) when_done();
    };
    const absl::Status started = cluster_.supervisor().Start(
        "launcher", {.argv = argv, .capture_output = true});
    ASSERT_TRUE(started.ok()) << started;
  }

  // The last steps that the workers printed.
  std::vector<std::string> LastSteps() {
    std::vector<std::string> last;
    for (const std::string& line : cluster_.Lines("launcher")) {
      if (absl::StartsWith(line, "last ")) last.push_back(line);
    }
    return last;
  }

  static std::vector<std::string> History(const Json& job) {
    std::vector<std::string> lines;
    for (const Json& event : job["events"]) lines.push_back(event["text"]);
    return lines;
  }

  std::function<void()> when_done;  // called when both workers are done

 private:
  bool trains_ = false;
  int done_ = 0;
};

TEST_F(CommandsTest, AllRanksPauseGoOnAndStopAtOneStep) {
  Launch([this] {
    EXPECT_EQ(Ctl({"resume"}).code, 1) << "it is not paused";
    EXPECT_EQ(Ctl({"pause", "--reason", "lunch"}).output,
              "job trouble: all ranks will pause after the same step\n");
    const Json paused = DescribeOnce(AllPaused);
    const uint64_t step = paused["workers"][0]["step"];
    EXPECT_EQ(paused["workers"][1]["step"], step);
    EXPECT_EQ(paused["wanted"]["commands"], Json({"pause"}));
    EXPECT_EQ(paused["wanted"]["reason"], "lunch");
    for (const Json& worker : paused["workers"]) {
      EXPECT_THAT(worker["overlap"], AnyOf("inline", "thread"));
      EXPECT_GT(worker["exposed_seconds"], 0);
      EXPECT_LE(worker["exposed_seconds"], worker["step_seconds"]);
    }
    EXPECT_THAT(History(paused), Contains(HasSubstr("connects")));
    EXPECT_THAT(History(paused), Contains("all ranks pause after step " +
                                          std::to_string(step - 1)));
    EXPECT_THAT(Ctl({"describe"}).output, HasSubstr("paused (lunch)"));

    // Longer than a rank may go without progress.
    const Json later = DescribeOnce([](const Json& job) {
      return job["workers"][0]["no_progress_seconds"] > 2.5;
    });
    EXPECT_TRUE(AllPaused(later));
    EXPECT_EQ(later["workers"][0]["step"], step);
    EXPECT_EQ(later["state"], "running");
    EXPECT_TRUE(later["stalls"].empty());

    EXPECT_EQ(Ctl({"resume"}).code, 0);
    DescribeOnce([step](const Json& job) {
      return job["workers"][0]["step"] > step &&
             job["workers"][1]["step"] > step;
    });
    EXPECT_EQ(Ctl({"stop", "--reason", "enough"}).code, 0);
  });
  when_done = [this] {
    const Json job =
        DescribeOnce([](const Json& job) { return job["state"] == "stopped"; });
    EXPECT_EQ(job["cause"], "stopped by an operator: enough");
    EXPECT_EQ(Ctl({"stop"}).code, 1) << "it is over";
  };
  EXPECT_EQ(cluster_.Run(), 0)
      << "workers that were stopped end well: "
      << absl::StrJoin(cluster_.Lines("launcher"), "\n");
  const std::vector<std::string> last = LastSteps();
  ASSERT_EQ(last.size(), 2u);
  EXPECT_EQ(last[0], last[1]);
}

TEST_F(CommandsTest, ADrainedJobFormsAgainWithNewWorkers) {
  Launch([this] {
    EXPECT_EQ(Ctl({"drain", "trouble", "--reason", "maintenance"}).code, 0);
  });
  bool formed_again = false;
  when_done = [this, &formed_again] {
    const Json job =
        DescribeOnce([](const Json& job) { return job["state"] == "forming"; });
    EXPECT_EQ(job["missing"], 2);
    std::vector<std::string> words = RunWords("5");
    EXPECT_EQ(Ctl(words).code, 0);
    const Json again = Describe();
    EXPECT_EQ(again["state"], "completed");
    EXPECT_EQ(again["epoch"], 2);
    formed_again = true;
  };
  EXPECT_EQ(cluster_.Run(), 0);
  EXPECT_TRUE(formed_again);
  const std::vector<std::string> last = LastSteps();
  ASSERT_EQ(last.size(), 2u);
  EXPECT_EQ(last[0], last[1]);
}

TEST_F(CommandsTest, AJobThatDoesNotRunIsStoppedAtOnce) {
  EXPECT_EQ(Ctl({"create", "-f", cluster_.File("spec.yaml")}).code, 0);
  EXPECT_EQ(Ctl({"drain"}).code, 0) << "nobody is there to leave";
  EXPECT_EQ(Ctl({"stop"}).code, 0);
  EXPECT_EQ(Describe()["state"], "stopped");
  const Outcome refused = Ctl({"pause"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.output, HasSubstr("over"));
}

}  // namespace
}  // namespace lockstep::e2e
