// How Gloo groups connect, or fail to.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/file_descriptor.h"
#include "client/transport/failed_peer.h"
#include "client/transport/gloo/gloo.h"
#include "client/transport/gloo/gloo_handle.h"
#include "gtest/gtest.h"
#include "tests/support/fd_limit.h"

namespace lockstep::transport {
namespace {

std::unique_ptr<Transport> Gloo(const std::string& address = "127.0.0.1") {
  auto made = MakeGlooTransport({.bind_address = address});
  EXPECT_TRUE(made.ok()) << made.status();
  return *std::move(made);
}

std::unique_ptr<PendingGroup> Prepared(Transport& transport, int rank,
                                       int size) {
  auto pending = transport.Prepare({.name = "g", .rank = rank, .size = size});
  EXPECT_TRUE(pending.ok()) << pending.status();
  return *std::move(pending);
}

std::vector<std::string> HandlesOf(
    const std::vector<std::unique_ptr<PendingGroup>>& group) {
  std::vector<std::string> handles;
  for (const auto& member : group) handles.push_back(member->handle());
  return handles;
}

std::vector<std::unique_ptr<PendingGroup>> PreparedGroup(Transport& transport,
                                                         int size) {
  std::vector<std::unique_ptr<PendingGroup>> group;
  for (int rank = 0; rank < size; ++rank) {
    group.push_back(Prepared(transport, rank, size));
  }
  return group;
}

constexpr char kSecret[] = "0123456789abcdef0123456789abcdef";

TEST(GlooHandleTest, IsReadAsItWasWritten) {
  for (const char* address : {"127.0.0.1", "10.1.2.3", "fe80::1"}) {
    const GlooHandle handle{1, address, {4001, 0, 65535}, kSecret};
    const absl::StatusOr<GlooHandle> read =
        ParseGlooHandle(Format(handle), 1, 3);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, handle);
    EXPECT_EQ(Port(*ListenerFor(*read, 2)), 65535);
  }
}

TEST(GlooHandleTest, RefusesWhatIsNoHandleOfThatRank) {
  const std::string good = absl::StrCat("gloo3 1 3 127.0.0.1 5,0,7 ", kSecret);
  EXPECT_TRUE(ParseGlooHandle(good, 1, 3).ok());
  for (const char* text :
       {"", "gloo3", "gloo2 1 3 127.0.0.1 5,0,7", "gloo3 0 3 127.0.0.1 0,5,7",
        "gloo3 1 2 127.0.0.1 5,0", "gloo3 1 3 127.0.0.1 5,0",
        "gloo3 1 3 localhost 5,0,7", "gloo3 1 3 127.0.0.1 5,6,7",
        "gloo3 1 3 127.0.0.1 0,0,7", "gloo3 1 3 127.0.0.1 5,0,70000",
        "gloo3 1 3 127.0.0.1 5,0,x", "gloo3 1 3 127.0.0.1 5,0,7 8"}) {
    for (const std::string& whole :
         {std::string(text), absl::StrCat(text, " ", kSecret)}) {
      const absl::Status refused = ParseGlooHandle(whole, 1, 3).status();
      if (whole == good) continue;
      EXPECT_TRUE(absl::IsInvalidArgument(refused)) << whole << ": " << refused;
      EXPECT_EQ(FailedPeer(refused), 1);
      EXPECT_FALSE(absl::StrContains(refused.message(), kSecret)) << refused;
    }
  }
  for (const char* secret : {"", "0123", "0123456789abcdef0123456789abcdeg"}) {
    const std::string text = absl::StrCat("gloo3 1 3 127.0.0.1 5,0,7 ", secret);
    EXPECT_FALSE(ParseGlooHandle(text, 1, 3).ok()) << text;
  }
}

TEST(GlooHandleTest, SecretsDiffer) {
  const std::string one = *DrawGlooSecret();
  EXPECT_EQ(one.size(), 32u);
  EXPECT_NE(one, *DrawGlooSecret());
}

// The expected bytes are those of Python's hashlib and hmac.
TEST(GlooHandleTest, AProofNamesTheKeyTheRoleAndBothRanks) {
  const GlooHandle handle{0, "127.0.0.1", {0, 4001}, kSecret};
  const GroupKey key = KeyOf({handle});
  const auto hex = [](const LinkProof& proof) {
    return absl::BytesToHexString(absl::string_view(
        reinterpret_cast<const char*>(proof.data()), proof.size()));
  };
  EXPECT_EQ(hex(ProofOf(key, "connect", 0, 1)),
            "1bf3d41a7b18dae93cdfed9c6a582b8a5c373ce5075af424c231a5c66ca1f0f8");
  const GlooHandle other{
      0, "127.0.0.1", {0, 4001}, "0123456789abcdef0123456789abcdee"};
  const std::set<std::string> proofs = {
      hex(ProofOf(key, "connect", 0, 1)), hex(ProofOf(key, "greet", 0, 1)),
      hex(ProofOf(key, "connect", 1, 0)),
      hex(ProofOf(KeyOf({other}), "connect", 0, 1))};
  EXPECT_EQ(proofs.size(), 4u);
}

TEST(GlooConnectTest, ListensOnAnAddressOfThisHostOnly) {
  for (const char* address : {"192.0.2.1", "no.such.host.invalid", "0.0.0.0"}) {
    const absl::Status refused =
        MakeGlooTransport({.bind_address = address}).status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << address << ": " << refused;
  }
  for (const char* address : {"localhost", "127.0.0.2"}) {
    const absl::Status made =
        MakeGlooTransport({.bind_address = address}).status();
    EXPECT_TRUE(made.ok()) << made;
  }
}

TEST(GlooConnectTest, RefusesGroupsThatCannotBe) {
  const auto transport = Gloo();
  for (auto [rank, size] : {std::pair(-1, 2), {2, 2}, {0, 0}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(
        transport->Prepare({.name = "g", .rank = rank, .size = size})
            .status()));
  }
  const auto group = PreparedGroup(*transport, 2);
  std::vector<std::string> handles = HandlesOf(group);
  const auto connect = [&](const std::vector<std::string>& wrong) {
    return group[0]->Connect(wrong, absl::Seconds(60)).status();
  };
  EXPECT_TRUE(absl::IsInvalidArgument(connect({handles[0]})));
  EXPECT_TRUE(absl::IsInvalidArgument(connect({handles[1], handles[0]})));
  EXPECT_TRUE(absl::IsInvalidArgument(connect({handles[0], "nonsense"})));
}

TEST(GlooConnectTest, NamesTheRankThatDoesNotCome) {
  const auto transport = Gloo();
  const auto group = PreparedGroup(*transport, 2);
  const auto handles = HandlesOf(group);
  // Rank 1 listens, and may even accept, but does not connect.
  const absl::Status late =
      group[0]->Connect(handles, absl::Milliseconds(50)).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(late)) << late;
  EXPECT_EQ(FailedPeer(late), 1) << late;
  EXPECT_TRUE(absl::IsFailedPrecondition(
      group[0]->Connect(handles, absl::Seconds(60)).status()));
}

