// A worker that saves a checkpoint after every step, until it is killed.
//
//   checkpoint_worker DIR
//
// The values of its tensors depend on the step only. One tensor is cut unevenly
// over the ranks, one is replicated, one is a scalar, one is held in slices.
// The worker begins with the newest checkpoint in DIR, and fails if a bit of it
// is wrong. Prints "loaded STEP", and "saved STEP" once a checkpoint is
// committed.

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lockstep/checkpointer.h"
#include "lockstep/session.h"

namespace {

using lockstep::AsyncCheckpointer;
using lockstep::DType;
using lockstep::Session;
using lockstep::StateSpec;

constexpr int64_t kRows = 101, kColumns = 97;
constexpr int64_t kReplicated = 3001;
constexpr int64_t kSliced = 5003;

// The value of an element of a tensor after a step.
uint64_t ValueOf(uint64_t tensor, uint64_t element, int64_t step) {
  uint64_t x = (static_cast<uint64_t>(step) << 32) + (tensor << 24) + element;
  x = (x ^ (x >> 31)) * 0x7fb5d329728ea185;
  return x ^ (x >> 27);
}

// A part of a tensor: elements `first` to `first + count` in row-major order.
struct Part {
  uint64_t tensor = 0;
  int64_t first = 0, count = 0;
  size_t element_bytes = 0;
  std::vector<char> memory;

  Part(uint64_t which, int64_t begin, int64_t end, size_t bytes)
      : tensor(which),
        first(begin),
        count(end - begin),
        element_bytes(bytes),
        memory(static_cast<size_t>(end - begin) * bytes) {}

  std::vector<char> After(int64_t step) const {
    std::vector<char> bytes(memory.size());
    for (int64_t i = 0; i < count; ++i) {
      const uint64_t value =
          ValueOf(tensor, static_cast<uint64_t>(first + i), step);
      std::memcpy(bytes.data() + static_cast<size_t>(i) * element_bytes, &value,
                  element_bytes);
    }
    return bytes;
  }
};

// The parts of one rank.
class State {
 public:
  State(int rank, int ranks)
      : parts_{{0, RowOf(rank, ranks) * kColumns,
                RowOf(rank + 1, ranks) * kColumns, 4},
               {1, 0, kReplicated, 2},
               {2, 0, 1, 8},
               {3, kSliced * rank / ranks, kSliced * (rank + 1) / ranks, 8}},
        rows_(RowOf(rank + 1, ranks) - RowOf(rank, ranks)) {}

  absl::Status Register(Session& session) {
    const StateSpec specs[] = {
        {.name = "cut",
         .dtype = DType::kF32,
         .shape = {rows_, kColumns},
         .cuts = {{.dim = 0, .axes = {"data"}}}},
        {.name = "replicated", .dtype = DType::kBF16, .shape = {kReplicated}},
        {.name = "scalar", .dtype = DType::kI64},
        {.name = "sliced",
         .dtype = DType::kF64,
         .shape = {kSliced},
         .slice = lockstep::StateSlice{parts_[3].first, parts_[3].count}}};
    for (size_t i = 0; i < parts_.size(); ++i) {
      const auto id = session.RegisterState(specs[i], parts_[i].memory.data());
      if (!id.ok()) return id.status();
    }
    return absl::OkStatus();
  }

  void Advance(int64_t step) {
    for (Part& part : parts_) {
      const std::vector<char> bytes = part.After(step);
      std::copy(bytes.begin(), bytes.end(), part.memory.begin());
    }
  }

  absl::Status Check(int64_t step) const {
    for (const Part& part : parts_) {
      if (part.memory == part.After(step)) continue;
      return absl::DataLossError(
          absl::StrCat("tensor ", part.tensor, " is not that of step ", step));
    }
    return absl::OkStatus();
  }

 private:
  // The first row of a rank: later ranks have more.
  static int64_t RowOf(int rank, int ranks) {
    return kRows * rank * (rank + 1) / (ranks * (ranks + 1));
  }

  std::vector<Part> parts_;
  int64_t rows_;
};

absl::Status Run(const std::string& directory) {
  auto session = Session::Join({});
  if (!session.ok()) return session.status();
  State state((*session)->rank(), (*session)->world_size());
  absl::Status status = state.Register(**session);
  if (status.ok()) status = (*session)->Connect();
  if (!status.ok()) return status;
  auto checkpointer =
      AsyncCheckpointer::Create(**session, {.directory = directory});
  if (!checkpointer.ok()) return checkpointer.status();

  int64_t step = 0;
  if ((*checkpointer)->newest().has_value()) {
    const auto training = (*checkpointer)->Load();
    if (!training.ok()) return training.status();
    step = training->step;
    status = state.Check(step);
    if (!status.ok()) return status;
    std::printf("loaded %lld\n", static_cast<long long>(step));
    std::fflush(stdout);
  }
  for (int64_t saved = step;;) {
    state.Advance(++step);
    status = (*checkpointer)->Save({.step = step});
    if (!status.ok()) return status;
    const auto newest = (*checkpointer)->newest();
    if (!newest || newest->step == saved) continue;
    saved = newest->step;
    std::printf("saved %lld\n", static_cast<long long>(saved));
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const absl::Status status = Run(argv[1]);
  std::printf("error %s\n", status.ToString().c_str());
  return 1;
}
