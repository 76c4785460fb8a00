#include "tests/server/core/effect_matchers.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <ostream>
#include <sstream>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace lockstep::core {
namespace {

using testing::MatchResultListener;

// Matches a value for which a function returns true.
template <typename T>
class Predicate : public testing::MatcherInterface<const T&> {
 public:
  Predicate(std::string what, std::function<bool(const T&)> holds)
      : what_(std::move(what)), holds_(std::move(holds)) {}

  bool MatchAndExplain(const T& value, MatchResultListener*) const override {
    return holds_(value);
  }
  void DescribeTo(std::ostream* out) const override { *out << what_; }

 private:
  const std::string what_;
  const std::function<bool(const T&)> holds_;
};

// The value is of one type of the variant, and a function returns true for it.
template <typename One, typename Variant>
testing::Matcher<const Variant&> Is(std::string what,
                                    std::function<bool(const One&)> holds) {
  return testing::MakeMatcher(new Predicate<Variant>(
      std::move(what), [holds = std::move(holds)](const Variant& value) {
        const One* one = std::get_if<One>(&value);
        return one != nullptr && (holds == nullptr || holds(*one));
      }));
}

template <typename Body>
MessageMatcher MessageIs(
    std::string what,
    std::function<bool(EpochId, const Body&)> holds = nullptr) {
  return testing::MakeMatcher(new Predicate<protocol::ToWorker>(
      std::move(what),
      [holds = std::move(holds)](const protocol::ToWorker& message) {
        const Body* body = std::get_if<Body>(&message.body);
        return body != nullptr &&
               (holds == nullptr || holds(message.epoch, *body));
      }));
}

template <typename M>
std::string TextOf(const M& matcher) {
  std::ostringstream text;
  matcher.DescribeTo(&text);
  return text.str();
}

std::string TextOfStatus(absl::StatusCode code, const TextMatcher& message) {
  return absl::StrCat(absl::StatusCodeToString(code), ", whose message ",
                      TextOf(message));
}

bool StatusMatches(const absl::Status& status, absl::StatusCode code,
                   const TextMatcher& message) {
  return status.code() == code &&
         message.Matches(std::string(status.message()));
}

std::vector<std::string> NamesOf(const std::vector<protocol::Member>& members) {
  std::vector<std::string> names;
  for (const protocol::Member& member : members) {
    names.push_back(member.worker.value);
  }
  return names;
}

std::string TextOf(const std::vector<std::string>& names) {
  return absl::StrJoin(names, " ");
}

// --- Lists of effects -------------------------------------------------------

class EffectListPredicate
    : public testing::MatcherInterface<const EffectList&> {
 public:
  enum class Kind { kAre, kInclude, kEndWith };

  EffectListPredicate(Kind kind, std::vector<EffectMatcher> expected)
      : kind_(kind), expected_(std::move(expected)) {}

  bool MatchAndExplain(const EffectList& list,
                       MatchResultListener* listener) const override {
    const Effects shown = Shown(list.effects);
    switch (kind_) {
      case Kind::kAre: return AreExpected(shown, listener);
      case Kind::kInclude:
        for (size_t at = 0; at + expected_.size() <= shown.size(); ++at) {
          if (MatchesAt(shown, at, nullptr)) return true;
        }
        return false;
      case Kind::kEndWith:
        return expected_.size() <= shown.size() &&
               MatchesAt(shown, shown.size() - expected_.size(), listener);
    }
    return false;
  }
  void DescribeTo(std::ostream* out) const override {
    *out << "effects that " << Verb();
    DescribeExpected(out);
  }
  void DescribeNegationTo(std::ostream* out) const override {
    *out << "effects of which it is not true that they " << Verb();
    DescribeExpected(out);
  }

 private:
  static Effects Shown(const Effects& effects) {
    Effects shown;
    std::copy_if(effects.begin(), effects.end(), std::back_inserter(shown),
                 IsShown);
    return shown;
  }

  bool AreExpected(const Effects& shown, MatchResultListener* listener) const {
    if (shown.size() == expected_.size()) {
      return MatchesAt(shown, 0, listener);
    }
    *listener << "which are " << shown.size() << ", not " << expected_.size();
    return false;
  }
  bool MatchesAt(const Effects& shown, size_t at,
                 MatchResultListener* listener) const {
    for (size_t i = 0; i < expected_.size(); ++i) {
      if (expected_[i].Matches(shown[at + i])) continue;
      if (listener != nullptr) {
        *listener << "of which \"" << Describe(shown[at + i])
                  << "\" is not: " << TextOf(expected_[i]);
      }
      return false;
    }
    return true;
  }

  const char* Verb() const {
    switch (kind_) {
      case Kind::kAre: return expected_.empty() ? "are none" : "are";
      case Kind::kInclude: return "include";
      case Kind::kEndWith: return "end with";
    }
    return "?";
  }
  void DescribeExpected(std::ostream* out) const {
    for (const EffectMatcher& matcher : expected_) {
      *out << "\n  " << TextOf(matcher);
    }
  }

  const Kind kind_;
  const std::vector<EffectMatcher> expected_;
};

EffectListMatcher ListMatcher(EffectListPredicate::Kind kind,
                              std::vector<EffectMatcher> expected) {
  return testing::MakeMatcher(
      new EffectListPredicate(kind, std::move(expected)));
}

}  // namespace