TEST(GlooConnectTest, NamesTheRankThatIsGone) {
  const auto transport = Gloo();
  auto group = PreparedGroup(*transport, 2);
  const auto handles = HandlesOf(group);
  // The ports decide which of the two connects to the other: try both.
  for (int survivor : {0, 1}) {
    group = PreparedGroup(*transport, 2);
    const auto handles = HandlesOf(group);
    group[1 - survivor] = nullptr;
    const absl::Status gone =
        group[survivor]->Connect(handles, absl::Milliseconds(200)).status();
    EXPECT_TRUE(absl::IsUnavailable(gone) || absl::IsDeadlineExceeded(gone))
        << gone;
    EXPECT_EQ(FailedPeer(gone), 1 - survivor) << gone;
  }
}

TEST(GlooConnectTest, AbortEndsConnectingBeforeAndWhileItWaits) {
  const auto transport = Gloo();
  const auto group = PreparedGroup(*transport, 3);
  const auto handles = HandlesOf(group);
  std::thread aborter([&] { group[0]->Abort("enough"); });
  const absl::Status ended =
      group[0]->Connect(handles, absl::InfiniteDuration()).status();
  aborter.join();
  EXPECT_EQ(ended, absl::AbortedError("enough"));
  group[1]->Abort("first");
  group[1]->Abort("second");
  EXPECT_EQ(group[1]->Connect(handles, absl::Seconds(60)).status(),
            absl::AbortedError("first"));
}

