// `lockstepctl checkpoint` from a user's view: files, exit codes, output.

#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file_system.h"
#include "client/checkpoint/directory.h"
#include "client/checkpoint/safetensors_writer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/tool.h"
#include "tools/launch/scratch_folder.h"

namespace lockstep::ctl {
namespace {

using checkpoint::AttemptFolder;
using checkpoint::FolderName;
using checkpoint::Manifest;
using e2e::Outcome;
using e2e::RunTool;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

Outcome Checkpoint(std::vector<std::string> words) {
  words.insert(words.begin(), {"lockstepctl", "checkpoint"});
  return RunTool(words);
}

class CheckpointCommandTest : public testing::Test {
 protected:
  CheckpointCommandTest() : directory_(folder_.path() / "checkpoints") {
    EXPECT_EQ(folder_.status(), absl::OkStatus());
    EXPECT_EQ(files_.MakeDirectory(directory_), absl::OkStatus());
  }

  std::string Job() const { return folder_.path(); }
  std::string FolderOf(int64_t step) const {
    return directory_ + "/" + FolderName({step, 1, 1});
  }
  std::string FileOf(int64_t step) const {
    return FolderOf(step) + "/rank-0.safetensors";
  }

  void Open(int64_t step) {
    ASSERT_TRUE(
        checkpoint::CreateAttempt(&files_, directory_, {step, 1, 1}).ok());
  }

  void Save(int64_t step) {
    Open(step);
    const std::vector<float> w = {1, 2, 3, static_cast<float>(step)};
    const auto written = checkpoint::WriteSafetensors(
        &files_, FileOf(step),
        {{"w", {DType::kF32, {4}}, checkpoint::FromMemory(w.data())}});
    ASSERT_TRUE(written.ok()) << written.status();
    const Manifest manifest{
        .job = "digits",
        .step = step,
        .epoch = 1,
        .attempt = 1,
        .mesh = {{{"data", 1}}},
        .training =
            {.step = step,
             .learning_rate = 0.5,
             .metadata = {{"loss", "0.25"}},
             .samples = {{.seed = 7, .dataset_size = 1797, .position = 64}}},
        .tensors = {{"w",
                     {DType::kF32, {4}},
                     {{"rank-0.safetensors", "w", {{0}, {4}}}}}},
        .files = {{"rank-0.safetensors", written->hashes}}};
    ASSERT_EQ(
        checkpoint::Commit(&files_, {{step, 1, 1}, FolderOf(step)}, manifest),
        absl::OkStatus());
  }

  static void FlipLastBit(const std::string& path) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-1, std::ios::end);
    const char last = static_cast<char>(file.get());
    file.seekp(-1, std::ios::end);
    file.put(static_cast<char>(last ^ 1));
  }

  PosixFileSystem files_;
  const launch::ScratchFolder folder_;
  const std::string directory_;
};

TEST_F(CheckpointCommandTest, VerifiesTheNewestByDefault) {
  Save(10);
  Save(20);
  for (const std::string& path : {Job(), directory_, FolderOf(20)}) {
    const Outcome verified = Checkpoint({"verify", path});
    EXPECT_EQ(verified.code, 0) << verified.output;
    EXPECT_THAT(verified.output,
                AllOf(HasSubstr(FolderOf(20)),
                      HasSubstr("verified: 1 tensor in 1 file"),
                      Not(HasSubstr("step-10"))));
  }
  EXPECT_THAT(Checkpoint({"verify", FolderOf(10)}).output,
              HasSubstr("step-10"));
}

TEST_F(CheckpointCommandTest, NamesTheFileWithAFlippedBit) {
  Save(10);
  Save(20);
  FlipLastBit(FileOf(10));
  EXPECT_EQ(Checkpoint({"verify", Job()}).code, 0);
  const Outcome one = Checkpoint({"verify", FolderOf(10)});
  EXPECT_EQ(one.code, 1);
  EXPECT_THAT(one.output, AllOf(HasSubstr(FileOf(10)), HasSubstr("\"w\"")));
  const Outcome all = Checkpoint({"verify", "--all", Job()});
  EXPECT_EQ(all.code, 1);
  EXPECT_THAT(all.output, AllOf(HasSubstr(FileOf(10)),
                                HasSubstr(FolderOf(10) + ": damaged"),
                                HasSubstr(FolderOf(20) + ": verified")));
}

