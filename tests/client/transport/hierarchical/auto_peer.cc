// A member of a group with `transport: auto` in a process of its own, for tests
// that kill processes, and tests with several hosts. It reads its commands from
// standard input:
//
//   auto_peer RANK SIZE COUNT ADDRESS [HOST [SILENCE]]    prints its handle, a
//                             line; it pretends to run on HOST, if given
//   < one handle a line, SIZE lines  connects, prints the transport
//   < go                             all-reduces COUNT ones, in the arena,
//                                    prints the first sum
//   < forever                        all-reduces until an error, prints it, and
//                                    "proven" before it if there is proof
//
// It exits at the end of its input.

#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/transport/failed_peer.h"
#include "client/transport/gloo/gloo.h"
#include "client/transport/hierarchical/auto.h"

namespace lockstep {
namespace {

class Peer {
 public:
  Peer(int rank, int size) : group_{.name = "g", .rank = rank, .size = size} {}

  absl::Status Connect(const std::string& address, const std::string& host,
                       absl::Duration silence) {
    auto links =
        transport::MakeGlooLinks({.bind_address = address, .silence = silence});
    if (!links.ok()) return links.status();
    transport_ = transport::MakeAutoTransport(
        *std::move(links), {.pretended_host = host, .silence = silence});
    auto pending = transport_->Prepare(group_);
    if (!pending.ok()) return pending.status();
    std::cout << (*pending)->handle() << std::endl;
    std::vector<std::string> handles(group_.size);
    for (std::string& handle : handles) std::getline(std::cin, handle);
    auto comm = (*pending)->Connect(handles, absl::Seconds(60));
    if (!comm.ok()) return comm.status();
    comm_ = *std::move(comm);
    std::cout << comm_->transport() << std::endl;
    return absl::OkStatus();
  }

  absl::Status Obey(size_t count) {
    const auto arena = transport_->MakeArena();
    const ArenaBuffer buffer = *arena->Allocate(count * sizeof(float));
    const absl::Span<float> ones = buffer.as<float>();
    std::string word;
    while (std::getline(std::cin, word)) {
      do {
        std::fill(ones.begin(), ones.end(), 1.0f);
        absl::Status done =
            comm_->AllReduce(ones.data(), ones.data(), ones.size(), DType::kF32,
                             ReduceOp::kSum, stream_);
        if (done.ok()) done = stream_.Synchronize();
        if (!done.ok()) return done;
      } while (word == "forever");
      std::cout << ones[0] << std::endl;
    }
    return absl::OkStatus();
  }

 private:
  const transport::GroupSpec group_;
  std::unique_ptr<transport::Transport> transport_;
  std::unique_ptr<Communicator> comm_;
  HostStream stream_;
};

int Main(int argc, char** argv) {
  Peer peer(std::atoi(argv[1]), std::atoi(argv[2]));
  absl::Duration silence = transport::GlooOptions().silence;
  if (argc > 6 && !absl::ParseDuration(argv[6], &silence)) return 2;
  absl::Status done = peer.Connect(argv[4], argc > 5 ? argv[5] : "", silence);
  if (done.ok()) done = peer.Obey(std::strtoul(argv[3], nullptr, 10));
  if (done.ok()) return 0;
  std::cout << (transport::IsProven(done) ? "proven " : "") << done
            << std::endl;
  // It exits only on request, so that the others see one death only.
  std::string word;
  while (std::getline(std::cin, word)) continue;
  return 1;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) { return lockstep::Main(argc, argv); }
