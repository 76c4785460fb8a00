// Session::Join: constructs a session from its real parts.

#include <memory>
#include <random>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/clock.h"
#include "base/open_files.h"
#include "base/tls/probe.h"
#include "client/session/data_plane.h"
#include "client/session/grpc_channel.h"
#include "client/session/identity.h"
#include "client/session/session_impl.h"
#include "client/session/warning.h"
#include "client/transport/gloo/gloo.h"
#include "client/transport/hierarchical/auto.h"
#include "client/transport/nccl/gpu.h"
#include "client/transport/shm/local_process_watch.h"
#include "client/transport/shm/shm.h"
#include "proto/grpc_credentials.h"
#include "proto/grpc_process.h"

namespace lockstep {
namespace {

absl::StatusOr<std::unique_ptr<transport::Transport>> MakeTransport(
    const JobSpec& spec, const std::string& host_address, int device) {
  if (absl::Status may = session::CheckDataPlane(spec, host_address);
      !may.ok()) {
    return may;
  }
  const absl::Duration silence = spec.timeouts.LinkSilence();
  if (spec.transport == "auto") {
    auto links = transport::MakeGlooLinks(
        {.bind_address = host_address, .silence = silence});
    if (!links.ok()) return links.status();
    return transport::MakeAutoTransport(*std::move(links),
                                        {.silence = silence});
  }
  if (spec.transport == "gloo") {
    return transport::MakeGlooTransport(
        {.bind_address = host_address, .silence = silence});
  }
  if (spec.transport == "shm") {
    return transport::MakeShmTransport({.silence = silence});
  }
  if (spec.transport == "nccl") {
    auto made =
        transport::nccl::MakeGpuTransport(session::ProcessEnvironment, device);
    if (made.ok()) return made;
    return absl::Status(made.status().code(),
                        absl::StrFormat("job %s wants the transport 'nccl': %s",
                                        spec.name, made.status().message()));
  }
  return absl::InvalidArgumentError(absl::StrFormat(
      "job %s wants the transport '%s'; there are 'auto', 'shm', 'gloo' and "
      "'nccl'",
      spec.name, spec.transport));
}

// Where the kernel or a sandbox has no pidfds, a process is not watched.
std::unique_ptr<transport::ProcessWatch> MakeProcessWatch() {
  auto watch = transport::MakeLocalProcessWatch();
  if (watch.ok()) return *std::move(watch);
  session::PrintWarning(absl::StrFormat(
      "workers on this host cannot watch this process: %s. Its death will be "
      "known by its connections or its lease",
      watch.status().message()));
  return nullptr;
}

// Draws an incarnation number. Never 0, which means none.
uint64_t DrawLife() {
  std::random_device device;
  const uint64_t high = device();
  return (high << 32 | device()) | 1;
}

// No coordinator was reached: perhaps for a reason that gRPC does not tell.
absl::Status WithTlsTrouble(const absl::Status& status,
                            const JoinOptions& options) {
  const absl::Status trouble =
      tls::ProbeTls(options.addresses, options.tls_folder);
  if (trouble.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat(status.message(), "; ", trouble.message()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Session>> Session::Join(
    const JoinOptions& options) {
  if (absl::Status files = RequireOpenFiles(proto::kFilesOfGrpc); !files.ok()) {
    return files;
  }
  const protocol::ProcessInfo process = session::ThisProcess();
  auto complete =
      session::Complete(options, session::ProcessEnvironment, process);
  if (!complete.ok()) return complete.status();
  auto launch = session::LaunchOf(session::ProcessEnvironment);
  if (!launch.ok()) return launch.status();
  auto credentials = proto::ClientCredentials::Make(
      complete->tls_folder, {tls::CertificateRole::kWorker},
      &session::PrintWarning);
  if (!credentials.ok()) return credentials.status();
  auto joined = Impl::Join(
      *complete,
      {.channels = session::MakeGrpcChannels(*std::move(credentials)),
       .make_transport =
           [host = complete->host_address,
            device = complete->device](const JobSpec& spec) {
             return MakeTransport(spec, host, device);
           },
       .clock = std::make_shared<SystemClock>(),
       .process = process,
       .process_watch = MakeProcessWatch(),
       .launch = *std::move(launch),
       .incarnation = DrawLife()});
  if (!absl::IsUnavailable(joined.status())) return joined;
  return WithTlsTrouble(joined.status(), *complete);
}

}  // namespace lockstep
