// The journal in the real etcd: what every journal promises, and fencing.

#include "server/etcd/etcd_store.h"

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/etcd/access/member_status.h"
#include "server/journal/group_commit_journal.h"
#include "tests/server/journal/journal_contract.h"
#include "tests/server/journal/release_journal.h"
#include "tests/support/etcd_server.h"

namespace lockstep::etcd {
namespace {

using journal::Chain;
using journal::GroupCommitJournal;
using journal::Journal;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr absl::Duration kCallTimeout = absl::Seconds(10);

EtcdServer& SharedServer() {
  static EtcdServer server;  // until the process ends
  return server;
}

// Keys of its own in the shared etcd, and a leader.
class EtcdShelf final : public journal::JournalShelf {
 public:
  EtcdShelf()
      : client_({SharedServer().address()},
                grpc::InsecureChannelCredentials()) {
    static int shelves = 0;
    prefix_ = absl::StrCat("shelf-", ++shelves);
    Lead();
  }

  std::unique_ptr<Journal> Open() override {
    return std::make_unique<GroupCommitJournal>(MakeStore());
  }
  std::unique_ptr<EtcdStore> MakeStore() {
    return std::make_unique<EtcdStore>(&client_, prefix_, fence_);
  }
  void FlipBit(int number) override {
    std::string value = ValueOf(KeyOf(number));
    value[value.size() / 2] ^= 1;
    Put(KeyOf(number), value);
  }
  void Remove(int number) override { Delete(KeyOf(number)); }
  void TearLast() override {
    const auto page = Keys("/record/");
    const KeyValue& last = page.back();
    Put(last.key, last.value.substr(0, last.value.size() / 2));
    SetHead(static_cast<int>(page.size()) - 1);  // it was not promised
  }
  // As it was after record `number`, of one chunk.
  void SetHead(int number) {
    const uint64_t hash =
        number == 0 ? 0 : journal::HashOf(ValueOf(KeyOf(number)));
    Put(absl::StrCat(prefix_, "/head"),
        journal::Encode(
            {.number = static_cast<uint64_t>(number), .predecessor = hash}));
  }

  // Another coordinator leads from now on; stores that exist do not know it.
  void Lead() {
    if (fence_.created != 0) Delete(fence_.key);
    const auto lease = client_.GrantLease(600, kCallTimeout);
    const auto claim = client_.ClaimKey(absl::StrCat(prefix_, "/leader"), "me",
                                        lease.value_or(0), kCallTimeout);
    ASSERT_TRUE(claim.ok()) << claim.status();
    fence_ = {claim->holder.key, claim->holder.created};
  }
  std::vector<KeyValue> Keys(const std::string& below) {
    const auto page =
        client_.Read(WithPrefix(prefix_ + below), 0, 0, kCallTimeout);
    EXPECT_TRUE(page.ok()) << page.status();
    return page->keys;
  }
  void Put(const std::string& key, const std::string& value) {
    const absl::Status put =
        client_.Commit({.fence = fence_, .puts = {{key, value}}}, kCallTimeout);
    ASSERT_TRUE(put.ok()) << put;
  }
  void Delete(const std::string& key) {
    const absl::Status gone = client_.Commit(
        {.fence = fence_, .deletes = {WithPrefix(key)}}, kCallTimeout);
    ASSERT_TRUE(gone.ok()) << gone;
  }
  const std::string& prefix() const { return prefix_; }
  std::string KeyOf(int number, int chunk = 0) const {
    return absl::StrFormat("%s/record/%020d/%04d", prefix_, number, chunk);
  }

 private:
  std::string ValueOf(const std::string& key) {
    return client_.Read({key, ""}, 1, 0, kCallTimeout)->keys.at(0).value;
  }

  Client client_;
  std::string prefix_;
  Fence fence_;
};

}  // namespace
}  // namespace lockstep::etcd

namespace lockstep::journal {
INSTANTIATE_TEST_SUITE_P(Etcd, JournalContract, testing::Values([] {
                           return std::make_unique<etcd::EtcdShelf>();
                         }));
}  // namespace lockstep::journal

