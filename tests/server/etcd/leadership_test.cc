// Which of several coordinators leads, by the real etcd.

#include "server/etcd/leadership.h"

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/etcd_server.h"

namespace lockstep::etcd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A coordinator that leads as soon as it may.
class Candidate {
 public:
  Candidate(const EtcdServer& server, const std::string& name)
      : client_({server.address()}, grpc::InsecureChannelCredentials()) {
    thread_ = std::thread([this, name] {
      auto leadership =
          Leadership::Await(&client_, {.key = "cluster/leader",
                                       .identity = name,
                                       .on_wait =
                                           [this](const std::string& leader) {
                                             MutexLock lock(&mutex_);
                                             leaders_.push_back(leader);
                                             changed_.NotifyAll();
                                           },
                                       .on_trouble =
                                           [this](const absl::Status&) {
                                             MutexLock lock(&mutex_);
                                             ++troubles_;
                                             changed_.NotifyAll();
                                           },
                                       .why_not_wait =
                                           [this] {
                                             MutexLock lock(&mutex_);
                                             return why_not_wait_;
                                           },
                                       .on_lost =
                                           [this](const absl::Status& why) {
                                             MutexLock lock(&mutex_);
                                             lost_ = why;
                                             changed_.NotifyAll();
                                           }});
      MutexLock lock(&mutex_);
      result_ = leadership.status();
      if (leadership.ok()) leadership_ = *std::move(leadership);
      ended_ = true;
      changed_.NotifyAll();
    });
  }
  ~Candidate() {
    client_.Cancel();
    thread_.join();
    Resign();  // its thread calls on_lost until then
  }

  bool Leads(absl::Duration timeout = absl::Seconds(20)) {
    Await(timeout, [this] { return ended_; });
    MutexLock lock(&mutex_);
    return leadership_ != nullptr;
  }
  absl::Status Result() {
    Await(absl::Seconds(20), [this] { return ended_; });
    MutexLock lock(&mutex_);
    return result_;
  }
  // Waits until it was said `times` times who leads.
  std::vector<std::string> AwaitLeader(size_t times = 1) {
    Await(absl::Seconds(20), [&] { return leaders_.size() >= times; });
    MutexLock lock(&mutex_);
    return leaders_;
  }
  int AwaitTrouble() {
    Await(absl::Seconds(20), [this] { return troubles_ > 0; });
    MutexLock lock(&mutex_);
    return troubles_;
  }
  int Troubles() {
    MutexLock lock(&mutex_);
    return troubles_;
  }
  absl::Status AwaitLost() {
    Await(absl::Seconds(20), [this] { return !lost_.ok(); });
    MutexLock lock(&mutex_);
    return lost_;
  }
  void Resign() {
    std::unique_ptr<Leadership> leadership;
    {
      MutexLock lock(&mutex_);
      leadership = std::move(leadership_);
    }
  }
  void Cancel() { client_.Cancel(); }
  void WaitNoMore(const absl::Status& why) {
    MutexLock lock(&mutex_);
    why_not_wait_ = why;
  }
  absl::Status Write(const std::string& value) {
    MutexLock lock(&mutex_);
    return client_.Commit({.fence = leadership_->fence(),
                           .puts = {{.key = "cluster/value", .value = value}}},
                          absl::Seconds(10));
  }
  uint64_t term() {
    MutexLock lock(&mutex_);
    return leadership_->term();
  }

 private:
  template <typename Condition>
  void Await(absl::Duration timeout, Condition condition) {
    const absl::Time end = absl::Now() + timeout;
    MutexLock lock(&mutex_);
    while (!condition() && absl::Now() < end) {
      changed_.WaitFor(&mutex_, end - absl::Now());
    }
  }

  Client client_;
  std::thread thread_;
  Mutex mutex_;
  CondVar changed_;
  bool ended_ = false;
  absl::Status result_;
  std::unique_ptr<Leadership> leadership_;
  std::vector<std::string> leaders_;
  int troubles_ = 0;
  absl::Status why_not_wait_;
  absl::Status lost_;
};

class LeadershipTest : public testing::Test {
 protected:
  EtcdServer etcd_;
};

TEST_F(LeadershipTest, OneLeadsAndTheNextFollowsAtOnce) {
  Candidate a(etcd_, "a");
  ASSERT_TRUE(a.Leads()) << a.Result();
  Candidate b(etcd_, "b");
  EXPECT_THAT(b.AwaitLeader(), ElementsAre("a"));
  const uint64_t term = a.term();
  const absl::Time begin = absl::Now();
  a.Resign();
  ASSERT_TRUE(b.Leads()) << b.Result();
  EXPECT_LT(absl::Now() - begin, absl::Seconds(1)) << "not by the lease";
  EXPECT_GT(b.term(), term);
  EXPECT_TRUE(b.Write("b").ok());
}

TEST_F(LeadershipTest, StaysWithTheLeaderWhileItRenews) {
  Candidate a(etcd_, "a");
  ASSERT_TRUE(a.Leads());
  Candidate b(etcd_, "b");
  EXPECT_FALSE(b.Leads(absl::Seconds(4)));
  EXPECT_TRUE(a.Write("a").ok());
}

TEST_F(LeadershipTest, OneThatCannotRenewLeadsNoMore) {
  Candidate a(etcd_, "a");
  ASSERT_TRUE(a.Leads());
  etcd_.Stop();
  const absl::Time begin = absl::Now();
  const absl::Status lost = a.AwaitLost();
  EXPECT_EQ(lost.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(lost.message()), HasSubstr("lease"));
  EXPECT_LT(absl::Now() - begin, absl::Seconds(4));
  etcd_.Continue();
}