TEST_F(CheckpointCommandTest, ListsWholeAndDamagedOnes) {
  Save(10);
  Save(20);
  Open(30);
  EXPECT_EQ(Checkpoint({"list", Job()}).output,
            absl::StrCat(FolderOf(10), "  job digits  mesh data=1  1 tensor  ",
                         "80 bytes\n", FolderOf(20),
                         "  job digits  mesh data=1  1 tensor  80 bytes\n"));
  FlipLastBit(FolderOf(10) + "/MANIFEST.json");
  const Outcome damaged = Checkpoint({"list", Job()});
  EXPECT_EQ(damaged.code, 1);
  EXPECT_THAT(damaged.output, AllOf(HasSubstr(FolderOf(10) + "  damaged"),
                                    HasSubstr(FolderOf(20) + "  job")));
}

TEST_F(CheckpointCommandTest, ListsAsJson) {
  Save(10);
  const Json list = Json::parse(Checkpoint({"list", "--json", Job()}).output);
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0]["path"], FolderOf(10));
  EXPECT_EQ(list[0]["step"], 10);
  EXPECT_EQ(list[0]["mesh"], "data=1");
  EXPECT_EQ(list[0]["bytes"], 80);
}

TEST_F(CheckpointCommandTest, ShowsTheTrainingStateTensorsAndFiles) {
  Save(10);
  const Outcome shown = Checkpoint({"show", Job()});
  EXPECT_EQ(shown.code, 0);
  for (const char* part :
       {"job         digits, mesh data=1",
        "step 10, epoch 0, learning rate 0.5", "64 of 1797, seed 7",
        "loss: 0.25", "w  f32[4]  1 slice",
        "rank-0.safetensors  80 bytes  xxh3 "}) {
    EXPECT_THAT(shown.output, HasSubstr(part));
  }
  const Json manifest =
      Json::parse(Checkpoint({"show", "--json", Job()}).output);
  EXPECT_EQ(manifest["tensors"][0]["name"], "w");
}

TEST_F(CheckpointCommandTest, ShowsAndVerifiesTheStepThatIsGiven) {
  Save(10);
  Save(20);
  FlipLastBit(FileOf(20));
  EXPECT_THAT(Checkpoint({"show", Job(), "--step", "10"}).output,
              HasSubstr(FolderOf(10)));
  const Json manifest = Json::parse(
      Checkpoint({"show", "--json", "--step", "10", directory_}).output);
  EXPECT_EQ(manifest["step"], 10);
  const Outcome older = Checkpoint({"verify", "--step", "10", Job()});
  EXPECT_EQ(older.code, 0);
  EXPECT_THAT(older.output, HasSubstr(FolderOf(10) + ": verified"));
  EXPECT_EQ(Checkpoint({"verify", "--step", "20", Job()}).code, 1);
  for (const char* command : {"show", "verify"}) {
    const Outcome none = Checkpoint({command, Job(), "--step", "15"});
    EXPECT_EQ(none.code, 1);
    EXPECT_THAT(none.output,
                HasSubstr(Job() + " has no committed checkpoint of step 15; "
                                  "there are steps 10, 20"));
    EXPECT_EQ(Checkpoint({command, FolderOf(10), "--step", "20"}).code, 1);
    EXPECT_EQ(Checkpoint({command, Job(), "--step", "-1"}).code, 2);
  }
  EXPECT_EQ(Checkpoint({"verify", Job(), "--all", "--step", "10"}).code, 2);
}

