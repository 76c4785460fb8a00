// The scheduling of NCCL operations on fake devices: when each begins and ends,
// and which operation waits for which.

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/support/fake_nccl.h"

namespace lockstep::fake {

using transport::CollectiveKind;
using transport::nccl::NcclResult;
using transport::nccl::NcclUniqueId;

namespace {

// What an aborted kernel may leave. It never writes this rank's part of an
// all-gather in place.
void Poison(const Part& part, std::byte* out, size_t bytes, size_t ranks,
            size_t rank) {
  const size_t each = bytes / ranks;
  for (size_t r = 0; r < ranks; ++r) {
    const bool is_mine = part.kind == CollectiveKind::kAllGather && r == rank &&
                         part.in == out + r * each;
    if (!is_mine) std::memset(out + r * each, 0xff, each);
  }
  std::memset(out + ranks * each, 0xff, bytes - ranks * each);
}

void Come(Rendezvous& rendezvous, int who, const Part& part) {
  if (!rendezvous.come.try_emplace(who, part).second) return;
  if (part.kind != CollectiveKind::kAllGather) return;
  const auto* const in = static_cast<const std::byte*>(part.in);
  rendezvous.given[who].assign(in, in + InBytes(part));
}

}  // namespace

Device& Fabric::device(int number) {
  Device& device = devices_[number];
  device.number = number;
  return device;
}

NcclUniqueId Fabric::MakeId() {
  NcclUniqueId id{};
  const uint64_t number = ++ids_;
  std::memcpy(id.bytes, &number, sizeof number);
  return id;
}

Comm* Fabric::Init(Device& device, int size, const NcclUniqueId& id, int rank) {
  uint64_t number = 0;
  std::memcpy(&number, id.bytes, sizeof number);
  if (number == 0 || number > ids_) {
    scheduler_.Violation("an id that NCCL did not make");
    return nullptr;
  }
  Clique& clique = cliques_[number];
  clique.number = static_cast<int>(number);
  if (clique.comms.empty()) clique.comms.resize(size);
  if (clique.comms.size() != static_cast<size_t>(size) ||
      clique.comms[rank] != nullptr) {
    scheduler_.Violation(
        absl::StrCat("rank ", rank, " of ", size, " does not fit its clique"));
    return nullptr;
  }
  comms_.push_back(std::make_unique<Comm>());
  Comm* const comm = comms_.back().get();
  comm->clique = &clique;
  comm->device = &device;
  comm->rank = rank;
  comm->made = static_cast<int>(device.comms.size());
  device.comms.push_back(comm);
  clique.comms[rank] = comm;
  clique.connected =
      std::count(clique.comms.begin(), clique.comms.end(), nullptr) == 0;
  return comm;
}

// --- Calls in progress ---

void Fabric::Begin(Comm* comm, std::shared_ptr<Launch> launch) {
  if (scheduler_.mean().first_use_connects) WantFirstUses(comm, launch.get());
  comm->polls_left = DrawPolls();
  if (!launch->first_uses.empty()) ++comm->polls_left;
  comm->in_progress = std::move(launch);
  scheduler_.Wake();
}

// What waits for room on its stream when an abort comes is queued nevertheless.
bool Fabric::Progress(Comm& comm) {
  if (comm.in_progress == nullptr) return true;
  if (comm.error != NcclResult::kSuccess) {
    comm.in_progress = nullptr;
    return true;
  }
  if (!comm.aborted && !Connect(comm, *comm.in_progress)) return false;
  if (comm.polls_left > 0 && --comm.polls_left > 0) return false;
  const std::shared_ptr<Launch> launch =
      std::exchange(comm.in_progress, nullptr);
  if (launch->stream->capture == nullptr) scheduler_.AwaitRoom(launch->stream);
  Enqueue(&comm, launch);
  return true;
}

void Fabric::WantFirstUses(Comm* comm, Launch* launch) {
  constexpr size_t kTreeBytesMax = 16 << 10;
  if (comm->clique->comms.size() == 1) return;
  for (const Part& part : launch->parts) {
    if (part.point_to_point() && part.peer == comm->rank) continue;
    std::string connection;
    if (part.kind == CollectiveKind::kSend) {
      connection = absl::StrCat(comm->rank, " to ", part.peer);
    } else if (part.kind == CollectiveKind::kRecv) {
      connection = absl::StrCat(part.peer, " to ", comm->rank);
    } else {
      const bool tree = part.kind == CollectiveKind::kAllReduce &&
                        InBytes(part) <= kTreeBytesMax;
      connection = tree ? "tree" : "ring";
    }
    if (comm->connections.insert(connection).second) {
      launch->first_uses.insert(connection);
      comm->clique->connecting[connection].insert(comm->rank);
      ++comm->device->first_uses;
    }
  }
}

bool Fabric::Connect(Comm& comm, Launch& launch) {
  std::erase_if(launch.first_uses, [&](const std::string& connection) {
    const bool pair = connection.find(" to ") != std::string::npos;
    const size_t needed = pair ? 2 : comm.clique->comms.size();
    return comm.clique->connecting[connection].size() >= needed;
  });
  return launch.first_uses.empty();
}

// --- Operations ---

void Fabric::Enqueue(Comm* comm, const std::shared_ptr<Launch>& launch) {
  const auto& capture = launch->stream->capture;
  if (launch->captured && launch->capture.lock() != capture) {
    return scheduler_.Violation(
        "a captured call was in progress when its capture ended");
  }
  if (capture != nullptr) capture->holds.push_back(comm->pin);
  const Piece piece = [this, comm, parts = launch->parts](const auto& run,
                                                          FakeStream* stream) {
    const bool on_host =
        scheduler_.mean().nccl_on_host_thread && comm->pin.use_count() > 1;
    // Aborted kernels may still be launched, as long as a graph holds them.
    if (comm->freed) {
      scheduler_.Violation("an operation of a communicator that has ended");
    }
    Device& device = *comm->device;
    const auto begun = std::make_shared<Launch>();
    begun->parts = parts;
    for (Part& part : begun->parts) part.in_graph = run != nullptr;
    begun->stream = stream;
    begun->number = ++device.launches;
    begun->item = stream->pushed + 1;
    device.order.push_back(comm->clique->number);
    device.waiting.emplace_back(comm, begun);
    std::shared_ptr<bool> passed;
    return [this, comm, begun, on_host, passed]() mutable {
      if (on_host && passed == nullptr) {
        passed = std::make_shared<bool>(false);
        scheduler_.CallOnHost(
            comm->device->number, [] {}, passed);
      }
      return (!on_host || *passed) && Run(comm, *begun);
    };
  };
  scheduler_.Push(launch->stream, piece);
}

bool Fabric::Run(Comm* comm, Launch& launch) {
  if (comm->aborted) {
    // The kernel runs, and ends at once.
    if (!launch.begun) {
      for (Part part : launch.parts) {
        const auto [rendezvous, who] = Next(comm, part);
        part.in = scheduler_.memory().Reach(part.in);
        if (SendOn(*rendezvous)) Come(*rendezvous, who, part);
      }
    }
    Leave(comm, launch);
    return true;
  }
  if (!launch.begun) {
    if (!MayBegin(*comm, launch)) return false;
    Start(comm, launch);
  }
  bool over = true;
  for (const auto& [rendezvous, who] : launch.meetings) {
    over &= rendezvous->garbage || (rendezvous->over && !rendezvous->broken);
  }
  // Each rank notices the end after a delay of its own.
  if (!over || launch.lag-- > 0) return false;
  for (size_t i = 0; i < launch.meetings.size(); ++i) {
    const auto& [rendezvous, who] = launch.meetings[i];
    if (rendezvous->garbage) {
      WriteGarbage(*comm, launch.parts[i], *rendezvous);
    }
    rendezvous->ended.insert(who);
  }
  launch.parts.clear();  // nothing left to poison
  Leave(comm, launch);
  return true;
}

// Operations queued before it begin first, if they can.
bool Fabric::MayBegin(const Comm& comm, const Launch& launch) const {
  const Device& device = *comm.device;
  if (static_cast<int>(device.residents.size()) >= residents_max_) return false;
  for (const auto& [other, earlier] : device.waiting) {
    if (earlier.get() == &launch) return true;
    if (earlier->item == earlier->stream->run + 1) return false;
  }
  return true;
}

void Fabric::Start(Comm* comm, Launch& launch) {
  Device& device = *comm->device;
  const auto self = std::find_if(
      device.waiting.begin(), device.waiting.end(),
      [&](const auto& one) { return one.second.get() == &launch; });
  for (const auto& [other, resident] : device.residents) {
    if (other == comm) {
      scheduler_.Violation("two operations of one communicator run at once");
    }
  }
  device.residents.push_back(*self);
  device.waiting.erase(self);
  launch.begun = true;
  launch.lag = static_cast<int>(scheduler_.Draw(20));
  for (Part& part : launch.parts) {
    FindInWindows(*comm, &part);
    part.in = scheduler_.memory().Reach(part.in);
    part.out = scheduler_.memory().Reach(part.out);
    launch.meetings.push_back(Join(comm, part));
    comm->meetings.push_back(launch.meetings.back());
  }
  FindDeadlock(device);
}

std::pair<std::shared_ptr<Rendezvous>, int> Fabric::Next(Comm* comm,
                                                         const Part& part) {
  Clique& clique = *comm->clique;
  std::shared_ptr<Rendezvous>* entry = nullptr;
  int who = comm->rank;
  std::map<int, Comm*> needed;
  if (part.point_to_point()) {
    const bool sends = part.kind == CollectiveKind::kSend;
    const uint64_t self = comm->rank;
    const uint64_t peer = part.peer;
    const uint64_t number =
        sends ? ++comm->sent[part.peer] : ++comm->received[part.peer];
    entry = sends ? &clique.messages[{self, peer, number}]
                  : &clique.messages[{peer, self, number}];
    who = sends ? 0 : 1;
    needed = {{who, comm}, {1 - who, clique.comms[part.peer]}};
  } else {
    entry = &clique.collectives[comm->collectives++];
    for (Comm* one : clique.comms) needed[one->rank] = one;
  }
  if (*entry == nullptr) *entry = std::make_shared<Rendezvous>();
  (*entry)->needed = needed;
  return {*entry, who};
}

std::pair<std::shared_ptr<Rendezvous>, int> Fabric::Join(Comm* comm,
                                                         const Part& part) {
  const auto [rendezvous, who] = Next(comm, part);
  Come(*rendezvous, who, part);
  if (rendezvous->come.size() == rendezvous->needed.size() &&
      !rendezvous->broken && !rendezvous->garbage) {
    Hold(*comm->clique, *rendezvous);
  }
  return {rendezvous, who};
}

void Fabric::Hold(const Clique& clique, Rendezvous& rendezvous) {
  const Part& first = rendezvous.come.begin()->second;
  for (const auto& [who, part] : rendezvous.come) {
    if (part.in_graph != first.in_graph) {
      scheduler_.Violation("an operation is in a graph on some ranks only");
    }
    if (part.window_offsets != first.window_offsets) {
      scheduler_.Violation("ranks use a window at different offsets");
    }
    const bool same = part.count == first.count && part.dtype == first.dtype &&
                      (part.point_to_point()
                           ? first.point_to_point()
                           : part.kind == first.kind && part.op == first.op &&
                                 part.peer == first.peer);
    if (same) continue;
    scheduler_.Violation(absl::StrCat("clique ", clique.number,
                                      ": ranks call different operations"));
    for (const auto& [rank, comm] : rendezvous.needed) {
      comm->error = NcclResult::kInternalError;
    }
    return;
  }
  Execute(rendezvous);
  rendezvous.over = true;
}

void Fabric::WriteGarbage(const Comm& comm, const Part& part,
                          const Rendezvous& rendezvous) const {
  const size_t ranks = comm.clique->comms.size();
  const size_t bytes = OutBytes(part, static_cast<int>(ranks));
  if (bytes == 0) return;
  if (scheduler_.mean().garbage == Meanness::Garbage::kPoison) {
    Poison(part, static_cast<std::byte*>(part.out), bytes, ranks, comm.rank);
  } else if (part.kind == CollectiveKind::kAllReduce) {
    std::memmove(part.out, part.in, bytes);
  } else if (part.kind == CollectiveKind::kAllGather) {
    const size_t each = bytes / ranks;
    for (const auto& [who, given] : rendezvous.given) {
      std::copy_n(given.begin(), std::min(each, given.size()),
                  static_cast<std::byte*>(part.out) + who * each);
    }
  }
}

// The operation is aborted, or complete. Parts still in `parts` are unfinished,
// and their buffers get 0xff.
void Fabric::Leave(Comm* comm, Launch& launch) {
  Device& device = *comm->device;
  const int size = static_cast<int>(comm->clique->comms.size());
  for (const Part& part : launch.parts) {
    if (part.out == nullptr) continue;
    if (launch.begun) WriteToPeers(*comm, part);
    Part reached = part;
    reached.in = scheduler_.memory().Reach(part.in);
    Poison(reached,
           static_cast<std::byte*>(scheduler_.memory().Reach(part.out)),
           OutBytes(part, size), size, comm->rank);
  }
  const auto self = [&](const auto& one) {
    return one.second.get() == &launch;
  };
  device.waiting.erase(
      std::remove_if(device.waiting.begin(), device.waiting.end(), self),
      device.waiting.end());
  device.residents.erase(
      std::remove_if(device.residents.begin(), device.residents.end(), self),
      device.residents.end());
}

void Fabric::Abort(Comm* comm) {
  comm->aborted = comm->over = true;
  comm->device->aborts.push_back(comm->made);
  for (const auto& [rendezvous, who] : comm->meetings) {
    if (rendezvous->ended.count(who) == 0) {
      SendOn(*rendezvous);
    } else if (rendezvous->ended.size() < rendezvous->needed.size()) {
      // What it sent may not have left: those that need it wait for ever.
      rendezvous->broken = true;
    }
  }
}

bool Fabric::SendOn(Rendezvous& rendezvous) {
  if (rendezvous.ended.size() == rendezvous.needed.size()) return false;
  if (rendezvous.garbage) return true;
  const bool sends = scheduler_.mean().garbage != Meanness::Garbage::kNothing &&
                     scheduler_.Draw(2) == 0;
  // Else ranks that have not noticed its end wait for this rank for ever.
  (sends ? rendezvous.garbage : rendezvous.broken) = true;
  return sends;
}

void Fabric::AwaitFreed(const std::vector<Comm*>& comms, const char* call) {
  if (comms.empty()) return;
  constexpr absl::Duration kPatience = absl::Seconds(1);
  const absl::Time begun = absl::Now();
  bool pinned = false;
  const std::function<bool()> worked =
      scheduler_.mean().calls_wait ? scheduler_.WorkOf(comms[0]->device->number)
                                   : [] { return true; };
  scheduler_.AwaitThat(
      [&] {
        pinned = std::any_of(comms.begin(), comms.end(), [](const Comm* comm) {
          return comm->pin.use_count() > 1;
        });
        return (worked() && !pinned) || absl::Now() - begun > kPatience;
      },
      call);
  if (pinned) {
    return scheduler_.Violation(
        "a communicator ends while a graph holds it: for ever");
  }
  scheduler_.AwaitThat(worked, call);
  for (Comm* comm : comms) comm->freed = true;
}

bool Fabric::Peaceful(const Comm& comm) const {
  return std::all_of(
      comm.meetings.begin(), comm.meetings.end(), [](const auto& one) {
        const Rendezvous& rendezvous = *one.first;
        return rendezvous.ended.size() == rendezvous.needed.size() ||
               rendezvous.broken || rendezvous.garbage;
      });
}

// The full devices whose operations a full device waits for.
std::set<Device*> Fabric::WaitsFor(const Device& device) const {
  std::set<Device*> found;
  for (const auto& [comm, launch] : device.residents) {
    if (comm->aborted) continue;
    for (const auto& [rendezvous, who] : launch->meetings) {
      if (rendezvous->over || rendezvous->broken || rendezvous->garbage) {
        continue;
      }
      for (const auto& [other, needed] : rendezvous->needed) {
        if (rendezvous->come.count(other) > 0) continue;
        Device* const there = needed->device;
        if (static_cast<int>(there->residents.size()) >= residents_max_) {
          found.insert(there);
        }
      }
    }
  }
  return found;
}

void Fabric::FindDeadlock(const Device& from) {
  std::set<const Device*> reached;
  std::vector<const Device*> todo = {&from};
  while (!todo.empty()) {
    const Device* const at = todo.back();
    todo.pop_back();
    for (Device* next : WaitsFor(*at)) {
      if (next != &from) {
        if (reached.insert(next).second) todo.push_back(next);
        continue;
      }
      std::string orders = "deadlock: the devices' launches cannot all end";
      reached.insert(&from);
      for (const Device* one : reached) {
        absl::StrAppend(&orders, "; device ", one->number, " launched ",
                        absl::StrJoin(one->order, " "));
        for (Comm* comm : one->comms) comm->error = NcclResult::kInternalError;
      }
      scheduler_.Violation(orders);
      return;
    }
  }
}

}  // namespace lockstep::fake