// Though its lease lives on.
TEST_F(LeadershipTest, OneWhoseKeyIsRemovedLeadsNoMore) {
  Candidate a(etcd_, "a");
  ASSERT_TRUE(a.Leads());
  Client client({etcd_.address()}, grpc::InsecureChannelCredentials());
  ASSERT_TRUE(
      client
          .Commit({.fence = {"cluster/leader", static_cast<int64_t>(a.term())},
                   .deletes = {{"cluster/leader", ""}}},
                  absl::Seconds(10))
          .ok());
  const absl::Time begin = absl::Now();
  const absl::Status lost = a.AwaitLost();
  EXPECT_EQ(lost.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(lost.message()), HasSubstr("removed cluster/leader"));
  EXPECT_LT(absl::Now() - begin, absl::Seconds(2));
}

TEST_F(LeadershipTest, OneWhoseKeyIsOverwrittenLeadsNoMore) {
  Candidate a(etcd_, "a");
  ASSERT_TRUE(a.Leads());
  Client client({etcd_.address()}, grpc::InsecureChannelCredentials());
  ASSERT_TRUE(
      client
          .Commit({.fence = {"cluster/leader", static_cast<int64_t>(a.term())},
                   .puts = {{.key = "cluster/leader", .value = "a note"}}},
                  absl::Seconds(10))
          .ok());
  EXPECT_THAT(std::string(a.AwaitLost().message()),
              HasSubstr("wrote cluster/leader"));
}

// Before it notices by itself.
TEST_F(LeadershipTest, OneWhoseKeyHasAnotherLeaseWritesNothing) {
  Candidate a(etcd_, "a");
  ASSERT_TRUE(a.Leads());
  Client client({etcd_.address()}, grpc::InsecureChannelCredentials());
  const auto lease = client.GrantLease(600, absl::Seconds(10));
  ASSERT_TRUE(lease.ok());
  const Fence fence = {"cluster/leader", static_cast<int64_t>(a.term())};
  ASSERT_TRUE(client
                  .Commit({.fence = fence,
                           .puts = {{.key = "cluster/leader",
                                     .value = "a note",
                                     .lease = *lease}}},
                          absl::Seconds(10))
                  .ok());
  EXPECT_THAT(std::string(a.Write("late").message()),
              HasSubstr("wrote cluster/leader in etcd, which has another "
                        "lease now"));
}

TEST_F(LeadershipTest, AnEtcdThatStartsAgainChangesNothing) {
  Candidate a(etcd_, "a");
  ASSERT_TRUE(a.Leads());
  const uint64_t term = a.term();
  a.Resign();
  etcd_.Kill();
  Candidate b(etcd_, "b");
  EXPECT_EQ(b.AwaitTrouble(), 1);
  etcd_.Start();
  ASSERT_TRUE(b.Leads()) << b.Result();
  EXPECT_GT(b.term(), term);
}

TEST_F(LeadershipTest, OneThatWaitsGoesOnWhenEtcdDies) {
  Candidate a(etcd_, "a");
  ASSERT_TRUE(a.Leads());
  Candidate b(etcd_, "b");
  b.AwaitLeader();
  etcd_.Kill();
  EXPECT_EQ(b.AwaitTrouble(), 1);
  etcd_.Start();
  EXPECT_TRUE(b.Leads()) << b.Result();
}

TEST_F(LeadershipTest, AfterTroubleItIsSaidAgainWhoLeads) {
  Client client({etcd_.address()}, grpc::InsecureChannelCredentials());
  const auto lease = client.GrantLease(600, absl::Seconds(10));
  ASSERT_TRUE(lease.ok()) << lease.status();
  ASSERT_TRUE(
      client.ClaimKey("cluster/leader", "a", *lease, absl::Seconds(10)).ok());
  Candidate b(etcd_, "b");
  EXPECT_THAT(b.AwaitLeader(), ElementsAre("a"));
  etcd_.Kill();
  EXPECT_EQ(b.AwaitTrouble(), 1);
  etcd_.Start();
  EXPECT_THAT(b.AwaitLeader(2), ElementsAre("a", "a"));
  b.Cancel();
}

TEST_F(LeadershipTest, AReasonNotToWaitForEtcdEndsTheWait) {
  etcd_.Kill();
  Candidate a(etcd_, "a");
  const absl::Status why = absl::FailedPreconditionError("wrong certificate");
  a.WaitNoMore(why);
  EXPECT_EQ(a.Result(), why);
  EXPECT_EQ(a.Troubles(), 0) << "the reason is all that is said";
  etcd_.Start();
}

TEST_F(LeadershipTest, AKeyWithoutALeaseIsTroubleUntilItIsGone) {
  Client client({etcd_.address()}, grpc::InsecureChannelCredentials());
  const auto foreign = client.ClaimKey("cluster/leader", "a note", /*lease=*/0,
                                       absl::Seconds(10));
  ASSERT_TRUE(foreign.ok()) << foreign.status();
  Candidate a(etcd_, "a");
  EXPECT_EQ(a.AwaitTrouble(), 1);
  ASSERT_TRUE(client
                  .Commit({.fence = {"cluster/leader", foreign->holder.created},
                           .deletes = {{"cluster/leader", ""}}},
                          absl::Seconds(10))
                  .ok());
  EXPECT_TRUE(a.Leads()) << a.Result();
}

TEST_F(LeadershipTest, OneThatWaitsCanBeCancelled) {
  Candidate a(etcd_, "a");
  ASSERT_TRUE(a.Leads());
  Candidate b(etcd_, "b");
  b.AwaitLeader();
  b.Cancel();
  EXPECT_EQ(b.Result().code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace lockstep::etcd
