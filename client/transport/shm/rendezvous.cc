#include "client/transport/shm/rendezvous.h"

#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <optional>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/open_files.h"
#include "client/transport/failed_peer.h"
#include "client/transport/shm/control_block_check.h"
#include "client/transport/shm/local_socket.h"

namespace lockstep::transport {

// The first message, with the control block's memfd and a pidfd. A probe is a
// Hello without files.
struct Rendezvous::Hello {
  uint64_t magic = kControlBlockMagic;
  uint32_t version = kControlBlockVersion;
  uint32_t rank = 0;
  uint64_t group = 0;
  uint64_t token = 0;  // the receiver's
};

namespace {

// After which a peer whose queue of connections was full is dialed again.
constexpr absl::Duration kDialAgain = absl::Milliseconds(2);

uint64_t Draw() {
  std::random_device device;
  const uint64_t high = device();
  return high << 32 | device();
}

// The number that `from` writes to the control block of `to`.
uint64_t ProbeOf(uint64_t group, int from, int to) {
  return (group ^ 0x9e3779b97f4a7c15) + 0x100 * from + to + 1;
}

void WriteOwnCores(ControlBlockHeader& header) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return;
  for (int core = 0; core < kCoreWords * 64; ++core) {
    if (CPU_ISSET(core, &set)) {
      header.cores[core / 64] |= uint64_t{1} << core % 64;
    }
  }
}

absl::Status Gone(int peer) {
  return WithFailedPeer(absl::UnavailableError(absl::StrCat(
                            "rank ", peer, " left before all had met")),
                        peer);
}

// The error after a failed send to or receive from `peer`. A limit of this
// process does not make the peer a failed one.
absl::Status Lost(int peer, const absl::Status& why) {
  return absl::IsResourceExhausted(why) ? why : Gone(peer);
}

absl::Status Stranger(int peer) {
  return WithFailedPeer(
      absl::UnavailableError(absl::StrCat("who answers for rank ", peer,
                                          " does not belong to this group")),
      peer);
}

absl::Status OtherUser(int peer) {
  return WithFailedPeer(absl::PermissionDeniedError(absl::StrCat(
                            "rank ", peer,
                            " runs as another user of this host, and shares no "
                            "memory with this rank")),
                        peer);
}

}  // namespace

int CoresOf(const std::vector<Peer>& peers) {
  int cores = 0;
  for (int word = 0; word < kCoreWords; ++word) {
    uint64_t any = 0;
    for (const Peer& peer : peers)
      any |= peer.control_block.header().cores[word];
    cores += std::popcount(any);
  }
  return std::max(cores, 1);
}

absl::StatusOr<std::unique_ptr<Rendezvous>> Rendezvous::Open(
    int rank, const ControlBlock::Shape& shape) {
  absl::StatusOr<std::unique_ptr<Rendezvous>> rendezvous =
      Listen(EndpointOfThisProcess());
  if (!rendezvous.ok()) return rendezvous;
  absl::Status allocated = (*rendezvous)->AllocateControlBlock(rank, shape);
  if (!allocated.ok()) return allocated;
  return rendezvous;
}

absl::StatusOr<std::unique_ptr<Rendezvous>> Rendezvous::Listen(
    const Endpoint& where) {
  std::unique_ptr<Rendezvous> rendezvous(new Rendezvous);
  rendezvous->handle_ = {
      .where = where,
      .socket = absl::StrCat("lockstep-", absl::Hex(Draw(), absl::kZeroPad16),
                             absl::Hex(Draw(), absl::kZeroPad16)),
      .token = Draw()};
  absl::StatusOr<FileDescriptor> listener =
      ListenLocally(rendezvous->handle_.socket);
  if (!listener.ok()) return std::move(listener).status();
  rendezvous->listener_ = *std::move(listener);
  rendezvous->aborted_ = FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!rendezvous->aborted_.valid()) {
    return OutOfFiles(absl::StrCat("eventfd: ", std::strerror(errno)));
  }
  return rendezvous;
}

