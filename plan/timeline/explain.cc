#include "plan/timeline/explain.h"

#include <algorithm>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "plan/digest.h"
#include "plan/local_op_text.h"
#include "plan/pipeline/shape.h"
#include "plan/words/rank_list.h"

namespace lockstep::plan {
namespace {

constexpr int64_t kColumnsMax = 200;
constexpr size_t kOperationsMax = 48;  // transfers of a rank

// A capital for a rank's first stage, small letters for the others.
std::string CellOf(const Task& task, int first_stage) {
  constexpr char kCapital[] = "?FBIW";
  constexpr char kSmall[] = "?fbiw";
  const char* letters = task.stage == first_stage ? kCapital : kSmall;
  return absl::StrFormat("%c%d", letters[static_cast<int>(task.work)],
                         task.micro_batch);
}

int FirstStage(const RankPlan& rank) {
  int first = rank.tasks[0].stage;
  for (const Task& task : rank.tasks) first = std::min(first, task.stage);
  return first;
}

// How wide a column must be for the longest cell.
size_t CellWidth(const Plan& plan) {
  size_t width = 2;
  for (const RankPlan& rank : plan.ranks) {
    for (const Task& task : rank.tasks) {
      width = std::max(width, CellOf(task, task.stage).size());
    }
  }
  return width;
}

std::string RowOf(const RankPlan& rank, const RankSpans& spans, int64_t columns,
                  size_t width) {
  std::vector<std::string> cells(columns, std::string(width, '.'));
  const int first_stage = FirstStage(rank);
  for (size_t i = 0; i < rank.tasks.size(); ++i) {
    for (int64_t at = spans.tasks[i].begin; at < spans.tasks[i].end; ++at) {
      cells[at] = at == spans.tasks[i].begin
                      ? CellOf(rank.tasks[i], first_stage)
                      : std::string(width, '-');
    }
  }
  std::string row;
  for (const std::string& cell : cells) {
    absl::StrAppendFormat(&row, " %-*s", static_cast<int>(width), cell);
  }
  return row;
}

// Ranks of the same row are one line.
std::string Rows(const Plan& plan, const Timeline& timeline) {
  const int64_t columns = timeline.compute_end;
  if (columns > kColumnsMax) {
    return absl::StrFormat(
        "the timeline has %d columns: too wide for text, draw it with --svg\n",
        columns);
  }
  const size_t width = CellWidth(plan);
  std::vector<std::pair<std::string, std::vector<int>>> rows;
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    if (plan.ranks[rank].tasks.empty()) continue;
    std::string row =
        RowOf(plan.ranks[rank], timeline.ranks[rank], columns, width);
    const auto same =
        std::find_if(rows.begin(), rows.end(),
                     [&](const auto& other) { return other.first == row; });
    if (same == rows.end()) {
      rows.push_back({std::move(row), {static_cast<int>(rank)}});
    } else {
      same->second.push_back(static_cast<int>(rank));
    }
  }
  size_t label = 0;
  for (const auto& [row, ranks] : rows) {
    label = std::max(label, RankList(ranks).size());
  }
  std::string text;
  for (const auto& [row, ranks] : rows) {
    absl::StrAppendFormat(&text, "%-*s %s\n", static_cast<int>(label),
                          RankList(ranks), row);
  }
  return text;
}

std::string Legend(const Plan& plan) {
  std::string legend = "F forward";
  const PipelineSchedule kind = plan.pipeline.schedule;
  const bool split =
      kind == PipelineSchedule::kZbH1 || kind == PipelineSchedule::kZbV;
  absl::StrAppend(&legend, split ? ", I gradient of the input, W of the weights"
                                 : ", B backward");
  if (plan.pipeline.virtual_stages > 1) {
    absl::StrAppend(&legend, "; small letters: a rank's later stages");
  }
  return legend + "; the number is the micro-batch\n";
}

std::string Stages(const Plan& plan) {
  std::string text;
  std::map<int, std::pair<std::vector<int>, int>> stages;
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    for (const auto& [stage, kept] : ActivationsKept(plan.ranks[rank])) {
      stages[stage].first.push_back(static_cast<int>(rank));
      stages[stage].second = std::max(stages[stage].second, kept);
    }
  }
  for (const auto& [stage, held] : stages) {
    absl::StrAppendFormat(&text, "stage %d (%s): peak %d activation%s\n", stage,
                          RankList(held.first), held.second,
                          held.second == 1 ? "" : "s");
  }
  return text;
}

std::string Links(const Plan& plan) {
  std::string text;
  for (const auto& [link, traffic] : LinksOf(plan)) {
    absl::StrAppendFormat(&text, "link rank %d > rank %d: %d messages, %s\n",
                          link.first, link.second, traffic.messages,
                          BytesText(traffic.bytes));
  }
  return text;
}

std::string Buffers(const Plan& plan) {
  std::map<int64_t, std::vector<int>> ranks_of;
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    const int64_t bytes = BufferBytes(plan.ranks[rank]);
    if (bytes > 0) ranks_of[bytes].push_back(static_cast<int>(rank));
  }
  std::string text;
  for (const auto& [bytes, ranks] : ranks_of) {
    absl::StrAppendFormat(&text, "buffers of %s: %s\n", RankList(ranks),
                          BytesText(bytes));
  }
  return text;
}