TEST(GlooConnectTest, ManyGroupsShareOneThread) {
  const auto transport = Gloo();
  constexpr int kGroups = 5;
  std::vector<std::unique_ptr<Communicator>> comms(2 * kGroups);
  for (int g = 0; g < kGroups; ++g) {
    const auto group = PreparedGroup(*transport, 2);
    const auto handles = HandlesOf(group);
    std::vector<std::thread> threads;
    for (int rank : {0, 1}) {
      threads.emplace_back([&, rank] {
        auto comm = group[rank]->Connect(handles, absl::Seconds(60));
        EXPECT_TRUE(comm.ok()) << comm.status();
        if (comm.ok()) comms[2 * g + rank] = *std::move(comm);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  int gloo_threads = 0;
  for (const auto& task :
       std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm") >> std::ws, name);
    gloo_threads += name == "ls-gloo";
  }
  EXPECT_EQ(gloo_threads, 1);
}

// Without a helper thread the member's own thread writes, and would get
// SIGPIPE.
TEST(GlooConnectTest, APeerThatGoesWhileItIsSentToEndsTheSendOnly) {
  const auto transport = Gloo();
  const std::vector<char> much(1 << 20);
  for (int trial = 0; trial < 20; ++trial) {
    const auto group = PreparedGroup(*transport, 2);
    const auto handles = HandlesOf(group);
    std::thread goes([&] {
      auto comm = group[1]->Connect(handles, absl::Seconds(60));
      EXPECT_TRUE(comm.ok()) << comm.status();
    });
    const auto comm = group[0]->Connect(handles, absl::Seconds(60));
    HostStream stream("member", HostStream::Execution::kInline);
    absl::Status sent = comm.status();
    while (sent.ok()) {
      sent = (*comm)->Send(much.data(), much.size(), DType::kU8, 1, stream);
      if (sent.ok()) sent = stream.Synchronize();
    }
    goes.join();
    EXPECT_EQ(FailedPeer(sent), 1) << sent;
  }
}

// --- A stranger as a member --------------------------------------------------

int Socket() { return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); }

int ConnectTo(const sockaddr_storage& at) {
  const int connection = Socket();
  EXPECT_EQ(connect(connection, reinterpret_cast<const sockaddr*>(&at),
                    sizeof(sockaddr_in)),
            0);
  return connection;
}

std::string BytesOf(const ConnectionHeader& header) {
  return {reinterpret_cast<const char*>(&header), sizeof header};
}

// A member that uses another protocol: a socket that poses as rank 1 of 2.
class Stranger {
 public:
  Stranger() : listener_(Socket()) {
    sockaddr_in any{.sin_family = AF_INET};
    inet_pton(AF_INET, "127.0.0.1", &any.sin_addr);
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&any), sizeof any),
              0);
    EXPECT_EQ(listen(listener_, 1), 0);
    sockaddr_storage own{};
    socklen_t length = sizeof own;
    getsockname(listener_, reinterpret_cast<sockaddr*>(&own), &length);
    handle_ = Format({1, "127.0.0.1", {Port(own), 0}, kSecret});
  }
  ~Stranger() {
    close(listener_);
    if (connection_ >= 0) close(connection_);
  }

  const std::string& handle() const { return handle_; }

  // By Gloo's rule the greater address connects to the smaller.
  void Meet(const std::string& rank_0) {
    const GlooHandle theirs = *ParseGlooHandle(rank_0, 0, 2);
    const GlooHandle mine = *ParseGlooHandle(handle_, 1, 2);
    const GroupKey key = KeyOf({theirs, mine});
    const ConnectionHeader header = HeaderOf(key, 1, 0);
    if (htons(theirs.ports[1]) > htons(mine.ports[0])) {
      connection_ = accept(listener_, nullptr, nullptr);
      ConnectionHeader heard;
      EXPECT_EQ(recv(connection_, &heard, sizeof heard, MSG_WAITALL),
                static_cast<ssize_t>(sizeof heard));
      EXPECT_EQ(BytesOf(heard), BytesOf(HeaderOf(key, 0, 1)));
    } else {
      connection_ = ConnectTo(*ListenerFor(theirs, 1));
      EXPECT_EQ(send(connection_, &header, sizeof header, MSG_NOSIGNAL),
                static_cast<ssize_t>(sizeof header));
    }
    EXPECT_GE(connection_, 0);
  }

  void Post(const std::vector<uint64_t>& words) {
    const size_t bytes = words.size() * sizeof(uint64_t);
    EXPECT_EQ(send(connection_, words.data(), bytes, MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes));
  }

 private:
  const int listener_;
  int connection_ = -1;
  std::string handle_;
};

// Gloo's message: total bytes, opcode, slot, offset, length, remote offset.
std::vector<uint64_t> Message(uint64_t opcode, uint64_t slot, uint64_t length) {
  return {48 + length, opcode, slot, 0, length, 0};
}

