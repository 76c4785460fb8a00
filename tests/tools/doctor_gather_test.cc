// The facts of lockstepctl doctor, in folders that the test makes.

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/secret_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/journal/sqlite_store.h"
#include "tests/support/temp_path.h"
#include "tools/certs/certificate_folder.h"
#include "tools/doctor/gather.h"

namespace lockstep::doctor {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class GatherTest : public testing::Test {
 protected:
  GatherTest() { fs::remove_all(root_); }
  ~GatherTest() override { fs::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) const {
    const fs::path file = root_ + path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }

  const std::string root_ = TempPath("doctor");
};

TEST_F(GatherTest, AnEmptyRootHasNoShmNoGpuAndNoLimits) {
  const MachineFacts machine = GatherMachine(root_);
  EXPECT_FALSE(machine.shm.exists);
  EXPECT_FALSE(machine.has_rdma);
  EXPECT_EQ(machine.tasks_left, kUnlimited);
  EXPECT_EQ(machine.room.machine, kUnlimited);
  EXPECT_TRUE(machine.shared_memory.ok()) << machine.shared_memory;
  const GpuFacts gpu = GatherGpu(std::nullopt, root_);
  EXPECT_EQ(gpu.devices, 0);
  EXPECT_EQ(gpu.kernel_driver, "");
  EXPECT_FALSE(gpu.nccl.has_value());
}

TEST_F(GatherTest, ReadsWhatTheKernelSays) {
  Write("/proc/meminfo", "MemAvailable: 1024 kB\n");
  Write("/proc/self/cgroup", "1:memory:/v1\n0::/pod/box\n");
  Write("/sys/fs/cgroup/pod/memory.max", "1000\n");
  Write("/sys/fs/cgroup/pod/memory.current", "400\n");
  Write("/sys/fs/cgroup/pod/box/pids.max", "max\n");
  Write("/sys/fs/cgroup/pod/pids.max", "50\n");
  Write("/sys/fs/cgroup/pod/pids.current", "8\n");
  Write("/dev/shm/segment", "");
  Write("/dev/infiniband/uverbs0", "");
  const MachineFacts machine = GatherMachine(root_);
  EXPECT_EQ(machine.room.machine, 1u << 20);
  EXPECT_EQ(machine.room.group, 600u);
  EXPECT_EQ(machine.tasks_left, 42u);
  EXPECT_TRUE(machine.shm.exists);
  EXPECT_TRUE(machine.shm.writable);
  EXPECT_GT(machine.shm.free_bytes, 0u);
  EXPECT_TRUE(machine.has_rdma);
}

TEST_F(GatherTest, AGpuWithoutNcclIsAFact) {
  Write("/dev/nvidia0", "");
  Write("/dev/nvidia1", "");
  Write("/dev/nvidiactl", "");  // no GPU
  Write("/proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  "
        "Release Build\nGCC version:  gcc version 12.2.0\n");
  setenv("LOCKSTEP_NCCL_LIBRARY", "/nonexistent/libnccl.so.2", 1);
  const GpuFacts gpu = GatherGpu(std::nullopt, root_);
  EXPECT_EQ(gpu.devices, 2);
  EXPECT_EQ(gpu.kernel_driver, "580.65.06");
  ASSERT_TRUE(gpu.nccl.has_value());
  EXPECT_THAT(std::string(gpu.nccl->status().message()),
              HasSubstr("/nonexistent/libnccl.so.2"));
  EXPECT_FALSE(GatherGpu(false, root_).nccl.has_value());
  EXPECT_TRUE(GatherGpu(true, "/nonexistent").nccl.has_value());
  unsetenv("LOCKSTEP_NCCL_LIBRARY");
}

TEST_F(GatherTest, FindsTheLoopbackAddressOfAHostsName) {
  Write("/etc/hosts",
        "127.0.0.1 localhost\n# 127.0.2.2 node\n10.0.0.1 node.example\n"
        "127.0.1.1\tnode.example node # by the installer\n");
  EXPECT_EQ(GatherHost("node", root_).loopback, "127.0.1.1");
  EXPECT_EQ(GatherHost("other", root_).loopback, "");
  EXPECT_EQ(GatherHost("node", "/nonexistent").loopback, "");
}

TEST_F(GatherTest, ReadsATlsFolderWhetherItIsUsableOrNot) {
  fs::create_directories(root_);
  const absl::Time now = absl::FromUnixSeconds(1'800'000'000);
  ASSERT_TRUE(certs::MakeThrowAwayCertificates(root_, now).ok());
  const std::string folder = absl::StrCat(root_, "/", certs::kWorkerFolder);
  const auto worker = tls::CertificateRole::kWorker;
  const TlsFacts good = GatherTls(folder, {worker}, now);
  EXPECT_TRUE(good.usable.ok()) << good.usable;
  EXPECT_TRUE(good.key.ok()) << good.key;
  ASSERT_TRUE(good.certificate.has_value());
  const absl::Time later = good.certificate->until + absl::Hours(1);
  const TlsFacts expired = GatherTls(folder, {worker}, later);
  EXPECT_FALSE(expired.usable.ok());
  EXPECT_EQ(expired.certificate->until, good.certificate->until);
  EXPECT_FALSE(
      GatherTls(folder, {tls::CertificateRole::kOperator}, now).usable.ok());
  chmod((folder + "/tls.key").c_str(), 0644);
  const TlsFacts open = GatherTls(folder, {worker}, now);
  EXPECT_FALSE(open.key.ok());
  EXPECT_FALSE(open.usable.ok());
  const TlsFacts none = GatherTls(root_ + "/none", {worker}, now);
  EXPECT_TRUE(absl::IsNotFound(none.usable)) << none.usable;
  EXPECT_FALSE(none.certificate.has_value());
}

TEST_F(GatherTest, CountsTheTokensOfAFile) {
  fs::create_directories(root_);
  const std::string path = root_ + "/token";
  ASSERT_TRUE(WriteSecretFile(path, "one\n\ntwo\n").ok());
  EXPECT_TRUE(GatherTokenFile(path).usable.ok());
  EXPECT_EQ(GatherTokenFile(path).tokens, 2);
  ASSERT_TRUE(WriteSecretFile(path, "one\n\xff\n").ok());
  EXPECT_FALSE(GatherTokenFile(path).usable.ok());
  chmod(path.c_str(), 0644);
  EXPECT_TRUE(absl::IsFailedPrecondition(GatherTokenFile(path).usable));
  EXPECT_TRUE(absl::IsNotFound(GatherTokenFile(path + "x").usable));
}

TEST_F(GatherTest, ReadsAJournalUnlessADaemonUsesIt) {
  fs::create_directories(root_);
  const std::string folder = root_ + "/journal";
  EXPECT_FALSE(GatherJournal(folder).exists);
  EXPECT_TRUE(GatherJournal(folder).parent_writable.ok());
  EXPECT_GT(GatherJournal(folder).free_bytes, 0u);
  EXPECT_FALSE(GatherJournal(root_ + "/a/b").parent_writable.ok());

  mkdir(folder.c_str(), 0700);
  EXPECT_TRUE(absl::IsNotFound(GatherJournal(folder).inspected));
  {
    const auto journal = journal::OpenSqliteJournal(folder);
    ASSERT_TRUE(journal.ok()) << journal.status();
    EXPECT_TRUE(GatherJournal(folder).in_use);
  }
  const JournalFolderFacts closed = GatherJournal(folder);
  EXPECT_FALSE(closed.in_use);
  EXPECT_EQ(closed.inspected, absl::OkStatus());
  EXPECT_EQ(closed.mode & 0777, 0700u);
  EXPECT_EQ(closed.owner, geteuid());
  Write("/journal/journal.db", "no database");
  EXPECT_FALSE(GatherJournal(folder).inspected.ok());
  Write("/file", "");
  EXPECT_FALSE(GatherJournal(root_ + "/file").is_folder);
}

ListenFacts Listen(const std::string& address, const std::string& tls = "",
                   bool insecure = false) {
  return GatherListeners(
             {.listen = address, .tls_folder = tls, .insecure = insecure})
      .front();
}

// The names, sizes and times of what is in a folder, and its own time.
std::vector<std::string> StateOf(const std::string& folder) {
  const auto time = [](const fs::path& path) {
    return fs::last_write_time(path).time_since_epoch().count();
  };
  std::vector<std::string> state = {absl::StrCat(time(folder))};
  for (const auto& entry : fs::directory_iterator(folder)) {
    state.push_back(absl::StrCat(entry.path().string(), " ", entry.file_size(),
                                 " ", time(entry.path())));
  }
  std::sort(state.begin(), state.end());
  return state;
}

TEST_F(GatherTest, ReadingAJournalChangesNothing) {
  const std::string folder = root_ + "/a %41?#journal";
  const std::string copy = root_ + "/copy";
  fs::create_directories(root_);
  {
    auto store =
        journal::SqliteStore::Open(folder, journal::StoreAccess::kWrite);
    ASSERT_TRUE(store.ok()) << store.status();
    ASSERT_TRUE((*store)->Read().ok());
    journal::Chain chain;
    const std::string frame = chain.Extend("no record");
    ASSERT_TRUE((*store)->Append(1, {frame}, chain).ok());
    fs::copy(folder, copy);  // with a log
  }
  ASSERT_GT(fs::file_size(copy + "/journal.db-wal"), 0u);
  ASSERT_FALSE(fs::exists(folder + "/journal.db-wal"));
  for (const std::string& one : {folder, copy}) {
    chmod(one.c_str(), 0700);
    for (const bool has_lock : {true, false}) {
      if (!has_lock) fs::remove(one + "/lock");
      const std::vector<std::string> before = StateOf(one);
      const JournalFolderFacts facts = GatherJournal(one);
      EXPECT_EQ(StateOf(one), before);
      // It was read: the record is there, and none of a coordinator.
      EXPECT_TRUE(absl::IsDataLoss(facts.inspected));
      EXPECT_THAT(std::string(facts.inspected.message()),
                  HasSubstr("record 1"));
    }
  }
}

TEST_F(GatherTest, KnowsWhereLockstepdWouldListen) {
  for (const char* none : {"127.0.0.1:99999", "127.0.0.1", ":7070"}) {
    EXPECT_FALSE(Listen(none).parsed.ok()) << none;
  }
  EXPECT_TRUE(Listen("127.0.0.1:0").allowed.ok());
  EXPECT_FALSE(Listen("0.0.0.0:0").allowed.ok());
  EXPECT_TRUE(Listen("0.0.0.0:0", "", /*insecure=*/true).allowed.ok());
  EXPECT_TRUE(Listen("0.0.0.0:0", "/tls").allowed.ok());
  EXPECT_TRUE(absl::IsInvalidArgument(
      Listen("127.0.0.1:0", "/tls", /*insecure=*/true).allowed));
}

TEST_F(GatherTest, ListenersInPlaintextMayLeaveThisMachine) {
  const auto all = GatherListeners({.listen = "127.0.0.1:0",
                                    .health_address = "0.0.0.0:0",
                                    .metrics_address = "0.0.0.0"});
  ASSERT_EQ(all.size(), 3u);
  EXPECT_TRUE(all[1].allowed.ok() && all[1].bound.ok());
  EXPECT_FALSE(all[2].parsed.ok());
}

TEST_F(GatherTest, ComparesTheTwoFilesOfTokens) {
  fs::create_directories(root_);
  const std::string operators = root_ + "/operators";
  const std::string workers = root_ + "/workers";
  ASSERT_TRUE(WriteSecretFile(operators, std::string(64, 'a')).ok());
  ASSERT_TRUE(WriteSecretFile(workers, "short").ok());
  EXPECT_EQ(GatherDaemonTokens(operators, "").warning, "");
  EXPECT_THAT(GatherDaemonTokens(operators, workers).warning,
              HasSubstr("5 bytes"));
  EXPECT_TRUE(GatherDaemonTokens("", "").usable.ok());
  EXPECT_FALSE(GatherDaemonTokens("", workers).usable.ok());
  EXPECT_FALSE(GatherDaemonTokens(operators, operators).usable.ok());
}

TEST_F(GatherTest, TriesAddresses) {
  EXPECT_TRUE(Listen("127.0.0.1:0").bound.ok());
  EXPECT_TRUE(Listen("[::1]:0").bound.ok() ||
              !fs::exists("/proc/net/if_inet6"));
  EXPECT_FALSE(Listen("192.0.2.1:0").bound.ok());  // of no host
  const HostAddressFacts loopback = GatherHostAddress("localhost");
  EXPECT_TRUE(loopback.is_here);
  EXPECT_TRUE(loopback.is_loopback);
  const HostAddressFacts elsewhere = GatherHostAddress("192.0.2.1");
  EXPECT_TRUE(elsewhere.resolved.ok());
  EXPECT_FALSE(elsewhere.is_here);
  EXPECT_FALSE(elsewhere.is_loopback);
  EXPECT_FALSE(elsewhere.is_any);
  EXPECT_TRUE(GatherHostAddress("0.0.0.0").is_any);
  EXPECT_TRUE(GatherHostAddress("::").is_any);
  EXPECT_FALSE(GatherEtcdMember("127.0.0.1:1", {}).connected.ok());
  const CoordinatorFacts nobody = GatherCoordinator("127.0.0.1:1", {});
  EXPECT_TRUE(nobody.is_loopback);
  EXPECT_FALSE(nobody.connected.ok());
  EXPECT_FALSE(nobody.met.ok());
}

TEST_F(GatherTest, APortInUseIsNamedSo) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in own{};
  own.sin_family = AF_INET;
  own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof own;
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&own), size), 0);
  ASSERT_EQ(listen(fd, 1), 0);
  getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size);
  const std::string address = absl::StrCat("127.0.0.1:", ntohs(own.sin_port));
  EXPECT_TRUE(absl::IsAlreadyExists(Listen(address).bound));
  close(fd);
}

}  // namespace
}  // namespace lockstep::doctor
