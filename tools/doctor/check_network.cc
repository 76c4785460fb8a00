#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "protocol/session.h"
#include "tools/doctor/certificate_age.h"
#include "tools/doctor/checks.h"

namespace lockstep::doctor {
namespace {

// Logs of hosts whose clocks differ more cannot be read side by side.
constexpr absl::Duration kSkewMax = absl::Seconds(2);

bool HasRemoteCoordinator(const Facts& facts) {
  return std::any_of(
      facts.coordinators.begin(), facts.coordinators.end(),
      [](const CoordinatorFacts& one) { return !one.is_loopback; });
}

// "HOST" and "PORT" of "HOST:PORT".
std::string HostOf(const std::string& address) {
  return address.substr(0, address.rfind(':'));
}
std::string PortOf(const std::string& address) {
  return address.substr(address.rfind(':') + 1);
}

Finding Unreachable(const CoordinatorFacts& one) {
  constexpr char kWhy[] =
      "workers wait for it in Session::Join, and fail after 30s";
  if (!one.resolved.ok()) {
    return {Severity::kError,
            absl::StrCat(one.address, ": ", one.resolved.message()), kWhy,
            absl::StrCat("getent hosts ", Quoted(HostOf(one.address)),
                         "; in Kubernetes: kubectl get service, and the "
                         "namespace of the name")};
  }
  return {Severity::kError,
          absl::StrCat("nobody answers at ", one.address, ": ",
                       one.connected.message()),
          kWhy,
          absl::IsDeadlineExceeded(one.connected)
              ? absl::StrCat("let port ", PortOf(one.address),
                             " through the firewall, the security group or "
                             "the NetworkPolicy between the two hosts")
              : "systemctl start lockstepd there, or correct --address; in "
                "Kubernetes: kubectl get pods, kubectl get endpoints"};
}

Finding NotSpokenTo(const CoordinatorFacts& one) {
  if (one.tls) {
    return {Severity::kError, one.tls->what, "no connection can be made",
            one.tls->remedy.empty()
                ? "folders that one lockstepctl certs init made, on both "
                  "sides; lockstepctl certs renew CERTS --host NAME for an "
                  "expired certificate, or for another name"
                : one.tls->remedy};
  }
  if (absl::IsUnimplemented(one.met.status())) {
    return {Severity::kError,
            absl::StrCat("what listens at ", one.address,
                         " speaks gRPC, and is no coordinator"),
            "workers are refused in Session::Join",
            "--address HOST:PORT of lockstepd's --listen: it may be that of "
            "its --health_address"};
  }
  return {Severity::kError,
          absl::StrCat("what listens at ", one.address,
                       " is no coordinator, or does not serve: ",
                       one.met.status().message()),
          "workers wait for it in Session::Join, and fail after 30s",
          "look at the log of lockstepd there: journalctl -u lockstepd, "
          "kubectl logs"};
}

// As a leader that was stopped, or whose machine hangs, until it has ended.
Finding SilentBesideLeader(const CoordinatorFacts& one) {
  return {
      Severity::kWarning,
      absl::StrCat(one.address, " accepts connections and does not answer: ",
                   one.met.status().message()),
      "another coordinator answers, and workers and tools find it after a "
      "few seconds; this one cannot follow when it ends",
      "if it was stopped or hangs, systemctl restart lockstepd there; if "
      "it is no coordinator, remove the address"};
}

std::string OnlyConnected(const std::string& address) {
  return absl::StrCat(address,
                      " accepts connections, and was not asked: the "
                      "certificates cannot be used");
}

std::string Self(const ctl::Introduction& met) {
  return met.version.empty() ? "a coordinator of an older release"
                             : absl::StrCat("lockstepd ", met.version);
}

// What the token of this client may do there.
Finding TokenFinding(const CoordinatorFacts& one, bool job_is_known) {
  const ctl::Introduction& met = *one.met;
  if (!met.as_worker.ok() && job_is_known) {
    return {Severity::kError,
            absl::StrCat(one.address, ": ", met.as_worker.message()),
            "workers are refused in Session::Join",
            "lockstepctl token JOB --worker-token-file FILE, with the file of "
            "the coordinator, in LOCKSTEP_TOKEN or --token-file"};
  }
  if (!met.as_worker.ok()) {
    // A certificate is refused before the token is looked at.
    const absl::Status& why =
        absl::IsPermissionDenied(met.as_operator) || met.as_operator.ok()
            ? met.as_worker
            : met.as_operator;
    return {Severity::kError, absl::StrCat(one.address, ": ", why.message()),
            "calls of operators are refused, and of workers unless it is the "
            "join token of their job",
            "--job JOB checks it as a join token; else --token-file FILE, "
            "LOCKSTEP_TOKEN"};
  }
  const char* const whom = met.as_operator.ok() ? "an operator"
                           : job_is_known       ? "a worker of the job"
                                                : "a worker";
  return {Severity::kOk, absl::StrCat(one.address, " answers: ", Self(met),
                                      "; this is ", whom)};
}

Finding WorkersTokenFinding(const CoordinatorFacts& one) {
  if (one.admits_workers->ok()) {
    return {Severity::kOk,
            absl::StrCat(one.address, " admits workers with the token of ",
                         "--worker-token-file")};
  }
  return {Severity::kError,
          absl::StrCat(one.address, " refuses workers with the token of ",
                       "--worker-token-file: ", one.admits_workers->message()),
          "workers that lockstepctl run starts are refused in Session::Join",
          "copy the coordinator's --worker_token_file, and name the copy"};
}

Finding NotAllowed(const ListenFacts& listen) {
  if (absl::IsInvalidArgument(listen.allowed)) {
    return {Severity::kError, std::string(listen.allowed.message()),
            "lockstepd would end with exit code 2",
            "without --insecure; or without --tls, if the network is trusted"};
  }
  return {Severity::kError,
          absl::StrCat(listen.address,
                       " can be reached from other machines, and there are no "
                       "certificates for TLS"),
          "lockstepd would end with exit code 1",
          "--tls DIR with the folder of a coordinator, of lockstepctl certs "
          "init CERTS --host NAME; or listen on 127.0.0.1; or --insecure if "
          "the network is trusted"};
}

Finding NotBound(const ListenFacts& listen) {
  std::string fix =
      "use an address of this host (ip -brief address), or 0.0.0.0 for all";
  if (absl::IsAlreadyExists(listen.bound)) {
    fix = absl::StrCat("ss -ltnp 'sport = :", PortOf(listen.address),
                       "' names the process");
  } else if (absl::IsPermissionDenied(listen.bound)) {
    fix = "use a port above 1023";
  }
  if (!listen.same_port_as.empty()) {
    return {Severity::kError,
            absl::StrCat(listen.flag, " ", listen.address, " has the port of ",
                         listen.same_port_as),
            "lockstepd would end with exit code 1", "a port for each"};
  }
  return {Severity::kError,
          absl::StrCat(listen.flag, ": lockstepd cannot listen at ",
                       listen.address, ": ", listen.bound.message()),
          "it would end with exit code 1", std::move(fix)};
}

Findings JudgeCoordinator(const CoordinatorFacts& one, const Facts& facts) {
  Findings findings = {TokenFinding(one, !facts.assignment.job.empty())};
  if (one.admits_workers) findings.push_back(WorkersTokenFinding(one));
  const ctl::Introduction& met = *one.met;
  if (met.protocol && *met.protocol != protocol::kVersion) {
    findings.push_back(
        {Severity::kError,
         absl::StrCat(one.address, " is ", Self(met),
                      " and speaks protocol version ", *met.protocol,
                      ", this is ", facts.assignment.version, " with version ",
                      protocol::kVersion),
         "workers of this release are refused in Session::Join",
         "install one release on the coordinator and on the workers"});
  } else if (!met.version.empty() && met.version != facts.assignment.version) {
    findings.push_back(
        {Severity::kWarning,
         absl::StrCat(one.address, " is ", Self(met), ", and this is ",
                      facts.assignment.version),
         "releases are tested with their neighbours only",
         "upgrade the older one (docs/operations.md)"});
  }
  if (one.shown &&
      ExpiresSoon(*one.shown, facts.assignment.expires_within, facts.now)) {
    findings.push_back(
        {Severity::kWarning,
         absl::StrCat("the certificate of the coordinator at ", one.address,
                      " expires at ", DayText(one.shown->until), ", ",
                      LeftText(one.shown->until, facts.now)),
         "after that nobody can connect to it",
         "on its host: lockstepctl certs renew CERTS, and install the new "
         "files (docs/operations.md)"});
  }
  return findings;
}

}  // namespace

Findings CheckCoordinators(const Facts& facts) {
  const bool any_answers =
      std::any_of(facts.coordinators.begin(), facts.coordinators.end(),
                  [](const CoordinatorFacts& one) { return one.met.ok(); });
  // Only the coordinator that leads listens. If a fault of certificates keeps
  // doctor from asking it, the others are not at fault.
  const bool one_leads =
      any_answers ||
      std::any_of(facts.coordinators.begin(), facts.coordinators.end(),
                  [](const CoordinatorFacts& one) {
                    return one.tls.has_value() ||
                           (one.connected.ok() && one.lacks_certificates);
                  });
  if (facts.coordinators.empty()) {
    return {
        {Severity::kSkipped,
         "not asked: no --address and no "
         "LOCKSTEP_ADDRESS, or --listen, which is for a host that is to run "
         "one"}};
  }
  Findings findings;
  for (const CoordinatorFacts& one : facts.coordinators) {
    if (one.met.ok()) {
      const Findings judged = JudgeCoordinator(one, facts);
      findings.insert(findings.end(), judged.begin(), judged.end());
    } else if (one.resolved.ok() && !one.connected.ok() && one_leads) {
      findings.push_back(
          {Severity::kOk,
           absl::StrCat(one.address,
                        " does not serve: it waits until it leads, or is "
                        "down")});
    } else if (!one.resolved.ok() || !one.connected.ok()) {
      findings.push_back(Unreachable(one));
    } else if (one.lacks_certificates) {
      findings.push_back({Severity::kSkipped, OnlyConnected(one.address)});
    } else if (any_answers && !one.tls &&
               absl::IsUnavailable(one.met.status())) {
      findings.push_back(SilentBesideLeader(one));
    } else {
      findings.push_back(NotSpokenTo(one));
    }
  }
  return findings;
}

Findings CheckClock(const Facts& facts) {
  Findings findings;
  for (const CoordinatorFacts& one : facts.coordinators) {
    if (!one.met.ok() || !one.met->time) continue;
    const absl::Duration trip = one.met->round_trip;
    // It was asked half a trip before.
    const absl::Duration ahead = *one.met->time - (one.asked - trip / 2);
    if (absl::AbsDuration(ahead) <= kSkewMax + trip) {
      findings.push_back(
          {Severity::kOk, absl::StrCat("the clock of ", one.address,
                                       " agrees with this one")});
      continue;
    }
    findings.push_back(
        {Severity::kWarning,
         absl::StrCat("the clock of ", one.address, " is ",
                      absl::FormatDuration(absl::Trunc(absl::AbsDuration(ahead),
                                                       absl::Milliseconds(1))),
                      ahead < absl::ZeroDuration() ? " behind" : " ahead",
                      " of this one"),
         "certificates may be taken for expired, or for not valid yet, and "
         "logs of the two hosts do not fit. Leases and steps do not depend on "
         "the clocks",
         "timedatectl set-ntp true, on both hosts"});
  }
  return findings;
}

Findings CheckHostName(const Facts& facts) {
  if (!facts.host) return {};
  const HostFacts& host = *facts.host;
  if (host.loopback.empty() || !HasRemoteCoordinator(facts)) {
    return {{Severity::kOk, host.name}};
  }
  return {{Severity::kWarning,
           absl::StrCat("/etc/hosts has ", host.loopback,
                        " for this host's name, ", host.name),
           "programs that tell others their name or its address, as the Gloo "
           "of PyTorch does, tell them loopback; so do workers whose "
           "LOCKSTEP_HOST_ADDRESS is this name",
           "set LOCKSTEP_HOST_ADDRESS (lockstepctl run --host-address) to an "
           "address of this host (ip -brief address), or remove the name from "
           "that line of /etc/hosts"}};
}

Findings CheckHostAddress(const Facts& facts) {
  if (!facts.host_address) return {};
  const HostAddressFacts& own = *facts.host_address;
  constexpr char kWhy[] =
      "workers of other hosts cannot connect to those of this one: the epoch "
      "fails after 30s";
  constexpr char kFix[] =
      "ip -brief address lists those of this host; in Kubernetes it is "
      "status.podIP; without the option lockstepctl run --nodes finds it";
  if (!own.resolved.ok()) {
    return {{Severity::kError,
             absl::StrCat(own.text, ": ", own.resolved.message()), kWhy, kFix}};
  }
  if (own.is_any) {
    return {{Severity::kError,
             absl::StrCat(own.text,
                          " stands for every address of a host, and other "
                          "hosts connect to one"),
             kWhy, kFix}};
  }
  if (own.is_loopback && HasRemoteCoordinator(facts)) {
    return {{Severity::kWarning,
             absl::StrCat(own.text,
                          " is loopback, and the coordinator is on another "
                          "host"),
             "only workers of this host can connect to those of this host",
             kFix}};
  }
  if (!own.is_here) {
    return {{Severity::kError,
             absl::StrCat("no interface of this host has ", own.text), kWhy,
             kFix}};
  }
  return {{Severity::kOk, own.text}};
}

Findings CheckListen(const Facts& facts) {
  Findings findings;
  for (const ListenFacts& listen : facts.listeners) {
    if (!listen.parsed.ok()) {
      findings.push_back(
          {Severity::kError,
           absl::StrCat(listen.flag, ": ", listen.parsed.message()),
           "lockstepd would end with exit code 2",
           "HOST:PORT with a port up to 65535, [ADDRESS]:PORT for IPv6"});
      continue;
    }
    if (!listen.allowed.ok()) findings.push_back(NotAllowed(listen));
    if (!listen.bound.ok()) findings.push_back(NotBound(listen));
    if (listen.allowed.ok() && listen.bound.ok()) {
      findings.push_back(
          {Severity::kOk, absl::StrCat(listen.address, " is free")});
    }
  }
  return findings;
}

}  // namespace lockstep::doctor
