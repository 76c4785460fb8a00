// Draws a timeline.
//
//   title                                     bubble: 27.3 %
//   rank 0  [0][1][2][3]      [ 0 ]...        a bar for each task: its
//             \  \  \         /              colour is the work, its number the
//   rank 1     [0][1]...                      micro-batch; an arrow for each
//   legend                                    message
//
// Arrows are under the bars: an arrow that crosses a rank is visible between
// the rows and never covers a number. Arrows of both directions at one time
// cross and do not overlap.

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "plan/timeline/explain.h"
#include "plan/verify/traffic.h"

namespace lockstep::plan {
namespace {

constexpr size_t kRanksDrawn = 64;
constexpr int kLeft = 72;
constexpr int kTop = 48;
constexpr int kRow = 40;
constexpr int kBar = 26;
constexpr double kUnitMax = 26;
constexpr double kWidthMax = 1800;
constexpr double kPictureMin = 620;  // for title and legend
constexpr double kLegendStep = 124;
constexpr int kVerdict = 4;  // width of its bar
constexpr char kVerdictColour[] = "#7f5fa8";
constexpr double kLean = 5;  // lean of an arrow between adjacent times

// Lighter colours for a rank's later stages.
const char* ColourOf(Work work, bool later) {
  switch (work) {
    case Work::kForward: return later ? "#a9cdf2" : "#5b9bd5";
    case Work::kBackward: return later ? "#b9e0b0" : "#70b35f";
    case Work::kBackwardInput: return later ? "#c6ecec" : "#5fbcbc";
    case Work::kBackwardWeight: return later ? "#f9d6a3" : "#eda23e";
  }
  return "#cccccc";
}

class Drawing {
 public:
  Drawing(const Plan& plan, const Timeline& timeline)
      : plan_(plan),
        timeline_(timeline),
        unit_(std::min(kUnitMax,
                       kWidthMax / static_cast<double>(std::max<int64_t>(
                                       timeline.compute_end, 1)))) {
    for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
      if (!plan.ranks[rank].tasks.empty()) rows_.push_back(rank);
    }
    if (rows_.size() > kRanksDrawn) rows_.resize(kRanksDrawn);
    row_of_.assign(plan.ranks.size(), -1);
    for (size_t row = 0; row < rows_.size(); ++row) {
      row_of_[rows_[row]] = static_cast<int>(row);
    }
  }

  std::string Draw() {
    Begin();
    for (const size_t rank : rows_) DrawRow(rank);
    for (const auto& [key, channel] : TrafficOf(plan_).channels) {
      for (size_t i = 0; i < channel.sends.size(); ++i) {
        DrawMessage(channel.sends[i], channel.receives[i]);
      }
    }
    for (const size_t rank : rows_) DrawTasks(rank);
    for (const size_t rank : rows_) DrawVerdict(rank);
    DrawLegend();
    return absl::StrCat(svg_, "</svg>\n");
  }

 private:
  double X(int64_t at) const { return kLeft + static_cast<double>(at) * unit_; }
  int Y(int row) const { return kTop + row * kRow; }

  void Begin() {
    const double width = std::max(X(timeline_.compute_end) + 16, kPictureMin);
    const int height = Y(static_cast<int>(rows_.size())) + 40;
    absl::StrAppendFormat(
        &svg_,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" "
        "height=\"%d\" viewBox=\"0 0 %.0f %d\" "
        "font-family=\"sans-serif\" font-size=\"12\">\n"
        "<defs><marker id=\"tip\" viewBox=\"0 0 6 6\" refX=\"6\" refY=\"3\" "
        "markerWidth=\"6\" markerHeight=\"6\" orient=\"auto\">"
        "<path d=\"M0,0 L6,3 L0,6 z\" fill=\"#555555\"/></marker></defs>\n"
        "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
        width, height, width, height);
    absl::StrAppendFormat(&svg_,
                          "<text x=\"12\" y=\"20\" font-size=\"14\">%s</text>\n"
                          "<text x=\"12\" y=\"38\">bubble: %s</text>\n",
                          Headline(plan_), PercentText(timeline_.bubble));
  }

  void DrawRow(size_t rank) {
    const int y = Y(row_of_[rank]);
    absl::StrAppendFormat(
        &svg_,
        "<text x=\"12\" y=\"%d\">rank %d</text>\n"
        "<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" "
        "fill=\"#f0f0f0\"/>\n",
        y + 18, rank, X(0), y, X(timeline_.compute_end) - X(0), kBar);
  }

  void DrawTasks(size_t rank) {
    const int y = Y(row_of_[rank]);
    const std::vector<Task>& tasks = plan_.ranks[rank].tasks;
    int first_stage = tasks[0].stage;
    for (const Task& task : tasks) {
      first_stage = std::min(first_stage, task.stage);
    }
    for (const Task& task : tasks) has_later_ |= task.stage != first_stage;
    for (size_t i = 0; i < tasks.size(); ++i) {
      DrawTask(tasks[i], timeline_.ranks[rank].tasks[i], y,
               tasks[i].stage != first_stage);
    }
  }

