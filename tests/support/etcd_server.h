// An etcd of one member, in a folder of its own, on a Unix socket.
//
//   EtcdServer etcd;
//   etcd::Client client({etcd.address()}, grpc::InsecureChannelCredentials());
//   etcd.Kill();                      // kill -9: what it confirmed is kept
//   etcd.Start();
//
// Needs the program etcd (./run test fetches it).
//
// Threads: none.

#ifndef LOCKSTEP_TESTS_SUPPORT_ETCD_SERVER_H_
#define LOCKSTEP_TESTS_SUPPORT_ETCD_SERVER_H_

#include <memory>
#include <string>
#include <vector>

#include "tests/support/program.h"

namespace lockstep {

class EtcdServer {
 public:
  // `flags`: further ones, such as --quota-backend-bytes=N. Blocks until it
  // answers.
  explicit EtcdServer(std::vector<std::string> flags = {});
  // Removes the folder.
  ~EtcdServer();

  // For gRPC: "unix:...".
  std::string address() const;

  void Start();
  void Kill();
  // SIGSTOP, SIGCONT.
  void Stop();
  void Continue();

 private:
  std::string folder_;
  const std::vector<std::string> flags_;
  std::unique_ptr<Program> program_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_TESTS_SUPPORT_ETCD_SERVER_H_
