#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "client/collectives/shapes.h"
#include "tests/conformance/cases/placed_tensor.h"
#include "tests/conformance/halo/halo_case.h"

namespace lockstep::conformance {
namespace {

// How a pass is called.
enum class CallForm { kWait, kStart, kRun };
constexpr CallForm kCallForms[] = {CallForm::kWait, CallForm::kStart,
                                   CallForm::kRun};

// No operation writes this, so gaps and writes outside are seen.
constexpr std::byte kUnwritten{0xa5};

// The tensors of a call on one rank, with unwritten memory around each.
class GuardedTensors {
 public:
  GuardedTensors(const GroupMemory& memory, Placement placement, Stream& stream)
      : memory_(memory), placement_(placement), stream_(stream) {}

  absl::Status Add(const std::vector<std::byte>& bytes) {
    auto host = std::make_unique<std::vector<std::byte>>(
        bytes.size() + 2 * kGuard, kUnwritten);
    std::copy(bytes.begin(), bytes.end(), host->begin() + kGuard);
    auto placed = PlacedTensor::Make(host.get(), memory_, placement_, stream_);
    if (!placed.ok()) return placed.status();
    data_.push_back(static_cast<std::byte*>(placed->data()) + kGuard);
    placed_.push_back(*std::move(placed));
    hosts_.push_back(std::move(host));
    return absl::OkStatus();
  }

  absl::Span<void* const> data() const { return data_; }
  std::vector<const void*> inputs() const {
    return {data_.begin(), data_.end()};
  }

  // Their bytes now. DataLoss if a call has written beside them.
  absl::StatusOr<std::vector<std::vector<std::byte>>> Fetch() const {
    std::vector<std::vector<std::byte>> all;
    for (size_t t = 0; t < placed_.size(); ++t) {
      absl::Status fetched = placed_[t].Fetch(stream_);
      if (!fetched.ok()) return fetched;
      const auto begin = hosts_[t]->begin() + kGuard;
      const auto end = hosts_[t]->end() - kGuard;
      const auto is_unwritten = [](std::byte b) { return b == kUnwritten; };
      if (!std::all_of(hosts_[t]->begin(), begin, is_unwritten) ||
          !std::all_of(end, hosts_[t]->end(), is_unwritten)) {
        return absl::DataLossError(
            absl::StrCat("memory beside tensor ", t, " was written"));
      }
      all.emplace_back(begin, end);
    }
    return all;
  }

 private:
  static constexpr size_t kGuard = 64;

  const GroupMemory& memory_;
  const Placement placement_;
  Stream& stream_;
  std::vector<std::unique_ptr<std::vector<std::byte>>> hosts_;
  std::vector<PlacedTensor> placed_;
  std::vector<void*> data_;
};

// Calls body(offset in the padded tensor, offset in the block, bytes) for each
// row of the block.
void ForEachRow(const TensorType& block, const TensorType& padded,
                const std::vector<int64_t>& low,
                const std::function<void(size_t, size_t, size_t)>& body) {
  const size_t size = SizeOf(block.dtype);
  const size_t dims = block.shape.size();
  const size_t row = dims == 0 ? 1 : static_cast<size_t>(block.shape.back());
  const size_t rows = collectives::ElementsOf(block) / row;
  for (size_t i = 0; i < rows; ++i) {
    size_t rest = i, at = dims == 0 ? 0 : static_cast<size_t>(low[dims - 1]);
    size_t stride = dims == 0 ? 1 : static_cast<size_t>(padded.shape.back());
    for (size_t d = dims == 0 ? 0 : dims - 1; d-- > 0;) {
      const auto extent = static_cast<size_t>(block.shape[d]);
      at += (rest % extent + static_cast<size_t>(low[d])) * stride;
      rest /= extent;
      stride *= static_cast<size_t>(padded.shape[d]);
    }
    body(at * size, i * row * size, row * size);
  }
}

// One rank's part of a case.
class HaloCaseRank {
 public:
  HaloCaseRank(const HaloCase& test, const HaloRanks& ranks, int rank,
               std::unique_ptr<Stream> stream)
      : test_(test),
        rank_(rank),
        halo_(ranks.at(rank)),
        memory_(ranks.memory(rank)),
        stream_(std::move(stream)) {}

  // All ranks make these calls in this order.
  absl::Status Run() {
    absl::Status status = CheckTypes();
    for (const Placement placement : {Placement::kPrivate, Placement::kArena}) {
      placement_ = placement;
      for (const CallForm form : kCallForms) {
        form_ = form;
        if (status.ok()) status = Named("forward", Forward());
        if (status.ok()) status = Named("forward in place", ForwardInPlace());
        if (status.ok()) status = Named("trim", Trim());
        if (status.ok()) status = Named("backward", Backward());
        if (status.ok()) status = Named("backward in place", BackwardInPlace());
      }
    }
    return status;
  }

 private:
  using Bytes = std::vector<std::vector<std::byte>>;  // of each tensor