absl::Status Rendezvous::AllocateControlBlock(
    int rank, const ControlBlock::Shape& shape) {
  absl::StatusOr<Segment> memory = Segment::Create(
      ControlBlock::Bytes(shape),
      absl::StrCat("a control block in a group of ", shape.size),
      Lookup::kEachLater);
  if (!memory.ok()) return std::move(memory).status();
  shape_ = shape;
  handle_.rank = rank;
  handle_.size = shape.size;
  peers_.resize(shape.size);
  Peer& me = peers_[rank];
  memory->LookUp(ControlBlock::kHotBytes);
  me.control_block = ControlBlock(memory->data(), shape);
  me.memory = *std::move(memory);
  return absl::OkStatus();
}

void Rendezvous::InitializeControlBlock(uint64_t group) {
  group_ = group;
  ControlBlockHeader& header = peers_[handle_.rank].control_block.header();
  header.magic = kControlBlockMagic;
  header.version = kControlBlockVersion;
  header.rank = static_cast<uint32_t>(handle_.rank);
  header.size = static_cast<uint32_t>(shape_.size);
  header.group = group;
  header.bytes = ControlBlock::Bytes(shape_);
  header.chunk_bytes = shape_.chunk_bytes;
  header.block_bytes = shape_.block_bytes;
  WriteOwnCores(header);
}

absl::StatusOr<std::vector<Peer>> Rendezvous::ConnectAll(
    const std::vector<std::string>& texts, const Deadline& deadline) {
  for (int rank = 0; rank < shape_.size; ++rank) {
    absl::StatusOr<ShmHandle> parsed =
        ParseShmHandle(texts[rank], rank, shape_.size);
    if (!parsed.ok()) return std::move(parsed).status();
    handles_.push_back(*std::move(parsed));
  }
  InitializeControlBlock(GroupOf(texts));
  stages_.assign(shape_.size, Stage::kExpected);
  stages_[handle_.rank] = Stage::kMet;
  for (int peer = 0; peer < shape_.size; ++peer) {
    if (absl::Status here = CheckHost(peer); !here.ok()) return here;
    if (peer < handle_.rank) to_dial_ |= MaskOf(peer);
  }
  if (absl::Status dialed = DialOthers(); !dialed.ok()) return dialed;
  while (!AllMet()) {
    absl::Status heard = WaitForNews(deadline);
    if (heard.ok()) heard = DialOthers();
    if (!heard.ok()) return heard;
    heard = AcceptConnections();
    if (heard.ok()) heard = ReadUnidentified();
    if (!heard.ok()) return heard;
    for (int peer = 0; peer < shape_.size; ++peer) {
      if (absl::Status published = ReadFrom(peer); !published.ok())
        return published;
    }
  }
  unidentified_.clear();
  return std::move(peers_);
}

absl::Status Rendezvous::CheckHost(int peer) const {
  const ShmHandle& handle = handles_[peer];
  if (handle.where == handle_.where) return absl::OkStatus();
  return WithFailedPeer(
      absl::UnavailableError(absl::StrCat(
          "rank ", peer, " runs on another host: boot ", handle.where.boot,
          ", network ", handle.where.network, "; here boot ",
          handle_.where.boot, ", network ", handle_.where.network)),
      peer);
}

// Dials the lower ranks that remain; higher ranks dial this one.
absl::Status Rendezvous::DialOthers() {
  for (RankMask rest = to_dial_; rest != 0; rest &= rest - 1) {
    absl::Status dialed = Dial(std::countr_zero(rest));
    if (!dialed.ok()) return dialed;
  }
  return absl::OkStatus();
}

absl::Status Rendezvous::Dial(int peer) {
  absl::StatusOr<std::optional<FileDescriptor>> socket =
      DialLocally(handles_[peer].socket);
  if (absl::IsResourceExhausted(socket.status())) return socket.status();
  if (!socket.ok()) {
    return WithFailedPeer(absl::UnavailableError(absl::StrCat(
                              "rank ", peer, " cannot be reached on this ",
                              "host: ", socket.status().message())),
                          peer);
  }
  if (!socket->has_value()) return absl::OkStatus();  // later
  if (!IsSameUser((*socket)->get())) return OtherUser(peer);
  to_dial_ &= ~MaskOf(peer);
  peers_[peer].socket = **std::move(socket);
  stages_[peer] = Stage::kDialed;
  return SendHello(peer);
}