TEST_F(CheckpointCommandTest, PrunesWhatIsNotKept) {
  for (int64_t step : {10, 20, 30, 40}) Save(step);
  Open(35);
  Open(50);
  const std::vector<std::string> prune = {
      "prune", Job(), "--keep-last", "1", "--keep-every", "20"};
  std::vector<std::string> dry = prune;
  dry.push_back("--dry-run");
  const Outcome would = Checkpoint(dry);
  EXPECT_EQ(would.code, 0) << would.output;
  EXPECT_THAT(would.output, HasSubstr(FolderOf(10) + ": would be removed"));
  EXPECT_EQ(files_.List(directory_)->size(), 6u);

  const Outcome pruned = Checkpoint(prune);
  EXPECT_EQ(pruned.code, 0) << pruned.output;
  EXPECT_EQ(
      pruned.output,
      absl::StrCat(FolderOf(10), ": removed\n", FolderOf(30), ": removed\n",
                   FolderOf(35), ": removed (not committed)\n3 kept\n"));
  EXPECT_THAT(*files_.List(directory_),
              testing::UnorderedElementsAre(FolderName({20, 1, 1}),
                                            FolderName({40, 1, 1}),
                                            FolderName({50, 1, 1})));
}

TEST_F(CheckpointCommandTest, PruneTakesNoSingleCheckpointAndNeedsANumber) {
  Save(10);
  const Outcome one = Checkpoint({"prune", FolderOf(10), "--keep-last", "1"});
  EXPECT_EQ(one.code, 1);
  EXPECT_THAT(one.output, HasSubstr("is one checkpoint"));
  EXPECT_EQ(Checkpoint({"prune", Job()}).code, 2);
  EXPECT_EQ(Checkpoint({"prune", Job(), "--keep-last", "0"}).code, 2);
}

TEST_F(CheckpointCommandTest, ConsolidatesTheNewestOrAStepIntoOneFile) {
  Save(10);
  Save(20);
  const std::string file = folder_.path() / "all.safetensors";
  const Outcome newest = Checkpoint({"consolidate", Job(), file});
  EXPECT_EQ(newest.code, 0) << newest.output;
  EXPECT_THAT(newest.output, AllOf(HasSubstr(file + ": 1 tensor of step 20"),
                                   Not(HasSubstr("no hashes"))));
  const Outcome again = Checkpoint({"consolidate", Job(), file});
  EXPECT_EQ(again.code, 1);
  EXPECT_THAT(again.output, HasSubstr(file));
  const Outcome older =
      Checkpoint({"consolidate", directory_, Job(), "--step", "10"});
  EXPECT_EQ(older.code, 0) << older.output;
  EXPECT_THAT(older.output, HasSubstr(Job() + "/model.safetensors: 1 tensor of "
                                              "step 10"));
  const Outcome none = Checkpoint({"consolidate", Job(), "x", "--step", "15"});
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.output, HasSubstr("no committed checkpoint of step 15"));
  EXPECT_EQ(Checkpoint({"consolidate", Job()}).code, 2);
}

TEST_F(CheckpointCommandTest, ConsolidateComparesTheHashesThatItIsToldTo) {
  Save(10);
  FlipLastBit(FileOf(10));
  const std::string file = folder_.path() / "all.safetensors";
  const Outcome full = Checkpoint({"consolidate", Job(), file});
  EXPECT_EQ(full.code, 1);
  EXPECT_THAT(full.output, AllOf(HasSubstr(FileOf(10)), HasSubstr("\"w\"")));
  EXPECT_EQ(Checkpoint({"consolidate", Job(), file, "--check", "off"}).code, 0);
  EXPECT_EQ(Checkpoint({"consolidate", Job(), "x", "--check", "no"}).code, 2);
}

