#include "tests/plan/mutation/elements.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "plan/summary.h"
#include "tests/plan/mutation/stamp.h"

namespace lockstep::plan::oracle {
namespace {

bool IsHalf(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBF16;
}

struct Value {
  bool is_garbage = true;
  uint64_t sum = 0;
  int64_t divisor = 1;
  DType dtype = DType::kF32;
  int rounded = 0;
  bool feeds_back = false;
  bool operator==(const Value&) const = default;
};

Value ValueOf(uint64_t sum, DType dtype) {
  return {.is_garbage = false, .sum = sum, .dtype = dtype};
}

// Values by position, one for each range of elements between cuts.
using Cells = std::vector<Value>;

Value CastTo(const Value& value, DType from, DType to, bool feeds_back) {
  if (value.is_garbage || value.dtype != from) return {};
  Value cast = value;
  cast.dtype = to;
  cast.rounded += SizeOf(to) < SizeOf(from) ? 1 : 0;
  cast.feeds_back |= feeds_back;
  return cast;
}

// Garbage if the values are not of one kind.
Value SumOf(const std::vector<const Value*>& values, DType dtype) {
  Value sum = *values[0];
  sum.sum = 0;
  for (const Value* value : values) {
    if (value->is_garbage || value->dtype != dtype ||
        value->divisor != sum.divisor || value->rounded != sum.rounded ||
        value->feeds_back != sum.feeds_back) {
      return {};
    }
    sum.sum += value->sum;
  }
  return sum;
}

struct RankMemory {
  Cells gradients;
  Cells copy;                    // in the transfer's dtype
  std::vector<Cells> rows;       // received in an exchange, by rank
  std::vector<bool> flags_read;  // of all ranks, of each slot
};

// How often all ranks of a bucket count its elements in the norm.
using Counted = std::vector<int>;

class BucketRun {
 public:
  BucketRun(const Plan& plan, int index)
      : plan_(plan),
        index_(index),
        bucket_(plan.buckets[index]),
        group_(plan.communicators[bucket_.communicator].ranks),
        end_(bucket_.flags_offset +
             static_cast<int64_t>(bucket_.slots.size())) {
    for (const int rank : group_) units_.push_back(UnitsOf(rank));
    Cut();
  }

  // Runs the bucket; `gives` selects the ranks that contribute. Their counts
  // are added to *counted.
  std::optional<Fault> Run(const std::vector<bool>& gives, Counted* counted) {
    gives_ = gives;
    counted_ = counted;
    counted_->assign(cuts_.size() - 1, 0);
    Begin();
    const size_t units = units_[0].size();
    for (size_t u = 0; u < units; ++u) {
      for (const auto& of_rank : units_) {
        if (of_rank.size() != units || !Alike(of_rank[u], units_[0][u])) {
          return Fault{Fate::kMismatch,
                       "the ranks of a bucket do not do the same together"};
        }
      }
      RunUnit(u);
      if (fault_) return fault_;
    }
    CheckResults();
    return fault_;
  }

  // The elements of a counted range, from the bucket's start.
  std::pair<int64_t, int64_t> Range(size_t cell) const {
    return {cuts_[cell], cuts_[cell + 1]};
  }
  const std::string& cut_fault() const { return cut_fault_; }

 private:
  using Unit = std::vector<const Transfer*>;

  void Wrong(const std::string& why) {
    if (!fault_) fault_ = Fault{Fate::kMismatch, why};
  }

  bool GathersParameters(const Transfer& transfer) const {
    return bucket_.sharded && transfer.kind == TransferKind::kAllGather;
  }

  std::vector<Unit> UnitsOf(int rank) const {
    std::vector<Unit> units;
    for (const Lane& lane : plan_.ranks[rank].lanes) {
      const Transfer* before = nullptr;
      for (const Transfer& transfer : lane.transfers) {
        const bool is_next =
            before != nullptr && before->group == transfer.group;
        before = &transfer;
        if (transfer.bucket != index_ || GathersParameters(transfer)) continue;
        if (units.empty() || transfer.group == 0 || !is_next) {
          units.emplace_back();
        }
        units.back().push_back(&transfer);
      }
    }
    return units;
  }