TextMatcher AnyText() { return testing::_; }

EffectListMatcher NoEffects() { return internal::EffectsAre({}); }

EffectListMatcher Refuses(uint64_t session, absl::StatusCode code,
                          TextMatcher message) {
  return internal::EffectsAre(
      {Sends(session, Refused(code, message)), Closes(session, code, message)});
}

EffectListMatcher FailsJob(uint64_t session, TextMatcher cause,
                           uint64_t epoch) {
  return testing::AllOf(
      internal::Includes({Persists(EpochFinished(epoch)),
                          Persists(JobEnded(record::JobOutcome::kFailed))}),
      internal::Includes({Sends(session, EpochEndedForGood(epoch, cause))}));
}

namespace internal {

EffectListMatcher EffectsAre(std::vector<EffectMatcher> expected) {
  return ListMatcher(EffectListPredicate::Kind::kAre, std::move(expected));
}
EffectListMatcher Includes(std::vector<EffectMatcher> expected) {
  return ListMatcher(EffectListPredicate::Kind::kInclude, std::move(expected));
}
EffectListMatcher EffectsEndWith(std::vector<EffectMatcher> expected) {
  return ListMatcher(EffectListPredicate::Kind::kEndWith, std::move(expected));
}

}  // namespace internal

// --- Effects ----------------------------------------------------------------

EffectMatcher Sends(uint64_t session, MessageMatcher message) {
  return Is<Send, Effect>(
      absl::StrCat("sends on ", session, ": ", TextOf(message)),
      [=](const Send& send) {
        return send.session.value == session && message.Matches(send.message);
      });
}
EffectMatcher Sends(MessageMatcher message) {
  return Is<Send, Effect>(
      absl::StrCat("sends: ", TextOf(message)),
      [=](const Send& send) { return message.Matches(send.message); });
}
EffectMatcher SendsAnythingOn(uint64_t session) {
  return Is<Send, Effect>(
      absl::StrCat("sends anything on ", session),
      [=](const Send& send) { return send.session.value == session; });
}

EffectMatcher Closes(uint64_t session) {
  return Is<CloseSession, Effect>(absl::StrCat("closes ", session),
                                  [=](const CloseSession& close) {
                                    return close.session.value == session;
                                  });
}
EffectMatcher Closes(uint64_t session, absl::StatusCode code,
                     TextMatcher message) {
  return Is<CloseSession, Effect>(
      absl::StrCat("closes ", session, ": ", TextOfStatus(code, message)),
      [=](const CloseSession& close) {
        return close.session.value == session &&
               StatusMatches(close.status, code, message);
      });
}

EffectMatcher Persists(uint64_t number, RecordMatcher record) {
  return Is<Persist, Effect>(
      absl::StrCat("persists record ", number, ": ", TextOf(record)),
      [=](const Persist& persist) {
        return persist.record.number == number &&
               record.Matches(persist.record.body);
      });
}
EffectMatcher Persists(RecordMatcher record) {
  return Is<Persist, Effect>(absl::StrCat("persists: ", TextOf(record)),
                             [=](const Persist& persist) {
                               return record.Matches(persist.record.body);
                             });
}

EffectMatcher Answers(uint64_t request, absl::StatusCode code,
                      TextMatcher message) {
  return Is<AdminReply, Effect>(
      absl::StrCat("answers ", request, ": ", TextOfStatus(code, message)),
      [=](const AdminReply& reply) {
        return reply.request.value == request &&
               StatusMatches(reply.status, code, message);
      });
}

