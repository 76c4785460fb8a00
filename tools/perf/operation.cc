#include "tools/perf/operation.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <utility>

#include "tools/perf/axis_operation.h"
#include "tools/perf/buffered.h"
#include "tools/perf/halo_operation.h"

namespace lockstep::perf {
namespace {

// In place, as in training.
class AllReduce final : public Buffered {
 public:
  using Buffered::Buffered;
  absl::Status Prepare(size_t elements, Memory* memory) {
    count_ = elements;
    bytes_ = count_ * SizeOf(dtype());
    return Allocate(count_, 0, memory);
  }
  absl::Status Run(Stream& stream) override {
    return comm_.AllReduce(in_buffer_.data(), in_buffer_.data(), count_,
                           dtype(), op(), stream);
  }
  void Fill() override { FillToReduce(); }
  size_t Wrong() const override { return in_.WrongSums(ranks(), 0, op()); }
};

class AllGather final : public Buffered {
 public:
  using Buffered::Buffered;
  absl::Status Prepare(size_t elements, Memory* memory) {
    count_ = elements / ranks();
    bytes_ = count_ * ranks() * SizeOf(dtype());
    return Allocate(count_, count_ * ranks(), memory);
  }
  absl::Status Run(Stream& stream) override {
    return comm_.AllGather(in_buffer_.data(), out_buffer_.data(), count_,
                           dtype(), stream);
  }
  void Fill() override {
    FillToMove();
    ClearOut();
  }
  size_t Wrong() const override {
    size_t wrong = 0;
    for (int from = 0; from < ranks(); ++from) {
      wrong += out_.Part(from * count_, count_).WrongCopies(from, 0);
    }
    return wrong;
  }
};

class ReduceScatter final : public Buffered {
 public:
  using Buffered::Buffered;
  absl::Status Prepare(size_t elements, Memory* memory) {
    count_ = elements / ranks();
    bytes_ = count_ * ranks() * SizeOf(dtype());
    return Allocate(count_ * ranks(), count_, memory);
  }
  absl::Status Run(Stream& stream) override {
    return comm_.ReduceScatter(in_buffer_.data(), out_buffer_.data(), count_,
                               dtype(), op(), stream);
  }
  void Fill() override {
    FillToReduce();
    ClearOut();
  }
  size_t Wrong() const override {
    return out_.WrongSums(ranks(), rank() * count_, op());
  }
};

class Broadcast final : public Buffered {
 public:
  using Buffered::Buffered;
  absl::Status Prepare(size_t elements, Memory* memory) {
    count_ = elements;
    bytes_ = count_ * SizeOf(dtype());
    return Allocate(count_, 0, memory);
  }
  absl::Status Run(Stream& stream) override {
    return comm_.Broadcast(in_buffer_.data(), count_, dtype(), options_.root,
                           stream);
  }
  void Fill() override { FillToMove(); }
  size_t Wrong() const override { return in_.WrongCopies(options_.root, 0); }
};

class AllToAll final : public Buffered {
 public:
  using Buffered::Buffered;
  absl::Status Prepare(size_t elements, Memory* memory) {
    count_ = elements / ranks();
    bytes_ = count_ * ranks() * SizeOf(dtype());
    return Allocate(count_ * ranks(), count_ * ranks(), memory);
  }
  absl::Status Run(Stream& stream) override {
    return comm_.AllToAll(in_buffer_.data(), out_buffer_.data(), count_,
                          dtype(), stream);
  }
  void Fill() override {
    FillToMove();
    ClearOut();
  }
  size_t Wrong() const override {
    size_t wrong = 0;
    for (int from = 0; from < ranks(); ++from) {
      wrong +=
          out_.Part(from * count_, count_).WrongCopies(from, rank() * count_);
    }
    return wrong;
  }
};

// Sends to the next rank, and receives from the previous one.
class SendRecv final : public Buffered {
 public:
  using Buffered::Buffered;
  absl::Status Prepare(size_t elements, Memory* memory) {
    count_ = elements;
    bytes_ = count_ * SizeOf(dtype());
    return Allocate(count_, count_, memory);
  }
  absl::Status Run(Stream& stream) override {
    return comm_.Group([&] {
      absl::Status status = comm_.Send(in_buffer_.data(), count_, dtype(),
                                       (rank() + 1) % ranks(), stream);
      status.Update(
          comm_.Recv(out_buffer_.data(), count_, dtype(), previous(), stream));
      return status;
    });
  }
  void Fill() override {
    FillToMove();
    ClearOut();
  }
  size_t Wrong() const override { return out_.WrongCopies(previous(), 0); }

