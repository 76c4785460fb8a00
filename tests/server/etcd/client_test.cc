// The client of etcd, against the real etcd.

#include "server/etcd/client.h"

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/etcd/access/member_status.h"
#include "tests/support/etcd_server.h"

namespace lockstep::etcd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr absl::Duration kTimeout = absl::Seconds(10);

// One server for all tests: each has keys of its own.
class EtcdClientTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = new EtcdServer(); }
  static void TearDownTestSuite() {
    delete server_;
    server_ = nullptr;
  }

  std::unique_ptr<Client> Connect(std::vector<std::string> before = {}) {
    before.push_back(server_->address());
    return std::make_unique<Client>(before, grpc::InsecureChannelCredentials());
  }
  static std::string Key(const std::string& name) {
    return absl::StrCat(
        testing::UnitTest::GetInstance()->current_test_info()->name(), "/",
        name);
  }
  Fence Lead() {
    const auto lease = client_->GrantLease(60, kTimeout);
    EXPECT_TRUE(lease.ok()) << lease.status();
    const auto claim =
        client_->ClaimKey(Key("leader"), "me", lease.value_or(0), kTimeout);
    EXPECT_TRUE(claim.ok() && claim->is_mine) << claim.status();
    return {.key = Key("leader"), .created = claim->holder.created};
  }
  std::vector<std::string> Values(int64_t limit = 0) {
    const auto page =
        client_->Read(WithPrefix(Key("value/")), limit, 0, kTimeout);
    EXPECT_TRUE(page.ok()) << page.status();
    std::vector<std::string> values;
    for (const KeyValue& key : page->keys) values.push_back(key.value);
    more_ = page->more;
    return values;
  }

  static EtcdServer* server_;
  const std::unique_ptr<Client> client_ = Connect();
  bool more_ = false;
};

EtcdServer* EtcdClientTest::server_ = nullptr;

TEST(EtcdKeysTest, APrefixEndsBeforeTheNextOne) {
  EXPECT_EQ(WithPrefix("a/").to, "a0");
  EXPECT_EQ(WithPrefix("a\xff").to, "b");
}

TEST_F(EtcdClientTest, PutsAndDeletesAreOneTransaction) {
  const Fence fence = Lead();
  ASSERT_TRUE(client_
                  ->Commit({.fence = fence,
                            .puts = {{Key("value/2"), "two"},
                                     {Key("value/1"), std::string("\0\xff", 2)},
                                     {Key("value/3"), ""}}},
                           kTimeout)
                  .ok());
  EXPECT_THAT(Values(), ElementsAre(std::string("\0\xff", 2), "two", ""));
  EXPECT_THAT(Values(/*limit=*/2),
              ElementsAre(std::string("\0\xff", 2), "two"));
  EXPECT_TRUE(more_);
  ASSERT_TRUE(client_
                  ->Commit({.fence = fence,
                            .deletes = {{Key("value/1"), Key("value/3")}},
                            .puts = {{Key("value/4"), "four"}}},
                           kTimeout)
                  .ok());
  EXPECT_THAT(Values(), ElementsAre("", "four"));
}

TEST_F(EtcdClientTest, AnOldLeaderChangesNothing) {
  const Fence old = Lead();
  // The key is deleted, and made again by another one.
  const Fence guard = [&] {
    const auto lease = client_->GrantLease(60, kTimeout);
    const auto claim = client_->ClaimKey(Key("guard"), "me", *lease, kTimeout);
    return Fence{Key("guard"), claim->holder.created};
  }();
  ASSERT_TRUE(
      client_
          ->Commit({.fence = guard, .deletes = {WithPrefix(Key("leader"))}},
                   kTimeout)
          .ok());
  const Transaction late = {.fence = old, .puts = {{Key("value/1"), "late"}}};
  EXPECT_EQ(client_->Commit(late, kTimeout).code(),
            absl::StatusCode::kFailedPrecondition)
      << "nobody leads";
  const Fence next = Lead();
  EXPECT_GT(next.created, old.created);
  const absl::Status refused = client_->Commit(late, kTimeout);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("leads"));
  EXPECT_THAT(Values(), IsEmpty());
}

// As when the first attempt is carried out, and its answer is lost.
TEST_F(EtcdClientTest, ATransactionHasItsTurnOnce) {
  const Fence fence = Lead();
  const Transaction first = {
      .fence = fence, .turn = 1, .puts = {{Key("value/1"), "one"}}};
  EXPECT_TRUE(client_->Commit(first, kTimeout).ok());
  EXPECT_TRUE(client_->Commit(first, kTimeout).ok()) << "it was done";
  const Transaction next = {
      .fence = fence, .turn = 2, .deletes = {WithPrefix(Key("value/"))}};
  EXPECT_TRUE(client_->Commit(next, kTimeout).ok());
  EXPECT_EQ(client_->Commit(first, kTimeout).code(),
            absl::StatusCode::kAborted);
  EXPECT_THAT(Values(), IsEmpty()) << "an attempt that comes late";
  const auto leader = client_->Read({fence.key, ""}, 1, 0, kTimeout);
  EXPECT_EQ(leader->keys.at(0).created, fence.created);
  EXPECT_EQ(leader->keys.at(0).value, "me");
}