  static bool Alike(const Unit& a, const Unit& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](const Transfer* x, const Transfer* y) {
                        return x->kind == y->kind && x->dtype == y->dtype;
                      });
  }

  // --- Cells ---

  int ranks() const { return static_cast<int>(group_.size()); }
  int64_t SliceSize() const { return bucket_.flags_offset / ranks(); }

  void Cut() {
    std::set<int64_t> cuts = {0, bucket_.flags_offset, end_};
    for (const Slot& slot : bucket_.slots) {
      cuts.insert(slot.offset);
      cuts.insert(slot.offset + slot.count);
    }
    for (int64_t at = bucket_.flags_offset; at < end_; ++at) cuts.insert(at);
    if (bucket_.sharded || bucket_.leaves > 0) {
      for (int i = 0; i < ranks(); ++i) cuts.insert(i * SliceSize());
    }
    // Leaves are cut at the beginnings of the sum's runs.
    for (int64_t at = 0; at < end_; at += 4096) cuts.insert(at);
    for (const auto& of_rank : units_) {
      for (const Unit& unit : of_rank) {
        for (const Transfer* transfer : unit) {
          for (const auto* ops : {&transfer->before, &transfer->then}) {
            for (const LocalOp& op : *ops) CutAt(op, cuts);
          }
        }
      }
    }
    cuts_.assign(cuts.begin(), cuts.end());
    if (cuts_.size() == 1) cuts_.push_back(cuts_[0]);
  }

  void CutAt(const LocalOp& op, std::set<int64_t>& cuts) {
    if (op.offset < 0 || op.count < 0 || op.offset > end_ ||
        op.count > end_ - op.offset) {
      cut_fault_ = "a local operation on elements that are not there";
      return;
    }
    cuts.insert(op.offset);
    cuts.insert(op.offset + op.count);
    const bool of_flags =
        op.kind == LocalKind::kWriteFlags || op.kind == LocalKind::kReadFlags;
    for (int64_t i = 0; of_flags && i < op.count; ++i) {
      cuts.insert(op.offset + i);
    }
  }

  size_t CellAt(int64_t element) const {
    return std::lower_bound(cuts_.begin(), cuts_.end(), element) -
           cuts_.begin();
  }
  template <typename Do>
  void Each(int64_t begin, int64_t end, const Do& act) const {
    for (size_t cell = CellAt(begin); cell < CellAt(end); ++cell) act(cell);
  }
  // The slot that the cell is in, or -1.
  int SlotAt(size_t cell) const {
    for (size_t i = 0; i < bucket_.slots.size(); ++i) {
      const Slot& slot = bucket_.slots[i];
      if (cuts_[cell] >= slot.offset &&
          cuts_[cell] < slot.offset + slot.count) {
        return static_cast<int>(i);
      }
    }
    return -1;
  }

  // --- Running ---

  DType SumType() const {
    return bucket_.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  }

  static uint64_t StampAt(int position, size_t cell) {
    return StampOf({static_cast<uint64_t>(position), cell});
  }

  void Begin() {
    memory_.assign(ranks(), {});
    for (int i = 0; i < ranks(); ++i) {
      RankMemory& memory = memory_[i];
      memory.gradients.resize(cuts_.size() - 1);
      memory.copy.resize(cuts_.size() - 1);
      memory.flags_read.assign(bucket_.slots.size(), false);
      const bool copied = bucket_.leaves > 0 && SumType() != bucket_.dtype;
      Each(0, bucket_.flags_offset, [&](size_t cell) {
        const bool is_padding = SlotAt(cell) < 0;
        if (!is_padding && !gives_[i]) return;
        const uint64_t sum = is_padding ? 0 : StampAt(i, cell);
        if (copied) {
          memory.copy[cell] = ValueOf(sum, SumType());
        } else {
          memory.gradients[cell] = ValueOf(sum, bucket_.dtype);
        }
      });
    }
  }

