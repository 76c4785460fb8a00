// Simulates every schedule for many placements: each host sends every element
// once, and every message has a matching receive.

#include "client/transport/hierarchical/hierarchical_schedule.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "gtest/gtest.h"

namespace lockstep::transport {
namespace {

constexpr size_t kChunkBytes = 256;
constexpr DType kType = DType::kF32;

Placement PlacementOf(const std::string& hosts) {
  std::vector<std::string> names;
  for (char host : hosts) names.emplace_back(1, host);
  return Placement(names);
}

// All ranks' schedules of one operation.
struct Play {
  Play(CollectiveKind kind, size_t count, int root, const std::string& hosts)
      : call{.kind = kind, .count = count, .dtype = kType, .peer = root},
        placement(PlacementOf(hosts)) {
    for (int rank = 0; rank < placement.ranks(); ++rank) {
      schedules.push_back(
          MakeHierarchicalSchedule(call, placement, rank, kChunkBytes));
    }
  }
  Chunk Own(int rank, uint64_t step) const {
    return schedules[rank]->ChunkOf(placement.index(rank), step);
  }

  const CollectiveOp call;
  const Placement placement;
  std::vector<std::unique_ptr<const ChunkSchedule>> schedules;
};

// Sender, receiver, message, begin, count.
using Message = std::tuple<int, int, uint64_t, size_t, size_t>;

std::set<Message> Sent(const Play& play) {
  std::set<Message> sent;
  for (int rank = 0; rank < play.placement.ranks(); ++rank) {
    const ChunkSchedule& schedule = *play.schedules[rank];
    for (uint64_t step = 0; step < schedule.steps(); ++step) {
      const Chunk chunk = play.Own(rank, step);
      if (chunk.count == 0) continue;
      for (int to : schedule.ResultTo(step)) {
        EXPECT_TRUE(sent.insert({rank, to, schedule.Message(step), chunk.begin,
                                 chunk.count})
                        .second);
        const std::vector<int> takers = schedule.takers();
        EXPECT_EQ(std::count(takers.begin(), takers.end(), to), 1);
      }
    }
  }
  return sent;
}

std::set<Message> Expected(const Play& play) {
  std::set<Message> expected;
  for (int rank = 0; rank < play.placement.ranks(); ++rank) {
    const ChunkSchedule& schedule = *play.schedules[rank];
    for (uint64_t step = 0; step < schedule.steps(); ++step) {
      const Chunk chunk = play.Own(rank, step);
      const int from = chunk.count > 0 ? schedule.ResultFrom(step) : -1;
      if (from < 0) continue;
      EXPECT_TRUE(expected
                      .insert({from, rank, schedule.Message(step), chunk.begin,
                               chunk.count})
                      .second);
      const std::vector<int> givers = schedule.givers();
      EXPECT_EQ(std::count(givers.begin(), givers.end(), from), 1);
    }
  }
  return expected;
}

// How often `rank` gets each element from the senders of its host.
std::vector<int> Received(const Play& play, int rank, size_t total) {
  std::vector<int> times(total);
  const ChunkSchedule& schedule = *play.schedules[rank];
  const int index = play.placement.index(rank);
  const auto& here = play.placement.members(play.placement.host(rank));
  for (uint64_t step = 0; step < schedule.steps(); ++step) {
    for (size_t giver = 0; giver < here.size(); ++giver) {
      const Chunk chunk = schedule.ChunkOf(static_cast<int>(giver), step);
      if (chunk.reader != Chunk::kAll && chunk.reader != index) continue;
      for (size_t i = 0; i < chunk.count; ++i) ++times[chunk.begin + i];
    }
  }
  return times;
}

struct Setting {
  CollectiveKind kind;
  size_t count;
  int root = 0;
};

TEST(HierarchicalScheduleTest, GivesEverythingOnceAndSendsWhatIsExpected) {
  for (const char* hosts : {"ab", "aab", "abb", "aabb", "abab", "aaabbbcc",
                            "abcabcab", "aaaab", "abcd", "aabbbbcccc"}) {
    const int ranks = static_cast<int>(std::string(hosts).size());
    for (size_t count : {0, 1, 63, 64, 1000, 5003}) {
      std::vector<Setting> settings = {{CollectiveKind::kAllReduce, count},
                                       {CollectiveKind::kReduceScatter, count},
                                       {CollectiveKind::kAllGather, count}};
      for (int root = 0; root < ranks; ++root) {
        settings.push_back({CollectiveKind::kBroadcast, count, root});
      }
      for (const Setting& setting : settings) {
        SCOPED_TRACE(std::string(Name(setting.kind)) + " of " +
                     std::to_string(count) + " on " + hosts + " from " +
                     std::to_string(setting.root));
        const Play play(setting.kind, count, setting.root, hosts);
        EXPECT_EQ(Sent(play), Expected(play));
        const bool whole = setting.kind == CollectiveKind::kAllReduce ||
                           setting.kind == CollectiveKind::kBroadcast;
        const size_t total = whole ? count : count * ranks;
        for (int rank = 0; rank < ranks; ++rank) {
          const std::vector<int> times = Received(play, rank, total);
          for (size_t i = 0; i < total; ++i) {
            const bool wanted =
                setting.kind != CollectiveKind::kReduceScatter ||
                i / count == static_cast<size_t>(rank);
            ASSERT_EQ(times[i], wanted ? 1 : 0)
                << "element " << i << " at rank " << rank;
          }
        }
      }
    }
  }
}

// Partial sums of a line refer to each other, and its ranks reduce the same
// chunks.
TEST(HierarchicalScheduleTest,
     PartialSumsGoAlongALineFromTheFirstHostToTheLast) {
  for (CollectiveKind kind :
       {CollectiveKind::kAllReduce, CollectiveKind::kReduceScatter}) {
    const Play play(kind, 3000, 0, "aabbbcc");
    const Placement& placement = play.placement;
    for (int rank = 0; rank < placement.ranks(); ++rank) {
      const ChunkSchedule& schedule = *play.schedules[rank];
      const int next = schedule.partial_to();
      const bool in_line = placement.index(rank) < placement.lines();
      EXPECT_EQ(next >= 0,
                in_line && placement.host(rank) + 1 < placement.hosts());
      if (next < 0) continue;
      EXPECT_EQ(play.schedules[next]->partial_from(), rank);
      EXPECT_EQ(placement.index(next), placement.index(rank));
      for (uint64_t step = 0; step < schedule.steps(); ++step) {
        EXPECT_EQ(play.Own(rank, step).begin, play.Own(next, step).begin);
        EXPECT_EQ(play.Own(rank, step).count, play.Own(next, step).count);
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::transport