TEST_F(EtcdClientTest, AClaimThatIsRepeatedIsStillMine) {
  const auto lease = client_->GrantLease(60, kTimeout);
  const auto first = client_->ClaimKey(Key("k"), "me", *lease, kTimeout);
  const auto again = client_->ClaimKey(Key("k"), "me", *lease, kTimeout);
  ASSERT_TRUE(first->is_mine);
  EXPECT_TRUE(again->is_mine);
  EXPECT_EQ(again->holder.created, first->holder.created);
  const auto other = client_->GrantLease(60, kTimeout);
  const auto late = client_->ClaimKey(Key("k"), "other", *other, kTimeout);
  EXPECT_FALSE(late->is_mine);
  EXPECT_EQ(late->holder.value, "me");
}

TEST_F(EtcdClientTest, ALeaseEndsAndIsMissed) {
  const auto lease = client_->GrantLease(60, kTimeout);
  const auto left = client_->RenewLease(*lease, kTimeout);
  ASSERT_TRUE(left.ok()) << left.status();
  EXPECT_EQ(*left, absl::Seconds(60));
  const auto claim = client_->ClaimKey(Key("k"), "me", *lease, kTimeout);
  std::thread ends([&] {
    absl::SleepFor(absl::Milliseconds(50));
    EXPECT_TRUE(client_->RevokeLease(*lease, kTimeout).ok());
  });
  EXPECT_TRUE(client_->AwaitDeleted(Key("k"), claim->revision, kTimeout).ok());
  ends.join();
  EXPECT_EQ(client_->RenewLease(*lease, kTimeout).value(),
            absl::ZeroDuration());
  EXPECT_TRUE(client_->RevokeLease(*lease, kTimeout).ok()) << "it has ended";
  // The deletion was before the watch.
  EXPECT_TRUE(client_->AwaitDeleted(Key("k"), claim->revision, kTimeout).ok());
}

TEST_F(EtcdClientTest, AWatchEndsInTime) {
  const absl::Time begin = absl::Now();
  EXPECT_TRUE(client_->AwaitDeleted(Key("k"), 1, absl::Milliseconds(100)).ok());
  EXPECT_GE(absl::Now() - begin, absl::Milliseconds(100));
}

TEST_F(EtcdClientTest, AMemberThatDoesNotAnswerIsLeftForTheNext) {
  const auto client = Connect({"unix:/nonexistent/a"});
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(client->GrantLease(60, kTimeout).ok());
  }
}

TEST_F(EtcdClientTest, NamesEveryMemberThatDoesNotAnswer) {
  Client client({"unix:/nonexistent/a", "unix:/nonexistent/b"},
                grpc::InsecureChannelCredentials());
  const auto lease = client.GrantLease(60, absl::Milliseconds(300));
  EXPECT_EQ(lease.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(lease.status().message()),
              testing::AllOf(HasSubstr("/nonexistent/a: "),
                             HasSubstr("/nonexistent/b: ")));
}

TEST_F(EtcdClientTest, CancelEndsCallsInProgressAndLaterOnes) {
  std::thread cancels([&] {
    absl::SleepFor(absl::Milliseconds(50));
    client_->Cancel();
  });
  EXPECT_EQ(client_->AwaitDeleted(Key("k"), 1, kTimeout).code(),
            absl::StatusCode::kCancelled);
  cancels.join();
  EXPECT_EQ(client_->GrantLease(60, kTimeout).status().code(),
            absl::StatusCode::kCancelled);
}

// As when the files of certificates were replaced.
TEST_F(EtcdClientTest, AfterAFailureItAsksForItsCredentialsAgain) {
  std::atomic<int> asked = 0;
  const auto wrong = grpc::SslCredentials({});
  const auto right = grpc::InsecureChannelCredentials();
  Client client({server_->address()},
                [&] { return ++asked > 1 ? right : wrong; });
  EXPECT_TRUE(client.GrantLease(60, kTimeout).ok());
  EXPECT_GT(asked, 1);
}

TEST_F(EtcdClientTest, AMemberSaysHowItIs) {
  const auto ask = [](const std::string& address) {
    return AskMember(address, grpc::InsecureChannelCredentials(), Key("k"),
                     kTimeout);
  };
  const auto status = ask(server_->address());
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_THAT(status->version, testing::StartsWith("3."));
  EXPECT_TRUE(status->read.ok()) << status->read;
  EXPECT_FALSE(status->has_no_space);
  EXPECT_TRUE(absl::IsUnavailable(ask("unix:/nonexistent/a").status()));
}

TEST_F(EtcdClientTest, ARequestThatIsTooLargeIsNamed) {
  const Fence fence = Lead();
  const absl::Status refused = client_->Commit(
      {.fence = fence, .puts = {{Key("value/1"), std::string(3 << 20, 'x')}}},
      kTimeout);
  EXPECT_FALSE(refused.ok());
  EXPECT_THAT(std::string(refused.message()), HasSubstr("larger than max"));
}

}  // namespace
}  // namespace lockstep::etcd