  absl::Status Named(const char* call, const absl::Status& status) const {
    if (status.ok()) return status;
    constexpr const char* kForms[] = {"waited for", "started", "on a stream"};
    return absl::Status(
        status.code(),
        absl::StrCat(call, ", ", kForms[static_cast<int>(form_)],
                     placement_ == Placement::kArena ? ", arena" : "",
                     ": rank ", rank_, ": ", status.message()));
  }

  const std::vector<CaseTensor>& Of(const RankTensors& tensors) const {
    return tensors[static_cast<size_t>(rank_)];
  }

  absl::Status CheckTypes() const {
    const auto types = halo_.padded_types();
    if (!types.ok()) return types.status();
    for (size_t t = 0; t < types->size(); ++t) {
      const TensorType& wanted = Of(test_.padded)[t].type;
      if ((*types)[t] == wanted) continue;
      return absl::DataLossError(absl::StrCat(
          "padded tensor ", t, " of rank ", rank_, " is ",
          collectives::Text((*types)[t]), ", not ", collectives::Text(wanted)));
    }
    return absl::OkStatus();
  }

  static Bytes BytesOf(const std::vector<CaseTensor>& tensors) {
    Bytes all;
    for (const CaseTensor& tensor : tensors) all.push_back(tensor.bytes);
    return all;
  }
  static Bytes Unwritten(const std::vector<CaseTensor>& like) {
    Bytes all = BytesOf(like);
    for (auto& bytes : all) std::fill(bytes.begin(), bytes.end(), kUnwritten);
    return all;
  }

  absl::StatusOr<GuardedTensors> Place(const Bytes& bytes) {
    GuardedTensors placed(memory_, placement_, *stream_);
    for (const auto& tensor : bytes) {
      absl::Status added = placed.Add(tensor);
      if (!added.ok()) return added;
    }
    absl::Status there = stream_->Synchronize();
    if (!there.ok()) return there;
    return placed;
  }

  static absl::Status Compare(const Bytes& got,
                              const std::vector<CaseTensor>& wanted) {
    for (size_t t = 0; t < wanted.size(); ++t) {
      const std::string fault =
          CompareTensors({wanted[t].type, got[t]}, wanted[t]);
      if (fault.empty()) continue;
      return absl::DataLossError(absl::StrCat("tensor ", t, ": ", fault));
    }
    return absl::OkStatus();
  }
  static absl::Status CheckUnchanged(const Bytes& got,
                                     const std::vector<CaseTensor>& before) {
    if (got == BytesOf(before)) return absl::OkStatus();
    return absl::DataLossError("an input was changed");
  }

  static absl::Status Await(const absl::StatusOr<PendingCollective>& pending) {
    return pending.ok() ? pending->Wait() : pending.status();
  }

  absl::Status CallForward(const std::vector<const void*>& blocks,
                           absl::Span<void* const> padded) {
    if (form_ == CallForm::kWait) return halo_.Forward(blocks, padded);
    if (form_ == CallForm::kStart) return Await(halo_.Start(blocks, padded));
    absl::Status status = halo_.Run(blocks, padded, *stream_);
    status.Update(stream_->Synchronize());
    return status;
  }

  absl::Status CallBackward(absl::Span<void* const> padded,
                            absl::Span<void* const> blocks) {
    if (form_ == CallForm::kWait) return halo_.Backward(padded, blocks);
    if (form_ == CallForm::kStart) {
      return Await(halo_.StartBackward(padded, blocks));
    }
    absl::Status status = halo_.RunBackward(padded, blocks, *stream_);
    status.Update(stream_->Synchronize());
    return status;
  }

  // Compares `outputs` after a call with this status.
  static absl::Status Check(absl::Status called, const GuardedTensors& outputs,
                            const std::vector<CaseTensor>& wanted) {
    const auto got = outputs.Fetch();
    called.Update(got.status());
    return called.ok() ? Compare(*got, wanted) : called;
  }
  static absl::Status CheckInputs(const GuardedTensors& inputs,
                                  const std::vector<CaseTensor>& before) {
    const auto after = inputs.Fetch();
    return after.ok() ? CheckUnchanged(*after, before) : after.status();
  }

  absl::Status Forward() {
    const auto blocks = Place(BytesOf(Of(test_.blocks)));
    const auto padded = Place(Unwritten(Of(test_.padded)));
    if (!blocks.ok()) return blocks.status();
    if (!padded.ok()) return padded.status();
    absl::Status status = Check(CallForward(blocks->inputs(), padded->data()),
                                *padded, Of(test_.padded));
    if (status.ok()) status = CheckInputs(*blocks, Of(test_.blocks));
    return status;
  }

