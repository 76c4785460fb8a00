// One line of text for each effect, for transcripts and failure messages.

#ifndef LOCKSTEP_TESTS_CLIENT_SESSION_DESCRIBE_H_
#define LOCKSTEP_TESTS_CLIENT_SESSION_DESCRIBE_H_

#include <string>

#include "client/session/event.h"

namespace lockstep::session {

// "hello gen 2", "chunk 0 last", "progress step 3", "formed rank 1 of 2", ...
std::string Describe(const protocol::ToCoordinatorBody& body);
std::string Describe(const protocol::ToWorkerBody& body);

// "open 1 at 0", "send 1: hello gen 0", "close 1"; one line each.
std::string Describe(const Effect& effect);
std::string Describe(const Effects& effects);

}  // namespace lockstep::session

#endif  // LOCKSTEP_TESTS_CLIENT_SESSION_DESCRIBE_H_
