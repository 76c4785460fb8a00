// A project that uses the installed Lockstep only. No process listens at the
// address, so Join returns that error.

#include <iostream>

#include "lockstep/gradient_sync.h"
#include "lockstep/session.h"

int main() {
  lockstep::JoinOptions options{
      .addresses = {"127.0.0.1:1"},
      .worker = "consumer",
      .spec = lockstep::JobSpec{.name = "consumer", .mesh = {{{"data", 2}}}},
      .connect_timeout = absl::Milliseconds(200)};
  const auto session = lockstep::Session::Join(options);
  if (session.status().code() != absl::StatusCode::kUnavailable) {
    std::cerr << "Join said: " << session.status() << "\n";
    return 1;
  }
  std::cout << "no coordinator, as expected\n";
  return 0;
}
