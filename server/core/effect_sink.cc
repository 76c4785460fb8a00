#include "server/core/effect_sink.h"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>

namespace lockstep::core {

void EffectSink::Send(SessionId session, const JobName& job, EpochId epoch,
                      protocol::ToWorkerBody body) {
  if (session.value == 0 || sessions_.IsClosed(session)) return;
  effects_.push_back(core::Send{session, {job, epoch, term_, std::move(body)}});
}

void EffectSink::Refuse(SessionId session, const JobName& job,
                        const absl::Status& status) {
  Send(session, job, {},
       protocol::Refused{status.code(), std::string(status.message())});
  Close(session, status);
  refused_ = session;
  refusal_ = status;
}

void EffectSink::Close(SessionId session, absl::Status status) {
  if (session.value == 0 || sessions_.IsClosed(session)) return;
  sessions_.Close(session);
  closed_ = session;
  closed_with_ = status;
  effects_.push_back(CloseSession{session, std::move(status)});
}

void EffectSink::Record(const JobName& job, record::Body body) {
  record::Record record{durable_.records + 1, job, std::move(body)};
  if (const absl::Status applied = Apply(record, &durable_); !applied.ok()) {
    std::fprintf(stderr, "lockstep: a bug: the core wrote a bad record: %s\n",
                 applied.ToString().c_str());
    std::abort();
  }
  effects_.push_back(Persist{std::move(record)});
}

void EffectSink::Answer(RequestId request, absl::Status status) {
  effects_.push_back(core::AdminReply{request, std::move(status)});
}

CompilationId EffectSink::Compile(const JobName& job, CompileInput input) {
  const CompilationId id{++compilations_};
  effects_.push_back(core::Compile{
      id, job, std::make_shared<const CompileInput>(std::move(input))});
  return id;
}

void EffectSink::Note(const JobName& job, std::string text) {
  effects_.push_back(core::Note{job, std::move(text)});
}

void EffectSink::Bind(SessionId session, Speaker speaker) {
  sessions_.Bind(session, std::move(speaker));
}

}  // namespace lockstep::core