// --- Messages to workers ----------------------------------------------------

namespace {

MessageMatcher WelcomeIs(const std::string& what, uint64_t generation,
                         bool resumed) {
  return MessageIs<protocol::Welcome>(
      absl::StrCat(what, " of generation ", generation),
      [=](EpochId, const protocol::Welcome& m) {
        return m.generation.value == generation && m.resumed == resumed;
      });
}

MessageMatcher EpochEndedIs(bool final, uint64_t epoch,
                            const TextMatcher& cause) {
  return MessageIs<protocol::EpochEnded>(
      absl::StrCat("epoch ", epoch, " ended", final ? " for good" : "",
                   ", with a cause whose message ", TextOf(cause)),
      [=](EpochId of, const protocol::EpochEnded& m) {
        return of.value == epoch && m.final == final &&
               cause.Matches(m.cause.message);
      });
}

}  // namespace

MessageMatcher internal::MessageOfSameType(
    const protocol::ToWorkerBody& example) {
  const size_t type = example.index();
  return testing::MakeMatcher(new Predicate<protocol::ToWorker>(
      absl::StrCat("any message of the type of: ",
                   Describe(protocol::ToWorker{.body = example})),
      [=](const protocol::ToWorker& message) {
        return message.body.index() == type;
      }));
}

MessageMatcher Welcome(uint64_t generation) {
  return WelcomeIs("welcome", generation, false);
}
MessageMatcher WelcomeBack(uint64_t generation) {
  return WelcomeIs("welcome back", generation, true);
}
MessageMatcher Refused(absl::StatusCode code, TextMatcher message) {
  return MessageIs<protocol::Refused>(
      absl::StrCat("refused: ", TextOfStatus(code, message)),
      [=](EpochId, const protocol::Refused& m) {
        return m.code == code && message.Matches(m.message);
      });
}
MessageMatcher EpochFormed(uint64_t epoch, int rank, TextList members) {
  const std::vector<std::string> names(members.begin(), members.end());
  return MessageIs<protocol::EpochFormed>(
      absl::StrCat("epoch ", epoch, " formed: rank ", rank, " of ",
                   TextOf(names)),
      [=](EpochId of, const protocol::EpochFormed& m) {
        return of.value == epoch && m.rank == rank &&
               NamesOf(m.members) == names;
      });
}
MessageMatcher PlanWanted(std::string digest) {
  return MessageIs<protocol::PlanWanted>(
      absl::StrCat("wants plan ", digest),
      [=](EpochId, const protocol::PlanWanted& m) {
        return m.digest == digest;
      });
}
MessageMatcher RegistrationWanted() {
  return MessageIs<protocol::RegistrationWanted>("wants the registration");
}
MessageMatcher PlanReady() {
  return MessageIs<protocol::PlanReady>("the plan is ready");
}
MessageMatcher GroupHandles(int communicator, TextList handles) {
  const std::vector<std::string> expected(handles.begin(), handles.end());
  return MessageIs<protocol::GroupHandles>(
      absl::StrCat("handles of communicator ", communicator, ": ",
                   TextOf(expected)),
      [=](EpochId, const protocol::GroupHandles& m) {
        return m.communicator == communicator && m.handles.items() == expected;
      });
}
MessageMatcher Start() { return MessageIs<protocol::Start>("start"); }
MessageMatcher EpochEnded(uint64_t epoch, TextMatcher cause) {
  return EpochEndedIs(/*final=*/false, epoch, cause);
}
MessageMatcher EpochEndedForGood(uint64_t epoch, TextMatcher cause) {
  return EpochEndedIs(/*final=*/true, epoch, cause);
}
MessageMatcher AnyEpochEndedForGood() {
  return MessageIs<protocol::EpochEnded>(
      "any epoch ended for good",
      [](EpochId, const protocol::EpochEnded& m) { return m.final; });
}
MessageMatcher Left() { return MessageIs<protocol::Left>("left"); }
MessageMatcher Warning(TextMatcher text) {
  return MessageIs<protocol::Warning>(
      absl::StrCat("a warning whose text ", TextOf(text)),
      [=](EpochId, const protocol::Warning& m) {
        return text.Matches(m.text);
      });
}
MessageMatcher DesiredCommands(std::initializer_list<Command> commands) {
  const std::vector<Command> expected = commands;
  return MessageIs<protocol::DesiredCommands>(
      absl::StrCat("desired commands: ", Names(expected)),
      [=](EpochId, const protocol::DesiredCommands& m) {
        return m.commands == expected;
      });
}
MessageMatcher OrderWanted(uint64_t revision) {
  return MessageIs<protocol::OrderWanted>(
      absl::StrCat("order wanted for revision ", revision),
      [=](EpochId, const protocol::OrderWanted& m) {
        return m.revision.value == revision;
      });
}
MessageMatcher Decide(uint64_t first,
                      std::initializer_list<protocol::Decision> decisions) {
  const std::vector<protocol::Decision> expected = decisions;
  return MessageIs<protocol::Decide>(
      absl::StrCat(expected.size(), " decisions from ", first),
      [=](EpochId, const protocol::Decide& m) {
        return m.first == first && m.decisions == expected;
      });
}

