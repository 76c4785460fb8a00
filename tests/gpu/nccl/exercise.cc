#include "tests/gpu/nccl/exercise.h"

#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "client/transport/nccl/cuda_arena.h"
#include "client/transport/nccl/cuda_stream.h"
#include "client/transport/nccl/device_scope.h"
#include "client/transport/nccl/gpu_status.h"
#include "client/transport/nccl/graph.h"
#include "client/transport/nccl/nccl.h"

namespace lockstep::gpu {
namespace {

using transport::nccl::Check;
using transport::nccl::CudaStream;
using transport::nccl::Tables;
using Floats = std::vector<float>;

constexpr size_t kBytes = 1 << 20;
constexpr size_t kCount = kBytes / sizeof(float);

// One rank's device: a transport, a stream, and memory of both kinds.
class Rank {
 public:
  Rank(const Tables& tables, const Place& place)
      : tables_(tables),
        scope_(*tables_.cuda),
        place_(place),
        arena_(transport::nccl::MakeCudaArena(tables.nccl, tables.cuda)) {}
  ~Rank() {
    if (staging_ != nullptr) tables_.cuda->FreeHost(staging_);
  }

  absl::Status Open() {
    auto transport = transport::nccl::MakeTransport(tables_);
    if (!transport.ok()) return transport.status();
    transport_ = *std::move(transport);
    auto stream = CudaStream::Create(tables_.cuda.get());
    if (!stream.ok()) return stream.status();
    stream_ = *std::move(stream);
    for (ArenaBuffer* buffer : {&in_, &out_}) {
      auto memory = arena_->Allocate(kBytes);
      if (!memory.ok()) return memory.status();
      *buffer = *std::move(memory);
    }
    return Check(*tables_.cuda, tables_.cuda->HostAlloc(&staging_, kBytes),
                 "HostAlloc");
  }

  absl::StatusOr<std::unique_ptr<Communicator>> Connect(
      const std::string& name) {
    auto pending = transport_->Prepare(
        {.name = name, .rank = place_.rank, .size = place_.size});
    if (!pending.ok()) return pending.status();
    return (*pending)->Connect(place_.exchange((*pending)->handle()),
                               absl::Seconds(60));
  }

  // Registers both buffers; returns the kind of registration.
  absl::StatusOr<std::string> RegisterBuffer(Communicator& group) {
    std::string reach;
    for (const ArenaBuffer* buffer : {&in_, &out_}) {
      auto known =
          transport_->RegisterBuffer(group, *buffer, absl::Seconds(60));
      if (!known.ok()) return known.status();
      reach = std::string(transport::Name((*known)->kind()));
      enlisted_.push_back(*std::move(known));
    }
    return reach;
  }

  int rank() const { return place_.rank; }
  int size() const { return place_.size; }
  const Place& place() const { return place_; }
  transport::Transport& transport() { return *transport_; }
  CudaStream& stream() { return *stream_; }
  float* in() const { return in_.as<float>().data(); }
  float* out() const { return out_.as<float>().data(); }

  // Writes in stream order; returns when it is done.
  absl::Status Write(float* to, const Floats& values) {
    std::memcpy(staging_, values.data(), values.size() * sizeof(float));
    return Copy(to, staging_, values.size() * sizeof(float));
  }
  absl::StatusOr<Floats> Read(const float* from, size_t count) {
    absl::Status copied = Copy(staging_, from, count * sizeof(float));
    if (!copied.ok()) return copied;
    const float* const values = static_cast<const float*>(staging_);
    return Floats(values, values + count);
  }

 private:
  absl::Status Copy(void* to, const void* from, size_t bytes) {
    const auto handle = stream_->handle();
    absl::Status done =
        Check(*tables_.cuda, tables_.cuda->MemcpyAsync(to, from, bytes, handle),
              "MemcpyAsync");
    done.Update(stream_->Synchronize());
    return done;
  }

  const Tables tables_;
  const transport::nccl::DeviceScope scope_;  // for the rank's thread
  const Place place_;
  const std::unique_ptr<Arena> arena_;
  std::unique_ptr<transport::Transport> transport_;
  std::unique_ptr<CudaStream> stream_;
  ArenaBuffer in_, out_;
  std::vector<std::unique_ptr<transport::BufferRegistration>> enlisted_;
  void* staging_ = nullptr;
};

// Whole numbers, exact in any order of any sum.
float Value(int rank, size_t i) {
  return static_cast<float>(100 * rank + static_cast<int>(i % 97));
}

Floats ValuesOf(int rank) {
  Floats values(kCount);
  for (size_t i = 0; i < kCount; ++i) values[i] = Value(rank, i);
  return values;
}

// Runs operations on all ranks' values and checks the results.
class Mover {
 public:
  Mover(Rank* rank, Communicator* group) : rank_(*rank), group_(*group) {}

