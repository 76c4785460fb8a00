#include "tests/proto/samples.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"

namespace lockstep::proto {
namespace {

template <typename Wire>
absl::Status Judge(const google::protobuf::Message& message) {
  const auto word = FromProto(dynamic_cast<const Wire&>(message));
  if (!word.ok()) return word.status();
  const auto again = FromProto(ToProto(*word));
  EXPECT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(again.ok() && *again == *word) << message.ShortDebugString();
  return absl::OkStatus();
}

template <typename Wire>
absl::StatusOr<std::shared_ptr<google::protobuf::Message>> Taken(
    const google::protobuf::Message& message) {
  const auto word = FromProto(dynamic_cast<const Wire&>(message));
  if (!word.ok()) return word.status();
  return std::make_shared<Wire>(ToProto(*word));
}

template <typename Wire>
Sample SampleOf(std::string name, Wire wire) {
  return {std::move(name), std::make_shared<Wire>(std::move(wire)),
          &Judge<Wire>, &Taken<Wire>};
}

template <typename Word>
void AddWord(const std::string& name, fill::Source& source,
             std::vector<Sample>* samples) {
  samples->push_back(SampleOf(name, ToProto(fill::Filled<Word>(source))));
}

template <typename Envelope>
void AddEnvelopes(const std::string& name, fill::Source& source,
                  std::vector<Sample>* samples) {
  for (Envelope& envelope : fill::EachBody<Envelope>()) {
    source.Begin();
    Fill(source, envelope);
    auto wire = ToProto(envelope);
    const auto* body = wire.GetReflection()->GetOneofFieldDescriptor(
        wire, wire.GetDescriptor()->FindOneofByName("body"));
    samples->push_back(SampleOf(name + "." + body->name(), std::move(wire)));
  }
}

}  // namespace

std::vector<Sample> WordSamples(fill::Source& source) {
  std::vector<Sample> samples;
  AddEnvelopes<protocol::ToCoordinator>("to_coordinator", source, &samples);
  AddEnvelopes<protocol::ToWorker>("to_worker", source, &samples);
  AddEnvelopes<record::Record>("record", source, &samples);
  AddWord<protocol::Evidence>("evidence", source, &samples);
  AddWord<JobSpec>("job_spec", source, &samples);
  AddWord<record::DurableJob>("durable_job", source, &samples);
  AddWord<JobView>("job_view", source, &samples);
  AddWord<JobSummary>("job_summary", source, &samples);
  AddWord<LimitUse>("limit_use", source, &samples);
  AddWord<plan::Plan>("plan", source, &samples);
  source.Begin();
  samples.push_back(
      SampleOf("header", ToProto(Header{.job = {source.Text()},
                                        .epoch = {source.Number(UINT64_MAX)},
                                        .term = {source.Number(UINT64_MAX)}})));
  return samples;
}

}  // namespace lockstep::proto
