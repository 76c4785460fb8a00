// A member of a shared-memory group in its own process, for tests that stop and
// kill processes. It reads its commands from standard input:
//
//   shm_peer RANK SIZE COUNT arena|private [SILENCE]    prints its handle, a
//                                    line; SILENCE as ShmOptions::silence
//   < one handle a line, SIZE lines  connects, prints "connected"
//   < go                             all-reduces COUNT ones, prints one sum
//   < forever                        all-reduces COUNT ones until an error
//   < send | receive                 sends its buffer to rank 0, or receives
//                                    it from there, until an error
//
// It prints an error and exits; it also exits at the end of its input.

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/transport/shm/shm.h"

namespace lockstep {
namespace {

class Peer {
 public:
  Peer(int rank, int size, size_t count, bool in_arena, absl::Duration silence)
      : group_{.name = "peers", .rank = rank, .size = size},
        transport_(transport::MakeShmTransport({.silence = silence})),
        memory_(*(in_arena ? transport_->MakeArena() : MakePlainArena())
                     ->Allocate(count * sizeof(float))),
        ones_(memory_.as<float>()) {}

  int Run() {
    auto pending = transport_->Prepare(group_);
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
        if (absl::Status done = Do(word); !done.ok()) return Fail(done);
      } while (word != "go");
      std::cout << ones_[0] << std::endl;
    }
    return 0;
  }

 private:
  absl::Status Do(const std::string& word) {
    if (word != "send" && word != "receive") return Sum();
    absl::Status called =
        word == "send"
            ? comm_->Send(ones_.data(), ones_.size(), DType::kF32, 0, stream_)
            : comm_->Recv(ones_.data(), ones_.size(), DType::kF32, 0, stream_);
    return called.ok() ? stream_.Synchronize() : called;
  }

  absl::Status Sum() {
    std::fill(ones_.begin(), ones_.end(), 1.0f);
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
  const std::unique_ptr<transport::Transport> transport_;
  const ArenaBuffer memory_;
  const absl::Span<float> ones_;
  std::unique_ptr<Communicator> comm_;
  HostStream stream_;
};

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  absl::Duration silence = lockstep::transport::ShmOptions().silence;
  if (argc > 5 && !absl::ParseDuration(argv[5], &silence)) return 2;
  return lockstep::Peer(std::atoi(argv[1]), std::atoi(argv[2]),
                        std::strtoul(argv[3], nullptr, 10),
                        std::string(argv[4]) == "arena", silence)
      .Run();
}
