// GoogleMock matchers for the effects of a coordinator.
//
//   EXPECT_THAT(fixture.Hello(2),
//               EffectsAre(Persists(3, GenerationAssigned("w-2", 1)),
//                          Sends(2, Welcome(1)),
//                          Persists(4, EpochBegan(1, {"w-1", "w-2"})),
//                          Sends(1, EpochFormed(1, 0, {"w-1", "w-2"})),
//                          Sends(2, EpochFormed(1, 1, {"w-1", "w-2"}))));
//   EXPECT_THAT(fixture.Resume(12, 2), Includes(Sends(12, Start())));
//   EXPECT_THAT(fixture.Hello(3),
//               Refuses(3, StatusCode::kAlreadyExists, HasSubstr("is held")));
//
// Each message and each record has a matcher with the name of its type. Texts
// for people are matched where they are: a string (the whole text), or a
// matcher of strings.
//
// The functions are not templates, so that tests compile quickly.

#ifndef LOCKSTEP_TESTS_SERVER_CORE_EFFECT_MATCHERS_H_
#define LOCKSTEP_TESTS_SERVER_CORE_EFFECT_MATCHERS_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "protocol/negotiation.h"
#include "protocol/protocol.h"
#include "protocol/record.h"
#include "server/core/event.h"
#include "tests/server/core/effect_list.h"

namespace lockstep::core {

using EffectListMatcher = testing::Matcher<const EffectList&>;
using EffectMatcher = testing::Matcher<const Effect&>;
using MessageMatcher = testing::Matcher<const protocol::ToWorker&>;
using RecordMatcher = testing::Matcher<const record::Body&>;
using TextMatcher = testing::Matcher<const std::string&>;
using TextList = std::initializer_list<std::string_view>;

TextMatcher AnyText();

// --- Lists of effects: notes and compilations are ignored --------------------

EffectListMatcher NoEffects();

// The stream is refused and closed with this status: no other effects.
EffectListMatcher Refuses(uint64_t session, absl::StatusCode code,
                          TextMatcher message = AnyText());
// The end of the epoch and the failure of the job are recorded, and then sent
// on this stream, among other effects. `cause`: its message.
EffectListMatcher FailsJob(uint64_t session, TextMatcher cause,
                           uint64_t epoch = 1);

namespace internal {
EffectListMatcher EffectsAre(std::vector<EffectMatcher> expected);
EffectListMatcher Includes(std::vector<EffectMatcher> expected);
EffectListMatcher EffectsEndWith(std::vector<EffectMatcher> expected);
}  // namespace internal

// These effects in this order, and no other.
template <typename... Matchers>
EffectListMatcher EffectsAre(const Matchers&... expected) {
  return internal::EffectsAre({expected...});
}
// These effects among others, in this order and with no other between them.
template <typename... Matchers>
EffectListMatcher Includes(const Matchers&... expected) {
  return internal::Includes({expected...});
}
// The last effects are these, in this order.
template <typename... Matchers>
EffectListMatcher EffectsEndWith(const Matchers&... expected) {
  return internal::EffectsEndWith({expected...});
}

// --- Effects ----------------------------------------------------------------

EffectMatcher Sends(uint64_t session, MessageMatcher message);
EffectMatcher Sends(MessageMatcher message);  // on any stream
EffectMatcher SendsAnythingOn(uint64_t session);
EffectMatcher Closes(uint64_t session);  // with any status
EffectMatcher Closes(uint64_t session, absl::StatusCode code,
                     TextMatcher message = AnyText());
// `number` is the number of the record in the journal.
EffectMatcher Persists(uint64_t number, RecordMatcher record);
EffectMatcher Persists(RecordMatcher record);
EffectMatcher Answers(uint64_t request, absl::StatusCode code,
                      TextMatcher message = AnyText());

// --- Messages to workers ----------------------------------------------------

namespace internal {
MessageMatcher MessageOfSameType(const protocol::ToWorkerBody& example);
}  // namespace internal

// Any<protocol::Start>() matches each message of that type.
template <typename Message>
MessageMatcher Any() {
  return internal::MessageOfSameType(Message{});
}

MessageMatcher Welcome(uint64_t generation);      // of a new generation
MessageMatcher WelcomeBack(uint64_t generation);  // of a known generation
MessageMatcher Refused(absl::StatusCode code, TextMatcher message = AnyText());
MessageMatcher EpochFormed(uint64_t epoch, int rank, TextList members);
MessageMatcher PlanReady();
MessageMatcher PlanWanted(std::string digest);
MessageMatcher RegistrationWanted();
MessageMatcher GroupHandles(int communicator, TextList handles);
MessageMatcher Start();
// The epoch ended and the job may form again. `cause`: its message.
MessageMatcher EpochEnded(uint64_t epoch, TextMatcher cause = AnyText());
// The epoch ended and so did the job (EpochEnded::final).
MessageMatcher EpochEndedForGood(uint64_t epoch, TextMatcher cause = AnyText());
MessageMatcher AnyEpochEndedForGood();
MessageMatcher Left();
MessageMatcher Warning(TextMatcher text = AnyText());
MessageMatcher DesiredCommands(std::initializer_list<Command> commands);
MessageMatcher OrderWanted(uint64_t revision);
MessageMatcher Decide(uint64_t first,
                      std::initializer_list<protocol::Decision> decisions);

// --- Records ----------------------------------------------------------------

RecordMatcher JobCreated(std::string_view job);
RecordMatcher GenerationAssigned(std::string_view worker, uint64_t generation);
RecordMatcher EpochBegan(uint64_t epoch, TextList members);
RecordMatcher PlanAdopted(uint64_t epoch);
RecordMatcher EpochFinished(uint64_t epoch);
RecordMatcher JobEnded(record::JobOutcome outcome);
RecordMatcher WorkerLeft(std::string_view worker, uint64_t epoch);
RecordMatcher RecoveryDecided(uint64_t epoch);
RecordMatcher CommandsWanted(std::initializer_list<Command> commands);
RecordMatcher JobArchived(std::string_view as);
RecordMatcher JobAdopted(std::string_view job, uint64_t epoch,
                         TextList members);

}  // namespace lockstep::core

#endif  // LOCKSTEP_TESTS_SERVER_CORE_EFFECT_MATCHERS_H_