TEST(GlooStrangerTest, NothingThatArrivesEndsTheProcess) {
  const auto transport = Gloo();
  const std::vector<std::vector<uint64_t>> sayings = {
      Message(1, 0, 17),  // of an unexpected size
      Message(1, 0, uint64_t{1} << 60),
      Message(1, 99, 8),  // in an unexpected slot
      Message(0, 0, 8),   // to a buffer of another kind
      {0x2f20544547, 0x302e312f50545448, 7, 7, 7, 7},  // "GET / HTTP/1.0"
  };
  for (const auto& saying : sayings) {
    Stranger stranger;
    const auto member = Prepared(*transport, 0, 2);
    std::thread talk([&] {
      stranger.Meet(member->handle());
      stranger.Post(saying);
    });
    const absl::Status ended =
        member
            ->Connect({member->handle(), stranger.handle()}, absl::Seconds(60))
            .status();
    talk.join();
    EXPECT_TRUE(absl::IsUnavailable(ended) || absl::IsDataLoss(ended))
        << absl::StrJoin(saying, " ") << ": " << ended;
    EXPECT_EQ(FailedPeer(ended), 1) << ended;
  }
}

TEST(GlooStrangerTest, WhoDoesNotBelongToTheGroupIsRefused) {
  const auto transport = Gloo();
  Stranger stranger;
  const auto member = Prepared(*transport, 0, 2);
  std::thread talk([&] {
    stranger.Meet(member->handle());
    // "I will send to slot 0", a greeting, "I will receive from slot 0": in one
    // write, because the member closes the connection right after it has the
    // greeting.
    std::vector<uint64_t> words = Message(2, 0, 32);
    for (uint64_t word : Message(1, 0, 32)) words.push_back(word);
    for (uint64_t word : {1, 2, 3, 4}) words.push_back(word);
    for (uint64_t word : Message(3, 0, 32)) words.push_back(word);
    stranger.Post(words);
  });
  const absl::Status ended =
      member->Connect({member->handle(), stranger.handle()}, absl::Seconds(60))
          .status();
  talk.join();
  EXPECT_TRUE(absl::IsUnavailable(ended)) << ended;
  EXPECT_EQ(FailedPeer(ended), 1) << ended;
}

// --- Strangers at the listeners ----------------------------------------------

// The bytes that a stranger sends to a port where `to` waits for `from`.
using Saying = std::function<std::string(int from, int to)>;

// Connects to every port that the group listens on, and sends bytes there.
std::vector<FileDescriptor> ConnectEverywhere(
    const std::vector<std::string>& handles, const Saying& saying) {
  const int size = static_cast<int>(handles.size());
  std::vector<FileDescriptor> connections;
  for (int to = 0; to < size; ++to) {
    const GlooHandle handle = *ParseGlooHandle(handles[to], to, size);
    for (int from = 0; from < size; ++from) {
      if (from == to) continue;
      connections.emplace_back(ConnectTo(*ListenerFor(handle, from)));
      const std::string bytes = saying(from, to);
      EXPECT_EQ(send(connections.back().get(), bytes.data(), bytes.size(),
                     MSG_NOSIGNAL),
                static_cast<ssize_t>(bytes.size()));
    }
  }
  return connections;
}

