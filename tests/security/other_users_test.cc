// Two users of one machine: whatever the owner of a job may do, another user is
// refused, and what another user plants is not written through.

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/other_user.h"
#include "tests/support/paths.h"
#include "tests/support/program.h"

namespace lockstep::security {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

// The attempts of security_probe, and their codes; those of all processes
// of a kind must be equal.
std::map<std::string, std::string> CodesOf(const std::string& printed) {
  std::map<std::string, std::string> codes;
  for (const absl::string_view line :
       absl::StrSplit(printed, '\n', absl::SkipEmpty())) {
    if (line.front() == '#') continue;
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(line, absl::MaxSplits(' ', 1));
    const auto [known, is_new] = codes.insert(parts);
    EXPECT_TRUE(is_new || known->second == parts.second) << line;
  }
  return codes;
}

class OtherUsersTest : public testing::Test {
 protected:
  OtherUsersTest() {
    std::string pattern = testing::TempDir() + "other-users-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    // Others can reach what is in it, so that only what is tested stops them.
    chmod(folder_.c_str(), 0755);
  }
  ~OtherUsersTest() override { fs::remove_all(folder_); }

  std::string File(const std::string& name) const {
    return absl::StrCat(folder_, "/", name);
  }

  std::string folder_;
};

// --- Calls ------------------------------------------------------------------

class PrivateJobTest : public OtherUsersTest {
 protected:
  // The job of an owner who runs `lockstepctl run`.
  void Start() {
    launcher_.emplace(std::vector<std::string>{
        "/usr/bin/env", "-u", "LOCKSTEP_TOKEN", "-u", "LOCKSTEP_ADDRESS",
        "XDG_RUNTIME_DIR=" + folder_, ProgramPath("lockstepctl"), "run", "-n",
        "2", "--job", "guarded", "--", ProgramPath("trouble_worker"),
        "100000000", "quiet=20"});
    std::string line;
    do {
      line = launcher_->ReadLine();
      ASSERT_NE(line, "") << launcher_->Errors();
    } while (line != "at 19");
    for (const auto& entry : fs::directory_iterator(File("lockstep"))) {
      address_ = std::string(
          absl::StripSuffix(entry.path().filename().string(), ".token"));
    }
  }

  // The processes that train.
  std::vector<std::string> Workers() const {
    std::vector<std::string> workers;
    std::ifstream children(absl::StrCat("/proc/", launcher_->pid(), "/task/",
                                        launcher_->pid(), "/children"));
    for (std::string pid; children >> pid;) {
      if (ContentsOf(absl::StrCat("/proc/", pid, "/comm")) ==
          "trouble_worker\n") {
        workers.push_back(pid);
      }
    }
    return workers;
  }

  std::vector<std::string> Probe() const {
    std::vector<std::string> command = {ProgramPath("security_probe"), address_,
                                        "guarded"};
    for (const std::string& pid : Workers()) command.push_back(pid);
    return command;
  }

  std::optional<Program> launcher_;
  std::string address_;
};

TEST_F(PrivateJobTest, EachCallIsRefusedToAnotherUserAndGrantedToTheOwner) {
  if (!CanBeAnotherUser()) GTEST_SKIP() << "only root can become another user";
  Start();
  ASSERT_EQ(Workers().size(), 2u);
  // The other user knows all that can be known, and where the owner looks. The
  // coordinator speaks to nobody who has no certificate.
  const std::vector<std::string> environment = {"HOME=/nonexistent",
                                                "XDG_RUNTIME_DIR=" + folder_};
  const UserOutcome other = RunAs(FreeUser(), Probe(), environment);
  const UserOutcome own = RunAs(geteuid(), Probe(), environment);
  const auto refused = CodesOf(other.output), granted = CodesOf(own.output);
  for (const char* attempt :
       {"token", "environ", "segment", "jobs", "describe", "watch", "evidence",
        "create", "join", "delete", "pause", "resume", "save", "stop"}) {
    ASSERT_EQ(refused.count(attempt), 1u) << attempt << "\n" << other.output;
    EXPECT_THAT(refused.at(attempt), AnyOf("PERMISSION_DENIED", "UNAVAILABLE"))
        << attempt << "\n"
        << other.output;
    ASSERT_EQ(granted.count(attempt), 1u) << attempt << "\n" << own.output;
    EXPECT_EQ(granted.at(attempt), "OK") << attempt << "\n" << own.output;
  }
  // The job has ended as its owner wanted, and not before.
  EXPECT_THAT(launcher_->ReadAll(), HasSubstr("done"));
  EXPECT_EQ(launcher_->Wait(), 0) << launcher_->Errors();
}

// --- Planted links ----------------------------------------------------------

// A folder of another user, with links to a file and a folder of ours.
class PlantedLinkTest : public OtherUsersTest {
 protected:
  void SetUp() override {
    if (!CanBeAnotherUser()) GTEST_SKIP() << "only root can be another user";
    fs::create_directory(File("home"));
    chmod(File("home").c_str(), 0700);
    std::ofstream(File("home/victim")) << "untouched";
    fs::create_directory(File("theirs"));
    Give("theirs");
  }
  // Nothing of ours has changed, and nothing was added.
  void TearDown() override {
    if (IsSkipped()) return;
    EXPECT_EQ(ContentsOf(File("home/victim")), "untouched");
    size_t files = 0;
    for (const auto& entry : fs::directory_iterator(File("home"))) {
      ++files;
      EXPECT_EQ(entry.path().filename(), "victim");
    }
    EXPECT_EQ(files, 1u);
  }

