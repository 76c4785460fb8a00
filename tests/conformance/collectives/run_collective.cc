#include "tests/conformance/collectives/run_collective.h"

#include <cstddef>
#include <optional>
#include <utility>

#include "client/collectives/axis_group_impl.h"
#include "client/collectives/shapes.h"
#include "lockstep/axis_group.h"
#include "lockstep/stream.h"
#include "plan/axis_groups.h"
#include "tests/conformance/cases/placed_tensor.h"

namespace lockstep::conformance {
namespace {

using plan::AxisGroups;

// One rank of a call.
struct CallRank {
  Communicator* communicator = nullptr;
  std::optional<PreparedCollective> prepared;
  GroupMemory memory;
  std::vector<PlacedTensor> placed;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  std::unique_ptr<Stream> stream;  // last: its work uses the memory
};

// The offsets and sizes of a ragged operation are host memory everywhere.
bool IsVector(const AxisCollective& op, size_t t) {
  switch (op.kind) {
    case AxisCollectiveKind::kRaggedAllToAll: return t >= 2;
    case AxisCollectiveKind::kRaggedAllToAllTranspose: return t >= 1 && t < 5;
    default: return false;
  }
}

class CollectiveRun {
 public:
  CollectiveRun(const Mesh& mesh, const AxisCollective& op,
                const RankTensors& inputs, Groups& groups, bool checked)
      : mesh_(mesh),
        op_(op),
        inputs_(inputs),
        groups_(groups),
        checked_(checked) {}

  absl::StatusOr<RankTensors> Execute() {
    const auto groups = plan::GroupsOver(mesh_, op_.axes, op_.index_groups);
    if (!groups.ok()) return groups.status();
    ranks_ = std::vector<CallRank>(inputs_.size());
    outputs_.resize(inputs_.size());
    if (absl::Status s = Prepare(*groups); !s.ok()) return s;
    absl::Status cause;
    for (size_t r = 0; r < ranks_.size(); ++r) Note(Enqueue(r), &cause);
    if (!cause.ok()) {
      for (CallRank& rank : ranks_) rank.communicator->Abort("a rank failed");
    }
    for (CallRank& rank : ranks_) Note(rank.stream->Synchronize(), &cause);
    for (CallRank& rank : ranks_) {
      for (const PlacedTensor& tensor : rank.placed) {
        if (cause.ok()) Note(tensor.Fetch(*rank.stream), &cause);
      }
    }
    if (cause.ok()) return std::move(outputs_);
    ranks_.clear();
    groups_.Drop();
    return cause;
  }

 private:
  // Keeps the first error, but rather one of a rank itself than one that a rank
  // has because another one failed.
  static void Note(const absl::Status& status, absl::Status* cause) {
    const bool follows = absl::IsUnavailable(*cause) || absl::IsAborted(*cause);
    if (cause->ok() || (follows && !status.ok())) *cause = status;
  }

  absl::Status Prepare(const AxisGroups& groups) {
    for (const std::vector<int>& members : groups.groups) {
      auto group = groups_.Get(members);
      if (!group.ok()) return group.status();
      for (size_t i = 0; i < members.size(); ++i) {
        CallRank& rank = ranks_[members[i]];
        rank.communicator = (**group)[i].get();
        absl::Status placed = Place(members[i]);
        if (!placed.ok()) return placed;
        const AxisGroup axis_group = MakeAxisGroup(
            rank.communicator, {.even = groups.even, .checked = checked_},
            rank.memory);
        absl::Status s = Prepare(members[i], axis_group, members);
        if (!s.ok()) return s;
      }
    }
    return absl::OkStatus();
  }

  absl::Status Place(int r) {
    auto memory = groups_.MemoryOf(r);
    if (!memory.ok()) return memory.status();
    ranks_[r].memory = *std::move(memory);
    auto stream = groups_.MakeStream(r);
    if (!stream.ok()) return stream.status();
    ranks_[r].stream = *std::move(stream);
    return absl::OkStatus();
  }

  // The tensor's address for rank r.
  absl::StatusOr<void*> Place(int r, std::vector<std::byte>* tensor) {
    auto placed = PlacedTensor::Make(tensor, ranks_[r].memory,
                                     Placement::kPrivate, *ranks_[r].stream);
    if (!placed.ok()) return placed.status();
    void* const data = placed->data();
    ranks_[r].placed.push_back(*std::move(placed));
    return data;
  }

  absl::Status Prepare(int r, const AxisGroup& group,
                       const std::vector<int>& members) {
    CallRank& rank = ranks_[r];
    std::vector<TensorType> types;
    const std::vector<CaseTensor>& typed = Typed(r, members);
    for (size_t t = 0; t < typed.size(); ++t) {
      types.push_back(typed[t].type);
      absl::StatusOr<void*> input = nullptr;
      if (t < inputs_[r].size()) {
        input = IsVector(op_, t) ? inputs_[r][t].bytes.data()
                                 : Place(r, &inputs_[r][t].bytes);
      }
      if (!input.ok()) return input.status();
      rank.inputs.push_back(*input);
    }
    auto prepared = group.Prepare(op_, types);
    if (!prepared.ok()) return prepared.status();
    rank.prepared = *std::move(prepared);
    for (const TensorType& type : rank.prepared->outputs()) {
      // No operation writes this, so gaps are seen.
      constexpr std::byte kUnwritten{0xa5};
      outputs_[r].push_back(
          {type,
           std::vector<std::byte>(collectives::BytesOf(type), kUnwritten)});
    }
    for (CaseTensor& tensor : outputs_[r]) {
      const auto output = Place(r, &tensor.bytes);
      if (!output.ok()) return output.status();
      rank.outputs.push_back(*output);
    }
    return absl::OkStatus();
  }

  // The tensors whose types this rank's inputs have: of an operation from a
  // root, the root's.
  const std::vector<CaseTensor>& Typed(int r,
                                       const std::vector<int>& members) const {
    const bool from_root = op_.kind == AxisCollectiveKind::kPbroadcast ||
                           op_.kind == AxisCollectiveKind::kScatter;
    const auto root = static_cast<size_t>(op_.root);
    return inputs_[from_root && root < members.size() ? members[root] : r];
  }

  absl::Status Enqueue(size_t r) {
    CallRank& rank = ranks_[r];
    return rank.prepared->Run(rank.inputs, rank.outputs, *rank.stream);
  }

  const Mesh& mesh_;
  const AxisCollective& op_;
  RankTensors inputs_;  // a device copies them from here and back
  Groups& groups_;
  const bool checked_;
  RankTensors outputs_;
  std::vector<CallRank> ranks_;
};

}  // namespace

absl::StatusOr<RankTensors> RunCollective(const Mesh& mesh,
                                          const AxisCollective& op,
                                          const RankTensors& inputs,
                                          Groups& groups, bool checked) {
  return CollectiveRun(mesh, op, inputs, groups, checked).Execute();
}

}  // namespace lockstep::conformance