  bool HasCopy(const Transfer& transfer) const {
    return transfer.dtype != bucket_.dtype;
  }
  Cells& MemoryOf(const Transfer& transfer, int i) {
    return HasCopy(transfer) ? memory_[i].copy : memory_[i].gradients;
  }

  void RunUnit(size_t u) {
    for (int i = 0; i < ranks(); ++i) {
      for (const Transfer* transfer : units_[i][u]) {
        for (const LocalOp& op : transfer->before) Before(*transfer, i, op);
      }
    }
    for (size_t k = 0; k < units_[0][u].size(); ++k) Transport(u, k);
    for (int i = 0; i < ranks(); ++i) {
      for (const Transfer* transfer : units_[i][u]) {
        bool on_copy = HasCopy(*transfer);
        for (const LocalOp& op : transfer->then) {
          Behind(*transfer, i, op, &on_copy);
        }
      }
    }
  }

  void Before(const Transfer& transfer, int i, const LocalOp& op) {
    RankMemory& memory = memory_[i];
    Cells& sent = MemoryOf(transfer, i);
    if (op.kind == LocalKind::kCast || op.kind == LocalKind::kCastFeedback) {
      Each(op.offset, op.offset + op.count, [&](size_t cell) {
        sent[cell] = CastTo(memory.gradients[cell], op.from, op.to,
                            op.kind == LocalKind::kCastFeedback);
      });
    } else if (op.kind == LocalKind::kWriteFlags) {
      WriteFlags(i, op, transfer.dtype, sent);
    } else {
      Both(transfer, i, op, memory.gradients);
    }
  }

  void Behind(const Transfer& transfer, int i, const LocalOp& op,
              bool* on_copy) {
    RankMemory& memory = memory_[i];
    Cells& current = *on_copy ? memory.copy : memory.gradients;
    if (op.kind == LocalKind::kCast || op.kind == LocalKind::kCastFeedback) {
      Each(op.offset, op.offset + op.count, [&](size_t cell) {
        memory.gradients[cell] =
            CastTo(MemoryOf(transfer, i)[cell], op.from, op.to,
                   op.kind == LocalKind::kCastFeedback);
      });
      *on_copy = false;
    } else if (op.kind == LocalKind::kWriteFlags) {
      WriteFlags(i, op, transfer.dtype, MemoryOf(transfer, i));
    } else {
      Both(transfer, i, op, current);
    }
  }

  void WriteFlags(int i, const LocalOp& op, DType dtype, Cells& cells) {
    for (int64_t k = 0; k < op.count; ++k) {
      cells[CellAt(op.offset + k)] =
          ValueOf(FlagOf(i, static_cast<size_t>(k)), dtype);
    }
  }
  static uint64_t FlagOf(int position, size_t slot) {
    return StampOf({77, static_cast<uint64_t>(position), slot});
  }

  void Both(const Transfer& transfer, int i, const LocalOp& op, Cells& cells) {
    switch (op.kind) {
      case LocalKind::kReadFlags: return ReadFlags(transfer, i, op);
      case LocalKind::kNorm: return TakeNorm(i, op, cells);
      case LocalKind::kZeroUnlessGiven:
        if (gives_[i]) return;
        return Each(op.offset, op.offset + op.count, [&](size_t cell) {
          cells[cell] = ValueOf(
              0, cells[cell].is_garbage ? bucket_.dtype : cells[cell].dtype);
        });
      case LocalKind::kRescale:
        return Each(op.offset, op.offset + op.count,
                    [&](size_t cell) { Rescale(op, cells[cell]); });
      case LocalKind::kSumPairs: return SumPairs(i, op);
      default: Wrong("the step summary is used outside of the verdict");
    }
  }

  int64_t givers() const {
    return std::count(gives_.begin(), gives_.end(), true);
  }