 private:
  int previous() const { return (rank() + ranks() - 1) % ranks(); }
};

// Ranks of one machine share a clock: no rank may leave before all have
// arrived.
class Barrier final : public Buffered {
 public:
  using Buffered::Buffered;
  absl::Status Prepare(size_t, Memory* memory) {
    if (memory != nullptr) memory_ = memory;
    for (auto [count, buffer] :
         {std::pair(1, &in_buffer_), std::pair(ranks(), &out_buffer_)}) {
      auto made = memory_->Allocate(count * sizeof(int64_t));
      if (!made.ok()) return made.status();
      *buffer = *std::move(made);
    }
    return absl::OkStatus();
  }
  absl::Status Run(Stream& stream) override {
    came(in_buffer_)[0] = Now();
    return comm_.Barrier(stream);
  }
  void Fill() override {
    left_ = 0;
    came(in_buffer_)[0] = kNever;
    std::fill_n(came(out_buffer_), ranks(), kNever);
  }
  absl::Status Take(Stream& stream) override {
    left_ = Now();
    absl::Status told = memory_->Give(in_buffer_);
    told.Update(comm_.AllGather(in_buffer_.data(), out_buffer_.data(), 1,
                                DType::kI64, stream));
    told.Update(stream.Synchronize());
    told.Update(memory_->Take(out_buffer_));
    return told;
  }
  size_t Wrong() const override {
    const int64_t* const all = came(out_buffer_);
    return std::count_if(all, all + ranks(),
                         [this](int64_t one) { return one > left_; });
  }

 private:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  static int64_t Now() {
    return std::chrono::nanoseconds(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
  static int64_t* came(const Memory::Buffer& buffer) {
    return reinterpret_cast<int64_t*>(buffer.seen());
  }

  int64_t left_ = 0;
};

template <typename T>
absl::StatusOr<std::unique_ptr<PerfOperation>> Make(const PerfOptions& options,
                                                    size_t bytes,
                                                    Communicator& comm,
                                                    Memory* memory) {
  auto operation = std::make_unique<T>(options, comm);
  const size_t elements = bytes / SizeOf(options.dtype);
  absl::Status prepared = operation->Prepare(elements, memory);
  if (!prepared.ok()) return prepared;
  return operation;
}

}  // namespace

const std::vector<std::string>& OperationNames() {
  static const auto* const names = [] {
    auto* all = new std::vector<std::string>{
        "all_reduce", "all_gather", "reduce_scatter", "broadcast",
        "all_to_all", "sendrecv",   "barrier"};
    for (const std::string& name : AxisOperationNames()) all->push_back(name);
    all->insert(all->end(), {"halo", "halo.adjoint"});
    return all;
  }();
  return *names;
}

double BusFactor(const std::string& op, int ranks) {
  if (IsAxisOperation(op)) return AxisBusFactor(op, ranks);
  if (IsHaloOperation(op)) return 1;
  const double others = static_cast<double>(ranks - 1) / ranks;
  if (op == "all_reduce") return 2 * others;
  if (op == "broadcast" || op == "sendrecv") return 1;
  return op == "barrier" ? 0 : others;
}

size_t LeastBytes(const PerfOptions& options) {
  const bool divides =
      options.op == "all_gather" || options.op == "reduce_scatter" ||
      options.op == "all_to_all" || IsAxisOperation(options.op);
  return SizeOf(options.dtype) * (divides ? options.ranks : 1);
}

absl::StatusOr<std::unique_ptr<PerfOperation>> PerfOperation::Create(
    const PerfOptions& options, size_t bytes, Communicator& comm,
    Memory* memory) {
  if (IsAxisOperation(options.op)) {
    return MakeAxisOperation(options, bytes, comm, memory);
  }
  if (IsHaloOperation(options.op)) {
    return MakeHaloOperation(options, comm, memory);
  }
  const auto make = options.op == "all_reduce"       ? Make<AllReduce>
                    : options.op == "all_gather"     ? Make<AllGather>
                    : options.op == "reduce_scatter" ? Make<ReduceScatter>
                    : options.op == "broadcast"      ? Make<Broadcast>
                    : options.op == "all_to_all"     ? Make<AllToAll>
                    : options.op == "sendrecv"       ? Make<SendRecv>
                                                     : Make<Barrier>;
  return make(options, bytes, comm, memory);
}

}  // namespace lockstep::perf