  absl::Status ForwardInPlace() {
    const auto where = halo_.blocks();
    if (!where.ok()) return where.status();
    Bytes bytes = Unwritten(Of(test_.padded));
    for (size_t t = 0; t < bytes.size(); ++t) {
      const CaseTensor& block = Of(test_.blocks)[t];
      ForEachRow(block.type, Of(test_.padded)[t].type, (*where)[t].low,
                 [&](size_t to, size_t from, size_t size) {
                   std::copy_n(&block.bytes[from], size, &bytes[t][to]);
                 });
    }
    const auto padded = Place(bytes);
    if (!padded.ok()) return padded.status();
    const std::vector<const void*> in_place(bytes.size(), nullptr);
    return Check(CallForward(in_place, padded->data()), *padded,
                 Of(test_.padded));
  }

  absl::Status Trim() {
    const auto padded = Place(BytesOf(Of(test_.padded)));
    const auto blocks = Place(Unwritten(Of(test_.blocks)));
    if (!padded.ok()) return padded.status();
    if (!blocks.ok()) return blocks.status();
    absl::Status status;
    if (form_ == CallForm::kRun) {
      status = halo_.RunTrim(padded->inputs(), blocks->data(), *stream_);
      status.Update(stream_->Synchronize());
    } else {
      status = halo_.Trim(padded->inputs(), blocks->data());
    }
    return Check(status, *blocks, Of(test_.blocks));
  }

  absl::Status Backward() {
    const auto padded = Place(BytesOf(Of(test_.padded_gradients)));
    const auto blocks = Place(Unwritten(Of(test_.block_gradients)));
    if (!padded.ok()) return padded.status();
    if (!blocks.ok()) return blocks.status();
    absl::Status status = Check(CallBackward(padded->data(), blocks->data()),
                                *blocks, Of(test_.block_gradients));
    if (status.ok()) status = CheckInputs(*padded, Of(test_.padded_gradients));
    return status;
  }

  absl::Status BackwardInPlace() {
    const auto where = halo_.blocks();
    if (!where.ok()) return where.status();
    const auto padded = Place(BytesOf(Of(test_.padded_gradients)));
    if (!padded.ok()) return padded.status();
    const std::vector<void*> in_place(padded->data().size(), nullptr);
    const absl::Status status = CallBackward(padded->data(), in_place);
    const auto got = padded->Fetch();
    if (!status.ok()) return status;
    if (!got.ok()) return got.status();
    Bytes interiors = BytesOf(Of(test_.block_gradients));
    for (size_t t = 0; t < interiors.size(); ++t) {
      ForEachRow(Of(test_.blocks)[t].type, Of(test_.padded)[t].type,
                 (*where)[t].low, [&](size_t from, size_t to, size_t size) {
                   std::copy_n(&(*got)[t][from], size, &interiors[t][to]);
                 });
    }
    return Compare(interiors, Of(test_.block_gradients));
  }

  const HaloCase& test_;
  const int rank_;
  const HaloExchange halo_;
  const GroupMemory& memory_;
  const std::unique_ptr<Stream> stream_;
  Placement placement_ = Placement::kPrivate;
  CallForm form_ = CallForm::kWait;
};

std::string RunRefusal(const HaloCase& test) {
  const HaloRefusal& refusal = *test.refusal;
  for (size_t r = 0; r < test.declared.size(); ++r) {
    session::HaloRegistry registry(nullptr);
    absl::Status declared;
    for (const HaloSpec& spec : test.declared[r]) {
      declared.Update(registry.Declare(test.mesh, spec).status());
    }
    const bool refused = std::count(refusal.ranks.begin(), refusal.ranks.end(),
                                    static_cast<int>(r)) > 0;
    if (refused ? !absl::IsInvalidArgument(declared) : !declared.ok()) {
      return absl::StrCat("should ", refused ? "" : "not ",
                          "be refused by rank ", r, " (", refusal.kind,
                          "), but: ", declared.ToString());
    }
  }
  const absl::Status compiled = CompileHalos(test.mesh, test.declared).status();
  if (!absl::IsInvalidArgument(compiled)) {
    return absl::StrCat("should fail (", refusal.kind,
                        "), but: ", compiled.ToString());
  }
  for (const std::string& fact : refusal.mentions) {
    if (absl::StrContains(compiled.message(), fact)) continue;
    return absl::StrCat("the error lacks \"", fact,
                        "\": ", compiled.ToString());
  }
  return "";
}

}  // namespace

std::string RunHaloCase(const HaloCase& test, Groups& groups, bool checked) {
  if (test.refusal.has_value()) return RunRefusal(test);
  const auto ranks = HaloRanks::Make(test.mesh, test.declared, groups, checked);
  if (!ranks.ok()) return ranks.status().ToString();
  std::vector<std::unique_ptr<HaloCaseRank>> runs;
  for (int rank = 0; rank < (*ranks)->size(); ++rank) {
    auto stream = groups.MakeStream(rank);
    if (!stream.ok()) return stream.status().ToString();
    runs.push_back(std::make_unique<HaloCaseRank>(test, **ranks, rank,
                                                  *std::move(stream)));
  }
  const absl::Status status =
      (*ranks)->ForAll([&runs](int rank) { return runs[rank]->Run(); });
  return status.ok() ? "" : status.ToString();
}

}  // namespace lockstep::conformance