  using Enqueue = std::function<absl::Status(Stream&)>;
  using Expected = std::function<float(size_t i)>;

  // Keeps the first error.
  void Move(const char* what, const Floats& in, const Enqueue& enqueue,
            size_t count, const Expected& expected) {
    if (!first_.ok()) return;
    first_ = MoveOnce(in, enqueue, count, expected);
    if (first_.ok()) return;
    first_ =
        absl::Status(first_.code(), absl::StrCat(what, ": ", first_.message()));
  }
  absl::Status status() const { return first_; }

  Rank& rank() { return rank_; }
  Communicator& group() { return group_; }

 private:
  absl::Status MoveOnce(const Floats& in, const Enqueue& enqueue, size_t count,
                        const Expected& expected) {
    absl::Status done = rank_.Write(rank_.in(), in);
    done.Update(rank_.Write(rank_.out(), Floats(kCount, -1)));
    done.Update(enqueue(rank_.stream()));
    if (!done.ok()) return done;
    const auto got = rank_.Read(rank_.out(), count);
    if (!got.ok()) return got.status();
    for (size_t i = 0; i < count; ++i) {
      const float want = expected(i);
      if ((*got)[i] == want || (std::isnan((*got)[i]) && std::isnan(want))) {
        continue;
      }
      return absl::DataLossError(absl::StrFormat(
          "element %d is %g and should be %g", i, (*got)[i], want));
    }
    return absl::OkStatus();
  }

