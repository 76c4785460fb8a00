#include "tools/perf/operation.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#include "kernels/dispatch.h"
#include "kernels/reduce_ref.h"

namespace lockstep::perf {
namespace {

// The input of `rank` to a reduction: 1 or 2, so that reductions over a few
// dozen ranks are exact in every type. Products use ones only.
int Reduced(int rank, size_t index, ReduceOp op) {
  if (op == ReduceOp::kProd) return 1;
  return 1 + static_cast<int>((index + static_cast<size_t>(rank)) % 2);
}

// The input of `rank` to a copy: different from the other ranks at each index.
int Moved(int rank, size_t index) {
  return 1 + static_cast<int>((index * 7 + static_cast<size_t>(rank)) % 64);
}

template <typename T>
T Typed(int value) {
  if constexpr (kernels::kIsHalf<T>) {
    return kernels::ConvertTo<T>(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

template <typename T>
bool SameBits(T a, T b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

// A view of elements of a type known at run time.
class Elements {
 public:
  Elements() = default;
  Elements(std::byte* data, size_t count, DType dtype)
      : data_(data), count_(count), dtype_(dtype) {}

  std::byte* data() const { return data_; }
  Elements Part(size_t begin, size_t count) const {
    return {data_ + begin * SizeOf(dtype_), count, dtype_};
  }

  // Element i becomes value(i).
  template <typename F>
  void Fill(F value) const {
    kernels::WithType(dtype_, [&](auto tag) {
      using T = typename decltype(tag)::type;
      T* const to = reinterpret_cast<T*>(data_);
      for (size_t i = 0; i < count_; ++i) to[i] = Typed<T>(value(i));
    });
  }

  // The number of these elements that differ from what `rank` sent, beginning
  // at its element `begin`.
  size_t WrongCopies(int rank, size_t begin) const {
    size_t wrong = 0;
    kernels::WithType(dtype_, [&](auto tag) {
      using T = typename decltype(tag)::type;
      const T* const from = reinterpret_cast<const T*>(data_);
      for (size_t i = 0; i < count_; ++i) {
        wrong += !SameBits(from[i], Typed<T>(Moved(rank, begin + i)));
      }
    });
    return wrong;
  }

  // The same for the reduction over `ranks`. Values repeat with the parity of
  // the index, so two are computed and all are compared.
  size_t WrongSums(int ranks, size_t begin, ReduceOp op) const {
    size_t wrong = 0;
    kernels::WithType(dtype_, [&](auto tag) {
      using T = typename decltype(tag)::type;
      const T* const from = reinterpret_cast<const T*>(data_);
      const T expected[2] = {Expected<T>(ranks, 0, op),
                             Expected<T>(ranks, 1, op)};
      for (size_t i = 0; i < count_; ++i) {
        wrong += !SameBits(from[i], expected[(begin + i) % 2]);
      }
    });
    return wrong;
  }

 private:
  template <typename T>
  static T Expected(int ranks, size_t index, ReduceOp op) {
    std::vector<T> values;
    std::vector<const T*> rows;
    values.reserve(ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      values.push_back(Typed<T>(Reduced(rank, index, op)));
      rows.push_back(&values.back());
    }
    T out;
    kernels::ReduceRanksRef<T>(rows, &out, 1, op);
    return out;
  }

  std::byte* data_ = nullptr;
  size_t count_ = 0;
  DType dtype_ = DType::kU8;
};

// Common to all kinds of operation: counts, and memory for `in` and `out`
// elements.
class Buffered : public PerfOperation {
 public:
  Buffered(const PerfOptions& options, Communicator& comm)
      : options_(options), comm_(comm) {}

 protected:
  absl::Status Allocate(size_t in, size_t out, Memory* memory) {
    if (memory != nullptr) memory_ = memory;
    const size_t element = SizeOf(options_.dtype);
    for (auto [count, buffer, view] : {std::tuple(in, &in_buffer_, &in_),
                                       std::tuple(out, &out_buffer_, &out_)}) {
      if (count == 0) continue;
      auto made = memory_->Allocate(count * element);
      if (!made.ok()) return made.status();
      *buffer = *std::move(made);
      *view = Elements(buffer->seen(), count, options_.dtype);
    }
    return absl::OkStatus();
  }

  absl::Status Give() override {
    absl::Status given = memory_->Give(in_buffer_);
    given.Update(memory_->Give(out_buffer_));
    return given;
  }
  absl::Status Take(Stream&) override {
    absl::Status taken = memory_->Take(in_buffer_);
    taken.Update(memory_->Take(out_buffer_));
    return taken;
  }

  void ClearOut() {
    if (out_buffer_.bytes() == 0) return;
    std::memset(out_buffer_.seen(), 0xee, out_buffer_.bytes());
  }

  void FillToReduce() {
    in_.Fill([this](size_t i) { return Reduced(rank(), i, op()); });
  }
  void FillToMove() {
    in_.Fill([this](size_t i) { return Moved(rank(), i); });
  }

  int ranks() const { return comm_.size(); }
  int rank() const { return comm_.rank(); }
  DType dtype() const { return options_.dtype; }
  ReduceOp op() const { return options_.redop; }

  const PerfOptions options_;
  Communicator& comm_;
  const std::unique_ptr<Arena> plain_ = MakePlainArena();
  Memory private_{plain_.get(), nullptr};
  Memory* memory_ = &private_;
  Memory::Buffer in_buffer_, out_buffer_;
  Elements in_, out_;  // in the host's memory
};

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
  static const auto* const names = new std::vector<std::string>{
      "all_reduce", "all_gather", "reduce_scatter", "broadcast",
      "all_to_all", "sendrecv",   "barrier"};
  return *names;
}

double BusFactor(const std::string& op, int ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  if (op == "all_reduce") return 2 * others;
  if (op == "broadcast" || op == "sendrecv") return 1;
  return op == "barrier" ? 0 : others;
}

size_t LeastBytes(const PerfOptions& options) {
  const bool divides = options.op == "all_gather" ||
                       options.op == "reduce_scatter" ||
                       options.op == "all_to_all";
  return SizeOf(options.dtype) * (divides ? options.ranks : 1);
}

absl::StatusOr<std::unique_ptr<PerfOperation>> PerfOperation::Create(
    const PerfOptions& options, size_t bytes, Communicator& comm,
    Memory* memory) {
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
