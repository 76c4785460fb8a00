// Bit-equal weights for any number of workers.

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gtest/gtest.h"
#include "tests/support/paths.h"
#include "tools/launch/local_daemon.h"
#include "tools/launch/supervisor.h"
#include "tools/launch/worker_environment.h"

namespace lockstep::launch {
namespace {

namespace fs = std::filesystem;

constexpr char kSteps[] = "12";

class ReproducibleDigitsTest : public testing::Test {
 protected:
  ReproducibleDigitsTest() {
    std::string pattern = fs::temp_directory_path() / "lockstep-bits-XXXXXX";
    EXPECT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  ~ReproducibleDigitsTest() override { fs::remove_all(folder_); }

  // The weights of the first worker; those of all others must be equal.
  std::string Train(int workers, const std::string& transport) {
    Supervisor supervisor(
        {.on_ending =
             [](const std::string& name, pid_t, const ProcessExit& ending) {
               EXPECT_TRUE(ending.ok() || name == "lockstepd") << name;
             },
         .on_output = [](const std::string&, absl::string_view) {}});
    const absl::StatusOr<LocalDaemon> daemon = StartLocalDaemon(supervisor);
    EXPECT_TRUE(daemon.ok()) << daemon.status();
    const fs::path spec = folder_ / "spec.yaml";
    std::ofstream(spec) << absl::StrFormat(
        "name: bits\nmesh: data=%d\ntransport: %s\n"
        "buckets: {first_bytes_max: 8KiB, bytes_max: 32KiB}\n"
        "reproducible: {leaves: 8}\n",
        workers, transport);
    for (int worker = 0; worker < workers; ++worker) {
      const std::string name = absl::StrCat("worker-", worker);
      const absl::Status started = supervisor.Start(
          name,
          {.argv = {OwnFolder() + "/digits", "--steps", kSteps, "--dtype",
                    "f32", "--machine_progress", "--save", folder_ / name},
           .environment = EnvironmentOf({.address = daemon->address,
                                         .job = "bits",
                                         .worker = name,
                                         .world_size = workers,
                                         .spec_file = spec,
                                         .token = daemon->worker_token}),
           .capture_output = true});
      EXPECT_TRUE(started.ok()) << started;
    }
    EXPECT_EQ(supervisor.Run(), 0);
    const std::string first = ContentsOf(folder_ / "worker-0");
    for (int worker = 1; worker < workers; ++worker) {
      EXPECT_TRUE(ContentsOf(folder_ / absl::StrCat("worker-", worker)) ==
                  first);
    }
    return first;
  }

 private:
  fs::path folder_;
};

TEST_F(ReproducibleDigitsTest, OneTwoAndFourWorkersLearnTheSameBits) {
  const std::string alone = Train(1, "gloo");
  EXPECT_GT(alone.size(), 10'000u);
  EXPECT_TRUE(Train(2, "gloo") == alone);
  EXPECT_TRUE(Train(4, "gloo") == alone);
  EXPECT_TRUE(Train(2, "shm") == alone);
  EXPECT_TRUE(Train(4, "shm") == alone);
}

}  // namespace
}  // namespace lockstep::launch
