// The codec of messages from workers.

#include <string>
#include <variant>

#include "proto/codec.h"
#include "proto/codec_checkpoint.h"
#include "proto/codec_common.h"
#include "proto/codec_halo.h"
#include "proto/codec_state.h"
#include "protocol/halo.h"

namespace lockstep::proto {

// --- Bodies -----------------------------------------------------------------

void Write(const protocol::ResumeState& from, v1::ResumeState* to) {
  to->set_epoch(from.epoch.value);
  to->set_revision(from.revision.value);
  to->set_plan_digest(ToUtf8(from.plan_digest));
  Write(from.position, to->mutable_position());
  to->set_started(from.started);
  to->set_rank(from.rank);
  to->set_members_digest(ToUtf8(from.members_digest));
  WriteNumbers(from.observed_order, to->mutable_observed_order());
  Write(from.wanted, to->mutable_wanted());
  to->set_ended(from.ended);
  to->set_leaving(from.leaving);
  to->set_first_step(from.first_step);
  to->set_world(from.world);
}

void Read(const v1::ResumeState& from, protocol::ResumeState* to, Decoder* d) {
  to->epoch = {from.epoch()};
  to->revision = {from.revision()};
  d->Name("plan_digest", from.plan_digest(), &to->plan_digest);
  d->Message("position", from.has_position(), from.position(), &to->position);
  to->started = from.started();
  d->Int("rank", from.rank(), -1, &to->rank);
  d->Name("members_digest", from.members_digest(), &to->members_digest);
  d->Numbers("observed_order", from.observed_order(), kManyMax,
             &to->observed_order);
  if (from.has_wanted()) {
    d->Message("wanted", true, from.wanted(), &to->wanted);
  }
  to->ended = from.ended();
  to->leaving = from.leaving();
  to->first_step = from.first_step();
  d->Int("world", from.world(), 0, &to->world);
}

void Write(const protocol::Launch& from, v1::Launch* to) {
  to->set_id(ToUtf8(from.id));
  to->set_nodes(from.nodes);
  to->set_node_rank(from.node_rank);
}

void Read(const v1::Launch& from, protocol::Launch* to, Decoder* d) {
  d->Name("id", from.id(), &to->id);
  d->Int("nodes", from.nodes(), 1, &to->nodes);
  d->Int("node_rank", from.node_rank(), 0, &to->node_rank);
}

void Write(const protocol::HeldState& from, v1::HeldState* to) {
  to->set_epoch(from.epoch.value);
  to->set_steps(from.steps);
}

void Read(const v1::HeldState& from, protocol::HeldState* to, Decoder*) {
  to->epoch = {from.epoch()};
  to->steps = from.steps();
}

void Write(const protocol::Hello& from, v1::Hello* to) {
  to->set_version(from.version);
  to->set_worker(ToUtf8(from.worker.value));
  to->set_generation(from.generation.value);
  to->set_incarnation(from.incarnation);
  if (from.spec) Write(*from.spec, to->mutable_spec());
  to->set_token(ToUtf8(from.token));
  Write(from.process, to->mutable_process());
  if (from.resume) Write(*from.resume, to->mutable_resume());
  to->set_secret(from.secret);
  if (from.launch) Write(*from.launch, to->mutable_launch());
  if (from.held) Write(*from.held, to->mutable_held());
  to->set_watch_address(ToUtf8(from.watch_address));
}

void Read(const v1::Hello& from, protocol::Hello* to, Decoder* d) {
  to->version = from.version();
  d->Name("worker", from.worker(), &to->worker.value);
  if (to->version != protocol::kVersion) return;
  to->generation = {from.generation()};
  to->incarnation = from.incarnation();
  d->Optional("spec", from.has_spec(), from.spec(), &to->spec);
  d->Secret("token", from.token(), &to->token);
  d->Message("process", from.has_process(), from.process(), &to->process);
  d->Optional("resume", from.has_resume(), from.resume(), &to->resume);
  d->SessionSecret("secret", from.secret(), &to->secret);
  d->Optional("launch", from.has_launch(), from.launch(), &to->launch);
  d->Optional("held", from.has_held(), from.held(), &to->held);
  d->Label("watch_address", from.watch_address(), &to->watch_address);
}

void Write(const TransportFacts& from, v1::TransportFacts* to) {
  to->set_place(ToUtf8(from.place));
  to->set_pairs_in_one_place(from.pairs_in_one_place);
  to->set_pairs_across_places(from.pairs_across_places);
  to->set_pairs_in_mixed_places(from.pairs_in_mixed_places);
  to->set_decides_on_device(from.decides_on_device);
}

void Read(const v1::TransportFacts& from, TransportFacts* to, Decoder* d) {
  d->Name("place", from.place(), &to->place);
  to->pairs_in_one_place = from.pairs_in_one_place();
  to->pairs_across_places = from.pairs_across_places();
  to->pairs_in_mixed_places = from.pairs_in_mixed_places();
  to->decides_on_device = from.decides_on_device();
}

void Write(const protocol::AxisGroupDeclaration& from, v1::AxisGroup* to) {
  for (const std::string& axis : from.axes) to->add_axes(ToUtf8(axis));
  for (const std::vector<int>& indices : from.index_groups) {
    v1::IndexGroup* group = to->add_index_groups();
    for (const int index : indices) {
      group->add_indices(static_cast<uint32_t>(index));
    }
  }
}

void Read(const v1::IndexGroup& from, std::vector<int>* to, Decoder* d) {
  constexpr int kMax = static_cast<int>(protocol::kGroupIndicesMax);
  if (!d->Count("indices", from.indices_size(), kMax)) return;
  to->reserve(static_cast<size_t>(from.indices_size()));
  for (const uint32_t index : from.indices()) {
    d->Int("indices", index, 0, &to->emplace_back());
  }
}

void Read(const v1::AxisGroup& from, protocol::AxisGroupDeclaration* to,
          Decoder* d) {
  constexpr int kMax = static_cast<int>(protocol::kGroupIndicesMax);
  d->Names("axes", from.axes(), kDimensionsMax, &to->axes);
  d->Each("index_groups", from.index_groups(), kMax, &to->index_groups);
}

void Write(const protocol::RegisterChunk& from, v1::RegisterChunk* to) {
  to->set_index(from.index);
  to->set_last(from.last);
  for (const Parameter& p : from.parameters) Write(p, to->add_parameters());
  for (const StateSpec& s : from.states) Write(s, to->add_states());
  if (from.transport != TransportFacts{}) {
    Write(from.transport, to->mutable_transport());
  }
  for (const protocol::AxisGroupDeclaration& group : from.groups) {
    Write(group, to->add_groups());
  }
  for (const HaloSpec& halo : from.halos) Write(halo, to->add_halos());
}

void Read(const v1::RegisterChunk& from, protocol::RegisterChunk* to,
          Decoder* d) {
  to->index = from.index();
  to->last = from.last();
  d->Each("parameters", from.parameters(), kParametersInChunkMax,
          &to->parameters);
  d->Each("states", from.states(), kStatesInChunkMax, &to->states);
  if (from.has_transport()) {
    d->Message("transport", true, from.transport(), &to->transport);
  }
  d->Each("groups", from.groups(), static_cast<int>(protocol::kAxisGroupsMax),
          &to->groups);
  size_t indices = 0;
  for (const protocol::AxisGroupDeclaration& group : to->groups) {
    for (const std::vector<int>& members : group.index_groups) {
      indices += members.size();
    }
  }
  if (indices > protocol::kGroupIndicesMax) {
    d->Fail("groups", "have too many indices");
  }
  d->Each("halos", from.halos(), static_cast<int>(kHalosMax), &to->halos);
  size_t tensors = 0;
  for (const HaloSpec& halo : to->halos) tensors += halo.tensors.size();
  if (tensors > kHaloTensorsOfRankMax) {
    d->Fail("halos", "have too many tensors");
  }
}

void Write(const protocol::PlanAck& from, v1::PlanAck* to) {
  to->set_revision(from.revision.value);
  to->set_digest(ToUtf8(from.digest));
}

void Read(const v1::PlanAck& from, protocol::PlanAck* to, Decoder* d) {
  to->revision = {from.revision()};
  d->Name("digest", from.digest(), &to->digest);
}

void Write(const protocol::PublishHandles& from, v1::PublishHandles* to) {
  for (const protocol::GroupHandle& handle : from.handles) {
    v1::GroupHandle* added = to->add_handles();
    added->set_communicator(handle.communicator);
    added->set_handle(handle.handle);
  }
}

void Read(const v1::GroupHandle& from, protocol::GroupHandle* to, Decoder* d) {
  d->Int("communicator", from.communicator(), 0, &to->communicator);
  d->Opaque("handle", from.handle(), &to->handle);
}

void Read(const v1::PublishHandles& from, protocol::PublishHandles* to,
          Decoder* d) {
  d->Each("handles", from.handles(), kRanksMax, &to->handles);
}

void Write(const protocol::Connected& from, v1::Connected* to) {
  for (const protocol::GroupTransport& group : from.groups) {
    v1::GroupTransport* added = to->add_groups();
    added->set_communicator(group.communicator);
    added->set_transport(ToUtf8(group.transport));
  }
}

void Read(const v1::GroupTransport& from, protocol::GroupTransport* to,
          Decoder* d) {
  d->Int("communicator", from.communicator(), 0, &to->communicator);
  d->Text("transport", from.transport(), &to->transport);
}

void Read(const v1::Connected& from, protocol::Connected* to, Decoder* d) {
  d->Each("groups", from.groups(), kRanksMax, &to->groups);
}

void Write(const protocol::ParameterNames& from, v1::ParameterNames* to) {
  to->set_count(from.count);
  for (const std::string& name : from.names) to->add_names(ToUtf8(name));
}

void Read(const v1::ParameterNames& from, protocol::ParameterNames* to,
          Decoder* d) {
  constexpr int kNamesMax = 8;
  to->count = from.count();
  d->Names("names", from.names(), kNamesMax, &to->names);
  if (to->count == 0) to->names.clear();  // nothing is counted
}

void Write(const protocol::GroupProgress& from, v1::GroupProgress* to) {
  to->set_communicator(from.communicator);
  to->set_calls(from.calls);
  to->set_completed(from.completed);
  to->set_call(ToUtf8(from.call));
}

void Read(const v1::GroupProgress& from, protocol::GroupProgress* to,
          Decoder* d) {
  d->Int("communicator", from.communicator(), 0, &to->communicator);
  to->calls = from.calls();
  to->completed = from.completed();
  d->Label("call", from.call(), &to->call);
}

void Write(const protocol::Progress& from, v1::Progress* to) {
  Write(from.position, to->mutable_position());
  to->set_submitted(from.submitted);
  for (const std::string& name : from.missing) to->add_missing(ToUtf8(name));
  to->set_step_seconds(from.step_seconds);
  to->set_exposed_seconds(from.exposed_seconds);
  to->set_overlap(WireOf<v1::Overlap>(from.overlap));
  to->set_revision(from.revision.value);
  to->set_paused(from.paused);
  to->set_memory(ToUtf8(from.memory));
  if (from.unsubmitted_by_all.count > 0) {
    Write(from.unsubmitted_by_all, to->mutable_unsubmitted_by_all());
  }
  if (from.unsubmitted_here.count > 0) {
    Write(from.unsubmitted_here, to->mutable_unsubmitted_here());
  }
  to->set_task(ToUtf8(from.task));
  to->set_awaits(from.awaits);
  to->set_withdrawn(from.withdrawn);
  for (const protocol::GroupProgress& group : from.groups) {
    Write(group, to->add_groups());
  }
}

void Read(const v1::Progress& from, protocol::Progress* to, Decoder* d) {
  constexpr int kMissingMax = 8;
  d->Message("position", from.has_position(), from.position(), &to->position);
  to->submitted = from.submitted();
  d->Names("missing", from.missing(), kMissingMax, &to->missing);
  d->Seconds("step_seconds", from.step_seconds(), &to->step_seconds);
  d->Seconds("exposed_seconds", from.exposed_seconds(), &to->exposed_seconds);
  d->Enum("overlap", from.overlap(), &v1::Overlap_IsValid, &to->overlap);
  to->revision = {from.revision()};
  to->paused = from.paused();
  d->Text("memory", from.memory(), &to->memory);
  d->Message("unsubmitted_by_all", true, from.unsubmitted_by_all(),
             &to->unsubmitted_by_all);
  d->Message("unsubmitted_here", true, from.unsubmitted_here(),
             &to->unsubmitted_here);
  d->Label("task", from.task(), &to->task);
  d->Int("awaits", from.awaits(), -1, &to->awaits);
  to->withdrawn = from.withdrawn();
  d->Each("groups", from.groups(), static_cast<int>(protocol::kAxisGroupsMax),
          &to->groups);
}

void Write(const protocol::Heartbeat&, v1::Heartbeat*) {}
void Read(const v1::Heartbeat&, protocol::Heartbeat*, Decoder*) {}

void Write(const protocol::Busy& from, v1::Busy* to) {
  to->set_reason(ToUtf8(from.reason));
  Write(from.max, to->mutable_max());
}

void Read(const v1::Busy& from, protocol::Busy* to, Decoder* d) {
  d->Text("reason", from.reason(), &to->reason);
  d->Duration("max", from.max(), &to->max);
}

void Write(const protocol::LocalFailure& from, v1::LocalFailure* to) {
  to->set_step(from.step);
  to->set_call(ToUtf8(from.call));
  to->set_code(static_cast<uint32_t>(from.code));
  to->set_message(ToUtf8(from.message));
}

void Read(const v1::LocalFailure& from, protocol::LocalFailure* to,
          Decoder* d) {
  to->step = from.step();
  d->Text("call", from.call(), &to->call);
  d->ErrorCode("code", from.code(), &to->code);
  d->Text("message", from.message(), &to->message);
}

void Write(const protocol::EpochReport& from, v1::EpochReport* to) {
  Write(from.position, to->mutable_position());
  to->set_verdict(from.verdict);
  to->set_holds_state(from.holds_state);
  to->set_grows(from.grows);
}

void Read(const v1::EpochReport& from, protocol::EpochReport* to, Decoder* d) {
  d->Message("position", from.has_position(), from.position(), &to->position);
  d->Opaque("verdict", from.verdict(), &to->verdict);
  to->holds_state = from.holds_state();
  to->grows = from.grows();
}

void Write(const protocol::Leave& from, v1::Leave* to) {
  to->set_clean(from.clean);
  to->set_steps(from.steps);
  to->set_reason(ToUtf8(from.reason));
  if (from.command) to->set_command(WireOf<v1::Command>(*from.command));
  to->set_verdict(from.verdict);
  to->set_returns(from.returns);
}

void Read(const v1::Leave& from, protocol::Leave* to, Decoder* d) {
  to->clean = from.clean();
  to->steps = from.steps();
  d->Text("reason", from.reason(), &to->reason);
  if (from.has_command()) {
    d->Enum("command", from.command(), &v1::Command_IsValid,
            &to->command.emplace());
  }
  d->Opaque("verdict", from.verdict(), &to->verdict);
  to->returns = from.returns();
}

void Write(const protocol::ReadyOrder& from, v1::ReadyOrder* to) {
  to->set_revision(from.revision.value);
  WriteNumbers(from.parameters, to->mutable_parameters());
}

void Read(const v1::ReadyOrder& from, protocol::ReadyOrder* to, Decoder* d) {
  to->revision = {from.revision()};
  d->Numbers("parameters", from.parameters(), kManyMax, &to->parameters);
}

void Write(const protocol::PlanPart& from, v1::PlanPart* to) {
  to->set_digest(ToUtf8(from.digest));
  to->set_total_bytes(from.total_bytes);
  to->set_offset(from.offset);
  to->set_data(from.data);
}

void Read(const v1::PlanPart& from, protocol::PlanPart* to, Decoder* d) {
  d->Name("digest", from.digest(), &to->digest);
  to->total_bytes = from.total_bytes();
  to->offset = from.offset();
  d->PlanData("data", from.data(), &to->data);
}

// --- Negotiated mode --------------------------------------------------------

void Write(const protocol::Announce& from, v1::Announce* to) {
  to->set_pass(from.pass);
  WriteNumbers(from.parameters, to->mutable_parameters());
}

void Read(const v1::Announce& from, protocol::Announce* to, Decoder* d) {
  to->pass = from.pass();
  d->Numbers("parameters", from.parameters(), kManyMax, &to->parameters);
}

void Write(const protocol::Submitted& from, v1::Submitted* to) {
  to->set_pass(from.pass);
  WriteNumbers(from.parameters, to->mutable_parameters());
}

void Read(const v1::Submitted& from, protocol::Submitted* to, Decoder* d) {
  to->pass = from.pass();
  d->Numbers("parameters", from.parameters(), kManyMax, &to->parameters);
}

void Write(const protocol::Held& from, v1::Held* to) {
  to->set_first(from.first);
  for (const protocol::Decision& decision : from.decisions) {
    Write(decision, to->add_decisions());
  }
}

void Read(const v1::Held& from, protocol::Held* to, Decoder* d) {
  to->first = from.first();
  d->Each("decisions", from.decisions(), kManyMax, &to->decisions);
}

void Write(const protocol::ValueDigests& from, v1::ValueDigests* to) {
  WriteNumbers(from.parameters, to->mutable_parameters());
  to->mutable_digests()->Add(from.digests.begin(), from.digests.end());
}

void Read(const v1::ValueDigests& from, protocol::ValueDigests* to,
          Decoder* d) {
  d->Numbers("parameters", from.parameters(), kManyMax, &to->parameters);
  to->digests.assign(from.digests().begin(), from.digests().end());
  if (to->digests.size() != to->parameters.size()) {
    d->Fail("digests", absl::StrCat("there are ", to->digests.size(), " of ",
                                    to->parameters.size(), " parameters"));
  }
}

// --- The envelope -----------------------------------------------------------

namespace {

// Returns the envelope's field for each body.
struct ToCoordinatorField {
  v1::ToCoordinator* to;
  auto* operator()(const protocol::Hello&) { return to->mutable_hello(); }
  auto* operator()(const protocol::RegisterChunk&) {
    return to->mutable_register_chunk();
  }
  auto* operator()(const protocol::PlanAck&) { return to->mutable_plan_ack(); }
  auto* operator()(const protocol::PublishHandles&) {
    return to->mutable_publish_handles();
  }
  auto* operator()(const protocol::Connected&) {
    return to->mutable_connected();
  }
  auto* operator()(const protocol::Progress&) { return to->mutable_progress(); }
  auto* operator()(const protocol::Heartbeat&) {
    return to->mutable_heartbeat();
  }
  auto* operator()(const protocol::Busy&) { return to->mutable_busy(); }
  auto* operator()(const protocol::Evidence&) { return to->mutable_evidence(); }
  auto* operator()(const protocol::LocalFailure&) {
    return to->mutable_local_failure();
  }
  auto* operator()(const protocol::EpochReport&) {
    return to->mutable_epoch_report();
  }
  auto* operator()(const protocol::Leave&) { return to->mutable_leave(); }
  auto* operator()(const protocol::ReadyOrder&) {
    return to->mutable_ready_order();
  }
  auto* operator()(const protocol::Announce&) { return to->mutable_announce(); }
  auto* operator()(const protocol::Submitted&) {
    return to->mutable_submitted();
  }
  auto* operator()(const protocol::Held&) { return to->mutable_held(); }
  auto* operator()(const protocol::ValueDigests&) {
    return to->mutable_value_digests();
  }
  auto* operator()(const protocol::CheckpointReport&) {
    return to->mutable_checkpoint_report();
  }
  auto* operator()(const protocol::PlanPart&) {
    return to->mutable_plan_part();
  }
};

}  // namespace

v1::ToCoordinator ToProto(const protocol::ToCoordinator& message) {
  v1::ToCoordinator to;
  WriteHeader(message, to.mutable_header());
  std::visit(
      [&](const auto& body) { Write(body, ToCoordinatorField{&to}(body)); },
      message.body);
  return to;
}

absl::StatusOr<protocol::ToCoordinator> FromProto(
    const v1::ToCoordinator& message) {
  return Decode<protocol::ToCoordinator>("ToCoordinator", message);
}

void Read(const v1::ToCoordinator& from, protocol::ToCoordinator* to,
          Decoder* d) {
  using M = v1::ToCoordinator;
  ReadHeader(from.header(), to, d);
  switch (from.body_case()) {
    case M::kHello:
      return d->Body<protocol::Hello>("hello", from.hello(), &to->body);
    case M::kRegisterChunk:
      return d->Body<protocol::RegisterChunk>("register_chunk",
                                              from.register_chunk(), &to->body);
    case M::kPlanAck:
      return d->Body<protocol::PlanAck>("plan_ack", from.plan_ack(), &to->body);
    case M::kPublishHandles:
      return d->Body<protocol::PublishHandles>(
          "publish_handles", from.publish_handles(), &to->body);
    case M::kConnected:
      return d->Body<protocol::Connected>("connected", from.connected(),
                                          &to->body);
    case M::kProgress:
      return d->Body<protocol::Progress>("progress", from.progress(),
                                         &to->body);
    case M::kHeartbeat:
      return d->Body<protocol::Heartbeat>("heartbeat", from.heartbeat(),
                                          &to->body);
    case M::kBusy:
      return d->Body<protocol::Busy>("busy", from.busy(), &to->body);
    case M::kEvidence:
      return d->Body<protocol::Evidence>("evidence", from.evidence(),
                                         &to->body);
    case M::kLocalFailure:
      return d->Body<protocol::LocalFailure>("local_failure",
                                             from.local_failure(), &to->body);
    case M::kEpochReport:
      return d->Body<protocol::EpochReport>("epoch_report", from.epoch_report(),
                                            &to->body);
    case M::kLeave:
      return d->Body<protocol::Leave>("leave", from.leave(), &to->body);
    case M::kReadyOrder:
      return d->Body<protocol::ReadyOrder>("ready_order", from.ready_order(),
                                           &to->body);
    case M::kAnnounce:
      return d->Body<protocol::Announce>("announce", from.announce(),
                                         &to->body);
    case M::kSubmitted:
      return d->Body<protocol::Submitted>("submitted", from.submitted(),
                                          &to->body);
    case M::kHeld:
      return d->Body<protocol::Held>("held", from.held(), &to->body);
    case M::kValueDigests:
      return d->Body<protocol::ValueDigests>("value_digests",
                                             from.value_digests(), &to->body);
    case M::kCheckpointReport:
      return d->Body<protocol::CheckpointReport>(
          "checkpoint_report", from.checkpoint_report(), &to->body);
    case M::kPlanPart:
      return d->Body<protocol::PlanPart>("plan_part", from.plan_part(),
                                         &to->body);
    case M::BODY_NOT_SET: return d->Fail("body", "is missing or unknown");
  }
}

}  // namespace lockstep::proto
