// lockstep-perf as a program: every operation over every host transport.

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/e2e/tool.h"
#include "tools/perf/axis_operation.h"
#include "tools/perf/halo_operation.h"
#include "tools/perf/operation.h"

namespace lockstep {
namespace {

using e2e::Outcome;

Outcome RunPerf(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "lockstep-perf");
  return e2e::RunTool(std::move(arguments));
}

// Removes the file at its end.
class ScratchFile {
 public:
  ScratchFile()
      : path_(testing::TempDir() + "/" + absl::StrCat("perf-", getpid())) {}
  ~ScratchFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

TEST(PerfTest, HelpNamesDefaultsAsAPersonWritesThem) {
  const Outcome outcome = RunPerf({"--help"});
  EXPECT_EQ(outcome.code, 0);
  for (const char* option : {"=32M", "=float", "=sum"}) {
    EXPECT_NE(outcome.output.find(option), std::string::npos)
        << option << " is not in\n"
        << outcome.output;
  }
  for (const unsigned char c : outcome.output) {
    EXPECT_TRUE(c == '\n' || (c >= ' ' && c < 127)) << int{c};
  }
}

// A shell opens the device in place of standard output.
TEST(PerfTest, AReportThatCannotBeWrittenIsAnError) {
  const ScratchFile errors;
  const std::string perf = launch::OwnFolder() + "/lockstep-perf";
  const auto run = [&](const std::string& arguments) {
    const int status = std::system(
        absl::StrCat(perf, " ", arguments, " >/dev/full 2>", errors.path())
            .c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  for (const char* arguments :
       {"all_reduce -b 1K -e 2K -n 2 --ranks 2 --transport shm", "--help"}) {
    EXPECT_EQ(run(arguments), 1) << arguments;
    std::ifstream file(errors.path());
    const std::string text(std::istreambuf_iterator<char>(file), {});
    EXPECT_NE(text.find("the standard output could not be written"),
              std::string::npos)
        << arguments << "\n"
        << text;
  }
}

TEST(PerfTest, RanksMayBeBoundToCores) {
  for (const char* ranks : {"2", "3"}) {
    const Outcome outcome = RunPerf({"all_reduce", "-b", "1K", "-e", "1K", "-n",
                                     "3", "--ranks", ranks, "--bind", "core"});
    EXPECT_EQ(outcome.code, 0) << outcome.output;
  }
  EXPECT_EQ(RunPerf({"all_reduce", "--bind", "socket"}).code, 2);
}

TEST(PerfTest, CollectivesOverAxesAreRight) {
  for (const std::string& op : perf::AxisOperationNames()) {
    const Outcome outcome =
        RunPerf({op, "-b", "4K", "-e", "128K", "-f", "32", "-n", "2", "-w", "1",
                 "--ranks", "3", "--transport", "shm"});
    EXPECT_EQ(outcome.code, 0) << op << "\n" << outcome.output;
  }
  EXPECT_EQ(RunPerf({"axis.pmean", "-d", "int32"}).code, 1);
}

TEST(PerfTest, HalosHaveTheWidthOfTheirDimension) {
  for (const char* op : {"halo", "halo.adjoint"}) {
    const Outcome outcome =
        RunPerf({op, "--ranks", "4", "--shape", "2x3x8x40", "--cut", "1x1x2x2",
                 "--width", "0x0x2x17", "-n", "2", "-w", "1", "--arena"});
    EXPECT_EQ(outcome.code, 0) << op << "\n" << outcome.output;
  }
}

TEST(PerfTest, HalosAreRightForEachEdge) {
  for (const char* op : {"halo", "halo.adjoint"}) {
    for (const char* edge :
         {"zero", "periodic", "reflect", "replicate", "none"}) {
      const Outcome outcome =
          RunPerf({op, "--ranks", "4", "--shape", "13x9", "--width", "3",
                   "--edge", edge, "-n", "2", "-w", "1"});
      EXPECT_EQ(outcome.code, 0) << op << " " << edge << "\n" << outcome.output;
    }
  }
  EXPECT_EQ(RunPerf({"halo", "--shape", "3x"}).code, 2);
  EXPECT_EQ(RunPerf({"halo", "--width", "1x1x1"}).code, 2);
  EXPECT_EQ(RunPerf({"halo", "--width", "-1"}).code, 2);
  EXPECT_EQ(RunPerf({"halo", "--ranks", "2", "--cut", "2x2"}).code, 2);
  EXPECT_EQ(RunPerf({"halo", "--edge", "sharp"}).code, 2);
  const Outcome empty =
      RunPerf({"halo", "--ranks", "4", "--shape", "3", "--cut", "4"});
  EXPECT_EQ(empty.code, 1);
  EXPECT_NE(empty.output.find("the block [0] is empty"), std::string::npos);
}

TEST(PerfTest, EveryOperationIsRightOverEveryHostTransport) {
  const ScratchFile json;
  for (const std::string& op : perf::OperationNames()) {
    if (perf::IsAxisOperation(op)) continue;  // below
    for (const std::vector<std::string>& how :
         {std::vector<std::string>{"--transport", "shm"},
          {"--transport", "shm", "--arena"},
          {"--transport", "gloo"},
          {"--transport", "hierarchical"}}) {
      std::vector<std::string> arguments = {
          op,  "-b", "1K", "-e",      "1M", "-f",     "32",       "-n",
          "2", "-w", "1",  "--ranks", "3",  "--json", json.path()};
      arguments.insert(arguments.end(), how.begin(), how.end());
      const Outcome outcome = RunPerf(arguments);
      EXPECT_EQ(outcome.code, 0) << op << "\n" << outcome.output;
      const auto read = nlohmann::json::parse(std::ifstream(json.path()));
      ASSERT_EQ(read["rows"].size(),
                op == "barrier" || perf::IsHaloOperation(op) ? 1u : 3u);
      for (const auto& row : read["rows"]) {
        EXPECT_EQ(row["op"], op);
        EXPECT_EQ(row["wrong"], 0);
        EXPECT_GT(row["time_us"], 0);
        const bool moves = op != "barrier";
        EXPECT_EQ(row["bytes"] > 0, moves);
        EXPECT_EQ(row["algbw"] > 0, moves);
        EXPECT_EQ(row["busbw"] > 0, moves);
      }
    }
  }
}

TEST(PerfTest, WhatMakesNoSenseIsRefusedWithTwo) {
  for (const std::vector<std::string>& wrong :
       std::vector<std::vector<std::string>>{
           {},
           {"all_reduce", "--fast"},
           {"all_induce"},
           {"all_reduce", "-b", "12X"},
           {"all_reduce", "-b", "-1"},
           {"all_reduce", "-b", "2K", "-e", "1K"},
           {"all_reduce", "-b", "1", "-e", "3"},
           {"all_gather", "-b", "1", "-e", "8", "--ranks", "3"},
           {"all_reduce", "--ranks", "0"},
           {"all_reduce", "--transport", "pigeon"},
           {"all_reduce", "--transport", "shm", "--hosts", "2"},
           {"all_reduce", "--transport", "auto", "--hosts", "3"},
           {"all_reduce", "--transport", "hierarchical"},
           {"broadcast", "-r", "2", "--ranks", "2"},
           {"sendrecv", "--ranks", "1"},
           {"all_reduce", "-d", "int8", "-o", "avg"}}) {
    EXPECT_EQ(RunPerf(wrong).code, 2);
  }
  EXPECT_EQ(RunPerf({"--help"}).code, 0);
}

TEST(PerfTest, SaysHowTheRanksAreConnected) {
  for (auto [hosts, transport] :
       {std::pair("1", "shm"), {"2", "hierarchical"}, {"3", "gloo"}}) {
    const Outcome outcome = RunPerf({"barrier", "-n", "1", "--ranks", "3",
                                     "--transport", "auto", "--hosts", hosts});
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    EXPECT_NE(outcome.output.find(absl::StrCat("over ", transport, " (")),
              std::string::npos)
        << outcome.output;
  }
}

TEST(PerfTest, ARankThatFailsEndsAllWithOne) {
  const Outcome outcome =
      RunPerf({"all_reduce", "-b", "1000000G", "-e", "1000000G", "-n", "1",
               "-w", "0", "--ranks", "2", "--arena"});
  EXPECT_EQ(outcome.code, 1) << outcome.output;
  EXPECT_NE(outcome.output.find("bytes are needed"), std::string::npos)
      << outcome.output;
}

}  // namespace
}  // namespace lockstep
