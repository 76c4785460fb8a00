// Every kernel that a step can launch has been launched at Join.

#include "client/transport/nccl/kernel_warmup.h"

#include <map>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/scale_and_check.h"
#include "tests/support/fake_gpu.h"
#include "tests/support/forwarding_tables.h"

namespace lockstep {
namespace {

using transport::nccl::Tables;
using transport::nccl::WarmUpKernels;

constexpr DType kAll[] = {DType::kU8,  DType::kI8,  DType::kI32, DType::kU32,
                          DType::kI64, DType::kU64, DType::kF16, DType::kBF16,
                          DType::kF32, DType::kF64};
constexpr DType kFloats[] = {DType::kF16, DType::kBF16, DType::kF32,
                             DType::kF64};
constexpr const char* kLists[] = {"short", "long"};

// As in kernels/device/lists.cuh: short lists have a kernel of their own.
std::string ListOf(size_t size) { return size <= 8 ? "short" : "long"; }

template <typename... Parts>
std::string Key(const Parts&... parts) {
  std::string key;
  (absl::StrAppend(&key, parts, " "), ...);
  return key;
}
std::string N(DType dtype) { return std::string(Name(dtype)); }

bool Aligned(const void* at) {
  return reinterpret_cast<uintptr_t>(at) % 16 == 0;
}

// Records which kernel of kernels/device each launch is. Kernels that only copy
// are selected by element size, not by dtype.
class NotesKernels final : public fake::ForwardingKernels {
 public:
  NotesKernels(std::shared_ptr<KernelApi> inner, std::set<std::string>* seen)
      : ForwardingKernels(std::move(inner)), seen_(*seen) {}