  void Rescale(const LocalOp& op, Value& value) const {
    const int64_t divisor = value.divisor * givers();
    if (value.is_garbage || op.divisor < 1 || divisor % op.divisor != 0) {
      value = {};
      return;
    }
    value.divisor = divisor / op.divisor;
    value.rounded += IsHalf(value.dtype) ? 1 : 0;
  }

  void ReadFlags(const Transfer& transfer, int i, const LocalOp& op) {
    const Cells& cells = MemoryOf(transfer, i);
    for (int64_t k = 0; k < op.count; ++k) {
      if (k >= static_cast<int64_t>(bucket_.slots.size())) {
        return Wrong("more flags are read than there are");
      }
      uint64_t all = 0;
      for (int j = 0; j < ranks(); ++j) all += FlagOf(j, k);
      const Value& value = cells[CellAt(op.offset + k)];
      memory_[i].flags_read[k] = !value.is_garbage && value.sum == all;
    }
  }

  void SumPairs(int i, const LocalOp& op) {
    RankMemory& memory = memory_[i];
    Each(op.offset, op.offset + op.count, [&](size_t cell) {
      std::vector<const Value*> values;
      for (const Cells& row : memory.rows) values.push_back(&row[cell]);
      Value& sum = memory.gradients[cell];
      sum = values.empty() ? Value() : SumOf(values, op.from);
      sum = CastTo(sum, op.from, op.to, false);
      sum.divisor *= op.divisor;
    });
  }

  void TakeNorm(int i, const LocalOp& op, const Cells& cells) {
    if (op.offset + op.count > bucket_.flags_offset) {
      return Wrong("flags are counted in the norm");
    }
    Each(op.offset, op.offset + op.count, [&](size_t cell) {
      const int slot = SlotAt(cell);
      if (slot < 0) return;
      if (gives_[i] && cells[cell] != ExpectedAt(cell)) {
        Wrong("a norm is taken of what is not complete");
      }
      if (op.leaf != LeafAt(cell)) Wrong("a norm is taken for another leaf");
      ++(*counted_)[cell];
    });
  }

  // The leaf with the cell's run of 4096 elements; -1 without leaves.
  int LeafAt(size_t cell) const {
    if (bucket_.leaves == 0) return -1;
    const int64_t runs = (bucket_.total + 4095) / 4096;
    const int64_t run = cuts_[cell] / 4096;
    int leaf = 0;
    while ((runs * (leaf + 1) + bucket_.leaves - 1) / bucket_.leaves <= run) {
      ++leaf;
    }
    return leaf;
  }

  // --- Transfers ---

  void Transport(size_t u, size_t k) {
    const Transfer& first = *units_[0][u][k];
    switch (first.kind) {
      case TransferKind::kAllReduce: {
        const bool flags_alone = bucket_.sharded || bucket_.leaves > 0;
        return Reduce(u, k, flags_alone ? bucket_.flags_offset : 0, end_, -1);
      }
      case TransferKind::kAllReducePairs: return Reduce(u, k, 0, end_, -1);
      case TransferKind::kReduceScatter:
        for (int i = 0; i < ranks(); ++i) {
          Reduce(u, k, i * SliceSize(), (i + 1) * SliceSize(), i);
        }
        return;
      case TransferKind::kAllGather: return Gather(u, k);
      case TransferKind::kAllToAll: return Exchange(u, k);
      default: return;
    }
  }

