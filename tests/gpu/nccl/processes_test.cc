// The real adapter between processes that share one GPU, and alone. Each has an
// NCCL_HOSTID of its own: NCCL then sees as many hosts, and does not refuse a
// device with two ranks.
//
//   test ─spawns─▶ --peer WHAT RANK SIZE     this program, once for each rank
//        ◀─"exchange LINE"── all lines ─▶ each, until it prints "ok ..." or an
//                                         error

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "client/transport/nccl/gpu.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/gpu/nccl/exercise.h"
#include "tests/gpu/nccl/gradient_exercise.h"
#include "tests/gpu/nccl/state_exercise.h"
#include "tests/support/program.h"

namespace lockstep::gpu {
namespace {

constexpr int kAborts = 100;
constexpr absl::Duration kAbortMost = absl::Milliseconds(500);
constexpr char kExchange[] = "exchange ";

// The size at which docs/gpu-results.md gives the cost of a step's calls.
constexpr GradientShape kManyParameters = {.parameters = 300,
                                           .elements = 87'000,
                                           .bucket_bytes = 25 << 20,
                                           .steps = 5};

std::string Environment(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  return value == nullptr ? "" : value;
}

// --- A rank ---

std::vector<std::string> Exchange(int size, const std::string& line) {
  std::cout << kExchange << line << std::endl;
  std::vector<std::string> lines(size);
  for (std::string& one : lines) std::getline(std::cin, one);
  return lines;
}

absl::StatusOr<std::string> AbortOften(const transport::nccl::Tables& tables,
                                       const Place& place) {
  auto took = AbortWhatIsWedged(tables, place, kAborts);
  if (!took.ok()) return took.status();
  if (place.rank > 0) return std::string();
  std::sort(took->begin(), took->end());
  const std::string said = absl::StrFormat(
      "%d aborts: median %.1f ms, longest %.1f ms", took->size(),
      absl::ToDoubleMilliseconds((*took)[took->size() / 2]),
      absl::ToDoubleMilliseconds(took->back()));
  if (took->back() > kAbortMost) return absl::DeadlineExceededError(said);
  return said;
}

absl::StatusOr<std::string> Do(const std::string& what, const Place& place) {
  const auto tables = transport::nccl::LoadTables(Environment, 0);
  if (!tables.ok()) return tables.status();
  if (what == "abort") return AbortOften(*tables, place);
  if (what == "windows") return MoveThroughWindows(*tables, place);
  if (what == "gradients") return SynchroniseGradients(*tables, place, {});
  if (what == "gradients-ahead-1") {
    return SynchroniseGradients(*tables, place, {.run_ahead = 1});
  }
  if (what == "gradients-ahead-2") {
    return SynchroniseGradients(*tables, place, {.run_ahead = 2});
  }
  if (what == "gradients-replayed") {
    return SynchroniseGradients(*tables, place, {.steps = 40, .replays = true});
  }
  if (what == "many-gradients") {
    return SynchroniseGradients(*tables, place, kManyParameters);
  }
  const absl::Status done = what == "graph"   ? ReplayAGraph(*tables, place)
                            : what == "state" ? RecoverState(*tables, place)
                                              : MoveEverything(*tables, place);
  if (!done.ok()) return done;
  return std::string();
}

int RunPeer(const std::string& what, int rank, int size) {
  const auto said =
      Do(what, {.rank = rank, .size = size, .exchange = [size](const auto& l) {
                  return Exchange(size, l);
                }});
  std::cout << (said.ok() ? absl::StrCat("ok ", *said)
                          : said.status().ToString())
            << std::endl;
  return 0;
}

// --- The test ---

// The test itself does not use the GPU while the ranks run.
class ProcessesTest : public testing::Test {
 protected:
  static void ExpectAllOk(const std::string& what, int size) {
    const std::string self = std::filesystem::read_symlink("/proc/self/exe");
    std::vector<std::unique_ptr<Program>> ranks;
    for (int rank = 0; rank < size; ++rank) {
      ranks.push_back(std::make_unique<Program>(std::vector<std::string>{
          self, "--peer", what, absl::StrCat(rank), absl::StrCat(size)}));
    }
    while (PassOn(ranks)) {
    }
  }