absl::Status Rendezvous::WaitForNews(const Deadline& deadline) {
  std::vector<pollfd> watched = {{aborted_.get(), POLLIN, 0},
                                 {listener_.get(), POLLIN, 0}};
  for (const FileDescriptor& guest : unidentified_) {
    watched.push_back({guest.get(), POLLIN, 0});
  }
  for (int peer = 0; peer < shape_.size; ++peer) {
    if (stages_[peer] == Stage::kMet || !peers_[peer].socket.valid()) continue;
    watched.push_back({peers_[peer].socket.get(), POLLIN, 0});
  }
  const absl::Duration left =
      std::min(deadline.Left(), to_dial_ != 0 ? kDialAgain : absl::Hours(1));
  const int ready = poll(watched.data(), watched.size(),
                         static_cast<int>(absl::ToInt64Milliseconds(
                             absl::Ceil(left, absl::Milliseconds(1)))));
  if (watched[0].revents != 0) {
    return absl::CancelledError("the rendezvous was aborted");
  }
  return ready == 0 && deadline.Passed() ? Missing() : absl::OkStatus();
}

absl::Status Rendezvous::AcceptConnections() {
  for (;;) {
    absl::StatusOr<std::optional<FileDescriptor>> guest =
        Accept(listener_.get());
    if (!guest.ok()) return std::move(guest).status();
    if (!guest->has_value()) return absl::OkStatus();
    if (IsSameUser((*guest)->get()))
      unidentified_.push_back(**std::move(guest));
  }
}

// Closes connections from non-members; these are no error of the group.
absl::Status Rendezvous::ReadUnidentified() {
  std::vector<FileDescriptor> silent;
  for (FileDescriptor& guest : unidentified_) {
    Hello hello;
    auto message = ReceiveBytes(guest.get(), &hello, sizeof hello);
    if (absl::IsResourceExhausted(message.status())) return message.status();
    if (message.ok() && !message->has_value()) {
      silent.push_back(std::move(guest));
      continue;
    }
    if (!message.ok() || (*message)->bytes != sizeof hello || !IsMine(hello)) {
      continue;
    }
    const int peer = static_cast<int>(hello.rank);
    if (stages_[peer] != Stage::kExpected || peer < handle_.rank) continue;
    peers_[peer].socket = std::move(guest);
    absl::Status greeted = SendHello(peer);
    greeted.Update(ReadHello(peer, std::move((*message)->files)));
    if (!greeted.ok()) return greeted;
  }
  unidentified_ = std::move(silent);
  return absl::OkStatus();
}

bool Rendezvous::IsMine(const Hello& hello) const {
  return hello.magic == kControlBlockMagic &&
         hello.version == kControlBlockVersion && hello.group == group_ &&
         hello.token == handle_.token &&
         hello.rank < static_cast<uint32_t>(shape_.size);
}

absl::Status Rendezvous::ReadFrom(int peer) {
  while (stages_[peer] == Stage::kDialed || stages_[peer] == Stage::kGreeted) {
    Hello hello;
    auto message =
        ReceiveBytes(peers_[peer].socket.get(), &hello, sizeof hello);
    if (!message.ok()) return Lost(peer, message.status());
    if (!message->has_value()) return absl::OkStatus();
    if ((*message)->bytes == 0) return Gone(peer);
    if ((*message)->bytes != sizeof hello || !IsMine(hello) ||
        hello.rank != static_cast<uint32_t>(peer)) {
      return Stranger(peer);
    }
    absl::Status heard = stages_[peer] == Stage::kDialed
                             ? ReadHello(peer, std::move((*message)->files))
                             : Probe(peer);
    if (!heard.ok()) return heard;
  }
  return absl::OkStatus();
}

absl::Status Rendezvous::SendHello(int peer) {
  const absl::StatusOr<FileDescriptor> process = OpenThisProcess();
  if (!process.ok()) return process.status();
  absl::Status published =
      SendMessage(peers_[peer].socket.get(),
                  Hello{.rank = static_cast<uint32_t>(handle_.rank),
                        .group = group_,
                        .token = handles_[peer].token},
                  {peers_[handle_.rank].memory.fd(), process->get()});
  return published.ok() ? published : Lost(peer, published);
}