  // After all other transfers; its time is usually near zero.
  void DrawVerdict(size_t rank) {
    for (const Lane& lane : plan_.ranks[rank].lanes) {
      if (lane.kind != LaneKind::kVerdict) continue;
      absl::StrAppendFormat(
          &svg_,
          "<rect x=\"%.1f\" y=\"%d\" width=\"%d\" height=\"%d\" "
          "fill=\"%s\"><title>verdict</title></rect>\n",
          X(timeline_.compute_end) + 3, Y(row_of_[rank]), kVerdict, kBar,
          kVerdictColour);
    }
  }

  void DrawTask(const Task& task, const Span& span, int y, bool later) {
    const double width = X(span.end) - X(span.begin);
    absl::StrAppendFormat(
        &svg_,
        "<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"%s\" "
        "stroke=\"#ffffff\"><title>%s, from %d to %d</title></rect>\n",
        X(span.begin), y, width, kBar, ColourOf(task.work, later),
        Describe(task), span.begin, span.end);
    if (width < 10) return;
    absl::StrAppendFormat(&svg_,
                          "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\" "
                          "pointer-events=\"none\">%d</text>\n",
                          X(span.begin) + width / 2, y + 18, task.micro_batch);
  }

  // From the end of the task that produces the message to the start of the task
  // that consumes it.
  void DrawMessage(const PlanNode& send, const PlanNode& receive) {
    const int made_by = At(plan_, send).after_task;
    const int from = row_of_[send.rank];
    const int to = row_of_[receive.rank];
    const int needed_by = NeededBy(receive);
    if (made_by < 0 || needed_by < 0 || from < 0 || to < 0) return;
    const bool down = to > from;
    const double lean = std::min(kLean, unit_ / 3);
    DrawArrow(X(timeline_.ranks[send.rank].tasks[made_by].end) - lean,
              Y(from) + (down ? kBar : 0),
              X(timeline_.ranks[receive.rank].tasks[needed_by].begin) + lean,
              Y(to) + (down ? 0 : kBar));
  }

  void DrawArrow(double x1, int y1, double x2, int y2) {
    absl::StrAppendFormat(
        &svg_,
        "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" stroke=\"#555555\" "
        "stroke-width=\"0.8\" opacity=\"0.7\" marker-end=\"url(#tip)\"/>\n",
        x1, y1, x2, y2);
  }

  int NeededBy(const PlanNode& receive) const {
    const std::vector<Task>& tasks = plan_.ranks[receive.rank].tasks;
    for (size_t i = 0; i < tasks.size(); ++i) {
      const std::vector<TransferRef>& after = tasks[i].after;
      if (std::find(after.begin(), after.end(), receive.ref) != after.end()) {
        return static_cast<int>(i);
      }
    }
    return -1;
  }

  void DrawLegend() {
    const int y = Y(static_cast<int>(rows_.size())) + 8;
    double x = kLeft;
    for (const Work work : {Work::kForward, Work::kBackward,
                            Work::kBackwardInput, Work::kBackwardWeight}) {
      if (!IsDone(work)) continue;
      absl::StrAppendFormat(
          &svg_,
          "<rect x=\"%.1f\" y=\"%d\" width=\"14\" height=\"14\" "
          "fill=\"%s\"/>\n<text x=\"%.1f\" y=\"%d\">%s</text>\n",
          x, y, ColourOf(work, false), x + 20, y + 12, Name(work));
      x += kLegendStep;
    }
    DrawArrow(x, y + 7, x + 20, y + 7);
    DrawNote(x + 26, y, "message");
    x += 110;
    absl::StrAppendFormat(&svg_,
                          "<rect x=\"%.1f\" y=\"%d\" width=\"%d\" "
                          "height=\"14\" fill=\"%s\"/>\n",
                          x, y, kVerdict, kVerdictColour);
    DrawNote(x + kVerdict + 6, y, "verdict");
    x += 76;
    if (has_later_) {
      DrawNote(x, y, "lighter: the rank's later stage");
      x += 210;
    }
    if (rows_.size() < plan_.ranks.size()) {
      DrawNote(
          x, y,
          absl::StrFormat("%d ranks of %d", rows_.size(), plan_.ranks.size()));
    }
  }

  void DrawNote(double x, int y, absl::string_view text) {
    absl::StrAppendFormat(&svg_, "<text x=\"%.1f\" y=\"%d\">%s</text>\n", x,
                          y + 12, text);
  }

  bool IsDone(Work work) const {
    if (rows_.empty()) return false;
    for (const Task& task : plan_.ranks[rows_[0]].tasks) {
      if (task.work == work) return true;
    }
    return false;
  }

  const Plan& plan_;
  const Timeline& timeline_;
  const double unit_;         // pixels
  std::vector<size_t> rows_;  // ranks
  std::vector<int> row_of_;   // of each rank, or -1
  bool has_later_ = false;    // a rank has more than one stage
  std::string svg_;
};

}  // namespace

std::string ExplainSvg(const Plan& plan, const Timeline& timeline) {
  return Drawing(plan, timeline).Draw();
}

}  // namespace lockstep::plan
