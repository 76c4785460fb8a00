// Shared memory between real processes, which are stopped and killed.

#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "client/transport/failed_peer.h"
#include "client/transport/shm/shm.h"
#include "gtest/gtest.h"
#include "tests/support/paths.h"
#include "tests/support/program.h"

namespace lockstep {
namespace {

// In a slot; in slices, or in chunks through the stage.
constexpr size_t kSmall = 100;
constexpr size_t kLarge = 8 << 20;
// The number of kills that the requirement names.
constexpr int kKills = 100;

// This process is rank 0; the others are shm_peer.
class Party {
 public:
  Party(int size, size_t count, bool in_arena,
        absl::Duration silence = transport::ShmOptions().silence)
      : transport_(transport::MakeShmTransport({.silence = silence})),
        memory_(*(in_arena ? transport_->MakeArena() : MakePlainArena())
                     ->Allocate(count * sizeof(float))) {
    std::fill(ones().begin(), ones().end(), 1.0f);
    auto pending =
        transport_->Prepare({.name = "peers", .rank = 0, .size = size});
    EXPECT_TRUE(pending.ok()) << pending.status();
    std::vector<std::string> handles = {(*pending)->handle()};
    for (int rank = 1; rank < size; ++rank) {
      peers_.push_back(std::make_unique<Program>(std::vector<std::string>{
          ProgramPath("shm_peer"), absl::StrCat(rank), absl::StrCat(size),
          absl::StrCat(count), in_arena ? "arena" : "private",
          absl::FormatDuration(silence)}));
      handles.push_back(peers_.back()->ReadLine());
    }
    for (const auto& peer : peers_) {
      for (const std::string& handle : handles) peer->WriteLine(handle);
    }
    auto comm = (*pending)->Connect(handles, absl::Seconds(60));
    EXPECT_TRUE(comm.ok()) << comm.status();
    comm_ = *std::move(comm);
    for (const auto& peer : peers_) EXPECT_EQ(peer->ReadLine(), "connected");
  }

  Program& peer(int rank) { return *peers_[rank - 1]; }
  Communicator& comm() { return *comm_; }
  HostStream& stream() { return stream_; }
  absl::Span<float> ones() { return memory_.as<float>(); }
  void Drop() { comm_ = nullptr; }

  void SayToAll(const std::string& word) {
    for (const auto& peer : peers_) peer->WriteLine(word);
  }

  void Enqueue(int operations) {
    for (int i = 0; i < operations; ++i) {
      ASSERT_TRUE(comm_
                      ->AllReduce(ones().data(), ones().data(), ones().size(),
                                  DType::kF32, ReduceOp::kSum, stream_)
                      .ok());
    }
  }