namespace lockstep::etcd {
namespace {

std::vector<std::string> FramesOf(const std::vector<std::string>& payloads,
                                  Chain* chain) {
  std::vector<std::string> frames;
  for (const std::string& payload : payloads) {
    frames.push_back(chain->Extend(payload));
  }
  return frames;
}

TEST(EtcdStoreTest, AnOldLeaderAppendsNothing) {
  EtcdShelf shelf;
  const auto old = shelf.MakeStore();
  ASSERT_TRUE(old->Read().ok());
  Chain chain;
  ASSERT_TRUE(old->Append(1, FramesOf({"one"}, &chain), chain).ok());
  shelf.Lead();
  const auto next = shelf.MakeStore();
  const auto read = next->Read();
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(read->records, ElementsAre("one"));

  Chain late = chain;
  const absl::Status refused =
      old->Append(2, FramesOf({"of the old one"}, &late), late);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(old->ReplaceBySnapshot(chain, {"sum"}).code(),
            absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(next->Append(2, FramesOf({"two"}, &chain), chain).ok());
  EXPECT_THAT(shelf.MakeStore()->Read()->records, ElementsAre("one", "two"));
}

TEST(EtcdStoreTest, ALargeRecordWithoutItsLastChunkWasNotPromised) {
  EtcdShelf shelf;
  const std::string large(2 << 20, 'x');
  Chain chain;
  const auto store = shelf.MakeStore();
  ASSERT_TRUE(store->Read().ok());
  ASSERT_TRUE(store->Append(1, FramesOf({"one", large}, &chain), chain).ok());
  EXPECT_EQ(shelf.Keys("/record/").size(), 1u + 5u) << "of 512 KiB";
  EXPECT_THAT(shelf.MakeStore()->Read()->records, ElementsAre("one", large));
  shelf.Delete(shelf.KeyOf(2, 4));
  shelf.SetHead(1);
  const auto read = shelf.MakeStore()->Read();
  EXPECT_TRUE(read->damage.ok()) << read->damage;
  EXPECT_THAT(read->records, ElementsAre("one"));
  EXPECT_THAT(read->notes, ElementsAre(HasSubstr("was not written whole")));
  EXPECT_EQ(shelf.Keys("/record/").size(), 1u) << "it is gone";
}

// Somebody removed it, or etcd's data are an older copy.
TEST(EtcdStoreTest, NothingIsPromisedBehindARecordThatIsGone) {
  EtcdShelf shelf;
  Chain chain;
  const auto store = shelf.MakeStore();
  ASSERT_TRUE(store->Read().ok());
  ASSERT_TRUE(store->Append(1, FramesOf({"one", "two"}, &chain), chain).ok());
  shelf.Delete(shelf.KeyOf(2));
  Chain next = chain;
  const absl::Status refused =
      store->Append(3, FramesOf({"three"}, &next), next);
  EXPECT_EQ(refused.code(), absl::StatusCode::kDataLoss) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr(shelf.KeyOf(2)));
  const absl::Status missing = shelf.MakeStore()->Read()->damage;
  EXPECT_EQ(missing.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("1 of 2 records"));

  // A snapshot has all of it.
  ASSERT_TRUE(store->ReplaceBySnapshot(chain, {"sum of two"}).ok());
  ASSERT_TRUE(store->Append(3, FramesOf({"three"}, &chain), chain).ok());
  EXPECT_THAT(shelf.MakeStore()->Read()->records, ElementsAre("three"));
  shelf.Delete(shelf.Keys("/snapshot")[0].key);
  EXPECT_EQ(store->Append(4, FramesOf({"four"}, &chain), chain).code(),
            absl::StatusCode::kOk)
      << "behind record 3, which is there";
}

TEST(EtcdStoreTest, MissingRecordsAtTheEndAreNoticedAtAStart) {
  EtcdShelf shelf;
  Chain chain;
  const auto damage = [&] {
    return std::string(shelf.MakeStore()->Read()->damage.message());
  };
  const auto store = shelf.MakeStore();
  ASSERT_TRUE(store->Read().ok());
  ASSERT_TRUE(store->Append(1, FramesOf({"one", "two"}, &chain), chain).ok());
  ASSERT_TRUE(store->ReplaceBySnapshot(chain, {"sum of two"}).ok());
  EXPECT_EQ(damage(), "") << "the head is the snapshot's end";
  const Chain before = chain;
  ASSERT_TRUE(
      store->Append(3, FramesOf({"three", "four"}, &chain), chain).ok());
  EXPECT_EQ(damage(), "");
  shelf.Delete(shelf.KeyOf(4));
  EXPECT_THAT(damage(), HasSubstr("record 4"));
  shelf.Delete(shelf.KeyOf(3));
  EXPECT_THAT(damage(), HasSubstr("2 of 4 records"));

  Chain other = before;
  const std::vector<std::string> others =
      FramesOf({"another three", "another four"}, &other);
  shelf.Put(shelf.KeyOf(3), others[0]);
  shelf.Put(shelf.KeyOf(4), others[1]);
  EXPECT_THAT(damage(), HasSubstr("another journal"));
  const KeyValue format = shelf.Keys("/format").at(0);
  shelf.Delete(format.key);
  EXPECT_THAT(damage(), HasSubstr("format is gone"));
  shelf.Put(format.key, format.value);
  const std::string head = shelf.Keys("/head").at(0).key;
  shelf.Put(head, "?");
  EXPECT_THAT(damage(), HasSubstr("is damaged"));
  shelf.Delete(head);
  EXPECT_THAT(damage(), HasSubstr("is gone"));
}

TEST(EtcdStoreTest, WritesGoOnBehindWhatWasRead) {
  EtcdShelf shelf;
  Chain chain;
  const std::string large(2 << 20, 'x');
  for (const auto& records :
       std::vector<std::vector<std::string>>{{"one"}, {large}, {"three"}}) {
    const auto store = shelf.MakeStore();
    ASSERT_TRUE(store->Read().ok());
    const uint64_t first = chain.last_number() + 1;
    ASSERT_TRUE(store->Append(first, FramesOf(records, &chain), chain).ok());
    if (records[0] != large) continue;
    ASSERT_TRUE(store->ReplaceBySnapshot(chain, {"sum"}).ok());
  }
  EXPECT_THAT(shelf.MakeStore()->Read()->records, ElementsAre("three"));
}

TEST(EtcdStoreTest, ManyRecordsTakeSeveralTransactions) {
  EtcdShelf shelf;
  std::vector<std::string> records;
  for (int i = 0; i < 1000; ++i) records.push_back(absl::StrCat(i));
  Chain chain;
  const auto store = shelf.MakeStore();
  ASSERT_TRUE(store->Read().ok());
  ASSERT_TRUE(store->Append(1, FramesOf(records, &chain), chain).ok());
  EXPECT_EQ(shelf.MakeStore()->Read()->records, records);
}

TEST(EtcdStoreTest, ASnapshotThatWasInterruptedIsNone) {
  EtcdShelf shelf;
  Chain chain;
  const auto store = shelf.MakeStore();
  ASSERT_TRUE(store->Read().ok());
  ASSERT_TRUE(store->Append(1, FramesOf({"one"}, &chain), chain).ok());
  ASSERT_TRUE(store->ReplaceBySnapshot(chain, {"sum of one"}).ok());
  ASSERT_TRUE(store->Append(2, FramesOf({"two"}, &chain), chain).ok());
  // The frames are there, and the key that names it is not.
  const std::string root = shelf.Keys("/snapshot")[0].key;
  shelf.Put(
      absl::StrCat(root, "/00000000000000000002/", "00000000000000000000/0000"),
      "part of a frame");
  const auto read = shelf.MakeStore()->Read();
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(read->damage.ok()) << read->damage;
  EXPECT_THAT(read->snapshot, ElementsAre("sum of one"));
  EXPECT_THAT(read->records, ElementsAre("two"));

  ASSERT_TRUE(store->ReplaceBySnapshot(chain, {"sum of two"}).ok());
  const auto then = shelf.MakeStore()->Read();
  EXPECT_THAT(then->snapshot, ElementsAre("sum of two"));
  EXPECT_EQ(then->snapshot_end.last_number(), 2u);
  EXPECT_EQ(shelf.Keys("/snapshot/").size(), 2u) << "a header and a part";
  EXPECT_EQ(shelf.Keys("/record/").size(), 0u);
}

TEST(EtcdStoreTest, ADamagedSnapshotIsNamed) {
  EtcdShelf shelf;
  Chain chain;
  const auto store = shelf.MakeStore();
  ASSERT_TRUE(store->Read().ok());
  ASSERT_TRUE(store->Append(1, FramesOf({"one"}, &chain), chain).ok());
  ASSERT_TRUE(store->ReplaceBySnapshot(chain, {"sum", "of one"}).ok());
  const KeyValue part = shelf.Keys("/snapshot/")[2];
  shelf.Put(part.key, part.value + "x");
  const absl::Status damage = shelf.MakeStore()->Read()->damage;
  EXPECT_EQ(damage.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(damage.message()), HasSubstr("part 2"));
}

// It may have read while the next one wrote.
TEST(EtcdStoreTest, AnOldLeaderReportsNoDamage) {
  EtcdShelf shelf;
  Chain chain;
  const auto old = shelf.MakeStore();
  ASSERT_TRUE(old->Read().ok());
  ASSERT_TRUE(old->Append(1, FramesOf({"one", "two"}, &chain), chain).ok());
  shelf.FlipBit(1);
  EXPECT_EQ(shelf.MakeStore()->Read()->damage.code(),
            absl::StatusCode::kDataLoss);
  const auto paused = shelf.MakeStore();
  shelf.Lead();
  EXPECT_EQ(paused->Read().status().code(),
            absl::StatusCode::kFailedPrecondition);
}

// Below the prefix, without the leader's key.
journal::NamedBytes KeysOf(EtcdShelf& shelf) {
  const size_t prefix = shelf.prefix().size() + 1;
  journal::NamedBytes all;
  for (const KeyValue& key : shelf.Keys("/")) {
    const std::string name = key.key.substr(prefix);
    if (name != "leader") all.emplace_back(name, key.value);
  }
  return all;
}

TEST(EtcdStoreTest, WhatIsInEtcdHasNotChanged) {
  EtcdShelf shelf;
  Chain chain;
  const auto store = shelf.MakeStore();
  ASSERT_TRUE(store->Read().ok());
  ASSERT_TRUE(
      store->Append(1, FramesOf(journal::kReleaseReplaced, &chain), chain)
          .ok());
  ASSERT_TRUE(store->ReplaceBySnapshot(chain, journal::kReleaseSnapshot).ok());
  ASSERT_TRUE(
      store->Append(3, FramesOf(journal::kReleaseRecords, &chain), chain).ok());
  const auto file = journal::ReleaseFolder(LOCKSTEP_VERSION) / "etcd.txt";
  if (journal::WritesGolden()) journal::WriteNamedBytes(file, KeysOf(shelf));
  EXPECT_EQ(journal::ReadNamedBytes(file), KeysOf(shelf))
      << "coordinators of two versions share a journal during an upgrade; if "
         "this is meant, raise the format, and run with "
         "LOCKSTEP_UPDATE_GOLDEN=1";
}

TEST(EtcdStoreTest, WhatEveryReleaseWroteIsRead) {
  ASSERT_FALSE(journal::Releases().empty());
  for (const std::string& version : journal::Releases()) {
    SCOPED_TRACE(version);
    EtcdShelf shelf;
    for (const auto& [name, value] : journal::ReadNamedBytes(
             journal::ReleaseFolder(version) / "etcd.txt")) {
      shelf.Put(absl::StrCat(shelf.prefix(), "/", name), value);
    }
    const auto store = shelf.MakeStore();
    const auto read = store->Read();
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_TRUE(read->damage.ok()) << read->damage;
    EXPECT_EQ(read->snapshot, journal::kReleaseSnapshot);
    EXPECT_EQ(read->records, journal::kReleaseRecords);
    Chain chain = read->chain;
    EXPECT_TRUE(store->Append(5, FramesOf({"five"}, &chain), chain).ok());
  }
}

TEST(EtcdStoreTest, ANewerFormatIsRefused) {
  EtcdShelf shelf;
  ASSERT_TRUE(shelf.MakeStore()->Read().ok());
  shelf.Put(shelf.Keys("/format")[0].key, "lockstep journal 9");
  EXPECT_EQ(shelf.MakeStore()->Read().status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(EtcdStoreTest, RecordsSurviveTheDeathOfEtcd) {
  EtcdShelf shelf;
  Chain chain;
  const auto store = shelf.MakeStore();
  ASSERT_TRUE(store->Read().ok());
  ASSERT_TRUE(store->Append(1, FramesOf({"one"}, &chain), chain).ok());
  SharedServer().Kill();
  SharedServer().Start();
  ASSERT_TRUE(store->Append(2, FramesOf({"two"}, &chain), chain).ok());
  EXPECT_THAT(shelf.MakeStore()->Read()->records, ElementsAre("one", "two"));
}

// An operator makes room; until then nothing is promised, and nothing is lost.
TEST(EtcdStoreTest, AFullEtcdIsResourceExhausted) {
  EtcdServer etcd({"--quota-backend-bytes=4194304"});
  Client client({etcd.address()}, grpc::InsecureChannelCredentials());
  const auto lease = client.GrantLease(600, kCallTimeout);
  const auto claim = client.ClaimKey("a/leader", "me", *lease, kCallTimeout);
  EtcdStore store(&client, "a", {"a/leader", claim->holder.created});
  ASSERT_TRUE(store.Read().ok());
  Chain chain;
  std::vector<std::string> kept;
  absl::Status full;
  for (uint64_t number = 1; number < 50 && full.ok(); ++number) {
    Chain next = chain;
    const std::string record(400'000, static_cast<char>('a' + number % 26));
    full = store.Append(number, FramesOf({record}, &next), next);
    if (!full.ok()) break;
    chain = next;
    kept.push_back(record);
  }
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted) << full;
  const auto member =
      AskMember(etcd.address(), grpc::InsecureChannelCredentials(), "a/leader",
                kCallTimeout);
  ASSERT_TRUE(member.ok()) << member.status();
  EXPECT_TRUE(member->has_no_space);
  EXPECT_FALSE(member->is_corrupt);
  EXPECT_TRUE(member->read.ok()) << member->read;
  const auto read = store.Read();
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->records, kept);
}

}  // namespace
}  // namespace lockstep::etcd
