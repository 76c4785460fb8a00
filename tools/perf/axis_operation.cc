#include "tools/perf/axis_operation.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "client/collectives/axis_group_impl.h"
#include "tools/perf/buffered.h"

namespace lockstep::perf {
namespace {

using Kind = AxisCollectiveKind;

constexpr const char* kPrefix = "axis.";

// The elements of a rank's input and output: all, or those of one member.
enum class TensorPart { kWhole, kPart };
// What an output is: a reduction, a copy of another rank's, or something else.
enum class Result { kReduced, kCopied, kOther };

struct AxisRow {
  Kind kind;
  TensorPart in, out;
  Result result;
  ReduceOp op = ReduceOp::kSum;
};

constexpr AxisRow kRows[] = {
    {Kind::kPsum, TensorPart::kWhole, TensorPart::kWhole, Result::kReduced},
    {Kind::kPmean, TensorPart::kWhole, TensorPart::kWhole, Result::kReduced,
     ReduceOp::kMean},
    {Kind::kPprod, TensorPart::kWhole, TensorPart::kWhole, Result::kReduced,
     ReduceOp::kProd},
    {Kind::kPmax, TensorPart::kWhole, TensorPart::kWhole, Result::kReduced,
     ReduceOp::kMax},
    {Kind::kPmin, TensorPart::kWhole, TensorPart::kWhole, Result::kReduced,
     ReduceOp::kMin},
    {Kind::kReduce, TensorPart::kWhole, TensorPart::kWhole, Result::kReduced},
    {Kind::kPargmax, TensorPart::kWhole, TensorPart::kWhole, Result::kOther},
    {Kind::kPargmin, TensorPart::kWhole, TensorPart::kWhole, Result::kOther},
    {Kind::kPbroadcast, TensorPart::kWhole, TensorPart::kWhole,
     Result::kCopied},
    {Kind::kPpermute, TensorPart::kWhole, TensorPart::kWhole, Result::kCopied},
    {Kind::kPshuffle, TensorPart::kWhole, TensorPart::kWhole, Result::kCopied},
    {Kind::kAllGather, TensorPart::kPart, TensorPart::kWhole, Result::kCopied},
    {Kind::kAllGatherInvariant, TensorPart::kPart, TensorPart::kWhole,
     Result::kCopied},
    {Kind::kGather, TensorPart::kPart, TensorPart::kWhole, Result::kCopied},
    {Kind::kPgather, TensorPart::kPart, TensorPart::kWhole, Result::kCopied},
    {Kind::kPsumScatter, TensorPart::kWhole, TensorPart::kPart,
     Result::kReduced},
    {Kind::kScatter, TensorPart::kWhole, TensorPart::kPart, Result::kCopied},
    {Kind::kAllToAll, TensorPart::kWhole, TensorPart::kWhole, Result::kCopied},
    {Kind::kPswapaxes, TensorPart::kWhole, TensorPart::kWhole, Result::kCopied},
    {Kind::kRaggedAllToAll, TensorPart::kWhole, TensorPart::kWhole,
     Result::kCopied},
    {Kind::kPvary, TensorPart::kWhole, TensorPart::kWhole, Result::kCopied},
    {Kind::kOwnSlice, TensorPart::kWhole, TensorPart::kPart, Result::kCopied},
    {Kind::kAxisIndex, TensorPart::kPart, TensorPart::kPart, Result::kOther},
    {Kind::kAxisSize, TensorPart::kPart, TensorPart::kPart, Result::kOther},
};

std::string NameOf(const AxisRow& row) {
  return absl::StrCat(kPrefix, AbslView(Name(row.kind)));
}

const AxisRow* Find(const std::string& op) {
  for (const AxisRow& row : kRows) {
    if (NameOf(row) == op) return &row;
  }
  return nullptr;
}

class AxisOperation final : public Buffered {
 public:
  AxisOperation(const PerfOptions& options, Communicator& comm)
      : Buffered(options, comm),
        row_(*Find(options.op)),
        group_(MakeAxisGroup(&comm)) {}

