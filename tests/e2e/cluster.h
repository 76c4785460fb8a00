// A test's coordinator and workers, as processes on this machine.

#ifndef LOCKSTEP_TESTS_E2E_CLUSTER_H_
#define LOCKSTEP_TESTS_E2E_CLUSTER_H_

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tools/launch/local_daemon.h"
#include "tools/launch/supervisor.h"
#include "tools/launch/worker_environment.h"

namespace lockstep::e2e {

class Cluster {
 public:
  // `spec` is the workers' job spec; empty: a mesh data=world_size.
  Cluster(int world_size, const std::string& spec)
      : world_size_(world_size),
        supervisor_(
            {.grace = absl::Seconds(20),
             .on_ending =
                 [this](const std::string& name, pid_t pid,
                        const launch::ProcessExit& ending) {
                   endings_[name] = ending;
                   if (on_ending) on_ending(name, pid, ending);
                 },
             .on_output =
                 [this](const std::string& name, absl::string_view line) {
                   lines_[name].emplace_back(line);
                   if (on_line) on_line(name, std::string(line));
                 }}) {
    std::string pattern = testing::TempDir() + "lockstep-e2e-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    if (!spec.empty()) WriteFile("spec.yaml", spec);
    absl::StatusOr<launch::LocalDaemon> daemon =
        launch::StartLocalDaemon(supervisor_);
    EXPECT_TRUE(daemon.ok()) << daemon.status();
    if (daemon.ok()) daemon_ = *std::move(daemon);
    has_spec_ = !spec.empty();
  }
  ~Cluster() { std::filesystem::remove_all(folder_); }

  const std::string& address() const { return daemon_.address; }
  const launch::LocalDaemon& daemon() const { return daemon_; }
  std::string File(const std::string& name) const {
    return folder_ + "/" + name;
  }
  void WriteFile(const std::string& name, const std::string& text) {
    std::ofstream(File(name)) << text;
  }

  struct Worker {
    std::string name;
    std::vector<std::string> orders;  // the program's arguments
    std::string child;      // its name in the test; empty: its worker name
    std::string spec_file;  // empty: the cluster's
    std::string program = "trouble_worker";
  };
  void Start(const Worker& worker) {
    std::vector<std::string> argv = {launch::OwnFolder() + "/" +
                                     worker.program};
    argv.insert(argv.end(), worker.orders.begin(), worker.orders.end());
    const std::string spec = !worker.spec_file.empty() ? worker.spec_file
                             : has_spec_               ? File("spec.yaml")
                                                       : "";
    const absl::Status started = supervisor_.Start(
        worker.child.empty() ? worker.name : worker.child,
        {.argv = argv,
         .environment = launch::EnvironmentOf({.address = daemon_.address,
                                               .job = "trouble",
                                               .worker = worker.name,
                                               .world_size = world_size_,
                                               .spec_file = spec,
                                               .token = daemon_.worker_token}),
         .capture_output = true});
    EXPECT_TRUE(started.ok()) << started;
  }

  int Run() { return supervisor_.Run(); }
  launch::Supervisor& supervisor() { return supervisor_; }

  // The last line that a child printed.
  std::string LastLine(const std::string& name) const {
    const auto it = lines_.find(name);
    return it == lines_.end() ? "(nothing)" : it->second.back();
  }
  const std::vector<std::string>& Lines(const std::string& name) {
    return lines_[name];
  }
  launch::ProcessExit EndingOf(const std::string& name) {
    return endings_[name];
  }

  std::function<void(const std::string& name, const std::string& line)> on_line;
  std::function<void(const std::string& name, pid_t,
                     const launch::ProcessExit&)>
      on_ending;

 private:
  const int world_size_;
  bool has_spec_ = false;
  std::string folder_;
  launch::LocalDaemon daemon_;
  std::map<std::string, launch::ProcessExit> endings_;
  std::map<std::string, std::vector<std::string>> lines_;
  launch::Supervisor supervisor_;
};

}  // namespace lockstep::e2e

#endif  // LOCKSTEP_TESTS_E2E_CLUSTER_H_
