#include "tools/ctl/doctor_command.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/join_token.h"
#include "base/process.h"
#include "base/secret_file.h"
#include "base/user_file.h"
#include "server/access/local_journal.h"
#include "server/etcd/access/access.h"
#include "spec/spec_text.h"
#include "tools/ctl/print.h"
#include "tools/ctl/run_job.h"
#include "tools/doctor/checks.h"
#include "tools/doctor/gather.h"
#include "tools/doctor/report.h"

namespace lockstep::ctl {
namespace {

bool UsesGpu(const JobSpec& spec) { return spec.transport == "nccl"; }

// Whether `run` would take the spec, of so many ranks.
absl::Status CompareWithRun(const DoctorOptions& options,
                            const std::string& spec, int ranks) {
  // Without -n as many as fit, so that only the name can differ.
  const int workers = options.workers > 0 ? options.workers : ranks;
  int nodes = std::max(1, ranks / workers);
  if (options.workers > 0 && options.nodes > 0) nodes = options.nodes;
  return DecideJob({.workers = workers,
                    .nodes = nodes,
                    .has_address = true,
                    .job = options.assignment.job,
                    .program = "",
                    .spec_file = options.spec_file},
                   spec)
      .status();
}

void ReadSpec(const DoctorOptions& options, doctor::Facts* facts) {
  const std::string& file = options.spec_file;
  const auto text = ReadUserFile(file, kHandwrittenBytesMax);
  if (!text.ok()) {
    facts->spec = text.status();
    return;
  }
  const auto spec = spec::ParseJobSpec(*text, file);
  facts->spec = spec.status();
  if (!spec.ok()) return;
  facts->spec_name = spec->name;
  facts->assignment.ranks = spec->mesh.WorldSize();
  facts->spec_fits = CompareWithRun(options, *text, facts->assignment.ranks);
  facts->assignment.uses_gpu = UsesGpu(*spec);
  if (facts->assignment.job.empty()) facts->assignment.job = spec->name;
}

// A launcher makes join tokens of the file.
doctor::TokenFacts GatherWorkerTokenFile(const std::string& path) {
  doctor::TokenFacts facts = doctor::GatherTokenFile(path);
  if (!facts.usable.ok()) return facts;
  const auto secret = ReadSecretFile(path);
  if (!secret.ok()) return facts;
  const absl::Status made = JoinToken(*secret, "job").status();
  if (!made.ok()) {
    facts.usable =
        absl::Status(made.code(), absl::StrCat(path, ": ", made.message()));
  }
  return facts;
}

void GatherSecrets(const DoctorOptions& options, doctor::Facts* facts) {
  using tls::CertificateRole;
  if (!options.tls_folder.empty()) {
    const std::vector<CertificateRole> roles =
        facts->assignment.serves
            ? std::vector<CertificateRole>{CertificateRole::kCoordinator}
            : std::vector<CertificateRole>{CertificateRole::kWorker,
                                           CertificateRole::kOperator};
    facts->tls.push_back(
        doctor::GatherTls(options.tls_folder, roles, facts->now));
  }
  if (!options.etcd_tls_folder.empty()) {
    facts->tls.push_back(
        doctor::GatherTls(options.etcd_tls_folder, {}, facts->now));
  }
  if (options.token_is_in_file) {
    facts->tokens.push_back(doctor::GatherTokenFile(options.token_source));
  } else if (!options.token.ok()) {
    facts->tokens.push_back({.source = options.token_source,
                             .is_file = false,
                             .usable = options.token.status(),
                             .tokens = 0});
  } else if (!options.token->empty()) {
    facts->tokens.push_back(
        doctor::GatherToken(options.token_source, *options.token));
  }
  if (!options.worker_token_file.empty()) {
    facts->tokens.push_back(
        facts->assignment.serves
            ? doctor::GatherTokenFile(options.worker_token_file)
            : GatherWorkerTokenFile(options.worker_token_file));
  }
  const bool all_usable = std::all_of(
      facts->tokens.begin(), facts->tokens.end(),
      [](const doctor::TokenFacts& one) { return one.usable.ok(); });
  if (facts->assignment.serves && all_usable) {
    facts->daemon_tokens = doctor::GatherDaemonTokens(
        options.token_is_in_file ? options.token_source : "",
        options.worker_token_file);
  }
}

// Whether those in the folder cannot be used, which a finding of its own says.
bool LacksCertificates(const doctor::Facts& facts, const std::string& folder) {
  return std::any_of(facts.tls.begin(), facts.tls.end(),
                     [&folder](const doctor::TlsFacts& one) {
                       return one.folder == folder && !one.usable.ok();
                     });
}

void GatherJournals(const DoctorOptions& options, doctor::Facts* facts) {
  // lockstepd's default.
  const std::string journal =
      options.journal.empty() ? std::string(kJournalInMemory) : options.journal;
  if (!absl::StartsWith(journal, etcd::kScheme)) {
    const absl::Status allowed =
        CheckLocalJournal(journal, options.etcd_tls_folder);
    if (!allowed.ok()) {
      facts->journal = doctor::JournalFolderFacts{
          .folder = journal,
          .allowed = allowed,
          .has_etcd_tls = !options.etcd_tls_folder.empty()};
    } else if (journal != kJournalInMemory) {
      facts->journal = doctor::GatherJournal(journal);
    }
    return;
  }
  const auto url = etcd::UrlThatMayBeAsked(
      options.journal, options.etcd_tls_folder, options.insecure);
  facts->etcd_url = url.status();
  if (!url.ok()) return;
  const doctor::EtcdAccess access = {
      .tls_folder = options.etcd_tls_folder,
      .lacks_certificates = LacksCertificates(*facts, options.etcd_tls_folder),
      .key = url->LeaderKey()};
  for (const std::string& member : url->members) {
    facts->etcd.push_back(doctor::GatherEtcdMember(member, access));
  }
}

void GatherCoordinators(const DoctorOptions& options, doctor::Facts* facts) {
  // With the files of a coordinator there is no client to play.
  if (facts->assignment.serves) return;
  const auto secret = ReadSecretFile(options.worker_token_file);
  for (const absl::string_view address :
       absl::StrSplit(options.address, ',', absl::SkipWhitespace())) {
    facts->coordinators.push_back(doctor::GatherCoordinator(
        std::string(absl::StripAsciiWhitespace(address)),
        {.token = options.token.value_or(""),
         .tls_folder = options.tls_folder,
         .lacks_certificates = LacksCertificates(*facts, options.tls_folder),
         .job = facts->assignment.job,
         .worker_token = secret.value_or("")}));
  }
}

doctor::Facts GatherAll(const DoctorOptions& options) {
  doctor::Facts facts;
  facts.assignment = options.assignment;
  facts.assignment.serves = !options.listen.empty();
  facts.now = absl::Now();
  if (!options.spec_file.empty()) ReadSpec(options, &facts);
  facts.machine = doctor::GatherMachine();
  if (!facts.assignment.serves) {
    facts.gpu = doctor::GatherGpu(facts.assignment.uses_gpu);
  }
  facts.host = doctor::GatherHost(HostName());
  if (!options.host_address.empty()) {
    facts.host_address = doctor::GatherHostAddress(options.host_address);
  }
  facts.listeners =
      doctor::GatherListeners({.listen = options.listen,
                               .health_address = options.health_address,
                               .metrics_address = options.metrics_address,
                               .tls_folder = options.tls_folder,
                               .insecure = options.insecure});
  GatherSecrets(options, &facts);
  GatherJournals(options, &facts);
  GatherCoordinators(options, &facts);
  return facts;
}

bool IsBad(const doctor::Finding& finding) {
  return finding.severity >= doctor::Severity::kWarning;
}

}  // namespace

int Doctor(const DoctorOptions& options) {
  const doctor::Findings findings = doctor::Diagnose(GatherAll(options));
  Print(options.json ? doctor::ReportAsJson(findings)
                     : doctor::ReportAsText(findings));
  const doctor::Severity bad =
      options.strict ? doctor::Severity::kWarning : doctor::Severity::kError;
  const bool is_wrong = std::any_of(
      findings.begin(), findings.end(),
      [bad](const doctor::Finding& one) { return one.severity >= bad; });
  return is_wrong ? 1 : 0;
}

doctor::Findings FindForLaunch(const JobSpec& spec, int workers,
                               const std::string& workers_tls_folder) {
  doctor::Facts facts;
  facts.assignment = {.workers = workers,
                      .ranks = spec.mesh.WorldSize(),
                      .uses_gpu = UsesGpu(spec)};
  facts.now = absl::Now();
  facts.machine = doctor::GatherMachine();
  if (UsesGpu(spec)) facts.gpu = doctor::GatherGpu(true);
  if (!workers_tls_folder.empty()) {
    facts.tls.push_back(doctor::GatherTls(
        workers_tls_folder, {tls::CertificateRole::kWorker}, facts.now));
  }
  doctor::Findings findings = doctor::Diagnose(facts);
  findings.erase(
      std::remove_if(findings.begin(), findings.end(),
                     [](const doctor::Finding& one) { return !IsBad(one); }),
      findings.end());
  return findings;
}

absl::Status CheckWorkersFolder(const std::string& tls_folder) {
  doctor::Facts facts;
  facts.now = absl::Now();
  facts.tls = {doctor::GatherTls(tls_folder, {tls::CertificateRole::kWorker},
                                 facts.now)};
  const absl::Status& usable = facts.tls.front().usable;
  if (usable.ok()) return usable;
  const doctor::Findings findings = doctor::CheckTls(facts);
  return absl::Status(
      usable.code(),
      absl::StrCat(findings.front().what, "; fix: ", findings.front().fix));
}

}  // namespace lockstep::ctl