TEST_F(CheckpointCommandTest, ImportsAFileIntoTheDirectoryOfAJob) {
  Save(10);
  const std::string file = folder_.path() / "all.safetensors";
  ASSERT_EQ(Checkpoint({"consolidate", Job(), file}).code, 0);
  const std::string job = folder_.path() / "new";
  const Outcome imported = Checkpoint({"import", file, job, "--step", "7"});
  EXPECT_EQ(imported.code, 0) << imported.output;
  const std::string folder = job + "/checkpoints/step-7-epoch-0-attempt-1";
  EXPECT_THAT(imported.output,
              AllOf(HasSubstr(folder + ": 1 tensor"), HasSubstr("no hashes")));
  EXPECT_THAT(Checkpoint({"verify", job}).output,
              HasSubstr(folder + ": verified: 1 tensor in 1 file"));
  const Outcome again = Checkpoint({"import", file, job, "--step", "7"});
  EXPECT_EQ(again.code, 1);
  EXPECT_THAT(again.output, HasSubstr(folder));
  const std::string back = folder_.path() / "back.safetensors";
  ASSERT_EQ(Checkpoint({"consolidate", job, back}).code, 0);
  const std::string tail(16, ' ');
  const auto data = [&](const std::string& path) {
    const std::string bytes = ReadWhole(&files_, path).value();
    return bytes.substr(bytes.size() - tail.size());
  };
  EXPECT_EQ(data(back), data(file));
  EXPECT_EQ(Checkpoint({"import", "/nowhere", job}).code, 1);
  EXPECT_EQ(Checkpoint({"import", file}).code, 2);
}

TEST_F(CheckpointCommandTest, ConsolidateAndImportKeepTheTrainingState) {
  Save(10);
  const std::string file = folder_.path() / "all.safetensors";
  ASSERT_EQ(Checkpoint({"consolidate", Job(), file}).code, 0);
  const std::string job = folder_.path() / "new";
  ASSERT_EQ(Checkpoint({"import", file, job}).code, 0);
  const Json training =
      Json::parse(Checkpoint({"show", "--json", job}).output)["training"];
  const Json saved =
      Json::parse(Checkpoint({"show", "--json", Job()}).output)["training"];
  for (const char* field : {"step", "epoch", "learning_rate", "samples"}) {
    EXPECT_EQ(training[field], saved[field]) << field;
  }
  EXPECT_EQ(training["metadata"]["loss"], "0.25");
}

// The directory is named as for other commands: itself, or the job's.
TEST_F(CheckpointCommandTest, ImportsIntoTheFolderOfCheckpointsToo) {
  Save(10);
  const std::string file = folder_.path() / "all.safetensors";
  ASSERT_EQ(Checkpoint({"consolidate", Job(), file}).code, 0);
  const Outcome imported =
      Checkpoint({"import", file, directory_ + "/", "--step", "7"});
  EXPECT_EQ(imported.code, 0) << imported.output;
  EXPECT_THAT(imported.output,
              HasSubstr(directory_ + "/step-7-epoch-0-attempt-1: 1 tensor"));
  EXPECT_FALSE(files_.List(directory_ + "/checkpoints").ok());
}

TEST_F(CheckpointCommandTest, ImportsTheNewestOfAnotherJob) {
  Save(10);
  Save(20);
  int job = 0;
  for (const std::string& path : {Job(), directory_, FolderOf(20)}) {
    const std::string other = folder_.path() / absl::StrCat("other", ++job);
    const Outcome imported = Checkpoint({"import", path, other});
    EXPECT_EQ(imported.code, 0) << imported.output;
    EXPECT_THAT(imported.output, AllOf(HasSubstr("1 tensor of " + FolderOf(20)),
                                       Not(HasSubstr("no hashes"))));
    EXPECT_THAT(Checkpoint({"show", other}).output,
                AllOf(HasSubstr("step 20, epoch 0, learning rate 0.5"),
                      HasSubstr("64 of 1797, seed 7")));
  }
  FlipLastBit(FileOf(20));
  const std::string damaged = folder_.path() / "damaged";
  const Outcome refused = Checkpoint({"import", Job(), damaged});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.output, HasSubstr(FileOf(20)));
  EXPECT_EQ(Checkpoint({"list", damaged}).code, 1) << "nothing is left";
  const std::string empty = folder_.path() / "empty";
  ASSERT_TRUE(files_.MakeDirectory(empty).ok());
  const Outcome none = Checkpoint({"import", empty, damaged});
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.output, HasSubstr("has no committed checkpoint"));
}

