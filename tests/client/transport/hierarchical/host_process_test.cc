// Groups over several hosts with real processes, which are killed and stopped;
// hosts are also simulated by namespaces, as in containers.

#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "tests/support/paths.h"
#include "tests/support/program.h"
#include "tests/support/sanitizers.h"

namespace lockstep {
namespace {

// In one chunk, over the first line only; in many chunks.
constexpr size_t kCounts[] = {100, 1 << 20};

constexpr int kKills = kUnderSanitizer ? 8 : 40;

using Command = std::vector<std::string>;

// All ranks are programs; this process distributes their handles.
class Party {
 public:
  // `where[r]`: the prefix of rank r's command, its address and its pretended
  // host.
  struct Where {
    Command prefix;
    std::string address;
    std::string host;
  };

  Party(const std::vector<Where>& where, size_t count,
        absl::Duration silence = absl::Seconds(10)) {
    std::vector<std::string> handles;
    for (size_t rank = 0; rank < where.size(); ++rank) {
      Command command = where[rank].prefix;
      for (const std::string& word :
           {ProgramPath("auto_peer"), absl::StrCat(rank),
            absl::StrCat(where.size()), absl::StrCat(count),
            where[rank].address, where[rank].host,
            absl::FormatDuration(silence)}) {
        command.push_back(word);
      }
      peers_.push_back(std::make_unique<Program>(command));
    }
    for (const auto& peer : peers_) handles.push_back(peer->ReadLine());
    for (const auto& peer : peers_) {
      for (const std::string& handle : handles) peer->WriteLine(handle);
    }
  }

  Program& peer(int rank) { return *peers_[rank]; }
  void SayToAll(const std::string& word) {
    for (const auto& peer : peers_) peer->WriteLine(word);
  }
  void ExpectFromAll(const std::string& line) {
    for (const auto& peer : peers_) EXPECT_EQ(peer->ReadLine(), line);
  }

 private:
  std::vector<std::unique_ptr<Program>> peers_;
};

std::vector<Party::Where> Pretended(const std::string& hosts) {
  std::vector<Party::Where> where;
  for (char host : hosts) where.push_back({{}, "127.0.0.1", {host}});
  return where;
}

TEST(HostProcessTest, ReducesAcrossHosts) {
  for (size_t count : kCounts) {
    Party party(Pretended("aabb"), count);
    party.ExpectFromAll("hierarchical");
    for (int round = 0; round < 3; ++round) {
      party.SayToAll("go");
      party.ExpectFromAll("4");
    }
  }
}

// A rank is killed at any time of an all-reduce. Its own host has proof and
// names it. The other host notices closed connections, and names it or, if a
// neighbour's message arrives first, the rank that left because of it.
TEST(HostProcessTest, AKilledRankEndsTheGroupOnAllHosts) {
  std::vector<absl::Duration> latencies;
  for (int round = 0; round < kKills; ++round) {
    const int victim = round % 4;
    const int neighbour = victim ^ 1;
    Party party(Pretended("aabb"), kCounts[round / 4 % std::size(kCounts)]);
    party.ExpectFromAll("hierarchical");
    party.SayToAll("go");
    party.ExpectFromAll("4");
    party.SayToAll("forever");
    party.peer(victim).Signal(SIGKILL);
    const absl::Time killed = absl::Now();
    for (int rank = 0; rank < 4; ++rank) {
      if (rank == victim) continue;
      const std::string told = party.peer(rank).ReadLine();
      EXPECT_TRUE(absl::StrContains(told, "UNAVAILABLE")) << told;
      if (rank != neighbour) continue;
      EXPECT_TRUE(absl::StrContains(told, absl::StrCat("rank ", victim)))
          << told;
    }
    latencies.push_back(absl::Now() - killed);
  }
  std::sort(latencies.begin(), latencies.end());
  std::printf("told of a death on two hosts: median %s, worst %s\n",
              absl::FormatDuration(latencies[latencies.size() / 2]).c_str(),
              absl::FormatDuration(latencies.back()).c_str());
  // The documented bound is 100 ms; the machine may be busy.
  EXPECT_LT(latencies.back(), absl::Seconds(2));
}

TEST(HostProcessTest, WhoSeesADeathOnItsHostHasProof) {
  Party party(Pretended("abb"), kCounts[1]);
  party.ExpectFromAll("hierarchical");
  // Rank 0 takes no part: rank 1 waits only for rank 2.
  party.peer(2).Signal(SIGKILL);
  party.peer(1).WriteLine("go");
  const std::string told = party.peer(1).ReadLine();
  EXPECT_TRUE(absl::StartsWith(told, "proven UNAVAILABLE")) << told;
  EXPECT_TRUE(absl::StrContains(told, "process of rank 2")) << told;
}

// --- Namespaces -------------------------------------------------------------

// Two network and mount namespaces, connected by a virtual cable.
class TwoHosts {
 public:
  // Returns why there are none; empty on success.
  std::string Make() {
    if (!Hold(first_, {"/usr/bin/unshare", "-Urnm"})) {
      return "no namespaces can be made here: " + first_->Errors();
    }
    Command inner = Inside(*first_, {"-U"});
    inner.insert(inner.end(), {"/usr/bin/unshare", "-nm"});
    if (!Hold(second_, inner)) return "no second: " + second_->Errors();
    if (Ip().empty()) return "there is no program ip";
    const std::vector<std::pair<Program*, Command>> steps = {
        {first_.get(),
         {"link", "add", "name", "hosta", "type", "veth", "peer", "name",
          "hostb", "netns", absl::StrCat(second_->pid())}},
        {first_.get(), {"addr", "add", "10.77.0.1/24", "dev", "hosta"}},
        {second_.get(), {"addr", "add", "10.77.0.2/24", "dev", "hostb"}},
        {first_.get(), {"link", "set", "lo", "up"}},
        {second_.get(), {"link", "set", "lo", "up"}},
        {first_.get(), {"link", "set", "hosta", "up"}},
        {second_.get(), {"link", "set", "hostb", "up"}}};
    for (const auto& [host, words] : steps) {
      if (const std::string why = Run(*host, words); !why.empty()) return why;
    }
    return "";
  }

