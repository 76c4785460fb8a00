#include "plan/timeline/explain.h"

#include <algorithm>
#include <bit>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/text/count.h"
#include "base/text/rank_list.h"
#include "plan/digest.h"
#include "plan/schedule/pipeline_shape.h"
#include "plan/timeline/operation_list.h"

namespace lockstep::plan {
namespace {

constexpr int64_t kColumnsMax = 200;

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

// Ranks with equal rows are merged into one line.
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
    absl::StrAppendFormat(&text, "stage %d (%s): peak %s\n", stage,
                          RankList(held.first),
                          Count(held.second, "activation"));
  }
  return text;
}

std::string Links(const Plan& plan) {
  std::string text;
  for (const auto& [link, traffic] : LinksOf(plan)) {
    absl::StrAppendFormat(&text, "link rank %d > rank %d: %s, %s\n", link.first,
                          link.second, Count(traffic.messages, "message"),
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
  std::map<int, std::pair<int, int64_t>> of;
  for (const Bucket& bucket : plan.buckets) {
    auto& [count, bytes] = of[bucket.communicator];
    ++count;
    bytes += bucket.total * static_cast<int64_t>(SizeOf(WireOf(bucket)));
  }
  std::string text;
  for (const auto& [communicator, total] : of) {
    absl::StrAppendFormat(&text, "gradients over %s: %s, %s\n",
                          plan.communicators[communicator].name,
                          Count(total.first, "bucket"),
                          BytesText(total.second));
  }
  return text;
}

// --- Trees of leaves --------------------------------------------------------

constexpr int kLeavesDrawn = 16;
constexpr size_t kRanksListed = 16;

// "(0+1)+(2+3)": adjacent leaves are added first, then their sums.
std::string TreeText(int first, int leaves) {
  if (leaves == 1) return absl::StrCat(first);
  const int half = leaves / 2;
  if (half == 1) return absl::StrCat(first, "+", first + 1);
  return absl::StrCat("(", TreeText(first, half), ")+(",
                      TreeText(first + half, half), ")");
}

std::string LeavesText(const Plan& plan, int communicator, int leaves) {
  const CommunicatorSpec& group = plan.communicators[communicator];
  std::string text =
      absl::StrFormat("tree of %d leaves over %s: ", leaves, group.name);
  if (leaves <= kLeavesDrawn) {
    absl::StrAppend(&text, TreeText(0, leaves), "\n");
  } else {
    absl::StrAppendFormat(
        &text, "neighbours are added, then their sums, %s\n",
        Count(std::countr_zero(static_cast<unsigned>(leaves)), "time"));
  }
  const int each = leaves / static_cast<int>(group.ranks.size());
  const std::string leaf = each == 1 ? "leaf" : "leaves";
  if (group.ranks.size() > kRanksListed) {
    return absl::StrCat(text, "  each of its ranks in turn has ", each, " ",
                        leaf, "\n");
  }
  std::vector<std::string> parts;
  for (size_t i = 0; i < group.ranks.size(); ++i) {
    const int first = static_cast<int>(i) * each;
    const std::string last =
        each == 1 ? "" : absl::StrCat("-", first + each - 1);
    parts.push_back(
        absl::StrCat("rank ", group.ranks[i], " has ", leaf, " ", first, last));
  }
  return absl::StrCat(text, "  ", absl::StrJoin(parts, ", "), "\n");
}

// The tree of each group that sums buckets with leaves.
std::string Trees(const Plan& plan) {
  std::map<int, int> leaves_of;
  for (const Bucket& bucket : plan.buckets) {
    if (bucket.leaves > 0) leaves_of[bucket.communicator] = bucket.leaves;
  }
  std::string text;
  for (const auto& [communicator, leaves] : leaves_of) {
    absl::StrAppend(&text, LeavesText(plan, communicator, leaves));
  }
  return text;
}

// --- Halo exchanges ---------------------------------------------------------

// "f32[10 over lat (1, 2, periodic), 8]": extents of the whole field, with low,
// high and edge of those that are padded.
std::string FieldText(const Halo& halo, const HaloField& field) {
  std::vector<std::string> extents;
  for (const HaloExtent& extent : field.dims) {
    std::string text = absl::StrCat(extent.bounds.back());
    if (extent.axis >= 0) {
      absl::StrAppend(&text, " over ", halo.mesh.axes[extent.axis].name);
    }
    if (extent.low + extent.high > 0) {
      absl::StrAppendFormat(&text, " (%d, %d, %s)", extent.low, extent.high,
                            Name(extent.edge));
    }
    extents.push_back(std::move(text));
  }
  return absl::StrFormat("%s[%s]", Name(field.dtype),
                         absl::StrJoin(extents, ", "));
}

std::string Halos(const Plan& plan) {
  std::string text;
  for (size_t h = 0; h < plan.halos.size(); ++h) {
    const Halo& halo = plan.halos[h];
    std::vector<std::string> fields;
    for (const HaloField& field : halo.fields) {
      fields.push_back(FieldText(halo, field));
    }
    absl::StrAppendFormat(&text, "halo %s on %s: %s\n", halo.name,
                          RankList(halo.ranks), absl::StrJoin(fields, " and "));
    for (const auto& [link, traffic] : LinksOfHalo(plan, static_cast<int>(h))) {
      absl::StrAppendFormat(
          &text,
          "  link rank %d > rank %d: %s an exchange, and back in its adjoint\n",
          link.first, link.second, BytesText(traffic.bytes));
    }
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
  return absl::StrFormat("%s: %s on %s, %d micro-batch%s, mesh %s",
                         Name(shape.kind), Count(shape.stages(), "stage"),
                         Count(shape.ranks, "rank"), shape.micro_batches,
                         shape.micro_batches == 1 ? "" : "es",
                         ToString(plan.mesh));
}

std::string ExplainText(const Plan& plan, const Timeline& timeline) {
  std::string text = absl::StrCat(Headline(plan), "\nplan ", DigestOf(plan),
                                  ", revision ", plan.revision.value, "\n\n");
  if (timeline.compute_end > 0) {
    absl::StrAppend(&text, Rows(plan, timeline), Legend(plan),
                    "\nbubble: ", PercentText(timeline.bubble), "\n");
  }
  absl::StrAppend(&text, Stages(plan), Buffers(plan), Links(plan),
                  Gradients(plan), Trees(plan), Halos(plan),
                  OperationList(plan));
  return text;
}

}  // namespace lockstep::plan