TEST_F(CheckpointCommandTest, ReadsTheFoldersOfBoostr) {
  const std::string seed = folder_.path() / "boostr";
  const auto put = [&](const std::string& name, const std::string& text) {
    std::ofstream(seed + "/" + name) << text;
  };
  ASSERT_TRUE(files_.MakeDirectory(seed).ok());
  put("sharding_meta.json",
      R"({"version":2,"world_size":2,"strategy":"TensorParallel",)"
      R"("split_dims":{"w":0}})");
  for (const std::string rank : {"rank_0", "rank_1"}) {
    ASSERT_TRUE(files_.MakeDirectory(seed + "/" + rank).ok());
    put(rank + "/training_state.json",
        R"({"version":2,"step":9,"epoch":0,"learning_rate":1,"metadata":{}})");
    const float w = 1;
    ASSERT_TRUE(checkpoint::WriteSafetensors(
                    &files_, seed + "/" + rank + "/model.safetensors",
                    {{"w", {DType::kF32, {1}}, checkpoint::FromMemory(&w)}})
                    .ok());
  }
  const std::string file = folder_.path() / "all.safetensors";
  const Outcome one = Checkpoint({"consolidate", seed, file});
  EXPECT_EQ(one.code, 0) << one.output;
  EXPECT_THAT(one.output,
              AllOf(HasSubstr("1 tensor of step 9"), HasSubstr("no hashes")));
  const Outcome imported = Checkpoint({"import", seed, Job()});
  EXPECT_EQ(imported.code, 0) << imported.output;
  EXPECT_THAT(Checkpoint({"show", Job()}).output,
              AllOf(HasSubstr("step 9"), HasSubstr("w  f32[2]  1 slice")));
  EXPECT_EQ(Checkpoint({"consolidate", seed, "x", "--step", "8"}).code, 1);
  ASSERT_TRUE(files_.Remove(seed + "/rank_1/model.safetensors").ok());
  const Outcome lost = Checkpoint({"consolidate", seed, "x"});
  EXPECT_EQ(lost.code, 1);
  EXPECT_THAT(lost.output, HasSubstr(seed + "/rank_1/model.safetensors"));
}

TEST_F(CheckpointCommandTest, OutputThatCannotBeWrittenIsAnError) {
  Save(10);
  const std::string file = folder_.path() / "all.safetensors";
  const std::string errors = folder_.path() / "errors";
  for (const std::string& words :
       {"list " + Job(), "show " + Job(), "verify " + Job(),
        "prune --keep-last 1 " + Job(), "consolidate " + Job() + " " + file,
        "import " + file + " " + Job() + "/new"}) {
    const int status = std::system(absl::StrCat(launch::OwnFolder(),
                                                "/lockstepctl checkpoint ",
                                                words, " >/dev/full 2>", errors)
                                       .c_str());
    ASSERT_TRUE(WIFEXITED(status)) << words;
    EXPECT_EQ(WEXITSTATUS(status), 1) << words;
    EXPECT_THAT(ReadWhole(&files_, errors).value(),
                HasSubstr("the standard output could not be written"))
        << words;
  }
}

TEST_F(CheckpointCommandTest, WhereThereIsNoneIsAnError) {
  for (const char* command : {"list", "show", "verify"}) {
    const Outcome none = Checkpoint({command, Job()});
    EXPECT_EQ(none.code, 1);
    EXPECT_THAT(none.output, HasSubstr("has no committed checkpoint"));
    EXPECT_EQ(Checkpoint({command, "/nowhere"}).code, 1);
  }
}

}  // namespace
}  // namespace lockstep::ctl