// --- Records ----------------------------------------------------------------

RecordMatcher JobCreated(std::string_view job) {
  const std::string name(job);
  return Is<record::JobCreated, record::Body>(
      absl::StrCat("job ", name, " is created"),
      [=](const record::JobCreated& r) { return r.spec.name == name; });
}
RecordMatcher GenerationAssigned(std::string_view worker, uint64_t generation) {
  const std::string name(worker);
  return Is<record::GenerationAssigned, record::Body>(
      absl::StrCat(name, " is generation ", generation),
      [=](const record::GenerationAssigned& r) {
        return r.worker.value == name && r.generation.value == generation;
      });
}
RecordMatcher EpochBegan(uint64_t epoch, TextList members) {
  const std::vector<std::string> names(members.begin(), members.end());
  return Is<record::EpochBegan, record::Body>(
      absl::StrCat("epoch ", epoch, " began: ", TextOf(names)),
      [=](const record::EpochBegan& r) {
        return r.epoch.value == epoch && NamesOf(r.members) == names;
      });
}
RecordMatcher PlanAdopted(uint64_t epoch) {
  return Is<record::PlanAdopted, record::Body>(
      absl::StrCat("a plan of epoch ", epoch, " was adopted"),
      [=](const record::PlanAdopted& r) { return r.epoch.value == epoch; });
}
RecordMatcher EpochFinished(uint64_t epoch) {
  return Is<record::EpochFinished, record::Body>(
      absl::StrCat("epoch ", epoch, " finished"),
      [=](const record::EpochFinished& r) { return r.epoch.value == epoch; });
}
RecordMatcher JobEnded(record::JobOutcome outcome) {
  return Is<record::JobEnded, record::Body>(
      Describe(record::Body(record::JobEnded{.outcome = outcome})),
      [=](const record::JobEnded& r) { return r.outcome == outcome; });
}
RecordMatcher WorkerLeft(std::string_view worker, uint64_t epoch) {
  const std::string name(worker);
  return Is<record::WorkerLeft, record::Body>(
      absl::StrCat(name, " left epoch ", epoch),
      [=](const record::WorkerLeft& r) {
        return r.worker.value == name && r.epoch.value == epoch;
      });
}
RecordMatcher RecoveryDecided(uint64_t epoch) {
  return Is<record::RecoveryDecided, record::Body>(
      absl::StrCat("recovery from epoch ", epoch),
      [=](const record::RecoveryDecided& r) { return r.epoch.value == epoch; });
}
RecordMatcher CommandsWanted(std::initializer_list<Command> commands) {
  const std::vector<Command> expected = commands;
  return Is<record::CommandsWanted, record::Body>(
      absl::StrCat("commands wanted: ", Names(expected)),
      [=](const record::CommandsWanted& r) {
        return r.wanted.commands == expected;
      });
}
RecordMatcher JobArchived(std::string_view as) {
  const std::string name(as);
  return Is<record::JobArchived, record::Body>(
      absl::StrCat("archived as ", name),
      [=](const record::JobArchived& r) { return r.as.value == name; });
}
RecordMatcher JobAdopted(std::string_view job, uint64_t epoch,
                         TextList members) {
  const std::string name(job);
  const std::vector<std::string> names(members.begin(), members.end());
  return Is<record::JobAdopted, record::Body>(
      absl::StrCat("job ", name, " was adopted in epoch ", epoch, ": ",
                   TextOf(names)),
      [=](const record::JobAdopted& r) {
        std::vector<protocol::Member> adopted;
        for (const auto& member : r.members) adopted.push_back(member.member);
        return r.spec.name == name && r.epoch.value == epoch &&
               NamesOf(adopted) == names;
      });
}

}  // namespace lockstep::core
