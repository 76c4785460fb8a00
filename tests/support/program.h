// A subprocess of a test, with its input, output, errors and exit status. It is
// killed at the end of the test at the latest.
//
//   Program daemon({ProgramPath("lockstepd"), "--listen", "127.0.0.1:0"});
//   const std::string line = daemon.ReadLine();
//   daemon.Signal(SIGTERM);
//   EXPECT_EQ(daemon.Wait(), 0);
//
// Threads: none.

#ifndef LOCKSTEP_TESTS_SUPPORT_PROGRAM_H_
#define LOCKSTEP_TESTS_SUPPORT_PROGRAM_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/file_descriptor.h"

namespace lockstep {

class Program {
 public:
  // `command[0]` is a path.
  explicit Program(const std::vector<std::string>& command);
  // Kills the program if it still runs.
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  pid_t pid() const { return pid_; }
  void Signal(int signal);

  // Stops the program by SIGSTOP. Blocks until it has stopped.
  void Stop();

  // Writes a line to its standard input.
  void WriteLine(const std::string& line);

  // The next line of its standard output, without the newline; empty at the
  // end. Blocks.
  std::string ReadLine();
  // The rest of its standard output. Blocks until the end.
  std::string ReadAll();
  // Returns its standard error so far.
  std::string Errors() const;

  // The program's exit status, or minus the signal that killed it. A program
  // that still runs after a minute fails the test and is killed.
  int Wait();

 private:
  pid_t pid_ = -1;
  FileDescriptor input_;   // the write end of a pipe
  FileDescriptor output_;  // the read end of a pipe
  FileDescriptor errors_;  // a file in memory
  std::string read_ahead_;
  bool ended_ = false;
  int result_ = 0;
};

}  // namespace lockstep

#endif  // LOCKSTEP_TESTS_SUPPORT_PROGRAM_H_