  // Reduces elements into one rank, or into all (-1). The sources are read
  // before anything is written, which matters only for the rank's own slice.
  void Reduce(size_t u, size_t k, int64_t begin, int64_t end, int only) {
    Each(begin, end, [&](size_t cell) {
      std::vector<const Value*> values;
      for (int j = 0; j < ranks(); ++j) {
        values.push_back(&MemoryOf(*units_[j][u][k], j)[cell]);
      }
      const Transfer& first = *units_[0][u][k];
      Value sum = SumOf(values, first.dtype);
      if (first.kind != TransferKind::kAllReducePairs) {
        if (first.op == ReduceOp::kMean) {
          sum.divisor *= bucket_.announced ? givers() : ranks();
        }
        const bool adds =
            first.op == ReduceOp::kMean || first.op == ReduceOp::kSum;
        if (!adds && ranks() > 1) sum = {};
        sum.rounded += IsHalf(first.dtype) ? 1 : 0;
      }
      for (int j = 0; j < ranks(); ++j) {
        if (only >= 0 && j != only) continue;
        Value& result = MemoryOf(*units_[j][u][k], j)[cell];
        result = sum;
        if (first.kind == TransferKind::kAllReducePairs) {
          result.divisor *= units_[j][u][k]->divisor;
        }
      }
    });
  }

  void Gather(size_t u, size_t k) {
    for (int i = 0; i < ranks(); ++i) {
      Each(i * SliceSize(), (i + 1) * SliceSize(), [&](size_t cell) {
        const Transfer& transfer = *units_[i][u][k];
        const Value value = MemoryOf(transfer, i)[cell];
        const bool fits = !value.is_garbage && value.dtype == transfer.dtype;
        for (int j = 0; j < ranks(); ++j) {
          MemoryOf(*units_[j][u][k], j)[cell] = fits ? value : Value();
        }
      });
    }
  }

  void Exchange(size_t u, size_t k) {
    for (int i = 0; i < ranks(); ++i) {
      memory_[i].rows.assign(ranks(), Cells(cuts_.size() - 1));
      Each(i * SliceSize(), (i + 1) * SliceSize(), [&](size_t cell) {
        for (int j = 0; j < ranks(); ++j) {
          memory_[i].rows[j][cell] = MemoryOf(*units_[j][u][k], j)[cell];
        }
      });
    }
  }

  // --- Results ---

  Value ExpectedAt(size_t cell) const {
    Value expected = ValueOf(0, bucket_.dtype);
    int64_t givers = 0;
    for (int i = 0; i < ranks(); ++i) {
      if (!gives_[i]) continue;
      ++givers;
      expected.sum += StampAt(i, cell);
    }
    if (bucket_.op == ReduceOp::kMean) {
      expected.divisor = bucket_.leaves > 0  ? bucket_.leaves
                         : bucket_.announced ? givers
                                             : ranks();
    }
    expected.rounded = bucket_.wire ? 2 : IsHalf(bucket_.dtype) ? 1 : 0;
    expected.feeds_back = bucket_.error_feedback;
    return expected;
  }

  void CheckResults() {
    for (int i = 0; i < ranks(); ++i) {
      const int64_t begin = bucket_.sharded ? i * SliceSize() : 0;
      const int64_t end =
          bucket_.sharded ? (i + 1) * SliceSize() : bucket_.flags_offset;
      Each(begin, end, [&](size_t cell) {
        if (SlotAt(cell) < 0) return;
        const Value& value = memory_[i].gradients[cell];
        if (gives_[i] ? value != ExpectedAt(cell)
                      : value.is_garbage || value.sum != 0) {
          Wrong(
              "a local operation is wrong: a gradient is not what it must be");
        }
      });
      for (const bool read : memory_[i].flags_read) {
        if (!read) Wrong("the flags of a bucket are not read, or not reduced");
      }
    }
  }

  const Plan& plan_;
  const int index_;
  const Bucket& bucket_;
  const std::vector<int>& group_;
  const int64_t end_;
  std::vector<std::vector<Unit>> units_;  // of each rank
  std::vector<int64_t> cuts_;
  std::string cut_fault_;
  std::vector<bool> gives_;
  std::vector<RankMemory> memory_;
  Counted* counted_ = nullptr;
  std::optional<Fault> fault_;
};

// --- All buckets ------------------------------------------------------------

// The elements of a parameter, on all its replicas.
class Norms {
 public:
  explicit Norms(const Plan& plan) : plan_(plan) {}