  absl::Status Prepare(size_t elements, Memory* memory) {
    part_ = elements / static_cast<size_t>(ranks());
    count_ = ElementsOf(row_.in);
    bytes_ = part_ * static_cast<size_t>(ranks()) * SizeOf(dtype());
    absl::Status allocated =
        Allocate(ElementsOf(row_.in), ElementsOf(row_.out), memory);
    if (!allocated.ok()) return allocated;
    const AxisCollective op = Operation();
    if (row_.kind == Kind::kPmean && !IsFloat(dtype())) {
      return absl::InvalidArgumentError(
          "axis.pmean is measured for floating-point types");
    }
    auto prepared = group_.Prepare(op, InputTypes());
    if (!prepared.ok()) return prepared.status();
    prepared_ = *std::move(prepared);
    MakeVectors();
    return absl::OkStatus();
  }

  absl::Status Run(Stream& stream) override {
    return prepared_->Run(inputs_, outputs_, stream);
  }

  void Fill() override {
    if (row_.result == Result::kCopied) {
      FillToMove();
    } else {
      in_.Fill([this](size_t i) { return Reduced(rank(), i, row_.op); });
    }
    ClearOut();
    std::fill(integers_out_.begin(), integers_out_.end(), -1);
  }

  size_t Wrong() const override {
    if (prepared_->outputs().empty()) return 0;  // only the root has some
    switch (row_.result) {
      case Result::kReduced:
        return out_.WrongSums(
            ranks(), row_.out == TensorPart::kPart ? Begin() : 0, row_.op);
      case Result::kCopied: return WrongCopies();
      case Result::kOther: return WrongIntegers();
    }
    return 0;
  }

 private:
  size_t ElementsOf(TensorPart extent) const {
    return extent == TensorPart::kWhole ? part_ * static_cast<size_t>(ranks())
                                        : part_;
  }
  size_t Begin() const { return part_ * static_cast<size_t>(rank()); }
  int previous() const { return (rank() + ranks() - 1) % ranks(); }

  AxisCollective Operation() const {
    AxisCollective op{.kind = row_.kind,
                      .axes = {"rank"},
                      .tiled = true,
                      .root = options_.root};
    if (row_.kind == Kind::kPswapaxes) op.tiled = false;
    for (int i = 0; i < ranks(); ++i) {
      const int next = (i + 1) % ranks();
      if (row_.kind == Kind::kPpermute) op.pairs.push_back({i, next});
      if (row_.kind == Kind::kPshuffle) {
        op.sources.push_back((i + ranks() - 1) % ranks());
      }
    }
    return op;
  }

  std::vector<TensorType> InputTypes() const {
    const auto n = static_cast<int64_t>(ranks());
    const auto elements = static_cast<int64_t>(ElementsOf(row_.in));
    const TensorType flat{dtype(), {elements}};
    const TensorType integers{DType::kI32, {n}};
    switch (row_.kind) {
      case Kind::kPswapaxes: return {{dtype(), {n, elements / n}}};
      case Kind::kPgather: return {flat, integers};
      case Kind::kRaggedAllToAll:
        return {flat, flat, integers, integers, integers, integers};
      case Kind::kAxisIndex:
      case Kind::kAxisSize: return {};
      default: return {flat};
    }
  }