  Result Pack(Slots s, DType d, void* b, StreamHandle t) override {
    Saw("Pack", SizeOf(d), ListOf(s.size()));
    return inner_->Pack(s, d, b, t);
  }
  Result Unpack(const void* b, Slots s, DType d, StreamHandle t) override {
    Saw("Unpack", SizeOf(d), ListOf(s.size()));
    return inner_->Unpack(b, s, d, t);
  }
  Result ZeroSlots(void* b, Slots s, DType d, StreamHandle t) override {
    Saw("ZeroSlots", SizeOf(d), ListOf(s.size()));
    return inner_->ZeroSlots(b, s, d, t);
  }
  Result PackScaled(Slots s, DType d, double w, void* b,
                    StreamHandle t) override {
    Saw("PackScaled", N(d), ListOf(s.size()));
    return inner_->PackScaled(s, d, w, b, t);
  }
  Result PackAdded(Slots s, DType d, double w, void* b,
                   StreamHandle t) override {
    Saw("PackAdded", N(d), ListOf(s.size()));
    return inner_->PackAdded(s, d, w, b, t);
  }
  Result UnpackScaled(const void* b, Slots s, DType d, double f,
                      StreamHandle t) override {
    Saw("UnpackScaled", N(d), ListOf(s.size()));
    return inner_->UnpackScaled(b, s, d, f, t);
  }
  Result ScaleSlots(void* b, Slots s, DType d, double f,
                    StreamHandle t) override {
    Saw("ScaleSlots", N(d), ListOf(s.size()));
    return inner_->ScaleSlots(b, s, d, f, t);
  }
  Result CommitUnpack(const VerdictScalars* v, const void* b, Slots s, DType d,
                      StreamHandle t) override {
    Saw("CommitUnpack", N(d), ListOf(s.size()));
    return inner_->CommitUnpack(v, b, s, d, t);
  }
  Result WriteFlags(std::span<const uint8_t> on, DType d, void* flags,
                    StreamHandle t) override {
    Saw("WriteFlags", N(d), ListOf(on.size()));
    return inner_->WriteFlags(on, d, flags, t);
  }
  Result AddFiniteCheck(const void* data, DType d, Ranges ranges, double scale,
                        void* scratch, kernels::FiniteCheck* total,
                        StreamHandle t) override {
    Saw("AddFiniteCheck", N(d), ListOf(ranges.size()));
    return inner_->AddFiniteCheck(data, d, ranges, scale, scratch, total, t);
  }
  Result CastScale(const void* src, DType from, double f, void* dst, DType to,
                   size_t n, StreamHandle t) override {
    const bool groups = Aligned(src) && Aligned(dst);
    Saw("CastScale", N(from), N(to), groups ? "groups" : "elements");
    return inner_->CastScale(src, from, f, dst, to, n, t);
  }
  Result CastFeedback(const void* src, const void* residual, DType from,
                      void* dst, DType to, void* next, size_t n,
                      StreamHandle t) override {
    Saw("CastFeedback", N(from), N(to));
    return inner_->CastFeedback(src, residual, from, dst, to, next, n, t);
  }
  Result ReduceRows(const void* in, int rows, void* out, size_t n, DType d,
                    ReduceOp op, StreamHandle t) override {
    const bool groups = n * SizeOf(d) % 16 == 0 && Aligned(in) && Aligned(out);
    Saw("ReduceRows", N(d), groups ? "groups" : "elements");
    return inner_->ReduceRows(in, rows, out, n, d, op, t);
  }
  Result AddLeaf(std::span<const void* const> left, const void* leaf, DType d,
                 double w, void* out, DType sum, size_t n,
                 StreamHandle t) override {
    Saw("AddLeaf", N(d));
    return inner_->AddLeaf(left, leaf, d, w, out, sum, n, t);
  }
  Result ReducePairs(const void* in, int rows, DType d, double f, void* out,
                     DType to, size_t n, StreamHandle t) override {
    Saw("ReducePairs", N(d), N(to), std::min(rows, 8));
    return inner_->ReducePairs(in, rows, d, f, out, to, n, t);
  }
  // The ranges and the parts between them are one list.
  Result ScaleAndCheck(void* data, DType d, double factor,
                       const kernels::ElementRange& scaled, Ranges checked,
                       void* scratch, kernels::FiniteCheck* total,
                       StreamHandle t) override {
    size_t parts = 0;
    const auto count = [&](const kernels::ElementRange& part) {
      parts += part.count > 0 ? 1 : 0;
    };
    kernels::ForScaledParts(scaled, checked, count, count);
    Saw("ScaleAndCheck", N(d), ListOf(parts));
    return inner_->ScaleAndCheck(data, d, factor, scaled, checked, scratch,
                                 total, t);
  }
  Result RunLocalStep(const kernels::LocalStep& s, StreamHandle t) override {
    using Kind = kernels::LocalStep::Kind;
    const int kind = static_cast<int>(s.kind);
    switch (s.kind) {
      case Kind::kZero: Saw("LocalStep", kind); break;
      case Kind::kCopyBlocks:
        Saw("LocalStep", kind, s.copy.bytes,
            s.copy.is_one() ? "block" : "transpose");
        break;
      case Kind::kGatherRows: Saw("LocalStep", kind, s.row); break;
      case Kind::kStoreList:
        Saw("LocalStep", kind, ListOf(s.list.size()));
        break;
      case Kind::kPackSlices:  // one kernel moves slices either way
      case Kind::kUnpackSlices:
      case Kind::kZeroSlices:
        Saw("Slices", s.row, ListOf(s.list.size()));
        break;
      default:
        Saw("LocalStep", kind, N(s.dtype),
            Aligned(s.in) && Aligned(s.out) ? "groups" : "elements");
    }
    return inner_->RunLocalStep(s, t);
  }
  // One kernel for all types and shapes.
  Result CopyBoxes(Boxes b, Inputs in, Outputs out, StreamHandle t) override {
    Saw("CopyBoxes", ListOf(b.size()));
    return inner_->CopyBoxes(b, in, out, t);
  }
  Result FillBoxes(BoxFills f, Outputs out, StreamHandle t) override {
    Saw("FillBoxes", ListOf(f.size()));
    return inner_->FillBoxes(f, out, t);
  }
  Result SumBoxes(Boxes b, Inputs in, Outputs out, bool add,
                  StreamHandle t) override {
    Saw("SumBoxes", ListOf(b.size()));
    return inner_->SumBoxes(b, in, out, add, t);
  }
  Result BeginReplay(const kernels::GateContext& c, StreamHandle t) override {
    Saw("BeginReplay");
    return inner_->BeginReplay(c, t);
  }
  Result WriteStepRecord(const kernels::GateContext& c, kernels::FiniteCheck* n,
                         kernels::StepRecord* r, StreamHandle t) override {
    Saw("WriteStepRecord");
    return inner_->WriteStepRecord(c, n, r, t);
  }
  Result VerifyTiles(const kernels::GateContext& c,
                     const kernels::StepRecord* r, StreamHandle t) override {
    Saw("VerifyTiles");
    return inner_->VerifyTiles(c, r, t);
  }
  Result GateStep(const kernels::GateContext& c, const kernels::StepRecord* own,
                  const kernels::StepRecord* r, VerdictScalars* s,
                  StreamHandle t) override {
    Saw("GateStep");
    return inner_->GateStep(c, own, r, s, t);
  }
  Result CommitCopy(const VerdictScalars* v, const void* from, void* to,
                    size_t bytes, StreamHandle t) override {
    Saw("CommitCopy");
    return inner_->CommitCopy(v, from, to, bytes, t);
  }

