#include "tests/plan/mutation/expected.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tests/plan/mutation/stamp.h"

namespace lockstep::plan::oracle {
namespace {

constexpr uint64_t kContributionField = 4;
constexpr uint64_t kRankField = 5;

}  // namespace

Expected::Expected(const Plan& plan) : plan_(plan) {
  if (plan.pipeline.schedule != PipelineSchedule::kNone) {
    ReadPipeline();
    ReadParts();
    Compute();
  }
  FindHolders();
  total_.assign(plan.parameters.size(),
                std::vector<uint64_t>(plan.ranks.size(), 0));
  for (size_t p = 0; p < plan.parameters.size(); ++p) {
    if (bucket_of_[p] < 0) continue;
    uint64_t sum = 0;
    for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
      if (holds_[p][rank]) {
        sum += LocalWithShared(static_cast<int>(rank), static_cast<int>(p));
      }
    }
    for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
      if (holds_[p][rank]) total_[p][rank] = sum;
    }
  }
}

void Expected::ReadPipeline() {
  const PipelineSpec& spec = plan_.pipeline;
  columns_ = plan_.mesh.GroupsOver({spec.axis});
  shape_ = {.kind = spec.schedule,
            .ranks = static_cast<int>(columns_[0].size()),
            .micro_batches = spec.micro_batches,
            .virtual_stages = spec.virtual_stages};
  stages_ = shape_.ranks * shape_.virtual_stages;
  micro_batches_ = spec.micro_batches;
  replica_.assign(plan_.ranks.size(), -1);
  for (size_t r = 0; r < columns_.size(); ++r) {
    for (const int rank : columns_[r]) replica_[rank] = static_cast<int>(r);
  }
}

// Only floating point parts have a gradient.
void Expected::ReadParts() {
  const std::vector<Activation>& given = plan_.pipeline.activations;
  for (int boundary = 0; boundary + 1 < stages_; ++boundary) {
    const Activation& activation =
        given.size() == 1 ? given[0] : given[boundary];
    auto& gradient = parts_[1].emplace_back();
    parts_[0].push_back(activation.parts);
    for (const TensorType& part : activation.parts) {
      if (IsFloat(part.dtype)) gradient.push_back(part);
    }
  }
}

// The stamp of all parts of a result, or 0 if there is no such stage.
uint64_t Expected::InputOf(Flow flow, int from_stage, int micro_batch,
                           int replica) const {
  if (from_stage < 0 || from_stage >= stages_) return 0;
  const int boundary = flow == Flow::kForward ? from_stage : from_stage - 1;
  uint64_t input = 1;
  const uint64_t result = Result(flow, from_stage, micro_batch, replica);
  const int parts = static_cast<int>(Parts(flow, boundary).size());
  for (int part = 0; part < parts; ++part) {
    input = StampOf({input, PartOf(result, part)});
  }
  return input;
}

void Expected::Compute() {
  const size_t all = At(stages_, 0, 0);
  for (auto& results : results_) results.resize(all);
  contributions_.resize(all);
  const auto each = [&](int stage, const auto& compute) {
    for (int m = 0; m < micro_batches_; ++m) {
      for (int r = 0; r < static_cast<int>(columns_.size()); ++r) {
        compute(m, r,
                StampOf({static_cast<uint64_t>(stage), static_cast<uint64_t>(m),
                         static_cast<uint64_t>(r)}));
      }
    }
  };
  for (int s = 0; s < stages_; ++s) {
    each(s, [&](int m, int r, uint64_t name) {
      results_[0][At(s, m, r)] =
          StampOf({static_cast<uint64_t>(Work::kForward), name,
                   InputOf(Flow::kForward, s - 1, m, r)});
    });
  }
  for (int s = stages_ - 1; s >= 0; --s) {
    each(s, [&](int m, int r, uint64_t name) {
      const uint64_t gradient = InputOf(Flow::kGradient, s + 1, m, r);
      results_[1][At(s, m, r)] =
          StampOf({static_cast<uint64_t>(Work::kBackwardInput), name,
                   results_[0][At(s, m, r)], gradient});
      contributions_[At(s, m, r)] = StampOf(
          {kContributionField, name, results_[0][At(s, m, r)], gradient});
    });
  }
}

uint64_t Expected::RankContribution(int rank) {
  return StampOf({kRankField, static_cast<uint64_t>(rank)});
}

void Expected::FindHolders() {
  bucket_of_.assign(plan_.parameters.size(), -1);
  holds_.assign(plan_.parameters.size(),
                std::vector<bool>(plan_.ranks.size(), false));
  for (size_t b = 0; b < plan_.buckets.size(); ++b) {
    const std::vector<int>& ranks =
        plan_.communicators[plan_.buckets[b].communicator].ranks;
    for (const Slot& slot : plan_.buckets[b].slots) {
      const Parameter& parameter = plan_.parameters[slot.parameter];
      std::vector<std::string> axes = parameter.axes;
      if (axes.empty()) {
        for (const MeshAxis& axis : plan_.mesh.axes) axes.push_back(axis.name);
      }
      std::vector<int> group = plan_.mesh.GroupOf(ranks[0], axes);
      std::vector<int> sorted = ranks;
      std::sort(group.begin(), group.end());
      std::sort(sorted.begin(), sorted.end());
      if (group != sorted || bucket_of_[slot.parameter] >= 0) {
        fault_ = absl::StrCat(parameter.name, " has another group");
      }
      bucket_of_[slot.parameter] = static_cast<int>(b);
      for (const int rank : group) holds_[slot.parameter][rank] = true;
    }
  }
}

uint64_t Expected::Local(int rank, int parameter) const {
  if (!has_pipeline()) return RankContribution(rank);
  uint64_t sum = 0;
  for (int s = 0; s < stages_; ++s) {
    if (RankOfStage(ReplicaOf(rank), s) != rank || !Feeds(s, parameter)) {
      continue;
    }
    for (int m = 0; m < micro_batches_; ++m) {
      sum += Contribution(s, m, ReplicaOf(rank));
    }
  }
  return sum;
}

uint64_t Expected::LocalWithShared(int rank, int parameter) const {
  uint64_t sum = Local(rank, parameter);
  const int other = SharesWith(rank);
  if (other < 0) return sum;
  const size_t shared = plan_.pipeline.shared.size();
  for (int k = 0; k < static_cast<int>(shared); ++k) {
    if (SharedOn(rank, k) == parameter) sum += Local(other, SharedOn(other, k));
  }
  return sum;
}

int Expected::SharesWith(int rank) const {
  if (!has_pipeline()) return -1;
  const int first = RankOfStage(ReplicaOf(rank), 0);
  const int last = RankOfStage(ReplicaOf(rank), stages_ - 1);
  if (first == last) return -1;
  return rank == first ? last : rank == last ? first : -1;
}

int Expected::SharedOn(int rank, int shared) const {
  for (size_t p = 0; p < plan_.parameters.size(); ++p) {
    if (plan_.parameters[p].name == plan_.pipeline.shared[shared] &&
        Holds(rank, static_cast<int>(p))) {
      return static_cast<int>(p);
    }
  }
  return -1;
}

}  // namespace lockstep::plan::oracle