  void Add(int parameter, int rank, int64_t begin, int64_t end, int times) {
    std::map<int64_t, int>& of = counts_[KeyOf(parameter, rank)];
    of[begin] += times;
    of[end] -= times;
  }

  std::optional<Fault> Judge() const {
    for (const auto& [key, changes] : counts_) {
      int now = 0;
      int64_t last = 0;
      for (const auto& [at, change] : changes) {
        if (at > last && now != 1) {
          return Fault{
              Fate::kMismatch,
              absl::StrCat("elements of ", key.first,
                           " are counted in the norm ", now, " times")};
        }
        now += change;
        last = at;
      }
    }
    return std::nullopt;
  }

 private:
  using Key = std::pair<std::string, std::vector<int>>;

  bool HasStage(int rank, int stage) const {
    const std::vector<Task>& tasks = plan_.ranks[rank].tasks;
    return std::any_of(tasks.begin(), tasks.end(),
                       [&](const Task& task) { return task.stage == stage; });
  }

  // The ranks of the first and the last stage sum the shared gradients.
  bool IsAddedUp(const Parameter& parameter, int rank) const {
    const std::vector<std::string>& shared = plan_.pipeline.shared;
    if (std::find(shared.begin(), shared.end(), parameter.name) ==
        shared.end()) {
      return false;
    }
    int last = 0;
    for (const RankPlan& other : plan_.ranks) {
      for (const Task& task : other.tasks) last = std::max(last, task.stage);
    }
    return HasStage(rank, 0) || HasStage(rank, last);
  }

  Key KeyOf(int index, int rank) const {
    const Parameter& parameter = plan_.parameters[index];
    const bool is_added_up = IsAddedUp(parameter, rank);
    std::vector<int> place = plan_.mesh.CoordinatesOf(rank);
    for (size_t axis = 0; axis < plan_.mesh.axes.size(); ++axis) {
      const std::string& name = plan_.mesh.axes[axis].name;
      const auto has = [&](const std::vector<std::string>& names) {
        return std::find(names.begin(), names.end(), name) != names.end();
      };
      if (parameter.axes.empty() || has(parameter.axes) ||
          has(parameter.replicated_over) ||
          (is_added_up && name == plan_.pipeline.axis)) {
        place[axis] = 0;
      }
    }
    return {parameter.name, place};
  }

  const Plan& plan_;
  std::map<Key, std::map<int64_t, int>> counts_;
};

std::optional<Fault> RunBucket(const Plan& plan, int index, Norms& norms) {
  const Bucket& bucket = plan.buckets[index];
  const std::vector<int>& group = plan.communicators[bucket.communicator].ranks;
  std::vector<std::vector<bool>> givers = {
      std::vector<bool>(group.size(), true)};
  if (bucket.announced && group.size() > 1) {
    givers.emplace_back(group.size(), false);
    givers.back().front() = true;
    givers.emplace_back(group.size(), false);
    givers.back().back() = true;
  }
  BucketRun run(plan, index);
  if (!run.cut_fault().empty()) return Fault{Fate::kCannot, run.cut_fault()};
  Counted counted;
  for (const std::vector<bool>& gives : givers) {
    if (auto fault = run.Run(gives, &counted)) return fault;
  }
  for (const Slot& slot : bucket.slots) {
    for (size_t cell = 0; cell < counted.size(); ++cell) {
      const auto [begin, end] = run.Range(cell);
      if (begin < slot.offset || end > slot.offset + slot.count) continue;
      norms.Add(slot.parameter, group[0], begin - slot.offset,
                end - slot.offset, counted[cell]);
    }
  }
  return std::nullopt;
}

// --- Other transfers --------------------------------------------------------

std::optional<Fault> Cannot(const std::string& why) {
  return Fault{Fate::kCannot, why};
}

bool IsGatherOfRecords(const Transfer& transfer) {
  return transfer.kind == TransferKind::kAllGather &&
         transfer.communicator == 0 && transfer.bucket == -1 &&
         transfer.dtype == DType::kU64 &&
         transfer.shape == std::vector<int64_t>{kRecordWords};
}

