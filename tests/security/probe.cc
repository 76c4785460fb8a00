// Tries everything that the user of a private coordinator may do, and prints
// the code of each attempt:
//
//   security_probe ADDRESS JOB [PID ...]
//
//   token OK              of the file that the launcher has published
//   jobs OK
//   ...
//   segment OK            the shared memory of the workers PID ...
//   stop OK
//
// Behind each that is not OK is a line with "#" and the error. The codes of
// files are those of the kernel's errors. Each call is made, whatever became of
// the others.

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file_descriptor.h"
#include "lockstep/session.h"
#include "tools/launch/operator_token.h"
#include "tools/rpc/admin_client.h"

namespace lockstep {
namespace {

void Show(const char* attempt, const absl::Status& status) {
  std::printf("%s %s\n", attempt,
              absl::StatusCodeToString(status.code()).c_str());
  if (!status.ok()) std::printf("# %s\n", status.ToString().c_str());
}

JobSpec JobOfOne(const std::string& name) {
  JobSpec spec;
  spec.name = name;
  spec.mesh = {{{"data", 1}}};
  return spec;
}

absl::Status Join(const std::string& address,
                  const launch::OperatorAccess& access) {
  auto session = Session::Join({.addresses = {address},
                                .worker = "probe",
                                .spec = JobOfOne("probed"),
                                .token = access.token,
                                .tls_folder = access.worker_tls_folder,
                                .connect_timeout = absl::Seconds(2)});
  return session.ok() ? (*session)->Leave() : session.status();
}

absl::Status Open(const std::string& path, FileDescriptor* file) {
  *file = FileDescriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return file->valid() ? absl::OkStatus() : absl::ErrnoToStatus(errno, path);
}

absl::Status ReadEnvironment(const std::string& process) {
  FileDescriptor file;
  absl::Status status = Open(process + "/environ", &file);
  char byte = 0;
  if (status.ok() && read(file.get(), &byte, 1) != 1) {
    status = absl::ErrnoToStatus(errno, "read");
  }
  return status;
}

// Maps the first segment of shared memory that the process has.
absl::Status AttachSegment(const std::string& process) {
  const std::string folder = process + "/fd";
  DIR* const files = opendir(folder.c_str());
  if (files == nullptr) return absl::ErrnoToStatus(errno, folder);
  absl::Status status = absl::NotFoundError("there is no segment");
  while (const dirent* entry = readdir(files)) {
    const std::string path = absl::StrCat(folder, "/", entry->d_name);
    std::error_code error;
    const std::string target = std::filesystem::read_symlink(path, error);
    if (!absl::StrContains(target, "memfd:lockstep")) continue;
    FileDescriptor segment;
    status = Open(path, &segment);
    if (status.ok() && mmap(nullptr, 4096, PROT_READ, MAP_SHARED, segment.get(),
                            0) == MAP_FAILED) {
      status = absl::ErrnoToStatus(errno, "mmap");
    }
    break;
  }
  closedir(files);
  return status;
}

void Try(const std::string& address, const JobName& job,
         const std::vector<std::string>& processes) {
  const auto found = launch::FindOperatorAccess(address);
  Show("token", found.ok() && found->token.empty()
                    ? absl::NotFoundError("no token")
                    : found.status());
  const launch::OperatorAccess access =
      found.value_or(launch::OperatorAccess{});
  const std::string& token = access.token;
  for (const std::string& process : processes) {
    Show("environ", ReadEnvironment(process));
    Show("segment", AttachSegment(process));
  }
  ctl::AdminClient admin({.addresses = address,
                          .token = token,
                          .tls_folder = access.tls_folder,
                          .deadline = absl::Seconds(30)});
  Show("jobs", admin.ListJobs().status());
  Show("describe", admin.DescribeJob(job).status());
  Show("watch", admin.WatchJob(job, [](const JobView&) { return false; }));
  Show("evidence",
       admin.ReportEvidence(job, {.subject = {"worker-9"},
                                  .kind = protocol::EvidenceKind::kExited}));
  Show("create", admin.CreateJob(JobOfOne("probed")));
  Show("join", Join(address, access));
  admin.StopJob({"probed"}, "").IgnoreError();  // unless it is over
  Show("delete", admin.DeleteJob({"probed"}, /*keep=*/false));
  for (const JobCommand command : {JobCommand::kPause, JobCommand::kResume,
                                   JobCommand::kSave, JobCommand::kStop}) {
    Show(std::string(Name(command)).c_str(),
         admin.CommandJob(job, command, "probed"));
  }
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  std::vector<std::string> processes;
  for (int i = 3; i < argc; ++i) {
    processes.push_back(absl::StrCat("/proc/", argv[i]));
  }
  lockstep::Try(argv[1], {argv[2]}, processes);
  return 0;
}