  void Give(const std::string& name) {
    EXPECT_EQ(lchown(File(name).c_str(), other_, other_), 0);
  }
  // A link of the other user.
  std::string Plant(const std::string& name, const std::string& target) {
    fs::create_symlink(File(target), File("theirs/" + name));
    Give("theirs/" + name);
    return File("theirs/" + name);
  }
  // A program's exit code and all its output.
  UserOutcome Run(std::vector<std::string> command,
                  const std::vector<std::string>& variables = {}) {
    command[0] = ProgramPath(command[0]);
    std::vector<std::string> words = {"/usr/bin/env"};
    words.insert(words.end(), variables.begin(), variables.end());
    words.insert(words.end(), command.begin(), command.end());
    Program program(words);
    UserOutcome outcome;
    outcome.output = program.ReadAll();
    outcome.code = program.Wait();
    absl::StrAppend(&outcome.output, program.Errors());
    return outcome;
  }
  void ExpectRefused(const UserOutcome& outcome, const std::string& path) {
    EXPECT_NE(outcome.code, 0) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(path));
  }

  const uid_t other_ = FreeUser();
};

TEST_F(PlantedLinkTest, IsNoFileOfAPort) {
  const std::string link = Plant("port", "home/victim");
  ExpectRefused(
      Run({"lockstepd", "--listen", "127.0.0.1:0", "--port_file", link}), link);
}

TEST_F(PlantedLinkTest, IsNoJournal) {
  const auto journal = [&](const std::string& folder) {
    return Run({"lockstepd", "--listen", "127.0.0.1:0", "--journal", folder});
  };
  const std::string link = Plant("journal", "home");
  const UserOutcome refused = journal(link);
  ExpectRefused(refused, link);
  EXPECT_THAT(refused.output, HasSubstr(absl::StrCat("link of user ", other_)));
  // A folder of the other user, who could put links into it.
  fs::create_directory(File("theirs/folder"));
  Plant("folder/mark", "home/victim");
  Plant("folder/journal.db.new", "home/victim");
  Give("theirs/folder");
  const UserOutcome theirs = journal(File("theirs/folder"));
  ExpectRefused(theirs, File("theirs/folder"));
  EXPECT_THAT(theirs.output,
              HasSubstr(absl::StrCat("belongs to user ", other_)));
}

TEST_F(PlantedLinkTest, IsNoFolderOfTokens) {
  const std::string link = Plant("lockstep", "home");
  const UserOutcome ran = Run({"lockstepctl", "run", "-n", "1", "--",
                               ProgramPath("trouble_worker"), "3"},
                              {"-u", "LOCKSTEP_TOKEN", "-u", "LOCKSTEP_ADDRESS",
                               "XDG_RUNTIME_DIR=" + File("theirs")});
  EXPECT_EQ(ran.code, 0) << "the job itself needs no such file";
  EXPECT_THAT(ran.output, AllOf(HasSubstr(link), HasSubstr("cannot be written "
                                                           "down")));
}

TEST_F(PlantedLinkTest, NoScratchFolderIsMadeWhereOthersCanReplaceIt) {
  fs::create_directory(File("open"));
  chmod(File("open").c_str(), 0777);
  for (const std::string& folder : {File("theirs"), File("open")}) {
    const UserOutcome refused =
        Run({"lockstepctl", "run", "-n", "1", "--",
             ProgramPath("trouble_worker"), "3"},
            {"-u", "LOCKSTEP_TOKEN", "-u", "LOCKSTEP_ADDRESS",
             "TMPDIR=" + folder, "XDG_RUNTIME_DIR=" + File("home")});
    ExpectRefused(refused, folder);
    EXPECT_THAT(refused.output, HasSubstr("TMPDIR"));
    EXPECT_TRUE(fs::is_empty(folder)) << folder;
  }
}

TEST_F(PlantedLinkTest, IsNoPlanOrDrawing) {
  const std::string link = Plant("plan", "home/victim");
  const auto compile = [&](const std::string& out) {
    return Run({"lockstepctl", "plan", "compile", "-f",
                SourcePath("examples/specs/gpt-pipe4.yaml"), "-o", out});
  };
  ExpectRefused(compile(link), link);
  // A link of our own is a name as any other.
  fs::create_symlink(File("plan"), File("own"));
  const UserOutcome compiled = compile(File("own"));
  EXPECT_EQ(compiled.code, 0) << compiled.output;
  EXPECT_TRUE(fs::is_regular_file(File("plan")));
}

}  // namespace
}  // namespace lockstep::security
