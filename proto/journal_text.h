// Records and snapshots of the journal as text, for people and programs.
//
// Threads: pure functions.

#ifndef LOCKSTEP_PROTO_JOURNAL_TEXT_H_
#define LOCKSTEP_PROTO_JOURNAL_TEXT_H_

#include <string>

#include "protocol/record.h"
#include "protocol/snapshot.h"

namespace lockstep::proto {

// One line each, without a line break; as JSON one object. The names are those
// of journal.proto.
std::string RecordText(const record::Record& record);
std::string RecordJson(const record::Record& record);
std::string JobText(const record::DurableJob& job);
std::string JobJson(const record::DurableJob& job);

}  // namespace lockstep::proto

#endif  // LOCKSTEP_PROTO_JOURNAL_TEXT_H_
