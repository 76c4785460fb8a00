#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"
#include "proto/codec.h"
#include "tests/proto/samples.h"
#include "tests/support/fill.h"

namespace lockstep::proto {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr uint64_t kSeeds = 300;

// Encodes to bytes and decodes, as on the wire.
template <typename Word>
void ExpectRoundTrip(const Word& word, uint64_t seed) {
  decltype(ToProto(word)) received;
  ASSERT_TRUE(received.ParseFromString(ToProto(word).SerializeAsString()));
  const auto back = FromProto(received);
  ASSERT_TRUE(back.ok()) << "seed " << seed << ": " << back.status();
  EXPECT_TRUE(*back == word)
      << "seed " << seed << ": " << received.ShortDebugString();
}

template <typename Word>
void ExpectRoundTrips() {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    fill::RandomSource source(seed);
    ExpectRoundTrip(fill::Filled<Word>(source), seed);
  }
}

template <typename Envelope>
void ExpectEnvelopeRoundTrips() {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    fill::RandomSource source(seed);
    for (Envelope& envelope : fill::EachBody<Envelope>()) {
      Fill(source, envelope);
      ExpectRoundTrip(envelope, seed);
    }
  }
}

TEST(RoundTripTest, WhatWorkersSay) {
  ExpectEnvelopeRoundTrips<protocol::ToCoordinator>();
}
TEST(RoundTripTest, WhatTheCoordinatorSays) {
  ExpectEnvelopeRoundTrips<protocol::ToWorker>();
}
TEST(RoundTripTest, Records) { ExpectEnvelopeRoundTrips<record::Record>(); }
TEST(RoundTripTest, JobsOfSnapshots) { ExpectRoundTrips<record::DurableJob>(); }
TEST(RoundTripTest, Plans) { ExpectRoundTrips<plan::Plan>(); }
TEST(RoundTripTest, Specs) { ExpectRoundTrips<JobSpec>(); }
TEST(RoundTripTest, Views) {
  ExpectRoundTrips<JobView>();
  ExpectRoundTrips<JobSummary>();
  ExpectRoundTrips<LimitUse>();
}
TEST(RoundTripTest, Evidence) { ExpectRoundTrips<protocol::Evidence>(); }

// --- Completeness -----------------------------------------------------------

void NoteSetFields(const Message& message, std::set<std::string>* seen) {
  std::vector<const FieldDescriptor*> fields;
  const auto* reflection = message.GetReflection();
  reflection->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    seen->insert(field->full_name());
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (!field->is_repeated()) {
      NoteSetFields(reflection->GetMessage(message, field), seen);
      continue;
    }
    for (int i = 0; i < reflection->FieldSize(message, field); ++i) {
      NoteSetFields(reflection->GetRepeatedMessage(message, field, i), seen);
    }
  }
}

void NoteAllFields(const Descriptor* type, std::set<std::string>* all) {
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor* field = type->field(i);
    const bool is_new = all->insert(field->full_name()).second;
    if (is_new && field->message_type() != nullptr) {
      NoteAllFields(field->message_type(), all);
    }
  }
}

TEST(RoundTripTest, TheCodecKnowsEveryFieldOfTheWire) {
  std::set<std::string> all, seen;
  fill::ExampleSource source;
  for (const Sample& sample : WordSamples(source)) {
    NoteAllFields(sample.wire->GetDescriptor(), &all);
    NoteSetFields(*sample.wire, &seen);
  }
  all.erase("google.protobuf.Duration.seconds");  // depend on the values
  seen.erase("google.protobuf.Duration.seconds");
  std::vector<std::string> forgotten;
  std::set_difference(all.begin(), all.end(), seen.begin(), seen.end(),
                      std::back_inserter(forgotten));
  EXPECT_THAT(forgotten, testing::IsEmpty());
  EXPECT_GT(all.size(), 150u);
}

}  // namespace
}  // namespace lockstep::proto
