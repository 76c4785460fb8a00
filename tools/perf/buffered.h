// What the operations of lockstep-perf have in common: inputs and expected
// results of all ranks, and buffers of elements.

#ifndef LOCKSTEP_TOOLS_PERF_BUFFERED_H_
#define LOCKSTEP_TOOLS_PERF_BUFFERED_H_

#include <cstddef>
#include <cstring>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/dispatch.h"
#include "kernels/reduce_ref.h"
#include "tools/perf/operation.h"

namespace lockstep::perf {

// The input of `rank` to a reduction: 1 or 2, so that reductions over a few
// dozen ranks are exact in every type. Products use ones only.
inline int Reduced(int rank, size_t index, ReduceOp op) {
  if (op == ReduceOp::kProd) return 1;
  return 1 + static_cast<int>((index + static_cast<size_t>(rank)) % 2);
}

// The input of `rank` to a copy: different from the other ranks at each index.
inline int Moved(int rank, size_t index) {
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

  // The number of elements i that are not value(i), if that is not negative.
  template <typename F>
  size_t Wrong(F value) const {
    size_t wrong = 0;
    kernels::WithType(dtype_, [&](auto tag) {
      using T = typename decltype(tag)::type;
      const T* const from = reinterpret_cast<const T*>(data_);
      for (size_t i = 0; i < count_; ++i) {
        const int wanted = value(i);
        wrong += wanted >= 0 && !SameBits(from[i], Typed<T>(wanted));
      }
    });
    return wrong;
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

}  // namespace lockstep::perf

#endif  // LOCKSTEP_TOOLS_PERF_BUFFERED_H_
