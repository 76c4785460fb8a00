// Texts that people and other programs write: job specs, plans as JSON, meshes,
// sizes, times, types, addresses, requests of HTTP. Each is refused in
// printable words, or read and written back to the same value; a request is
// judged once.
//
//   | kind | text |

#include <iterator>
#include <string>

#include "base/text/units.h"
#include "base/text/utf8.h"
#include "lockstep/mesh.h"
#include "plan/plan_json.h"
#include "protocol/tensor_type.h"
#include "server/access/address.h"
#include "server/rpc/http_request.h"
#include "spec/parameter_list.h"
#include "spec/spec_text.h"
#include "tests/fuzz/fuzz_input.h"

namespace lockstep::fuzz {
namespace {

void RequirePrintable(const absl::Status& status) {
  Require(IsPrintableUtf8(status.message()), "an error is printable");
}

void ReadSpec(const std::string& text) {
  spec::LooksLikeJobSpec(text);
  const auto file = spec::ParseSpecFile(text, "job.yaml");
  if (!file.ok()) return;  // the message may have several lines
  const auto again = spec::ParseJobSpec(spec::ToYaml(file->spec), "again.yaml");
  Require(again.ok() && *again == file->spec, "a spec survives a round trip");
  if (file->spec.mesh.WorldSize() > 64) return;
  RequirePrintable(spec::RegistrationsOf(*file).status());
}

void ReadPlan(const std::string& text) {
  const auto plan = plan::PlanFromJson(text);
  if (!plan.ok()) return RequirePrintable(plan.status());
  const auto again = plan::PlanFromJson(plan::PlanToJson(*plan));
  Require(again.ok() && *again == *plan, "a plan survives a round trip");
}

void ReadMesh(const std::string& text) {
  const auto mesh = ParseMesh(text);
  if (!mesh.ok()) return RequirePrintable(mesh.status());
  const auto again = ParseMesh(ToString(*mesh));
  Require(!Validate(*mesh).ok() || (again.ok() && *again == *mesh),
          "a mesh survives a round trip");
}

void ReadUnits(const std::string& text) {
  if (const auto size = ParseSize(text)) {
    Require(ParseSize(SizeText(*size)) == size, "a size survives");
  }
  if (const auto time = ParseDuration(text)) {
    Require(ParseDuration(DurationText(*time)) == time, "a time survives");
  }
}

void ReadTypes(const std::string& text) {
  ParseTensorType(text);
  ParseActivation(text);
}

void ReadAddress(const std::string& text) {
  const auto address = rpc::ParseAddress(text);
  if (!address.ok()) return RequirePrintable(address.status());
  rpc::IsLoopback(*address);
  const auto again = rpc::ParseAddress(rpc::ToString(*address));
  Require(again.ok() && again->host == address->host &&
              again->port == address->port,
          "an address survives a round trip");
}

void ReadRequest(const std::string& text) {
  const auto whole = rpc::JudgeRequest(text, "/metrics");
  Require(whole != 200 || text.compare(0, 12, "GET /metrics") == 0,
          "only the page is served");
  for (size_t size = 0; size < text.size(); size += text.size() / 16 + 1) {
    const auto part = rpc::JudgeRequest(text.substr(0, size), "/metrics");
    Require(!part || part == whole, "more bytes change no answer");
  }
}

void Escape(const std::string& text) {
  const std::string printable = Printable(text);
  Require(IsPrintableUtf8(printable), "escaped text is printable");
  Require(Printable(printable) == printable, "escaping is idempotent");
  const std::string utf8 = ToUtf8(text);
  Require(ToUtf8(utf8) == utf8, "repaired text is UTF-8");
}

constexpr void (*kKinds[])(const std::string&) = {
    &ReadSpec,  &ReadPlan,    &ReadMesh, &ReadUnits,
    &ReadTypes, &ReadAddress, &Escape,   &ReadRequest};

}  // namespace
}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep::fuzz;
  FuzzInput input(data, size);
  const int kind = input.Below(static_cast<int>(std::size(kKinds)));
  kKinds[kind](input.Rest());
  return 0;
}
