// Windows and registered memory of NCCL, on fake devices.

#include <cstring>
#include <iterator>
#include <utility>

#include "tests/support/fake_nccl.h"

namespace lockstep::fake {

using transport::CollectiveKind;

void* Fabric::MemAlloc(size_t bytes) {
  void* const memory = scheduler_.memory().Allocate(bytes);
  allocated_.insert(memory);
  return memory;
}

void Fabric::MemFree(void* memory) {
  for (const auto& comm : comms_) {
    if (comm->over) continue;
    for (const auto& [base, known] : comm->known) {
      if (base == memory) {
        scheduler_.Violation("memory is freed that a communicator knows");
      }
    }
  }
  if (allocated_.erase(memory) == 0 || !scheduler_.memory().Free(memory)) {
    scheduler_.Violation("memory is freed that NCCL did not allocate");
  }
}

// Windows are registered in order: the n-th of every rank belong together.
void Fabric::RegisterWindow(Comm* comm, void* memory, size_t bytes) {
  if (allocated_.count(memory) == 0) {
    scheduler_.Violation("a window over memory that NCCL did not allocate");
  }
  auto& round = comm->clique->windows[comm->windows++];
  if (!round.empty() && round.begin()->second != bytes) {
    scheduler_.Violation("ranks register windows of different sizes");
  }
  round[comm->rank] = bytes;
  comm->registering = true;
  Register(comm, memory, bytes, /*window=*/true);
  comm->known[static_cast<const std::byte*>(memory)].number = comm->windows;
}

void Fabric::Register(Comm* comm, void* memory, size_t bytes, bool window) {
  const auto* const base = static_cast<const std::byte*>(memory);
  if (!comm->known.emplace(base, Known{bytes, window}).second) {
    scheduler_.Violation("memory is registered twice");
  }
}

void Fabric::Deregister(Comm* comm, const void* memory) {
  if (comm->known.erase(static_cast<const std::byte*>(memory)) == 0) {
    scheduler_.Violation("memory is deregistered that was not registered");
  }
}

bool Fabric::WindowsComplete(const Comm& comm) const {
  return !comm.registering ||
         comm.clique->windows.at(comm.windows - 1).size() ==
             comm.clique->comms.size();
}

void Fabric::FindInWindows(const Comm& comm, Part* part) const {
  const CollectiveKind kind = part->kind;
  if (kind == CollectiveKind::kAllReduce ||
      kind == CollectiveKind::kReduceScatter) {
    part->window_offsets[0] = WindowOffset(comm, part->in);
    const int version = comm.device->nccl_version;
    part->read_elsewhere = part->window_offsets[0].has_value() &&
                           version >= 22800 && version < 22807;
  }
  if (kind == CollectiveKind::kAllReduce ||
      kind == CollectiveKind::kAllGather) {
    part->window_offsets[1] = WindowOffset(comm, part->out);
    if (part->window_offsets[1]) {
      const auto* const at = static_cast<const std::byte*>(part->out);
      part->out_window = std::prev(comm.known.upper_bound(at))->second.number;
    }
  }
}

// NCCL's symmetric kernels wait for their peers when they begin; an abort ends
// the wait, and the kernel goes on. So a peer need not have begun.
void Fabric::WriteToPeers(const Comm& comm, const Part& part) {
  if (!part.window_offsets[1] ||
      scheduler_.mean().garbage == Meanness::Garbage::kNothing) {
    return;
  }
  const size_t bytes = OutBytes(part, 1);
  for (const Comm* peer : comm.clique->comms) {
    if (peer == nullptr || peer == &comm || scheduler_.Draw(2) == 0) continue;
    for (const auto& [base, known] : peer->known) {
      if (!known.window || known.number != part.out_window) continue;
      std::byte* const to =
          const_cast<std::byte*>(base) + *part.window_offsets[1];
      const size_t mine = part.kind == CollectiveKind::kAllGather
                              ? bytes * static_cast<size_t>(comm.rank)
                              : 0;
      std::memset(scheduler_.memory().Reach(to + mine), 0xff, bytes);
    }
  }
}

std::optional<size_t> Fabric::WindowOffset(const Comm& comm,
                                           const void* address) const {
  const auto* const at = static_cast<const std::byte*>(address);
  auto after = comm.known.upper_bound(at);
  if (after == comm.known.begin()) return std::nullopt;
  const auto& [base, known] = *--after;
  const size_t offset = at - base;
  if (!known.window || offset >= known.bytes) return std::nullopt;
  return offset;
}

}  // namespace lockstep::fake
