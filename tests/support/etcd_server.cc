#include "tests/support/etcd_server.h"

#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tests/support/temp_path.h"

namespace lockstep {
namespace {

// etcd makes its sockets in the working directory, with this name.
constexpr char kClients[] = "clients:0";

}  // namespace

EtcdServer::EtcdServer(std::vector<std::string> flags)
    : flags_(std::move(flags)) {
  static int servers = 0;
  folder_ = TempPath(absl::StrCat("etcd-", ++servers));
  std::filesystem::remove_all(folder_);
  std::filesystem::create_directory(folder_);
  Start();
}

EtcdServer::~EtcdServer() {
  program_.reset();
  std::filesystem::remove_all(folder_);
}

std::string EtcdServer::address() const {
  return absl::StrCat("unix:", folder_, "/", kClients);
}

void EtcdServer::Start() {
  const std::string socket = absl::StrCat(folder_, "/", kClients);
  std::filesystem::remove(socket);
  const std::string clients = absl::StrCat("unix://", kClients);
  std::string command =
      absl::StrCat("cd ", folder_, " && exec ", LOCKSTEP_ETCD,
                   " --name=a --data-dir=data --heartbeat-interval=10"
                   " --election-timeout=100 --listen-peer-urls=unix://peers:0"
                   " --initial-advertise-peer-urls=unix://peers:0"
                   " --initial-cluster=a=unix://peers:0 --listen-client-urls=",
                   clients, " --advertise-client-urls=", clients);
  for (const std::string& flag : flags_) absl::StrAppend(&command, " ", flag);
  program_ = std::make_unique<Program>(
      std::vector<std::string>{"/bin/sh", "-c", command});
  const absl::Time end = absl::Now() + absl::Seconds(30);
  while (!absl::StrContains(program_->Errors(), "serving")) {
    if (absl::Now() > end) {
      FAIL() << "etcd does not start: " << program_->Errors();
    }
    absl::SleepFor(absl::Milliseconds(10));
  }
}

void EtcdServer::Kill() {
  program_->Signal(SIGKILL);
  program_->Wait();
}

void EtcdServer::Stop() { program_->Stop(); }

void EtcdServer::Continue() { program_->Signal(SIGCONT); }

}  // namespace lockstep