bool IsPartOfVerdict(const Plan& plan, const Transfer& transfer, size_t place,
                     int leaves) {
  int64_t count = 1;
  for (const int64_t extent : transfer.shape) count *= extent;
  const bool maxima = place == 1;
  const int64_t wanted = maxima       ? kSummaryMaxima
                         : place == 0 ? kSummarySums
                                      : leaves;
  const ReduceOp op = maxima ? ReduceOp::kMax : ReduceOp::kSum;
  return transfer.kind == TransferKind::kAllReduce &&
         transfer.communicator == 0 && transfer.bucket == -1 &&
         count == wanted &&
         transfer.dtype == (maxima ? DType::kU64 : DType::kF64) &&
         (transfer.op == op || plan.ranks.size() == 1);
}

std::optional<Fault> JudgeVerdict(const Plan& plan, const RankPlan& rank) {
  const Lane* verdict = nullptr;
  for (const Lane& lane : rank.lanes) {
    if (lane.kind != LaneKind::kVerdict || lane.transfers.empty()) continue;
    if (verdict != nullptr) return Cannot("a rank has two verdicts");
    verdict = &lane;
  }
  if (verdict == nullptr) return Cannot("a rank has no verdict");
  int leaves = 0;
  for (const Bucket& bucket : plan.buckets) {
    if (leaves != 0 && bucket.leaves != leaves) {
      return Cannot("buckets have other numbers of leaves");
    }
    leaves = bucket.leaves;
  }
  const std::vector<Transfer>& all = verdict->transfers;
  const bool by_records =
      leaves == 0 && all.size() == 1 && IsGatherOfRecords(all[0]);
  if (!by_records && all.size() != (leaves > 0 ? 3u : 2u)) {
    return Cannot("a verdict has other parts than it must have");
  }
  int written = 0;
  int read = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    if (!by_records && !IsPartOfVerdict(plan, all[i], i, leaves)) {
      return Cannot("a verdict reduces something else than the summary");
    }
    const bool one_group =
        all[i].group != 0 &&
        std::all_of(all.begin(), all.end(), [&](const Transfer& other) {
          return other.group == all[i].group;
        });
    for (const LocalOp& op : all[i].before) {
      if (op.kind != LocalKind::kWriteSummary || (i > 0 && !one_group)) {
        return Cannot("a verdict is written late, or read early");
      }
      ++written;
    }
    for (const LocalOp& op : all[i].then) {
      if (op.kind != LocalKind::kReadSummary ||
          (i + 1 < all.size() && !one_group)) {
        return Cannot("a verdict is written late, or read early");
      }
      ++read;
    }
  }
  if (written == 1 && read == 1) return std::nullopt;
  return Cannot("a summary is not written once and read once");
}

std::optional<Fault> JudgeOthers(const Plan& plan, const RankPlan& rank) {
  for (const Lane& lane : rank.lanes) {
    if (lane.kind == LaneKind::kVerdict) continue;
    for (const Transfer& transfer : lane.transfers) {
      const bool reduces =
          transfer.bucket >= 0 && !(plan.buckets[transfer.bucket].sharded &&
                                    transfer.kind == TransferKind::kAllGather);
      if (!reduces && (!transfer.before.empty() || !transfer.then.empty())) {
        return Cannot("local operations beside no reduction");
      }
    }
  }
  return JudgeVerdict(plan, rank);
}

}  // namespace

std::optional<Fault> RunElements(const Plan& plan) {
  for (const RankPlan& rank : plan.ranks) {
    if (auto fault = JudgeOthers(plan, rank)) return fault;
  }
  Norms norms(plan);
  for (size_t b = 0; b < plan.buckets.size(); ++b) {
    if (auto fault = RunBucket(plan, static_cast<int>(b), norms)) return fault;
  }
  return norms.Judge();
}

}  // namespace lockstep::plan::oracle
