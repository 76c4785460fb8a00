// Bytes of a plan, as FetchPlan and plan files have them: what verifies can be
// digested, written, read and explained.

#include <string>

#include "google/protobuf/stubs/logging.h"
#include "plan/digest.h"
#include "plan/plan_json.h"
#include "plan/timeline/timeline.h"
#include "plan/verify/verify.h"
#include "proto/plan_chunks.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  using fuzz::Require;
  static const auto quiet = google::protobuf::SetLogHandler(nullptr);
  (void)quiet;
  const auto plan = proto::PlanFromBytes(
      std::string(reinterpret_cast<const char*>(data), size));
  if (!plan.ok()) return 0;
  const auto again = proto::PlanFromBytes(proto::PlanBytes(*plan));
  Require(again.ok() && *again == *plan, "a plan survives a round trip");
  const std::string digest = plan::DigestOf(*plan);
  Require(digest == plan::DigestOf(*again), "equal plans have one digest");
  if (!plan::Verify(*plan).ok()) return 0;
  const auto json = plan::PlanFromJson(plan::PlanToJson(*plan));
  Require(json.ok() && *json == *plan, "a plan survives as JSON");
  plan::TimelineOf(*plan, {}).IgnoreError();
  return 0;
}