  // Integer inputs and outputs, and the pointers of a call.
  void MakeVectors() {
    const auto part = static_cast<int32_t>(part_);
    for (int i = 0; i < ranks(); ++i) {
      members_.push_back(i);
      starts_.push_back(i * part);
      sizes_.push_back(part);
      own_start_.push_back(rank() * part);
    }
    switch (row_.kind) {
      case Kind::kAxisIndex:
      case Kind::kAxisSize: break;
      case Kind::kPgather:
        inputs_ = {in_buffer_.data(), members_.data()};
        break;
      case Kind::kRaggedAllToAll:
        inputs_ = {in_buffer_.data(), out_buffer_.data(), starts_.data(),
                   sizes_.data(),     own_start_.data(),  sizes_.data()};
        break;
      default: inputs_ = {in_buffer_.data()};
    }
    if (prepared_->outputs().empty()) return;
    if (row_.result == Result::kOther) {
      integers_out_.resize(inputs_.empty() ? 1 : ElementsOf(row_.out));
      outputs_ = {integers_out_.data()};
    } else {
      outputs_ = {out_buffer_.data()};
    }
  }

  size_t WrongCopies() const {
    switch (row_.kind) {
      case Kind::kPbroadcast: return out_.WrongCopies(options_.root, 0);
      case Kind::kPpermute:
      case Kind::kPshuffle: return out_.WrongCopies(previous(), 0);
      case Kind::kScatter: return out_.WrongCopies(options_.root, Begin());
      case Kind::kPvary: return out_.WrongCopies(rank(), 0);
      case Kind::kOwnSlice: return out_.WrongCopies(rank(), Begin());
      default: break;
    }
    const size_t begin = row_.in == TensorPart::kWhole ? Begin() : 0;
    size_t wrong = 0;
    for (int from = 0; from < ranks(); ++from) {
      wrong += out_.Part(static_cast<size_t>(from) * part_, part_)
                   .WrongCopies(from, begin);
    }
    return wrong;
  }

  size_t WrongIntegers() const {
    size_t wrong = 0;
    for (size_t i = 0; i < integers_out_.size(); ++i) {
      wrong += integers_out_[i] != Integer(i);
    }
    return wrong;
  }

  int32_t Integer(size_t i) const {
    if (row_.kind == Kind::kAxisIndex) return rank();
    if (row_.kind == Kind::kAxisSize) return ranks();
    const bool greatest = row_.kind == Kind::kPargmax;
    int best = 0;
    for (int r = 1; r < ranks(); ++r) {
      const int value = Reduced(r, i, row_.op);
      const int so_far = Reduced(best, i, row_.op);
      if (greatest ? value > so_far : value < so_far) best = r;
    }
    return best;
  }

  const AxisRow& row_;
  const AxisGroup group_;
  size_t part_ = 0;  // elements of one member
  std::optional<PreparedCollective> prepared_;
  std::vector<int32_t> members_, starts_, sizes_, own_start_, integers_out_;
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
};

}  // namespace

const std::vector<std::string>& AxisOperationNames() {
  static const auto* const names = [] {
    auto* all = new std::vector<std::string>;
    for (const AxisRow& row : kRows) all->push_back(NameOf(row));
    return all;
  }();
  return *names;
}

bool IsAxisOperation(const std::string& op) { return Find(op) != nullptr; }

double AxisBusFactor(const std::string& op, int ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  switch (Find(op)->kind) {
    case Kind::kPbroadcast:
    case Kind::kPpermute:
    case Kind::kPshuffle: return 1;
    case Kind::kPvary:
    case Kind::kOwnSlice:
    case Kind::kAxisIndex:
    case Kind::kAxisSize: return 0;
    case Kind::kPsum:
    case Kind::kPmean:
    case Kind::kPprod:
    case Kind::kPmax:
    case Kind::kPmin:
    case Kind::kPargmax:
    case Kind::kPargmin:
    case Kind::kReduce: return 2 * others;
    default: return others;
  }
}

absl::StatusOr<std::unique_ptr<PerfOperation>> MakeAxisOperation(
    const PerfOptions& options, size_t bytes, Communicator& comm,
    Memory* memory) {
  auto operation = std::make_unique<AxisOperation>(options, comm);
  absl::Status prepared =
      operation->Prepare(bytes / SizeOf(options.dtype), memory);
  if (!prepared.ok()) return prepared;
  return operation;
}

}  // namespace lockstep::perf
