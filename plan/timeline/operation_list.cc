#include "plan/timeline/operation_list.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "base/text/rank_list.h"
#include "plan/local_op_text.h"

namespace lockstep::plan {
namespace {

constexpr size_t kLaunchesMax = 48;  // of a rank
constexpr size_t kRangesMax = 4;     // of norms

// Consecutive messages, or the transfers of one group.
struct OneLaunch {
  bool are_messages = false;
  std::vector<TransferRef> transfers;
};

std::string ElementsText(const LocalOp& op) {
  std::string text = absl::StrCat(op.offset, " to ", op.offset + op.count);
  if (op.leaf != -1) absl::StrAppend(&text, " for leaf ", op.leaf);
  return text;
}

std::string NormsText(absl::Span<const LocalOp> norms) {
  if (norms.size() <= kRangesMax) {
    std::vector<std::string> ranges;
    for (const LocalOp& norm : norms) ranges.push_back(ElementsText(norm));
    return absl::StrCat("norm of elements ", absl::StrJoin(ranges, ", "));
  }
  int64_t count = 0;
  for (const LocalOp& norm : norms) count += norm.count;
  const LocalOp& last = norms.back();
  std::string text = absl::StrCat(
      "norm of ", count, " elements, in ", norms.size(), " ranges from ",
      norms[0].offset, " to ", last.offset + last.count);
  if (last.leaf != -1) {
    absl::StrAppend(&text, " for leaves ", norms[0].leaf, " to ", last.leaf);
  }
  return text;
}

std::string SideText(const std::vector<LocalOp>& ops) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < ops.size();) {
    size_t end = i + 1;
    if (ops[i].kind == LocalKind::kNorm) {
      while (end < ops.size() && ops[end].kind == LocalKind::kNorm) ++end;
      texts.push_back(NormsText(absl::MakeSpan(ops).subspan(i, end - i)));
    } else {
      texts.push_back(Describe(ops[i]));
    }
    i = end;
  }
  return absl::StrJoin(texts, "; ");
}

class LaunchesOfRank {
 public:
  LaunchesOfRank(const Plan& plan, int rank)
      : plan_(plan), rank_(plan.ranks[rank]) {
    for (const TransferRef& ref : rank_.launch_order) {
      if (LaneOf(ref).kind != LaneKind::kHalo) Add(ref);
    }
  }

  std::string Text() const {
    std::string text;
    for (size_t i = 0; i < std::min(launches_.size(), kLaunchesMax); ++i) {
      absl::StrAppend(&text, TextOf(launches_[i]));
    }
    if (launches_.size() > kLaunchesMax) {
      absl::StrAppend(&text, "  and ", launches_.size() - kLaunchesMax,
                      " launches more: plan export shows all\n");
    }
    return absl::StrCat(text, HalosText());
  }

  // A text that is equal for ranks that differ only in elements and neighbours.
  std::string Shape() const {
    std::string shape =
        absl::StrCat(rank_.tasks.empty() ? -1 : rank_.tasks[0].stage, "|");
    for (const OneLaunch& launch : launches_) {
      absl::StrAppend(&shape, launch.transfers.size(), ":");
      for (const TransferRef& ref : launch.transfers) {
        absl::StrAppend(&shape, ref.lane, ",");
        if (!launch.are_messages) absl::StrAppend(&shape, ShapeOf(At(ref)));
      }
      shape.push_back('|');
    }
    return absl::StrCat(shape, HalosText());
  }

  bool has_messages() const {
    return std::any_of(
        launches_.begin(), launches_.end(),
        [](const OneLaunch& launch) { return launch.are_messages; });
  }

 private:
  const Lane& LaneOf(const TransferRef& ref) const {
    return rank_.lanes[ref.lane];
  }
  const Transfer& At(const TransferRef& ref) const {
    return LaneOf(ref).transfers[ref.index];
  }

  bool IsMessage(const TransferRef& ref) const {
    return LaneOf(ref).kind == LaneKind::kPipeline &&
           IsPointToPoint(At(ref).kind);
  }

  void Add(const TransferRef& ref) {
    if (launches_.empty() || !Continues(launches_.back(), ref)) {
      launches_.push_back({.are_messages = IsMessage(ref)});
    }
    launches_.back().transfers.push_back(ref);
  }

  bool Continues(const OneLaunch& launch, const TransferRef& ref) const {
    if (launch.are_messages || IsMessage(ref)) {
      return launch.are_messages && IsMessage(ref);
    }
    const TransferRef& before = launch.transfers.back();
    return At(ref).group != 0 && before.lane == ref.lane &&
           At(before).group == At(ref).group;
  }

  std::string TextOf(const OneLaunch& launch) const {
    if (launch.are_messages) return MessagesText(launch);
    const size_t count = launch.transfers.size();
    std::string text =
        count == 1 ? ""
                   : absl::StrCat("  one launch of ", count, " transfers:\n");
    for (const TransferRef& ref : launch.transfers) {
      absl::StrAppend(&text, TextOf(ref, count == 1 ? "  " : "    "));
    }
    return text;
  }

