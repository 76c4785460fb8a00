#include "tools/ctl/journal_command.h"

#include <cstdio>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/text/count.h"
#include "base/text/utf8.h"
#include "proto/journal_text.h"
#include "server/offline/journal_inspection.h"
#include "tools/ctl/print.h"

namespace lockstep::ctl {
namespace {

int RefuseJournal(const absl::Status& why) {
  absl::FPrintF(stderr, "lockstepctl: %s\n", Printable(why.message()));
  return 1;
}

int RefuseDamage(const std::string& folder, const absl::Status& damage) {
  return RefuseJournal(absl::DataLossError(
      absl::StrCat(damage.message(), "; ", offline::DamageAdvice(folder))));
}

void PrintNotes(const offline::InspectedJournal& journal) {
  for (const std::string& note : journal.notes) {
    absl::FPrintF(stderr, "lockstepctl: %s\n", Printable(note));
  }
}

}  // namespace

int JournalVerify(const std::string& folder) {
  const auto journal = offline::Inspect(folder);
  if (!journal.ok()) return RefuseJournal(journal.status());
  PrintNotes(*journal);
  if (!journal->damage.ok()) {
    Print(absl::StrFormat("%s: damaged after record %d\n", Printable(folder),
                          journal->state.records));
    return RefuseDamage(folder, journal->damage);
  }
  Print(absl::StrFormat("%s: intact, %s, %s\n", Printable(folder),
                        Count(journal->state.records, "record"),
                        Count(journal->state.jobs.size(), "job")));
  return 0;
}

int JournalDump(const std::string& folder, bool json) {
  const auto journal = offline::Inspect(folder);
  if (!journal.ok()) return RefuseJournal(journal.status());
  PrintNotes(*journal);
  if (journal->snapshot) {
    Print(json ? absl::StrFormat(
                     "{\"snapshot\":{\"records\":%d,\"epoch_floor\":%d}}\n",
                     journal->snapshot->records,
                     journal->snapshot->epoch_floor.value)
               : absl::StrFormat("snapshot of the records up to %d\n",
                                 journal->snapshot->records));
    for (const record::DurableJob& job : journal->snapshot->jobs) {
      Print(json ? absl::StrFormat("{\"job\":%s}\n", proto::JobJson(job))
                 : absl::StrFormat("job %s\n", proto::JobText(job)));
    }
  }
  for (const record::Record& record : journal->records) {
    Print(json ? absl::StrFormat("{\"record\":%s}\n", proto::RecordJson(record))
               : absl::StrFormat("record %s\n", proto::RecordText(record)));
  }
  return journal->damage.ok() ? 0 : RefuseDamage(folder, journal->damage);
}

int JournalRepair(const std::string& folder) {
  const auto repaired = offline::Repair(folder);
  if (!repaired.ok()) return RefuseJournal(repaired.status());
  if (repaired->damage.ok()) {
    Print(absl::StrFormat("%s: intact, nothing was changed\n",
                          Printable(folder)));
    return 0;
  }
  Print(absl::StrFormat(
      "%s\nkept      the state after record %d; %s lost\n"
      "epochs    new ones begin at %d\nold files %s\n",
      Printable(repaired->damage.message()), repaired->records,
      absl::StrCat(Count(repaired->lost, "later record"),
                   repaired->lost == 1 ? " is" : " are"),
      repaired->epoch_floor.value + 1, Printable(repaired->damaged_files)));
  for (const JobName& job : repaired->running) {
    Print(absl::StrFormat(
        "job %s  its workers may run: it is adopted when all of them have "
        "resumed\n",
        Printable(job.value)));
  }
  return 0;
}

}  // namespace lockstep::ctl
