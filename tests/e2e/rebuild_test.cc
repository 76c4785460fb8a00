// Buckets are rebuilt while real workers train over Gloo: the operator sees it,
// and training does not notice.

#include <nlohmann/json.hpp>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/cluster.h"
#include "tests/e2e/tool.h"

namespace lockstep::e2e {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

constexpr int kWorld = 3;
constexpr int kParameters = 6;

class RebuildTest : public testing::Test {
 protected:
  static std::string Spec(const char* rebuild) {
    return absl::StrCat(
        "name: trouble\nmesh: data=3\ntimeouts: {join: 60s, lease: 10s}\n"
        "buckets: {first_bytes_max: 4KiB, bytes_max: 8KiB, rebuild: ",
        rebuild, "}\n");
  }

  Outcome Ctl(std::vector<std::string> words) {
    words.insert(words.begin(),
                 {"lockstepctl", "--address", cluster_->address()});
    return RunTool(words);
  }
  Json Describe() { return Json::parse(Ctl({"describe", "--json"}).output); }

  // Waits until all workers are at `revision`; they report a few times a
  // second.
  std::vector<int> RevisionsOnceAllAre(int revision) {
    std::vector<int> revisions;
    const absl::Time deadline = absl::Now() + absl::Seconds(20);
    do {
      revisions.clear();
      const Json job = Describe();
      for (const Json& worker : job["workers"]) {
        revisions.push_back(worker["revision"]);
      }
    } while (absl::Now() < deadline &&
             revisions != std::vector<int>(kWorld, revision));
    return revisions;
  }

  // Runs until all workers have ended; calls `moved` once every worker has
  // moved.
  void Train(const char* rebuild, const std::function<void()>& begun,
             const std::function<void()>& moved) {
    cluster_.emplace(kWorld, Spec(rebuild));
    std::map<std::string, std::string> moves;
    cluster_->on_line = [&](const std::string& name, const std::string& line) {
      if (line.rfind("moved ", 0) != 0) return;
      moves[name] = line;
      if (moves.size() == kWorld) moved();
    };
    for (int i = 0; i < kWorld; ++i) {
      cluster_->Start({.name = absl::StrCat("worker-", i),
                       .orders = {cluster_->File("enough")},
                       .program = "rebuild_worker"});
    }
    begun();
    EXPECT_EQ(cluster_->Run(), 0);
    for (int i = 0; i < kWorld; ++i) {
      const std::string name = absl::StrCat("worker-", i);
      EXPECT_EQ(moves[name], moves["worker-0"]) << "all after the same step";
      CheckWeights(cluster_->LastLine(name));
    }
  }

  // Compares "done STEPS WEIGHT..." with the result of one process.
  static void CheckWeights(const std::string& line) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    ASSERT_EQ(words.size(), 2u + kParameters) << line;
    ASSERT_EQ(words[0], "done") << line;
    const long steps = std::stol(words[1]);
    EXPECT_GT(steps, 1);
    for (int p = 0; p < kParameters; ++p) {
      EXPECT_EQ(std::stol(words[2 + p]), -steps * (1 + 2 + 3) * (p + 1)) << p;
    }
  }

  std::optional<Cluster> cluster_;
};

TEST_F(RebuildTest, OnceTheOrderIsSeenEveryWorkerRunsRevisionTwo) {
  Train(
      "once", [] {},
      [this] {
        EXPECT_THAT(RevisionsOnceAllAre(2), ElementsAre(2, 2, 2));
        const Json job = Describe();
        EXPECT_EQ(job["revision"], 2);
        EXPECT_EQ(job["buckets"][0]["parameters"][0], "layer.0");
        EXPECT_THAT(job["events"].dump(),
                    HasSubstr("every rank runs revision 2"));
        cluster_->WriteFile("enough", "");
      });
}

TEST_F(RebuildTest, AnOperatorAsksForIt) {
  Train(
      "on_demand",
      [this] {
        const absl::Time deadline = absl::Now() + absl::Seconds(60);
        while (Ctl({"rebuild"}).code != 0 && absl::Now() < deadline) {
        }
      },
      [this] {
        EXPECT_THAT(RevisionsOnceAllAre(2), ElementsAre(2, 2, 2));
        cluster_->WriteFile("enough", "");
      });
}

}  // namespace
}  // namespace lockstep::e2e