  // "messages: 4 to rank 1, 6 in 3 groups from rank 1", lanes in the order of
  // their first messages.
  std::string MessagesText(const OneLaunch& launch) const {
    struct Messages {
      int lane = 0;
      int transfers = 0;
      int launches = 0;  // a group is one
      int group = 0;     // of the last transfer
    };
    std::vector<Messages> lanes;
    for (const TransferRef& ref : launch.transfers) {
      auto of = std::find_if(
          lanes.begin(), lanes.end(),
          [&](const Messages& messages) { return messages.lane == ref.lane; });
      if (of == lanes.end()) of = lanes.insert(lanes.end(), {.lane = ref.lane});
      const int group = At(ref).group;
      ++of->transfers;
      if (group == 0 || group != of->group) ++of->launches;
      of->group = group;
    }
    std::vector<std::string> texts;
    for (const Messages& messages : lanes) {
      std::string text = absl::StrCat(messages.transfers);
      if (messages.launches < messages.transfers) {
        absl::StrAppend(&text, " in ", messages.launches,
                        messages.launches == 1 ? " group" : " groups");
      }
      texts.push_back(absl::StrCat(text, " ", rank_.lanes[messages.lane].name));
    }
    return absl::StrCat("  messages: ", absl::StrJoin(texts, ", "), "\n");
  }

  std::string TextOf(const TransferRef& ref, const std::string& indent) const {
    const Transfer& transfer = At(ref);
    std::string text =
        absl::StrCat(indent, LaneOf(ref).name, ": ", Describe(transfer));
    if (IsSharedSum(ref)) {
      absl::StrAppend(
          &text, ": the gradients of ", plan_.pipeline.shared[ref.index],
          ", on ", RankList(plan_.communicators[transfer.communicator].ranks));
    }
    text.push_back('\n');
    const auto add = [&](const char* what, const std::string& of) {
      if (!of.empty())
        absl::StrAppend(&text, indent, "  ", what, ": ", of, "\n");
    };
    add("after", AfterText(transfer));
    add("before", SideText(transfer.before));
    add("behind", SideText(transfer.then));
    return text;
  }

  std::string HalosText() const {
    std::map<int, std::vector<std::string>> exchanges;  // by communicator
    for (const HaloRoutes& routes : rank_.halos) {
      const Halo& halo = plan_.halos[routes.halo];
      if (routes.sends.empty() && routes.receives.empty()) continue;
      exchanges[halo.communicator].push_back(
          absl::StrCat(halo.name, " (", routes.sends.size(), " sent, ",
                       routes.receives.size(), " received)"));
    }
    std::string text;
    for (const Lane& lane : rank_.lanes) {
      if (lane.kind != LaneKind::kHalo) continue;
      absl::StrAppend(
          &text, "  ", lane.name, ", launched by the caller: ",
          absl::StrJoin(exchanges[lane.transfers[0].communicator], ", "), "\n");
    }
    return text;
  }

  // The n-th collective of a pipeline's lane sums the n-th shared parameter.
  bool IsSharedSum(const TransferRef& ref) const {
    return LaneOf(ref).kind == LaneKind::kPipeline && !IsMessage(ref);
  }

  std::string AfterText(const Transfer& transfer) const {
    std::vector<std::string> texts;
    for (const TransferRef& ref : transfer.after) {
      texts.push_back(
          IsSharedSum(ref)
              ? absl::StrCat("the sum of ", plan_.pipeline.shared[ref.index])
              : absl::StrCat("transfer ", ref.index, " of lane ",
                             LaneOf(ref).name));
    }
    return absl::StrJoin(texts, ", ");
  }

  static std::string ShapeOf(const Transfer& transfer) {
    std::string shape = Describe(transfer);
    for (const TransferRef& ref : transfer.after) {
      absl::StrAppend(&shape, " after ", ref.lane, ",", ref.index);
    }
    for (const auto* side : {&transfer.before, &transfer.then}) {
      shape.push_back('/');
      for (const LocalOp& op : *side) {
        if (op.kind == LocalKind::kNorm) continue;
        absl::StrAppend(&shape, static_cast<int>(op.kind), ",");
      }
    }
    return shape;
  }

  const Plan& plan_;
  const RankPlan& rank_;
  std::vector<OneLaunch> launches_;
};

}  // namespace

std::string OperationList(const Plan& plan) {
  std::vector<std::pair<std::string, std::vector<int>>> alike;
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    std::string shape = LaunchesOfRank(plan, static_cast<int>(rank)).Shape();
    const auto same =
        std::find_if(alike.begin(), alike.end(),
                     [&](const auto& other) { return other.first == shape; });
    if (same == alike.end()) {
      alike.push_back({std::move(shape), {static_cast<int>(rank)}});
    } else {
      same->second.push_back(static_cast<int>(rank));
    }
  }
  std::string text;
  for (const auto& [shape, ranks] : alike) {
    const LaunchesOfRank operations(plan, ranks[0]);
    absl::StrAppend(&text, "\noperations of ", RankList(ranks));
    if (ranks.size() > 1) {
      absl::StrAppend(&text, ", with the elements ",
                      operations.has_messages() ? "and messages " : "",
                      "of rank ", ranks[0]);
    }
    absl::StrAppend(&text, ":\n", operations.Text());
  }
  return text;
}

}  // namespace lockstep::plan