std::string Gradients(const Plan& plan) {
  std::map<std::pair<size_t, int64_t>, int> communicators;
  std::map<int, std::pair<int, int64_t>> of;
  for (const Bucket& bucket : plan.buckets) {
    auto& [count, bytes] = of[bucket.communicator];
    ++count;
    bytes += bucket.total * static_cast<int64_t>(SizeOf(WireOf(bucket)));
  }
  std::string text;
  for (const auto& [communicator, total] : of) {
    absl::StrAppendFormat(&text, "gradients over %s: %d bucket%s, %s\n",
                          plan.communicators[communicator].name, total.first,
                          total.first == 1 ? "" : "s", BytesText(total.second));
  }
  return text;
}

// --- Operations -------------------------------------------------------------

// Norms that follow each other are one.
std::string SideText(const std::vector<LocalOp>& ops) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < ops.size();) {
    size_t end = i + 1;
    while (end < ops.size() && ops[i].kind == LocalKind::kNorm &&
           ops[end].kind == LocalKind::kNorm) {
      ++end;
    }
    std::string text = Describe(ops[i]);
    if (end - i > 1) {
      absl::StrAppend(&text, " and ", end - i - 1, " more");
    }
    texts.push_back(std::move(text));
    i = end;
  }
  return absl::StrJoin(texts, "; ");
}

std::string OperationsOf(const RankPlan& rank) {
  std::string text;
  size_t listed = 0;
  for (const TransferRef& ref : rank.launch_order) {
    const Lane& lane = rank.lanes[ref.lane];
    if (lane.kind == LaneKind::kPipeline) continue;  // see the timeline
    if (listed++ >= kOperationsMax) continue;
    const Transfer& transfer = lane.transfers[ref.index];
    absl::StrAppend(&text, "  ", lane.name, ": ", Describe(transfer), "\n");
    if (!transfer.before.empty()) {
      absl::StrAppend(&text, "    before: ", SideText(transfer.before), "\n");
    }
    if (!transfer.then.empty()) {
      absl::StrAppend(&text, "    behind: ", SideText(transfer.then), "\n");
    }
  }
  if (listed > kOperationsMax) {
    absl::StrAppend(&text, "  and ", listed - kOperationsMax,
                    " more: plan export shows all\n");
  }
  return text;
}

// The same for ranks that differ in nothing but whose elements they are.
std::string KindsOf(const RankPlan& rank) {
  std::string shape;
  for (const TransferRef& ref : rank.launch_order) {
    const Lane& lane = rank.lanes[ref.lane];
    if (lane.kind == LaneKind::kPipeline) continue;
    const Transfer& transfer = lane.transfers[ref.index];
    absl::StrAppend(&shape, lane.name, Describe(transfer), "|");
    for (const auto* side : {&transfer.before, &transfer.then}) {
      for (const LocalOp& op : *side) {
        if (op.kind == LocalKind::kNorm) continue;
        absl::StrAppend(&shape, static_cast<int>(op.kind), ",");
      }
      shape.push_back('|');
    }
  }
  return shape;
}

std::string Operations(const Plan& plan) {
  std::vector<std::pair<std::string, std::vector<int>>> alike;
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    std::string shape = KindsOf(plan.ranks[rank]);
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
    absl::StrAppend(&text, "\noperations of ", RankList(ranks));
    if (ranks.size() > 1) {
      absl::StrAppend(&text, ", with the elements of rank ", ranks[0]);
    }
    absl::StrAppend(&text, ":\n", OperationsOf(plan.ranks[ranks[0]]));
  }
  return text;
}

}  // namespace

std::string PercentText(double share) {
  return absl::StrFormat("%.1f %%", share * 100);
}

std::string BytesText(int64_t bytes) {
  const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(units)) {
    value /= 1024;
    ++unit;
  }
  if (unit == 0) return absl::StrFormat("%d B", bytes);
  return absl::StrFormat("%.1f %s", value, units[unit]);
}

std::string Headline(const Plan& plan) {
  if (!HasPipeline(plan.pipeline)) {
    return absl::StrFormat("mesh %s, no pipeline", ToString(plan.mesh));
  }
  const ScheduleShape shape = ShapeOf(plan.pipeline, plan.mesh);
  return absl::StrFormat("%s: %d stages on %d ranks, %d micro-batches, mesh %s",
                         Name(shape.kind), shape.stages(), shape.ranks,
                         shape.micro_batches, ToString(plan.mesh));
}

std::string ExplainText(const Plan& plan, const Timeline& timeline) {
  std::string text = absl::StrCat(Headline(plan), "\nplan ", DigestOf(plan),
                                  ", revision ", plan.revision.value, "\n\n");
  if (timeline.compute_end > 0) {
    absl::StrAppend(&text, Rows(plan, timeline), Legend(plan),
                    "\nbubble: ", PercentText(timeline.bubble), "\n");
  }
  absl::StrAppend(&text, Stages(plan), Buffers(plan), Links(plan),
                  Gradients(plan), Operations(plan));
  return text;
}

}  // namespace lockstep::plan