  // Drops everything that `host` sends from then on: its packets go to the MAC
  // address of a card that does not exist.
  void BlackHole(int host) {
    const std::string why =
        Run(host == 0 ? *first_ : *second_,
            {"neigh", "replace", absl::StrCat("10.77.0.", 2 - host), "lladdr",
             "02:00:00:00:00:77", "dev", host == 0 ? "hosta" : "hostb", "nud",
             "permanent"});
    EXPECT_EQ(why, "");
  }

  Party::Where At(int host) const {
    return {Inside(host == 0 ? *first_ : *second_, {"-U", "-n", "-m"}),
            absl::StrCat("10.77.0.", host + 1), ""};
  }

 private:
  // Starts a program that keeps alive the namespaces that `prefix` creates.
  static bool Hold(std::unique_ptr<Program>& holder, Command prefix) {
    prefix.insert(prefix.end(), {"/bin/sh", "-c", "echo here; exec cat"});
    holder = std::make_unique<Program>(prefix);
    return holder->ReadLine() == "here";
  }
  static Command Inside(const Program& holder, const Command& kinds) {
    Command command = {"/usr/bin/nsenter", "-t", absl::StrCat(holder.pid()),
                       "--preserve-credentials"};
    command.insert(command.end(), kinds.begin(), kinds.end());
    return command;
  }
  // Returns the error; empty on success.
  static std::string Run(const Program& host, const Command& words) {
    Command command = Inside(host, {"-U", "-n"});
    command.push_back(Ip());
    command.insert(command.end(), words.begin(), words.end());
    Program step(command);
    return step.Wait() == 0 ? "" : "no network: " + step.Errors();
  }
  static std::string Ip() {
    for (const char* path : {"/usr/sbin/ip", "/sbin/ip", "/usr/bin/ip"}) {
      if (std::filesystem::exists(path)) return path;
    }
    return "";
  }

  std::unique_ptr<Program> first_;
  std::unique_ptr<Program> second_;
};

TEST(HostProcessTest, TwoNamespacesAreTwoHosts) {
  TwoHosts hosts;
  if (const std::string why = hosts.Make(); !why.empty()) GTEST_SKIP() << why;
  for (size_t count : kCounts) {
    Party party({hosts.At(0), hosts.At(0), hosts.At(1), hosts.At(1)}, count);
    party.ExpectFromAll("hierarchical");
    party.SayToAll("go");
    party.ExpectFromAll("4");
  }
  Party apart({hosts.At(0), hosts.At(1)}, kCounts[0]);
  apart.ExpectFromAll("gloo");
  Party together({hosts.At(1), hosts.At(1)}, kCounts[0]);
  together.ExpectFromAll("shm");
}

// --- Broken networks ---------------------------------------------------------

constexpr absl::Duration kSilence = absl::Milliseconds(500);
// The kernel gives up after minutes.
constexpr absl::Duration kSoon = absl::Seconds(15);

// Both sides detect the silence within their bound, and name a rank of the
// other host.
void ExpectSilenceIsNoticed(Party& party, const std::vector<int>& host_of) {
  party.SayToAll("forever");
  const absl::Time begin = absl::Now();
  for (size_t rank = 0; rank < host_of.size(); ++rank) {
    const std::string told = party.peer(static_cast<int>(rank)).ReadLine();
    EXPECT_TRUE(absl::StrContains(told, "DEADLINE_EXCEEDED") ||
                absl::StrContains(told, "UNAVAILABLE"))
        << told;
    EXPECT_FALSE(absl::StrContains(told, "proven")) << told;
  }
  EXPECT_LT(absl::Now() - begin, kSoon);
}

TEST(SilentNetworkTest, ACutLinkIsNoticedOnBothSides) {
  for (const bool hierarchical : {false, true}) {
    TwoHosts hosts;
    if (const std::string why = hosts.Make(); !why.empty()) GTEST_SKIP() << why;
    const std::vector<int> host_of =
        hierarchical ? std::vector<int>{0, 0, 1, 1} : std::vector<int>{0, 1};
    std::vector<Party::Where> where;
    for (const int host : host_of) where.push_back(hosts.At(host));
    Party party(where, kCounts[0], kSilence);
    party.ExpectFromAll(hierarchical ? "hierarchical" : "gloo");
    party.SayToAll("go");
    party.ExpectFromAll(absl::StrCat(host_of.size()));
    hosts.BlackHole(0);
    hosts.BlackHole(1);
    ExpectSilenceIsNoticed(party, host_of);
  }
}

TEST(SilentNetworkTest, ALinkThatIsCutOneWayIsNoticedOnBothSides) {
  for (const int mute : {0, 1}) {
    TwoHosts hosts;
    if (const std::string why = hosts.Make(); !why.empty()) GTEST_SKIP() << why;
    Party party({hosts.At(0), hosts.At(1)}, kCounts[0], kSilence);
    party.ExpectFromAll("gloo");
    party.SayToAll("go");
    party.ExpectFromAll("2");
    hosts.BlackHole(mute);
    ExpectSilenceIsNoticed(party, {0, 1});
  }
}

}  // namespace
}  // namespace lockstep