absl::Status Rendezvous::ReadHello(int peer,
                                   std::vector<FileDescriptor> files) {
  if (files.size() != 2) return Stranger(peer);
  const ControlBlockHeader& mine = peers_[handle_.rank].control_block.header();
  absl::StatusOr<Segment> memory =
      Segment::Map(std::move(files[0]), mine.bytes, Lookup::kEachLater,
                   static_cast<size_t>(peer + 1));
  if (absl::IsResourceExhausted(memory.status())) return memory.status();
  if (!memory.ok()) {
    return WithFailedPeer(absl::DataLossError(absl::StrCat(
                              "the shared-memory control block of rank ", peer,
                              " is corrupt: ", memory.status().message())),
                          peer);
  }
  const ControlBlock control_block(memory->data(), shape_);
  absl::Status sound = CheckControlBlock(control_block.header(), mine, peer);
  if (!sound.ok()) return sound;
  memory->LookUp(ControlBlock::kHotBytes);
  peers_[peer].control_block = control_block;
  peers_[peer].memory = *std::move(memory);
  peers_[peer].process = std::move(files[1]);
  stages_[peer] = Stage::kGreeted;
  control_block.header().probe[handle_.rank] =
      ProbeOf(group_, handle_.rank, peer);
  absl::Status published =
      SendMessage(peers_[peer].socket.get(),
                  Hello{.rank = static_cast<uint32_t>(handle_.rank),
                        .group = group_,
                        .token = handles_[peer].token});
  return published.ok() ? published : Lost(peer, published);
}

// The peer has written its number to this rank's control block by now.
absl::Status Rendezvous::Probe(int peer) {
  const uint64_t found =
      peers_[handle_.rank].control_block.header().probe[peer];
  if (found != ProbeOf(group_, peer, handle_.rank)) {
    return WithFailedPeer(
        absl::UnavailableError(absl::StrCat(
            "rank ", peer, " shares no memory with this rank: what ",
            "it wrote did not arrive")),
        peer);
  }
  stages_[peer] = Stage::kMet;
  return absl::OkStatus();
}

absl::Status Rendezvous::Missing() const {
  std::vector<int> missing;
  for (int peer = 0; peer < shape_.size; ++peer) {
    if (stages_[peer] != Stage::kMet) missing.push_back(peer);
  }
  const absl::Status late = absl::DeadlineExceededError(
      absl::StrCat("no connection with rank ", absl::StrJoin(missing, ", ")));
  return missing.size() == 1 ? WithFailedPeer(late, missing[0]) : late;
}

bool Rendezvous::AllMet() const {
  return std::all_of(stages_.begin(), stages_.end(),
                     [](Stage stage) { return stage == Stage::kMet; });
}

// A Hello without files makes the receiver's ConnectAll fail. Higher ranks dial
// this rank and are refused.
void Rendezvous::Decline(const std::vector<std::string>& texts, int rank) {
  listener_ = FileDescriptor();
  // Peers that have dialed this rank and wait for its Hello see the socket
  // close. It also frees descriptors, which the dials below may need.
  unidentified_.clear();
  peers_.clear();
  for (int peer = 0; peer < rank; ++peer) {
    auto handle =
        ParseShmHandle(texts[peer], peer, static_cast<int>(texts.size()));
    if (!handle.ok()) continue;
    const absl::StatusOr<std::optional<FileDescriptor>> socket =
        DialLocally(handle->socket);
    const bool dialed = socket.ok() && socket->has_value();
    if (!dialed || !IsSameUser((*socket)->get())) continue;
    // The status is ignored: the peer is fully connected, or has left.
    SendMessage((*socket)->get(), Hello{.rank = static_cast<uint32_t>(rank),
                                        .group = GroupOf(texts),
                                        .token = handle->token})
        .IgnoreError();
  }
}

void Rendezvous::Abort() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written =
      write(aborted_.get(), &one, sizeof one);
}

}  // namespace lockstep::transport
