// A member of a Gloo group in a process of its own, for tests that stop and
// kill processes. It reads its commands from standard input:
//
//   gloo_peer RANK SIZE COUNT SILENCE    prints its handle, a line; SILENCE as
//                                        GlooOptions::silence
//   < one handle a line, SIZE lines  connects, prints "connected"
//   < go                             all-reduces COUNT ones, prints a sum
//   < recv R                         receives COUNT numbers from rank R alone
//   < forever                        all-reduces COUNT ones until an error
//
// It exits at the end of its input.

#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/transport/gloo/gloo.h"

namespace lockstep {
namespace {

class Peer {
 public:
  Peer(int rank, int size, size_t count, absl::Duration silence)
      : group_{.name = "peers", .rank = rank, .size = size},
        silence_(silence),
        ones_(count) {}

  int Run() {
    auto transport = transport::MakeGlooTransport({.silence = silence_});
    if (!transport.ok()) return Fail(transport.status());
    auto pending = (*transport)->Prepare(group_);
    if (!pending.ok()) return Fail(pending.status());
    std::cout << (*pending)->handle() << std::endl;
    std::vector<std::string> handles(group_.size);
    for (std::string& handle : handles) std::getline(std::cin, handle);
    auto comm = (*pending)->Connect(handles, absl::Seconds(60));
    if (!comm.ok()) return Fail(comm.status());
    comm_ = *std::move(comm);
    std::cout << "connected" << std::endl;
    std::string word;
    while (std::getline(std::cin, word)) {
      do {
        absl::Status done = word.rfind("recv ", 0) == 0
                                ? Receive(std::atoi(word.c_str() + 5))
                                : Sum();
        if (!done.ok()) return Fail(done);
      } while (word == "forever");
      std::cout << ones_[0] << std::endl;
    }
    return 0;
  }

 private:
  absl::Status Receive(int peer) {
    absl::Status called =
        comm_->Recv(ones_.data(), ones_.size(), DType::kF32, peer, stream_);
    return called.ok() ? stream_.Synchronize() : called;
  }

  absl::Status Sum() {
    ones_.assign(ones_.size(), 1.0f);
    absl::Status called =
        comm_->AllReduce(ones_.data(), ones_.data(), ones_.size(), DType::kF32,
                         ReduceOp::kSum, stream_);
    return called.ok() ? stream_.Synchronize() : called;
  }

  static int Fail(const absl::Status& status) {
    std::cout << status << std::endl;
    return 1;
  }

  const transport::GroupSpec group_;
  const absl::Duration silence_;
  std::vector<float> ones_;
  std::unique_ptr<Communicator> comm_;
  HostStream stream_;
};

absl::Duration Parsed(const char* text) {
  absl::Duration duration;
  return absl::ParseDuration(text, &duration) ? duration : absl::ZeroDuration();
}

}  // namespace
}  // namespace lockstep

int main(int, char** argv) {
  return lockstep::Peer(std::atoi(argv[1]), std::atoi(argv[2]),
                        std::strtoul(argv[3], nullptr, 10),
                        lockstep::Parsed(argv[4]))
      .Run();
}