 private:
  template <typename... Parts>
  void Saw(const Parts&... parts) {
    seen_.insert(Key(parts...));
  }
  std::set<std::string>& seen_;
};

// The dtypes of each local step whose kernel depends on it.
std::map<kernels::LocalStep::Kind, std::set<DType>> StepDTypes() {
  using Kind = kernels::LocalStep::Kind;
  const std::set<DType> narrow = {DType::kU8, DType::kI8, DType::kU16,
                                  DType::kI16, DType::kBool};
  std::set<DType> integers_and_f32 = narrow;
  for (const DType d : kAll) {
    if (!IsFloat(d) || d == DType::kF32) integers_and_f32.insert(d);
  }
  const std::set<DType> complex = {DType::kC64, DType::kC128};
  std::set<DType> divided = {DType::kF8E4M3, DType::kF8E5M2};
  divided.insert(std::begin(kFloats), std::end(kFloats));
  divided.insert(complex.begin(), complex.end());
  std::set<DType> every(std::begin(kAll), std::end(kAll));
  every.insert(narrow.begin(), narrow.end());
  every.insert(divided.begin(), divided.end());
  std::set<DType> ordered = every, added = every;
  for (const DType d : complex) ordered.erase(d);
  added.erase(DType::kBool);
  return {{Kind::kWiden, narrow},       {Kind::kNarrow, narrow},
          {Kind::kDivide, divided},     {Kind::kDivideToF32, integers_and_f32},
          {Kind::kReduceRows, every},   {Kind::kMarkExtremum, ordered},
          {Kind::kFill, {DType::kI32}}, {Kind::kAddRows, added},
          {Kind::kAdd, added}};
}

std::set<std::string> EveryLocalStep() {
  using Kind = kernels::LocalStep::Kind;
  std::set<std::string> every = {
      Key("LocalStep", static_cast<int>(Kind::kZero))};
  for (const auto& [kind, dtypes] : StepDTypes()) {
    for (const DType d : dtypes) {
      for (const char* shape : {"groups", "elements"}) {
        every.insert(Key("LocalStep", static_cast<int>(kind), N(d), shape));
      }
    }
  }
  for (const char* list : kLists) {
    every.insert(Key("LocalStep", static_cast<int>(Kind::kStoreList), list));
    for (const int bytes : {1, 2, 4, 8, 16}) {
      every.insert(Key("Slices", bytes, list));
    }
  }
  for (const int bytes : {1, 2, 4, 8, 16}) {
    const int copy = static_cast<int>(Kind::kCopyBlocks);
    every.insert(Key("LocalStep", copy, bytes, "block"));
    every.insert(Key("LocalStep", copy, bytes, "transpose"));
    every.insert(Key("LocalStep", static_cast<int>(Kind::kGatherRows), bytes));
  }
  return every;
}

std::set<std::string> EveryKernel() {
  std::set<std::string> every = EveryLocalStep();
  for (const char* name : {"BeginReplay", "WriteStepRecord", "VerifyTiles",
                           "GateStep", "CommitCopy"}) {
    every.insert(Key(name));
  }
  for (const char* list : kLists) {
    for (const char* name : {"CopyBoxes", "FillBoxes", "SumBoxes"}) {
      every.insert(Key(name, list));
    }
    for (const char* name : {"Pack", "Unpack", "ZeroSlots"}) {
      for (const int bytes : {1, 4, 8, 2}) every.insert(Key(name, bytes, list));
    }
    for (const char* name :
         {"PackScaled", "PackAdded", "UnpackScaled", "ScaleSlots",
          "CommitUnpack", "WriteFlags", "AddFiniteCheck", "ScaleAndCheck"}) {
      for (const DType d : kFloats) every.insert(Key(name, N(d), list));
    }
  }
  for (const char* shape : {"groups", "elements"}) {
    for (const DType d : kAll) every.insert(Key("ReduceRows", N(d), shape));
    for (const DType from : kFloats) {
      for (const DType to : kFloats) {
        every.insert(Key("CastScale", N(from), N(to), shape));
      }
    }
  }
  for (const DType d : kFloats) every.insert(Key("AddLeaf", N(d)));
  for (const DType wide : {DType::kF32, DType::kF64}) {
    for (const DType half : {DType::kF16, DType::kBF16}) {
      every.insert(Key("CastFeedback", N(wide), N(half)));
    }
    for (const DType to : kFloats) {
      for (const int rows : {1, 2, 4, 8}) {
        every.insert(Key("ReducePairs", N(wide), N(to), rows));
      }
    }
  }
  return every;
}

TEST(RehearsalTest, LaunchesEveryKernelThereIs) {
  fake::FakeGpus gpus;
  const Tables tables = gpus.TablesOf(0);
  std::set<std::string> seen;
  NotesKernels notes(tables.kernels, &seen);
  const absl::Status warmed = WarmUpKernels(tables.cuda.get(), &notes);
  EXPECT_TRUE(warmed.ok()) << warmed;
  EXPECT_THAT(seen, testing::ContainerEq(EveryKernel()));
  EXPECT_THAT(gpus.violations(), testing::IsEmpty());
}

// A device for which this build has no code.
class NoCode final : public fake::ForwardingKernels {
 public:
  using ForwardingKernels::ForwardingKernels;
  Result ReduceRows(const void*, int, void*, size_t, DType, ReduceOp,
                    StreamHandle) override {
    return Result{209};
  }
};

TEST(RehearsalTest, ADeviceWithoutCodeIsFoundOut) {
  fake::FakeGpus gpus;
  const Tables tables = gpus.TablesOf(0);
  NoCode kernels(tables.kernels);
  const absl::Status warmed = WarmUpKernels(tables.cuda.get(), &kernels);
  EXPECT_TRUE(absl::IsInternal(warmed)) << warmed;
  EXPECT_THAT(std::string(warmed.message()), testing::HasSubstr("209"));
}

}  // namespace
}  // namespace lockstep
