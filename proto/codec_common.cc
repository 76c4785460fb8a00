#include "proto/codec_common.h"

#include <iterator>
#include <string>

#include "proto/codec.h"

namespace lockstep::proto {

static_assert(static_cast<int>(*std::rbegin(kAllDTypes)) == v1::DType_MAX);
static_assert(static_cast<int>(ReduceOp::kProd) == v1::ReduceOp_MAX);
static_assert(static_cast<int>(protocol::Phase::kVerdict) == v1::Phase_MAX);
static_assert(static_cast<int>(protocol::CauseKind::kGrown) ==
              v1::CauseKind_MAX);
static_assert(static_cast<int>(Command::kDrain) == v1::Command_MAX);
static_assert(static_cast<int>(protocol::EvidenceKind::kSocketClosed) ==
              v1::EvidenceKind_MAX);

// --- Header -----------------------------------------------------------------

v1::Header ToProto(const Header& header) {
  v1::Header to;
  WriteHeader(header, &to);
  return to;
}

void Read(const v1::Header& from, Header* to, Decoder* d) {
  ReadHeader(from, to, d);
}

absl::StatusOr<Header> FromProto(const v1::Header& header) {
  return Decode<Header>("Header", header);
}

// --- Strings of requests ----------------------------------------------------

absl::StatusOr<std::string> NameFromProto(const char* field,
                                          const std::string& name) {
  Decoder decoder("request");
  std::string to;
  decoder.Name(field, name, &to);
  if (!decoder.status().ok()) return decoder.status();
  return to;
}

absl::StatusOr<std::string> TextFromProto(const char* field,
                                          const std::string& text) {
  Decoder decoder("request");
  std::string to;
  decoder.Text(field, text, &to);
  if (!decoder.status().ok()) return decoder.status();
  return to;
}

// --- Mesh and parameter -----------------------------------------------------

void Write(const Mesh& from, v1::Mesh* to) {
  for (const MeshAxis& axis : from.axes) {
    v1::MeshAxis* added = to->add_axes();
    added->set_name(ToUtf8(axis.name));
    added->set_size(axis.size);
  }
}

void Read(const v1::MeshAxis& from, MeshAxis* to, Decoder* d) {
  d->Name("name", from.name(), &to->name);
  d->Int("size", from.size(), 1, &to->size);
}

void Read(const v1::Mesh& from, Mesh* to, Decoder* d) {
  d->Each("axes", from.axes(), kDimensionsMax, &to->axes);
}

void Write(const Parameter& from, v1::Parameter* to) {
  to->set_name(ToUtf8(from.name));
  to->mutable_shape()->Add(from.shape.begin(), from.shape.end());
  to->set_dtype(Wire(from.dtype));
  to->set_op(Wire(from.op));
  for (const std::string& axis : from.axes) to->add_axes(ToUtf8(axis));
  for (const std::string& axis : from.replicated_over) {
    to->add_replicated_over(ToUtf8(axis));
  }
  to->set_stage(static_cast<uint32_t>(from.stage) + 1);
}

void Read(const v1::Parameter& from, Parameter* to, Decoder* d) {
  d->Name("name", from.name(), &to->name);
  d->Shape("shape", from.shape(), &to->shape);
  ReadDType(from.dtype(), &to->dtype, d);
  ReadOp(from.op(), &to->op, d);
  d->Names("axes", from.axes(), kDimensionsMax, &to->axes);
  d->Names("replicated_over", from.replicated_over(), kDimensionsMax,
           &to->replicated_over);
  d->Int("stage", from.stage(), 0, &to->stage);
  --to->stage;
}

// --- Processes and members --------------------------------------------------

void Write(const protocol::ProcessInfo& from, v1::ProcessInfo* to) {
  to->set_host(ToUtf8(from.host));
  to->set_pid(from.pid);
  to->set_boot_id(ToUtf8(from.boot_id));
  to->set_start_time(from.start_time);
}

void Read(const v1::ProcessInfo& from, protocol::ProcessInfo* to, Decoder* d) {
  d->Label("host", from.host(), &to->host);
  d->NotNegative("pid", from.pid(), &to->pid);
  d->Label("boot_id", from.boot_id(), &to->boot_id);
  to->start_time = from.start_time();
}

void Write(const protocol::Member& from, v1::Member* to) {
  to->set_worker(ToUtf8(from.worker.value));
  to->set_generation(from.generation.value);
  Write(from.process, to->mutable_process());
  to->set_watch_address(ToUtf8(from.watch_address));
}

void Read(const v1::Member& from, protocol::Member* to, Decoder* d) {
  d->Name("worker", from.worker(), &to->worker.value);
  to->generation = {from.generation()};
  d->Message("process", from.has_process(), from.process(), &to->process);
  d->Label("watch_address", from.watch_address(), &to->watch_address);
}

// --- Positions and failures --------------------------------------------------

void Write(const protocol::Position& from, v1::Position* to) {
  to->set_step(from.step);
  to->set_phase(WireOf<v1::Phase>(from.phase));
}

void Read(const v1::Position& from, protocol::Position* to, Decoder* d) {
  to->step = from.step();
  d->Enum("phase", from.phase(), &v1::Phase_IsValid, &to->phase);
}

void Write(const protocol::Cause& from, v1::Cause* to) {
  to->set_kind(WireOf<v1::CauseKind>(from.kind));
  for (const WorkerName& worker : from.workers) {
    to->add_workers(ToUtf8(worker.value));
  }
  to->set_message(ToUtf8(from.message));
}

void Read(const v1::Cause& from, protocol::Cause* to, Decoder* d) {
  if (from.kind() == v1::CAUSE_KIND_NONE) {
    to->kind = protocol::CauseKind::kNone;
  } else {
    d->Enum("kind", from.kind(), &v1::CauseKind_IsValid, &to->kind);
  }
  d->Ids("workers", from.workers(), kRanksMax, &to->workers);
  d->Text("message", from.message(), &to->message);
}

v1::Evidence ToProto(const protocol::Evidence& evidence) {
  v1::Evidence to;
  Write(evidence, &to);
  return to;
}

void Write(const protocol::Evidence& from, v1::Evidence* to) {
  to->set_subject(ToUtf8(from.subject.value));
  to->set_generation(from.generation.value);
  to->set_kind(WireOf<v1::EvidenceKind>(from.kind));
  to->set_detail(ToUtf8(from.detail));
  Write(from.process, to->mutable_process());
}

absl::StatusOr<protocol::Evidence> FromProto(const v1::Evidence& evidence) {
  return Decode<protocol::Evidence>("Evidence", evidence);
}

void Read(const v1::Evidence& from, protocol::Evidence* to, Decoder* d) {
  d->Name("subject", from.subject(), &to->subject.value);
  to->generation = {from.generation()};
  d->Enum("kind", from.kind(), &v1::EvidenceKind_IsValid, &to->kind);
  d->Text("detail", from.detail(), &to->detail);
  if (from.has_process()) {
    d->Message("process", true, from.process(), &to->process);
  }
}

// --- Decisions and commands -------------------------------------------------

void Write(const protocol::Decision& from, v1::Decision* to) {
  to->set_pass(from.pass);
  to->set_parameter(from.parameter);
  to->set_announcers(from.announcers);
}

void Read(const v1::Decision& from, protocol::Decision* to, Decoder*) {
  to->pass = from.pass();
  to->parameter = from.parameter();
  to->announcers = from.announcers();
}

void Write(const protocol::DesiredCommands& from, v1::DesiredCommands* to) {
  for (const Command command : from.commands) {
    to->add_commands(WireOf<v1::Command>(command));
  }
  to->set_reason(ToUtf8(from.reason));
  to->set_number(from.number);
  to->set_saves(from.saves);
  to->set_growths(from.growths);
}

void Read(const v1::DesiredCommands& from, protocol::DesiredCommands* to,
          Decoder* d) {
  if (d->Count("commands", from.commands_size(), kCommands)) {
    for (const int command : from.commands()) {
      d->Enum("commands", command, &v1::Command_IsValid,
              &to->commands.emplace_back());
    }
  }
  d->Text("reason", from.reason(), &to->reason);
  to->number = from.number();
  to->saves = from.saves();
  to->growths = from.growths();
}

}  // namespace lockstep::proto