// Connects all members; returns the status of each.
std::vector<absl::Status> ConnectAll(
    const std::vector<std::unique_ptr<PendingGroup>>& group) {
  const auto handles = HandlesOf(group);
  std::vector<absl::Status> ended(group.size());
  std::vector<std::unique_ptr<Communicator>> comms(group.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < group.size(); ++rank) {
    threads.emplace_back([&, rank] {
      auto comm = group[rank]->Connect(handles, absl::Seconds(20));
      ended[rank] = comm.status();
      if (comm.ok()) comms[rank] = *std::move(comm);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return ended;
}

TEST(GlooStrangerTest, OneThatConnectsDuringSetUpIsDropped) {
  const std::vector<std::pair<const char*, Saying>> kinds = {
      {"says nothing", [](int, int) { return ""; }},
      {"stops in the middle",
       [](int from, int to) {
         return BytesOf({.from = from, .to = to}).substr(0, 12);
       }},
      {"speaks HTTP",
       [](int, int) { return "GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n"; }},
      {"is of another group",
       [](int from, int to) { return BytesOf(HeaderOf({7}, from, to)); }},
      {"is another rank",
       [](int from, int to) { return BytesOf(HeaderOf({}, to, from)); }},
      {"says much", [](int, int) { return std::string(100'000, 'x'); }},
  };
  const auto transport = Gloo();
  for (const auto& [kind, saying] : kinds) {
    const auto group = PreparedGroup(*transport, 3);
    // Connect the strangers first, so that members accept a stranger first.
    const auto strangers = ConnectEverywhere(HandlesOf(group), saying);
    for (const absl::Status& ended : ConnectAll(group)) {
      EXPECT_TRUE(ended.ok()) << kind << ": " << ended;
    }
  }
}

// Everything but a secret can be seen on the network, or guessed.
TEST(GlooStrangerTest, OneThatKnowsAllButTheSecretsIsDropped) {
  const auto transport = Gloo();
  const auto group = PreparedGroup(*transport, 3);
  std::vector<GlooHandle> known;
  for (int rank = 0; rank < 3; ++rank) {
    known.push_back(*ParseGlooHandle(HandlesOf(group)[rank], rank, 3));
    known.back().secret = kSecret;
  }
  const auto strangers =
      ConnectEverywhere(HandlesOf(group), [&known](int from, int to) {
        return BytesOf(HeaderOf(KeyOf(known), from, to));
      });
  for (const absl::Status& ended : ConnectAll(group)) {
    EXPECT_TRUE(ended.ok()) << ended;
  }
}

TEST(GlooStrangerTest, OnesThatHangUpAreDropped) {
  const auto transport = Gloo();
  const auto group = PreparedGroup(*transport, 3);
  ConnectEverywhere(HandlesOf(group), [](int, int) { return "hello"; });
  for (const absl::Status& ended : ConnectAll(group)) {
    EXPECT_TRUE(ended.ok()) << ended;
  }
}

TEST(GlooStrangerTest, ACrowdOfThemIsDropped) {
  const auto transport = Gloo();
  const auto group = PreparedGroup(*transport, 2);
  std::vector<std::vector<FileDescriptor>> crowd;
  for (int i = 0; i < 100; ++i) {
    crowd.push_back(
        ConnectEverywhere(HandlesOf(group), [](int, int) { return ""; }));
  }
  for (const absl::Status& ended : ConnectAll(group)) {
    EXPECT_TRUE(ended.ok()) << ended;
  }
}

// Also while the members connect. A member that left before the others arrived
// is reported as missing, as without strangers.
TEST(GlooStrangerTest, OnesThatKeepComingDoNotHideAMissingMember) {
  const auto transport = Gloo();
  auto group = PreparedGroup(*transport, 2);
  const auto handles = HandlesOf(group);
  const auto strangers =
      ConnectEverywhere(handles, [](int, int) { return "?"; });
  group[1] = nullptr;
  const absl::Status gone =
      group[0]->Connect(handles, absl::Milliseconds(300)).status();
  EXPECT_TRUE(absl::IsUnavailable(gone) || absl::IsDeadlineExceeded(gone))
      << gone;
  EXPECT_EQ(FailedPeer(gone), 1) << gone;
}

// --- Open files --------------------------------------------------------------

// For every limit of open files from none on: either an error that names the
// limit and no peer, or a group.
TEST(GlooFilesTest, AMemberWithTooFewOpenFilesNamesTheLimit) {
  int exhausted = 0;
  for (int more = 0; more <= 16; ++more) {
    absl::Status ended;
    {
      const FdLimit few(more);
      auto transport = MakeGlooTransport({});
      ended = transport.status();
      if (ended.ok()) {
        auto pending =
            (*transport)->Prepare({.name = "g", .rank = 0, .size = 3});
        ended = pending.status();
      }
    }
    if (ended.ok()) continue;
    ++exhausted;
    EXPECT_TRUE(absl::IsResourceExhausted(ended)) << more << ": " << ended;
    EXPECT_TRUE(absl::StrContains(ended.message(), "ulimit -n")) << ended;
    EXPECT_FALSE(FailedPeer(ended).has_value()) << ended;
  }
  EXPECT_GT(exhausted, 2);  // no loop, no listener, one listener of two
  EXPECT_LT(exhausted, 16);
}

// The others connect to it, but it has no descriptor for the connection.
TEST(GlooFilesTest, AMemberThatCannotAcceptBlamesNobody) {
  const auto transport = Gloo();
  int exhausted = 0;
  // The ports decide which side listens.
  for (int round = 0; round < 60 && exhausted == 0; ++round) {
    const auto group = PreparedGroup(*transport, 2);
    const auto handles = HandlesOf(group);
    absl::Status ended;
    {
      const FdLimit none(0);
      std::thread peer([&] {
        // The limit is per process, so the peer may run into it first.
        group[1]->Connect(handles, absl::Seconds(5)).IgnoreError();
      });
      ended = group[0]->Connect(handles, absl::Seconds(5)).status();
      peer.join();
    }
    if (!absl::IsResourceExhausted(ended)) continue;
    ++exhausted;
    EXPECT_FALSE(FailedPeer(ended).has_value()) << ended;
    EXPECT_TRUE(absl::StrContains(ended.message(), "ulimit -n")) << ended;
  }
  EXPECT_GT(exhausted, 0);
}

}  // namespace
}  // namespace lockstep::transport
