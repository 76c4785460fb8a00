#include "client/halo/halo_exchange_impl.h"

#include <algorithm>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/collectives/pending_collective.h"
#include "client/executor/enqueue.h"
#include "client/transport/extended_collectives.h"
#include "plan/compile.h"
#include "protocol/halo.h"
#include "protocol/tensor_type.h"

namespace lockstep {

using collectives::CallOutcome;
using halo::HaloGroup;
using halo::MemoryRange;
using halo::PassLists;
using plan::HaloPass;

// One call: what its work uses.
struct HaloExchange::Impl::Call {
  const Prepared* prepared = nullptr;
  const PassLists* lists = nullptr;
  size_t pass = 0;
  bool in_place = false;
  absl::InlinedVector<void*, 9> memory;  // as box_lists.h numbers it
  // Null where the caller keeps the call.
  std::shared_ptr<const Prepared> kept;
  std::shared_ptr<CallOutcome> outcome;  // or null

  absl::Span<const void* const> in() const {
    return {const_cast<const void* const*>(memory.data()), memory.size()};
  }
  absl::Span<void* const> out() const { return memory; }
};

namespace {

size_t IndexOf(HaloPass pass) { return pass == HaloPass::kForward ? 0 : 1; }

absl::Status RunBefore(const PassLists& lists, absl::Span<const void* const> in,
                       absl::Span<void* const> out,
                       transport::DeviceContext::KernelQueue& queue) {
  if (!lists.fills.empty()) queue.FillBoxes(lists.fills, out);
  if (!lists.copies_before.empty()) {
    queue.CopyBoxes(lists.copies_before, in, out);
  }
  if (!lists.sums_before.empty()) {
    queue.SumBoxes(lists.sums_before, in, out, /*add=*/false);
  }
  for (const auto& adds : lists.adds_before) {
    queue.SumBoxes(adds, in, out, /*add=*/true);
  }
  return queue.status();
}

absl::Status RunThen(const PassLists& lists, absl::Span<const void* const> in,
                     absl::Span<void* const> out,
                     transport::DeviceContext::KernelQueue& queue) {
  if (!lists.copies_then.empty()) queue.CopyBoxes(lists.copies_then, in, out);
  for (const auto& adds : lists.adds_then) {
    queue.SumBoxes(adds, in, out, /*add=*/true);
  }
  return queue.status();
}

bool HasWork(const PassLists& lists, bool then) {
  if (then) return !lists.copies_then.empty() || !lists.adds_then.empty();
  return !lists.fills.empty() || !lists.copies_before.empty() ||
         !lists.sums_before.empty() || !lists.adds_before.empty();
}

// The transfers of one pass of an exchange.
std::vector<const plan::Transfer*> TransfersOf(const plan::RankPlan& rank,
                                               int halo, HaloPass pass) {
  std::vector<const plan::Transfer*> transfers;
  for (const plan::Lane& lane : rank.lanes) {
    if (lane.kind != plan::LaneKind::kHalo) continue;
    for (const plan::Transfer& transfer : lane.transfers) {
      if (transfer.group != plan::GroupOf(halo, pass)) continue;
      transfers.push_back(&transfer);
    }
  }
  return transfers;
}

HaloBlock BlockOf(const plan::HaloField& field,
                  const std::vector<int>& coordinates) {
  HaloBlock block;
  for (const plan::HaloExtent& extent : field.dims) {
    const int number = plan::BlockOf(extent, coordinates);
    block.field.push_back(extent.bounds.back());
    block.begin.push_back(extent.bounds[number]);
    block.low.push_back(plan::LowOf(extent, number));
    block.high.push_back(plan::HighOf(extent, number));
  }
  return block;
}

}  // namespace

// --- Life -------------------------------------------------------------------

HaloExchange::Impl::Impl(HaloSpec spec)
    : spec_(std::move(spec)),
      names_{std::make_shared<const std::string>(
                 absl::StrCat("halo ", spec_.name)),
             std::make_shared<const std::string>(
                 absl::StrCat("the adjoint of halo ", spec_.name))} {}

absl::Status HaloExchange::Impl::Connect(
    std::shared_ptr<const plan::Plan> plan, int rank,
    const plan::HaloRoutes& routes, std::shared_ptr<halo::HaloGroup> group) {
  const plan::Halo& halo = plan->halos[routes.halo];
  const auto place = std::find(halo.ranks.begin(), halo.ranks.end(), rank);
  const std::vector<int> coordinates =
      halo.mesh.CoordinatesOf(static_cast<int>(place - halo.ranks.begin()));
  auto prepared = std::make_shared<Prepared>();
  bool boxes = false;
  if (AxisGroup::Impl* const members = group->members(); members != nullptr) {
    const auto communicator = members->CommunicatorFor(*names_[0]);
    if (!communicator.ok()) return communicator.status();
    boxes = transport::MovesBoxes(**communicator);
  }
  int64_t buffer_bytes = 0;
  for (const HaloPass pass : {HaloPass::kForward, HaloPass::kAdjoint}) {
    const size_t p = IndexOf(pass);
    prepared->transfers[p] = TransfersOf(plan->ranks[rank], routes.halo, pass);
    for (const plan::Transfer* transfer : prepared->transfers[p]) {
      prepared->bytes[p] += executor::LaneTraffic::BytesOf(*transfer);
    }
    for (const bool in_place : {false, true}) {
      prepared->lists[p][in_place] =
          halo::MakeLists(halo, routes, coordinates, pass, in_place, boxes);
      buffer_bytes =
          std::max(buffer_bytes, prepared->lists[p][in_place].buffer_bytes);
    }
  }
  prepared->trim = halo::MakeTrimList(halo, coordinates);
  if (buffer_bytes > 0) {
    auto buffer = group->AllocateBuffer(static_cast<size_t>(buffer_bytes));
    if (!buffer.ok()) return buffer.status();
    prepared->buffer = *std::move(buffer);
  }
  auto made = std::make_shared<Connection>();
  for (const plan::HaloField& field : halo.fields) {
    made->blocks.push_back(lockstep::BlockOf(field, coordinates));
    made->padded_types.push_back(
        {field.dtype, plan::PaddedShape(field, coordinates)});
    made->bytes.padded.push_back(BytesOf(made->padded_types.back()));
    made->bytes.blocks.push_back(
        BytesOf(TensorType{field.dtype, plan::BlockShape(field, coordinates)}));
  }
  prepared->plan = std::move(plan);
  prepared->context = group->context();
  made->prepared = std::move(prepared);
  made->group = std::move(group);
  MutexLock lock(&mutex_);
  connected_ = std::move(made);
  return absl::OkStatus();
}

std::shared_ptr<const void> HaloExchange::Impl::Close() {
  MutexLock lock(&mutex_);
  closed_ = true;
  return std::exchange(connected_, nullptr);
}

absl::StatusOr<std::shared_ptr<const HaloExchange::Impl::Connection>>
HaloExchange::Impl::connected() const {
  MutexLock lock(&mutex_);
  if (connected_ != nullptr) return connected_;
  return absl::FailedPreconditionError(absl::StrCat(
      *names_[0], closed_ ? ": this worker has left the job"
                          : " is not connected yet: GradientSync::Seal "
                            "connects it, or Session::Connect"));
}

absl::StatusOr<std::vector<HaloBlock>> HaloExchange::Impl::blocks() const {
  const auto to = connected();
  if (!to.ok()) return to.status();
  return (*to)->blocks;
}

absl::StatusOr<std::vector<TensorType>> HaloExchange::Impl::padded_types()
    const {
  const auto to = connected();
  if (!to.ok()) return to.status();
  return (*to)->padded_types;
}

uint64_t HaloExchange::Impl::bytes_received() const {
  const auto to = connected();  // the adjoint sends what a pass receives
  return to.ok() ? (*to)->prepared->bytes[IndexOf(HaloPass::kAdjoint)] : 0;
}

// --- Calls ------------------------------------------------------------------

HaloExchange::Impl::Call HaloExchange::Impl::MakeCall(
    const Prepared& prepared, Pass pass, const PassMemory& memory) {
  Call call{.prepared = &prepared, .pass = IndexOf(pass)};
  call.in_place = memory.blocks[0] == nullptr;
  call.lists = &prepared.lists[call.pass][call.in_place];
  call.memory.assign(memory.padded.begin(), memory.padded.end());
  if (!call.in_place) {
    call.memory.insert(call.memory.end(), memory.blocks.begin(),
                       memory.blocks.end());
  }
  call.memory.push_back(prepared.buffer.data());
  return call;
}

absl::Status HaloExchange::Impl::RunLocal(
    const Call& call, const std::shared_ptr<const Call>& kept, Stream* stream,
    bool then) {
  if (!HasWork(*call.lists, then)) return absl::OkStatus();
  using KernelQueue = transport::DeviceContext::KernelQueue;
  const auto run = [then](const Call& of, KernelQueue& queue) {
    const absl::Status status =
        then ? RunThen(*of.lists, of.in(), of.out(), queue)
             : RunBefore(*of.lists, of.in(), of.out(), queue);
    if (of.outcome != nullptr) of.outcome->Update(status);
    return status;
  };
  transport::DeviceContext& context = *call.prepared->context;
  if (stream == nullptr) {
    return context.Perform(
        nullptr, [run, &call](KernelQueue& queue) { return run(call, queue); });
  }
  return context.Perform(
      stream, [run, kept](KernelQueue& queue) { return run(*kept, queue); });
}

absl::StatusOr<std::shared_ptr<Communicator>> HaloExchange::Impl::Enqueue(
    const std::shared_ptr<const Connection>& to, Pass pass, PassMemory memory,
    Stream& stream, std::shared_ptr<CallOutcome> outcome, Event* done) {
  absl::Status kind = to->prepared->context->CheckStream(stream);
  if (!kind.ok()) return kind;
  auto call = std::make_shared<Call>(MakeCall(*to->prepared, pass, memory));
  call->kept = to->prepared;
  call->outcome = std::move(outcome);
  return EnqueueCall(*to, *call, call, stream, done);
}

absl::StatusOr<std::shared_ptr<Communicator>> HaloExchange::Impl::EnqueueCall(
    const Connection& to, const Call& call,
    const std::shared_ptr<const Call>& kept, Stream& stream, Event* done) {
  const Prepared& prepared = *call.prepared;
  const std::shared_ptr<const std::string>& name = names_[call.pass];
  AxisGroup::Impl* const members = to.group->members();
  const bool captured = prepared.context->Captures(stream);
  const bool compared = members != nullptr && members->options().checked;
  if (captured && (compared || call.lists->buffer_bytes > 0)) {
    return absl::UnimplementedError(absl::StrCat(
        *name,
        ": a pass that packs messages, or that is compared with the other "
        "ranks' calls, cannot be captured into a graph"));
  }
  std::shared_ptr<Communicator> communicator;
  if (members != nullptr) {
    auto found = members->CommunicatorFor(*name);
    if (!found.ok()) return found.status();
    communicator = *std::move(found);
  }
  if (!captured) to.group->BeginOn(stream);
  absl::Status status;
  if (members != nullptr) {
    members->BeginCall(name);
    status = members->CompareSignatures(*name, communicator, stream);
  }
  Stream* const local = kept == nullptr ? nullptr : &stream;
  if (status.ok()) status = RunLocal(call, kept, local, /*then=*/false);
  const std::vector<const plan::Transfer*>& transfers =
      prepared.transfers[call.pass];
  if (status.ok() && !transfers.empty()) {
    absl::InlinedVector<executor::PlannedTransfer, 8> planned;
    for (size_t i = 0; i < transfers.size(); ++i) {
      const MemoryRange& range = call.lists->operands[i];
      void* const data =
          static_cast<std::byte*>(call.memory[range.memory]) + range.offset;
      planned.push_back({transfers[i], {data, data}});
      if (call.lists->messages.empty()) continue;
      const transport::BoxMessage& message = call.lists->messages[i];
      if (message.boxes.empty()) continue;
      planned.back().boxes = {&message, call.memory.data(), kept};
    }
    status = executor::EnqueueTogether(planned, *communicator, stream);
    if (status.ok()) to.group->Count(prepared.bytes[call.pass]);
  }
  if (status.ok()) status = RunLocal(call, kept, local, /*then=*/true);
  *done = kept == nullptr || captured ? Event() : stream.Record();
  if (!captured) to.group->End(*done);
  if (members != nullptr) members->EndCall(done);
  if (!status.ok()) return status;
  return communicator;
}

absl::Status HaloExchange::Impl::Explained(const Connection& to,
                                           const absl::Status& error) const {
  AxisGroup::Impl* const members = to.group->members();
  return members == nullptr ? error : members->Explained(*names_[0], error);
}

absl::Status HaloExchange::Impl::SecondThread() const {
  return absl::FailedPreconditionError(absl::StrCat(
      *names_[0],
      ": another thread calls an exchange over the same axes: one at a time"));
}

absl::StatusOr<PendingCollective> HaloExchange::Impl::Start(
    Pass pass, PassMemory memory, absl::Span<const Event> after) {
  const auto to = connected();
  if (!to.ok()) return to.status();
  absl::Status status =
      halo::CheckMemory(memory, (*to)->bytes,
                        {.writes_blocks = pass == Pass::kAdjoint}, *names_[0]);
  if (!status.ok()) return status;
  const HaloGroup::Call only(*(*to)->group);
  if (!only.is_only()) return SecondThread();
  const auto stream = (*to)->group->OwnStream();
  if (!stream.ok()) return stream.status();
  for (const Event& event : after) (*stream)->WaitFor(event);
  auto outcome = std::make_shared<CallOutcome>();
  Event done;
  auto communicator =
      Enqueue(*to, pass, std::move(memory), **stream, outcome, &done);
  if (!communicator.ok()) return communicator.status();
  return PendingCollective(std::make_shared<PendingCollective::State>(
      *std::move(communicator),
      [self = shared_from_this(), to = *to](const absl::Status& error) {
        return self->Explained(*to, error);
      },
      std::move(outcome), std::move(done)));
}

absl::Status HaloExchange::Impl::Run(Pass pass, PassMemory memory,
                                     Stream& stream) {
  const auto to = connected();
  if (!to.ok()) return to.status();
  absl::Status status =
      halo::CheckMemory(memory, (*to)->bytes,
                        {.writes_blocks = pass == Pass::kAdjoint}, *names_[0]);
  if (!status.ok()) return status;
  const HaloGroup::Call only(*(*to)->group);
  if (!only.is_only()) return SecondThread();
  Event done;
  return Enqueue(*to, pass, std::move(memory), stream, nullptr, &done).status();
}

absl::Status HaloExchange::Impl::RunAndWait(Pass pass, PassMemory memory) {
  const auto to = connected();
  if (!to.ok()) return to.status();
  if ((*to)->group->on_device()) {
    const auto pending = Start(pass, std::move(memory), {});
    return pending.ok() ? pending->Wait() : pending.status();
  }
  absl::Status status =
      halo::CheckMemory(memory, (*to)->bytes,
                        {.writes_blocks = pass == Pass::kAdjoint}, *names_[0]);
  if (!status.ok()) return status;
  const HaloGroup::Call only(*(*to)->group);
  if (!only.is_only()) return SecondThread();
  HostStream& stream = (*to)->group->InlineStream();
  const Call call = MakeCall(*(*to)->prepared, pass, memory);
  Event done;
  const auto communicator =
      EnqueueCall(**to, call, /*kept=*/nullptr, stream, &done);
  status = stream.Synchronize();
  if (!communicator.ok()) return communicator.status();
  if (*communicator == nullptr) return status;
  const absl::Status failed = (*communicator)->status();
  return failed.ok() ? status : Explained(**to, failed);
}

absl::Status HaloExchange::Impl::Trim(PassMemory memory, Stream* stream) {
  const auto to = connected();
  if (!to.ok()) return to.status();
  absl::Status status = halo::CheckMemory(
      memory, (*to)->bytes, {.may_be_in_place = false, .writes_blocks = true},
      *names_[0]);
  if (!status.ok()) return status;
  transport::DeviceContext& context = *(*to)->prepared->context;
  Stream* used = stream;
  if (used == nullptr && (*to)->group->on_device()) {
    const auto own = (*to)->group->OwnStream();
    if (!own.ok()) return own.status();
    used = *own;
  }
  if (used != nullptr) status = context.CheckStream(*used);
  if (!status.ok()) return status;
  std::vector<void*> all(memory.padded.begin(), memory.padded.end());
  all.insert(all.end(), memory.blocks.begin(), memory.blocks.end());
  status =
      context.Perform(used, [all, prepared = (*to)->prepared](
                                transport::DeviceContext::KernelQueue& queue) {
        queue.CopyBoxes(
            prepared->trim,
            {const_cast<const void* const*>(all.data()), all.size()}, all);
        return queue.status();
      });
  if (!status.ok() || used == nullptr || stream != nullptr) return status;
  return used->Record().Wait();
}

namespace halo {

absl::StatusOr<std::shared_ptr<HaloExchange::Impl>> MakeExchange(
    const Mesh& mesh, const std::vector<HaloSpec>& specs,
    Communicator& communicator,
    std::shared_ptr<transport::DeviceContext> context,
    HaloGroup::Allocate allocate) {
  plan::PlanInput input{.mesh = mesh};
  for (const HaloSpec& spec : specs) {
    input.registrations.emplace_back();
    input.halos.push_back({spec});
  }
  auto plan = plan::Compile(input);
  if (!plan.ok()) return plan.status();
  const auto shared = std::make_shared<const plan::Plan>(*std::move(plan));
  const int rank = communicator.rank();
  const plan::HaloRoutes& routes = shared->ranks[rank].halos[0];
  std::shared_ptr<AxisGroup::Impl> members;
  if (shared->halos[routes.halo].communicator >= 0) {
    members = std::make_shared<AxisGroup::Impl>(
        AxisGroupOptions{.size = communicator.size(), .index = rank});
    members->Connect(
        std::shared_ptr<Communicator>(&communicator, [](Communicator*) {}), {});
  }
  auto exchange = std::make_shared<HaloExchange::Impl>(
      *Normalized(specs[static_cast<size_t>(rank)], mesh));
  absl::Status connected = exchange->Connect(
      shared, rank, routes,
      std::make_shared<HaloGroup>(std::move(members), std::move(context),
                                  std::move(allocate)));
  if (!connected.ok()) return connected;
  return exchange;
}

}  // namespace halo

}  // namespace lockstep
