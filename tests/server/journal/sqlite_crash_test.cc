// A process that writes a journal is killed: everything that it was told to be
// durable is there.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>
#include <thread>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/server/journal/journal_contract.h"
#include "tests/server/journal/journal_folder.h"
#include "tests/support/sanitizers.h"

namespace lockstep::journal {
namespace {

std::string CrashRecord(int number) {
  return absl::StrCat("record ", number, " ",
                      std::string(number * 37 % 3000, 'x'));
}

// The child: appends records from `first` on, several at a time, compacts now
// and then, and writes the number of each durable record to `pipe`.
[[noreturn]] void AppendUntilKilled(const std::string& path, int first,
                                    int pipe) {
  auto journal = OpenSqliteJournal(path);
  if (!journal.ok() || !(*journal)->Load().ok()) _exit(3);
  for (int number = first;; ++number) {
    (*journal)->Append(CrashRecord(number),
                       [number, pipe](const absl::Status& status) {
                         if (!status.ok()) _exit(4);
                         if (write(pipe, &number, sizeof number) < 0) _exit(5);
                       });
    if (number % 500 == 0) {
      (*journal)->Compact([number] {
        return std::vector<std::string>{"snapshot of", absl::StrCat(number)};
      });
    }
    if (number % 7 == 0) usleep(200);
  }
}

// The newest record that the child was told of.
int LastTold(int pipe) {
  int last = 0;
  int number = 0;
  while (read(pipe, &number, sizeof number) == sizeof number) last = number;
  return last;
}

TEST(SqliteCrashTest, WhatWasDurableIsThereAfterAKill) {
  if (kUnderThreadSanitizer) {
    GTEST_SKIP() << "a forked child starts threads, which it does not allow";
  }
  const char* const rounds = getenv("LOCKSTEP_JOURNAL_KILLS");
  const int kills = rounds == nullptr ? 25 : atoi(rounds);
  const JournalFolder folder;
  std::mt19937 random(11);
  int there = 0;
  for (int kill_number = 0; kill_number < kills; ++kill_number) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      close(ends[0]);
      AppendUntilKilled(folder.path(), there + 1, ends[1]);
    }
    close(ends[1]);
    int told = there;
    std::thread reader([&] { told = std::max(told, LastTold(ends[0])); });
    absl::SleepFor(absl::Microseconds(random() % 60'000));
    kill(child, SIGKILL);
    int ending = 0;
    waitpid(child, &ending, 0);
    reader.join();
    close(ends[0]);
    ASSERT_TRUE(WIFSIGNALED(ending)) << "ended with " << ending;

    const auto kept = folder.Load();
    ASSERT_TRUE(kept.ok()) << kept.status();
    int number = static_cast<int>(kept->snapshot_of);
    if (number > 0) {
      ASSERT_EQ(kept->snapshot.at(1), absl::StrCat(number));
    }
    for (const std::string& record : kept->records) {
      ASSERT_EQ(record, CrashRecord(++number));
    }
    ASSERT_GE(number, told) << "after kill " << kill_number;
    there = number;
  }
  EXPECT_GT(there, kills) << "hardly any record was written";
}

}  // namespace
}  // namespace lockstep::journal
