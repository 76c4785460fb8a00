// One line of text for each effect, for failures and for the golden transcripts
// of passage_test.cc.
//
//   persist 3: epoch 1 begins: w-0 w-1
//   1 <- formed 1: rank 0 of w-0 w-1
//   close 2: ALREADY_EXISTS: the name w-0 is held by ...
//
// Other tests compare effects with effect_matchers.h.

#ifndef LOCKSTEP_TESTS_SERVER_CORE_DESCRIBE_H_
#define LOCKSTEP_TESTS_SERVER_CORE_DESCRIBE_H_

#include <string>
#include <vector>

#include "lockstep/command.h"
#include "protocol/protocol.h"
#include "protocol/record.h"
#include "protocol/types.h"
#include "server/core/event.h"

namespace lockstep::core {

// Names separated by spaces.
std::string Names(const std::vector<protocol::Member>& members);
std::string Names(const std::vector<Command>& commands);

// Notes and compilations are not shown in lists of effects.
bool IsShown(const Effect& effect);

std::string Describe(const protocol::ToWorker& message);
std::string Describe(const record::Body& body);
std::string Describe(const Effect& effect);
// The shown effects, one a line.
std::string Describe(const Effects& effects);

}  // namespace lockstep::core

#endif  // LOCKSTEP_TESTS_SERVER_CORE_DESCRIBE_H_