 private:
  // Sends one line of each rank to all. False once they have printed their
  // result.
  static bool PassOn(std::vector<std::unique_ptr<Program>>& ranks) {
    std::vector<std::string> lines;
    bool over = false;
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      const std::string said = NextWord(*ranks[rank]);
      over |= !absl::StartsWith(said, kExchange);
      lines.push_back(std::string(absl::StripPrefix(said, kExchange)));
      if (!over) continue;
      EXPECT_THAT(said, testing::StartsWith("ok")) << "rank " << rank << "\n"
                                                   << ranks[rank]->Errors();
      std::cout << "rank " << rank << ": " << said << std::endl;
    }
    if (over) return false;
    for (const auto& rank : ranks) {
      for (const std::string& line : lines) rank->WriteLine(line);
    }
    return true;
  }

  // Skips lines that NCCL prints (NCCL_DEBUG).
  static std::string NextWord(Program& rank) {
    std::string line;
    do {
      line = rank.ReadLine();
    } while (absl::StrContains(line, "NCCL"));
    return line;
  }
};

TEST_F(ProcessesTest, OneRankMovesEverything) { ExpectAllOk("move", 1); }
TEST_F(ProcessesTest, TwoRanksMoveEverything) { ExpectAllOk("move", 2); }
TEST_F(ProcessesTest, FourRanksMoveEverything) { ExpectAllOk("move", 4); }
TEST_F(ProcessesTest, OneRankMovesThroughWindows) { ExpectAllOk("windows", 1); }
TEST_F(ProcessesTest, TwoRanksMoveThroughWindows) { ExpectAllOk("windows", 2); }
TEST_F(ProcessesTest, OneRankReplaysAGraph) { ExpectAllOk("graph", 1); }
TEST_F(ProcessesTest, TwoRanksReplayAGraph) { ExpectAllOk("graph", 2); }
TEST_F(ProcessesTest, OneRankSynchronisesGradients) {
  ExpectAllOk("gradients", 1);
}
TEST_F(ProcessesTest, TwoRanksSynchroniseGradients) {
  ExpectAllOk("gradients", 2);
}
TEST_F(ProcessesTest, FourRanksSynchroniseGradients) {
  ExpectAllOk("gradients", 4);
}
TEST_F(ProcessesTest, OneRankSynchronisesGradientsOneStepAhead) {
  ExpectAllOk("gradients-ahead-1", 1);
}
TEST_F(ProcessesTest, TwoRanksSynchroniseGradientsOneStepAhead) {
  ExpectAllOk("gradients-ahead-1", 2);
}
TEST_F(ProcessesTest, OneRankSynchronisesGradientsTwoStepsAhead) {
  ExpectAllOk("gradients-ahead-2", 1);
}
TEST_F(ProcessesTest, TwoRanksSynchroniseGradientsTwoStepsAhead) {
  ExpectAllOk("gradients-ahead-2", 2);
}
TEST_F(ProcessesTest, OneRankReplaysItsGradients) {
  ExpectAllOk("gradients-replayed", 1);
}
TEST_F(ProcessesTest, TwoRanksReplayTheirGradients) {
  ExpectAllOk("gradients-replayed", 2);
}
TEST_F(ProcessesTest, OneRankSynchronisesManyGradients) {
  ExpectAllOk("many-gradients", 1);
}
TEST_F(ProcessesTest, TwoRanksSynchroniseManyGradients) {
  ExpectAllOk("many-gradients", 2);
}
TEST_F(ProcessesTest, OneRankComparesItsState) { ExpectAllOk("state", 1); }
TEST_F(ProcessesTest, TwoRanksRecoverState) { ExpectAllOk("state", 2); }
TEST_F(ProcessesTest, FourRanksRecoverState) { ExpectAllOk("state", 4); }
TEST_F(ProcessesTest, AbortsAWedgedCommunicatorAHundredTimes) {
  ExpectAllOk("abort", 2);
}

}  // namespace

int Main(int argc, char** argv) {
  if (argc == 5 && std::string(argv[1]) == "--peer") {
    setenv("NCCL_HOSTID", absl::StrCat("rank-", argv[3]).c_str(), 1);
    return RunPeer(argv[2], std::atoi(argv[3]), std::atoi(argv[4]));
  }
  testing::InitGoogleTest(&argc, argv);
  if (testing::GTEST_FLAG(list_tests)) return RUN_ALL_TESTS();
  const auto tables = transport::nccl::LoadTables(Environment, 0);
  if (!tables.ok()) {
    std::cout << "skipped: " << tables.status().message() << std::endl;
    return absl::IsFailedPrecondition(tables.status()) ? 77 : 1;
  }
  return RUN_ALL_TESTS();
}

}  // namespace lockstep::gpu

int main(int argc, char** argv) { return lockstep::gpu::Main(argc, argv); }