 private:
  const std::unique_ptr<transport::Transport> transport_;
  const ArenaBuffer memory_;
  std::vector<std::unique_ptr<Program>> peers_;
  std::unique_ptr<Communicator> comm_;
  HostStream stream_;  // ends before the buffers that its work uses
};

struct Setting {
  size_t count;
  bool in_arena;
};
constexpr Setting kSettings[] = {
    {kSmall, false}, {kSmall, true}, {kLarge, false}, {kLarge, true}};

std::string Named(const Setting& setting) {
  return absl::StrCat(setting.count, setting.in_arena ? " floats in the arena"
                                                      : " private floats");
}

// The number of Lockstep's memfds that this process has mapped or open.
int MemoryFiles() {
  int files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const auto target = std::filesystem::read_symlink(entry.path(), gone);
    files += absl::StartsWith(target.string(), "/memfd:lockstep");
  }
  std::FILE* const maps = std::fopen("/proc/self/maps", "r");
  char line[4096];
  while (std::fgets(line, sizeof line, maps) != nullptr) {
    files += std::string(line).find("/memfd:lockstep") != std::string::npos;
  }
  std::fclose(maps);
  return files;
}

TEST(ShmProcessTest, ReducesAcrossProcesses) {
  for (const Setting& setting : kSettings) {
    Party party(3, setting.count, setting.in_arena);
    for (int round = 1; round <= 2; ++round) {
      party.SayToAll("go");
      party.Enqueue(1);
      ASSERT_TRUE(party.stream().Synchronize().ok());
      // From round 2 on this rank contributes sums instead of ones.
      const std::string sum = round == 1 ? "3" : "5";
      EXPECT_EQ(party.peer(1).ReadLine(), sum) << Named(setting);
      EXPECT_EQ(party.peer(2).ReadLine(), sum) << Named(setting);
    }
  }
}

TEST(ShmProcessTest, AbortNeedsNothingFromAStoppedPeer) {
  for (const Setting& setting : kSettings) {
    std::vector<absl::Duration> latencies;
    for (int round = 0; round < 5; ++round) {
      Party party(2, setting.count, setting.in_arena);
      party.SayToAll("forever");
      party.Enqueue(1 + round % 3);
      ASSERT_TRUE(party.stream().Synchronize().ok());
      party.peer(1).Stop();
      party.Enqueue(4);
      const Event all = party.stream().Record();
      const absl::Time begin = absl::Now();
      party.comm().Abort("its peer does not move");
      ASSERT_TRUE(all.Wait(absl::Seconds(30)).ok());
      latencies.push_back(absl::Now() - begin);
      EXPECT_TRUE(absl::IsAborted(party.stream().Synchronize()));
    }
    const absl::Duration worst =
        *std::max_element(latencies.begin(), latencies.end());
    std::printf("abort with a stopped peer, %s: worst %s\n",
                Named(setting).c_str(), absl::FormatDuration(worst).c_str());
    // The promise is 100 ms; this machine may be busy with other things.
    EXPECT_LT(worst, absl::Seconds(1));
  }
}

TEST(ShmProcessTest, DestructionNeedsNothingFromAStoppedPeer) {
  for (const Setting& setting : kSettings) {
    Party party(2, setting.count, setting.in_arena);
    party.peer(1).Stop();
    party.Enqueue(3);
    party.Drop();
    EXPECT_TRUE(absl::IsAborted(party.stream().Synchronize()));
  }
}

// A process with its own network and mount namespaces looks like another host.
TEST(ShmProcessTest, APeerOnAnotherHostIsNotMistakenForALocalOne) {
  Program nothing({"/usr/bin/unshare", "-Urnm", "/bin/true"});
  if (nothing.Wait() != 0) {
    GTEST_SKIP() << "no namespaces can be made here: " << nothing.Errors();
  }
  Program peer({"/usr/bin/unshare", "-Urnm", ProgramPath("shm_peer"), "1", "2",
                "100", "private"});
  const std::string theirs = peer.ReadLine();
  ASSERT_NE(theirs, "") << peer.Errors();
  const auto transport = transport::MakeShmTransport();
  auto pending = *transport->Prepare({.name = "peers", .rank = 0, .size = 2});
  const std::string ours = pending->handle();
  const absl::Status refused =
      pending->Connect({ours, theirs}, absl::Seconds(60)).status();
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  EXPECT_TRUE(absl::StrContains(refused.message(), "another host")) << refused;
  EXPECT_EQ(transport::FailedPeer(refused), 1);

  // The peer also refuses a handle that claims its own namespace, because it
  // cannot connect there.
  pending = *transport->Prepare({.name = "peers", .rank = 0, .size = 2});
  std::vector<std::string> words = absl::StrSplit(pending->handle(), ' ');
  words[4] = std::vector<std::string>(absl::StrSplit(theirs, ' '))[4];
  peer.WriteLine(absl::StrJoin(words, " "));
  peer.WriteLine(theirs);
  const std::string told = peer.ReadLine();
  EXPECT_TRUE(absl::StrContains(told, "cannot be reached on this host"))
      << told;
}

// A peer is killed at any moment of an all-reduce: all survivors name it, and
// no memory of the group is left.
TEST(ShmProcessTest, AKilledPeerIsNamedWithProofAndLeavesNothing) {
  const int files_before = MemoryFiles();
  std::vector<absl::Duration> latencies;
  constexpr size_t kEnough = 1 << 18;
  for (int round = 0; round < kKills; ++round) {
    const Setting& setting = kSettings[round % std::size(kSettings)];
    Party party(3, std::min(setting.count, kEnough), setting.in_arena);
    party.SayToAll("forever");
    party.Enqueue(1 + round % 5);
    ASSERT_TRUE(party.stream().Synchronize().ok());
    party.Enqueue(1000);
    party.peer(2).Signal(SIGKILL);
    const absl::Time killed = absl::Now();
    const absl::Status ended = party.stream().Synchronize();
    latencies.push_back(absl::Now() - killed);
    EXPECT_TRUE(absl::IsUnavailable(ended)) << ended;
    EXPECT_EQ(transport::FailedPeer(ended), 2) << ended;
    const std::string told = party.peer(1).ReadLine();
    EXPECT_TRUE(absl::StrContains(told, "UNAVAILABLE")) << told;
    EXPECT_TRUE(absl::StrContains(told, "rank 2")) << told;
  }
  EXPECT_EQ(MemoryFiles(), files_before);
  std::sort(latencies.begin(), latencies.end());
  std::printf("a killed peer is named, %d times: median %s, worst %s\n", kKills,
              absl::FormatDuration(latencies[latencies.size() / 2]).c_str(),
              absl::FormatDuration(latencies.back()).c_str());
  // The promise is 100 ms; this machine may be busy with other things.
  EXPECT_LT(latencies.back(), absl::Seconds(2));
}

TEST(ShmProcessTest, WhoSeesADeathFirstHasProof) {
  Party party(2, kLarge, /*in_arena=*/true);
  party.peer(1).Signal(SIGKILL);
  party.Enqueue(1);
  const absl::Status ended = party.stream().Synchronize();
  EXPECT_EQ(transport::FailedPeer(ended), 1) << ended;
  EXPECT_TRUE(transport::IsProven(ended)) << ended;
}

// A message in blocks: the sender has put some for a receiver that is dead, or
// the receiver waits for a block of a sender that is dead.
TEST(ShmProcessTest, APeerKilledWithinAMessageIsNoticed) {
  for (const std::string peer_does : {"send", "receive"}) {
    for (bool in_arena : {false, true}) {
      for (int round = 0; round < 5; ++round) {
        Party party(2, kLarge, in_arena);
        party.SayToAll(peer_does);
        const auto pass = [&] {
          const absl::Span<float> ones = party.ones();
          return peer_does == "send"
                     ? party.comm().Recv(ones.data(), ones.size(), DType::kF32,
                                         1, party.stream())
                     : party.comm().Send(ones.data(), ones.size(), DType::kF32,
                                         1, party.stream());
        };
        ASSERT_TRUE(pass().ok());
        ASSERT_TRUE(party.stream().Synchronize().ok());
        for (int i = 0; i < 300; ++i) ASSERT_TRUE(pass().ok());
        party.peer(1).Signal(SIGKILL);
        const absl::Status ended = party.stream().Synchronize();
        EXPECT_TRUE(absl::IsUnavailable(ended)) << ended;
        EXPECT_EQ(transport::FailedPeer(ended), 1) << ended;
        EXPECT_TRUE(transport::IsProven(ended)) << ended;
      }
    }
  }
}

// A rank that is stopped inside a reduction writes the rest of its slice when
// it resumes. It must not write to the memory of ranks that have left the
// group.
TEST(ShmProcessTest, AStoppedRankThatWakesReachesNoSurvivorsMemory) {
  for (int round = 0; round < 8; ++round) {
    Party party(2, kLarge, /*in_arena=*/true);
    party.SayToAll("forever");
    party.Enqueue(2 + round % 3);
    ASSERT_TRUE(party.stream().Synchronize().ok());
    // The peer is stopped during these, most often inside a reduction.
    party.Enqueue(200);
    party.peer(1).Stop();
    party.comm().Abort("the epoch has ended");
    EXPECT_FALSE(party.stream().Synchronize().ok());
    float* const address = party.ones().data();
    party.Drop();
    ASSERT_EQ(party.ones().data(), address);
    // This rank reuses its memory.
    std::fill(party.ones().begin(), party.ones().end(), 7.0f);
    party.peer(1).Signal(SIGCONT);
    const std::string told = party.peer(1).ReadLine();
    EXPECT_TRUE(absl::StrContains(told, "UNAVAILABLE")) << told;
    EXPECT_EQ(std::count(party.ones().begin(), party.ones().end(), 7.0f),
              static_cast<ptrdiff_t>(kLarge))
        << "round " << round;
  }
}

// --- Silence ----------------------------------------------------------------

constexpr absl::Duration kSilence = absl::Milliseconds(400);

TEST(ShmSilenceTest, AStoppedPeerThatIsWaitedForIsSilent) {
  for (size_t count : {kSmall, kLarge}) {
    Party party(3, count, /*in_arena=*/true, kSilence);
    party.peer(1).WriteLine("forever");
    party.peer(2).Stop();
    const absl::Time begin = absl::Now();
    party.Enqueue(1);
    const absl::Status ended = party.stream().Synchronize();
    // Rank 1 may notice first, and leave because of rank 2.
    EXPECT_TRUE(absl::IsDeadlineExceeded(ended) || absl::IsUnavailable(ended))
        << ended;
    EXPECT_EQ(transport::FailedPeer(ended), 2) << ended;
    EXPECT_FALSE(transport::IsProven(ended)) << ended;
    EXPECT_LT(absl::Now() - begin, absl::Seconds(10));
  }
}

// A peer may compute or wait for its data for any time.
TEST(ShmSilenceTest, AnIdlePeerIsNotSilent) {
  Party party(2, kSmall, /*in_arena=*/true, kSilence);
  party.Enqueue(1);
  const Event done = party.stream().Record();
  EXPECT_TRUE(absl::IsDeadlineExceeded(done.Wait(5 * kSilence)));
  EXPECT_TRUE(party.comm().status().ok()) << party.comm().status();
  party.SayToAll("go");
  EXPECT_TRUE(party.stream().Synchronize().ok());
  EXPECT_EQ(party.peer(1).ReadLine(), "2");
}

}  // namespace
}  // namespace lockstep
