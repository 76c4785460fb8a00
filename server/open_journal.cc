#include "server/open_journal.h"

#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/thread.h"
#include "proto/grpc_credentials.h"
#include "server/etcd/access/access.h"
#include "server/etcd/etcd_store.h"
#include "server/journal/group_commit_journal.h"
#include "server/journal/sqlite_store.h"

namespace lockstep {
namespace {

constexpr absl::Duration kAskInterval = absl::Milliseconds(20);

bool IsInEtcd(const std::string& where) {
  return absl::StartsWith(where, etcd::kScheme);
}

absl::StatusOr<etcd::Url> UrlOf(const JournalOptions& options) {
  return etcd::UrlThatMayBeAsked(options.where, options.etcd_tls,
                                 options.insecure);
}

// Runs `what` on a thread; asks `gives_up` meanwhile, and cancels the client.
template <typename What>
void RunCancellable(const JournalOptions& options, etcd::Client* client,
                    What what) {
  std::atomic<bool> done{false};
  std::thread thread = StartThread("ls-leads", [&] {
    what();
    done = true;
  });
  while (!done) {
    if (options.gives_up()) client->Cancel();
    absl::SleepFor(kAskInterval);
  }
  thread.join();
}

absl::StatusOr<OpenedJournal> OpenInEtcd(const JournalOptions& options,
                                         observe::Log* log) {
  const auto url = UrlOf(options);
  if (!url.ok()) return url.status();
  auto credentials = proto::ClientCredentials::Make(
      options.etcd_tls, {},
      [log](const std::string& trouble) { log->Warning(trouble); });
  if (!credentials.ok()) return credentials.status();
  OpenedJournal opened;
  opened.etcd = std::make_unique<etcd::Client>(
      url->members,
      [files = std::shared_ptr<proto::ClientCredentials>(
           *std::move(credentials))] { return files->Current(); });
  absl::StatusOr<std::unique_ptr<etcd::Leadership>> leadership;
  const std::string where = options.where;
  RunCancellable(options, opened.etcd.get(), [&] {
    leadership = etcd::Leadership::Await(
        opened.etcd.get(),
        {.key = url->LeaderKey(),
         .base_key = url->TermBaseKey(),
         .identity = options.identity,
         .on_wait =
             [&options, log, where](const std::string& leader) {
               const std::string why = absl::StrCat(
                   "waits: ", leader, " leads the coordinators of ", where);
               log->Info(why);
               options.on_wait(why);
             },
         .on_trouble =
             [&options, log](const absl::Status& trouble) {
               const std::string why =
                   absl::StrCat("waits: ", trouble.message());
               log->Error(why);
               options.on_wait(why);
             },
         .why_not_wait =
             [members = url->members, folder = options.etcd_tls] {
               return etcd::ProbeMembers(members, folder);
             },
         .on_lost =
             [lost = options.on_lost,
              client = opened.etcd.get()](const absl::Status& why) {
               lost(why);
               client->Cancel();  // nothing is to be written any more
             }});
  });
  if (!leadership.ok()) return leadership.status();
  if (options.gives_up()) return absl::CancelledError("told to end");
  opened.leadership = *std::move(leadership);
  opened.term = LeaderTerm{opened.leadership->term()};
  opened.journal = std::make_unique<journal::GroupCommitJournal>(
      std::make_unique<etcd::EtcdStore>(opened.etcd.get(), url->prefix,
                                        opened.leadership->fence()));
  log->Info(absl::StrCat("leads the coordinators of ", where, " with term ",
                         opened.term.value));
  return opened;
}

}  // namespace

absl::Status CheckJournal(const JournalOptions& options) {
  if (IsInEtcd(options.where)) return UrlOf(options).status();
  return CheckLocalJournal(options.where, options.etcd_tls);
}

std::string AdviceFor(const std::string& where) {
  if (!IsInEtcd(where)) return journal::DamageAdvice(where);
  return absl::StrCat(
      "put back a copy of etcd's data, or start with another prefix than ",
      where, ": running jobs are adopted from their workers");
}

absl::StatusOr<OpenedJournal> OpenJournal(const JournalOptions& options,
                                          observe::Log* log) {
  if (IsInEtcd(options.where)) return OpenInEtcd(options, log);
  OpenedJournal opened;
  if (options.where == kJournalInMemory) {
    opened.memory = std::make_unique<journal::MemoryStore>();
    opened.journal =
        std::make_unique<journal::MemoryJournal>(opened.memory.get());
    return opened;
  }
  auto journal = journal::OpenSqliteJournal(options.where);
  if (!journal.ok()) return journal.status();
  opened.journal = *std::move(journal);
  return opened;
}

}  // namespace lockstep