  Rank& rank_;
  Communicator& group_;
  absl::Status first_;
};

// A host function in a graph.
void Visit(void* visits) { ++*static_cast<std::atomic<int>*>(visits); }

void Reduce(Mover* mover) {
  Rank& rank = mover->rank();
  Communicator& group = mover->group();
  const int n = rank.size();
  const auto all_reduce = [&](ReduceOp op) {
    return [&rank, &group, op](Stream& stream) {
      return group.AllReduce(rank.in(), rank.out(), kCount, DType::kF32, op,
                             stream);
    };
  };
  const auto sum = [n](size_t i) {
    float total = 0;
    for (int r = 0; r < n; ++r) total += Value(r, i);
    return total;
  };
  const Floats mine = ValuesOf(rank.rank());
  mover->Move("a sum", mine, all_reduce(ReduceOp::kSum), kCount, sum);
  mover->Move(
      "a mean", mine, all_reduce(ReduceOp::kMean), kCount,
      [&](size_t i) { return sum(i) * (1.0f / static_cast<float>(n)); });
  // One rank has a NaN, which NCCL's own maximum ignores.
  Floats with_nan = mine;
  if (rank.rank() == n - 1)
    with_nan[3] = std::numeric_limits<float>::quiet_NaN();
  mover->Move("a maximum", with_nan, all_reduce(ReduceOp::kMax), kCount,
              [n](size_t i) {
                return i == 3 ? std::numeric_limits<float>::quiet_NaN()
                              : Value(n - 1, i);
              });
  const size_t part = kCount / n;
  mover->Move(
      "a reduce-scatter", mine,
      [&](Stream& stream) {
        return group.ReduceScatter(rank.in(), rank.out(), part, DType::kF32,
                                   ReduceOp::kSum, stream);
      },
      part, [&](size_t i) { return sum(rank.rank() * part + i); });
}

void PassRound(Mover* mover) {
  Rank& rank = mover->rank();
  Communicator& group = mover->group();
  const int n = rank.size();
  if (n == 1) return;  // no peer to send to
  const Floats mine = ValuesOf(rank.rank());
  const int previous = (rank.rank() + n - 1) % n;
  mover->Move(
      "a ring", mine,
      [&](Stream& stream) {
        return group.Group([&] {
          absl::Status posted = group.Send(rank.in(), kCount, DType::kF32,
                                           (rank.rank() + 1) % n, stream);
          posted.Update(
              group.Recv(rank.out(), kCount, DType::kF32, previous, stream));
          return posted;
        });
      },
      kCount, [&](size_t i) { return Value(previous, i); });
}

void Move(Mover* mover) {
  Rank& rank = mover->rank();
  Communicator& group = mover->group();
  const int n = rank.size();
  const size_t part = kCount / n;
  const Floats mine = ValuesOf(rank.rank());
  mover->Move(
      "an all-gather", mine,
      [&](Stream& stream) {
        return group.AllGather(rank.in(), rank.out(), part, DType::kF32,
                               stream);
      },
      n * part,
      [&](size_t i) { return Value(static_cast<int>(i / part), i % part); });
  mover->Move(
      "an all-to-all", mine,
      [&](Stream& stream) {
        return group.AllToAll(rank.in(), rank.out(), part, DType::kF32, stream);
      },
      n * part,
      [&](size_t i) {
        return Value(static_cast<int>(i / part), rank.rank() * part + i % part);
      });
  mover->Move(
      "a broadcast and a barrier", mine,
      [&](Stream& stream) {
        absl::Status posted = group.AllReduce(
            rank.in(), rank.out(), kCount, DType::kF32, ReduceOp::kMin, stream);
        posted.Update(
            group.Broadcast(rank.out(), kCount, DType::kF32, n - 1, stream));
        posted.Update(group.Barrier(stream));
        return posted;
      },
      kCount, [](size_t i) { return Value(0, i); });
}

}  // namespace

absl::Status MoveEverything(const Tables& tables, const Place& place) {
  Rank rank(tables, place);
  if (absl::Status opened = rank.Open(); !opened.ok()) return opened;
  auto group = rank.Connect("moves");
  if (!group.ok()) return group.status();
  Mover mover(&rank, group->get());
  Reduce(&mover);
  Move(&mover);
  PassRound(&mover);
  return mover.status();
}

absl::StatusOr<std::string> MoveThroughWindows(const Tables& tables,
                                               const Place& place) {
  Rank rank(tables, place);
  if (absl::Status opened = rank.Open(); !opened.ok()) return opened;
  auto group = rank.Connect("windows");
  if (!group.ok()) return group.status();
  const auto reach = rank.RegisterBuffer(**group);
  if (!reach.ok()) return reach.status();
  Mover mover(&rank, group->get());
  Reduce(&mover);
  group->reset();  // while they are registered
  if (!mover.status().ok()) return mover.status();
  return reach;
}

absl::Status ReplayAGraph(const Tables& tables, const Place& place) {
  Rank rank(tables, place);
  if (absl::Status opened = rank.Open(); !opened.ok()) return opened;
  auto group = rank.Connect("graph");
  if (!group.ok()) return group.status();
  std::atomic<int> visits{0};
  auto graph = transport::nccl::Capture(rank.transport(), rank.stream(), [&] {
    absl::Status posted =
        (*group)->AllReduce(rank.in(), rank.out(), kCount, DType::kF32,
                            ReduceOp::kMean, rank.stream());
    if (!posted.ok()) return posted;
    return Check(
        *tables.cuda,
        tables.cuda->LaunchHostFunc(rank.stream().handle(), &Visit, &visits),
        "LaunchHostFunc");
  });
  if (!graph.ok()) return graph.status();
  Mover mover(&rank, group->get());
  for (int round = 1; round <= 3; ++round) {
    Floats in = ValuesOf(rank.rank());
    for (float& value : in) value *= static_cast<float>(round);
    mover.Move(
        "a graph's mean", in,
        [&](Stream&) {
          (void)(*graph)->Launch(rank.stream());
          return absl::OkStatus();
        },
        kCount,
        [&](size_t i) {
          float total = 0;
          for (int r = 0; r < place.size; ++r) {
            total += static_cast<float>(round) * Value(r, i);
          }
          return total * (1.0f / static_cast<float>(place.size));
        });
  }
  group->reset();  // while the graph exists
  if (mover.status().ok() && visits != 3) {
    return absl::DataLossError(
        absl::StrCat("the host's part ran ", visits.load(), " times"));
  }
  return mover.status();
}

absl::StatusOr<std::vector<absl::Duration>> AbortWhatIsWedged(
    const Tables& tables, const Place& place, int times) {
  Rank rank(tables, place);
  if (absl::Status opened = rank.Open(); !opened.ok()) return opened;
  std::vector<absl::Duration> took;
  for (int i = 0; i < times; ++i) {
    auto group = rank.Connect(absl::StrCat("wedge-", i));
    if (!group.ok()) return group.status();
    // A rank that is connected may be the first: an abort now would break the
    // first operations of peers that still run them.
    (void)place.exchange("connected");
    if (rank.rank() == 0) {
      absl::Status posted =
          (*group)->AllReduce(rank.in(), rank.out(), kCount, DType::kF32,
                              ReduceOp::kSum, rank.stream());
      if (!posted.ok()) return posted;
      const absl::Time asked = absl::Now();
      (*group)->Abort("the exercise says so");
      const absl::Status ended = rank.stream().Synchronize();
      took.push_back(absl::Now() - asked);
      if (!absl::IsAborted(ended)) {
        return absl::InternalError(
            absl::StrCat("an abort ended with: ", ended.ToString()));
      }
    }
    (void)place.exchange("over");
  }
  return took;
}

}  // namespace lockstep::gpu
