// A process that others watch, for process_watch_process_test.cc.
//
//   watch_peer
//
// Prints its address. Then it obeys lines of its input: "watch ADDRESS" (and
// answers "watching"), "fork" (a child that sleeps with all its files;
// "forked"), "done" (SetDone; "done"), "drop" (destroys the watch; "dropped").
// Ends with its input.

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <string>

#include "client/transport/shm/local_process_watch.h"

int main() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  auto made = lockstep::transport::MakeLocalProcessWatch();
  if (!made.ok()) {
    std::cout << made.status() << std::endl;
    return 1;
  }
  auto watch = *std::move(made);
  std::cout << watch->address() << std::endl;
  std::string line;
  while (std::getline(std::cin, line)) {
    if (line.rfind("watch ", 0) == 0) {
      watch->Watch({line.substr(6)}, [](int, auto, const auto&) {});
      std::cout << "watching" << std::endl;
    } else if (line == "fork") {
      if (fork() == 0) {
        // Not the pipes of the test, which waits for their end.
        for (int fd = 0; fd < 3; ++fd) close(fd);
        alarm(60);
        pause();
        _exit(0);
      }
      std::cout << "forked" << std::endl;
    } else if (line == "done") {
      watch->SetDone();
      std::cout << "done" << std::endl;
    } else if (line == "drop") {
      watch.reset();
      std::cout << "dropped" << std::endl;
    }
  }
}
