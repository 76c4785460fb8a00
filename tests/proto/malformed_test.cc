#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/text/utf8.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/stubs/logging.h"
#include "gtest/gtest.h"
#include "proto/codec.h"
#include "proto/decoder.h"
#include "tests/proto/samples.h"
#include "tests/support/fill.h"

namespace lockstep::proto {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Calls `visit` for each set field of the message and its submessages; of a
// list, only for the first entry.
void ForEachField(
    Message* message,
    const std::function<void(Message*, const FieldDescriptor*)>& visit) {
  std::vector<const FieldDescriptor*> fields;
  const auto* reflection = message->GetReflection();
  reflection->ListFields(*message, &fields);
  for (const FieldDescriptor* field : fields) {
    visit(message, field);
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    ForEachField(field->is_repeated()
                     ? reflection->MutableRepeatedMessage(message, field, 0)
                     : reflection->MutableMessage(message, field),
                 visit);
  }
}

// Changes a field, or the first entry of a list, and restores it at the end.
class Spoil {
 public:
  Spoil(Message* message, const FieldDescriptor* field)
      : message_(message), field_(field), before_(message->New()) {
    before_->CopyFrom(*message);
  }
  ~Spoil() {
    message_->CopyFrom(*before_);
    delete before_;
  }

  void Enum(int value) {
    field_->is_repeated()
        ? reflection()->SetRepeatedEnumValue(message_, field_, 0, value)
        : reflection()->SetEnumValue(message_, field_, value);
  }
  void Signed(int64_t value) {
    if (field_->cpp_type() == FieldDescriptor::CPPTYPE_INT32) {
      reflection()->SetInt32(message_, field_, static_cast<int32_t>(value));
    } else if (field_->is_repeated()) {
      reflection()->SetRepeatedInt64(message_, field_, 0, value);
    } else {
      reflection()->SetInt64(message_, field_, value);
    }
  }
  void Unsigned(uint32_t value) {
    field_->is_repeated()
        ? reflection()->SetRepeatedUInt32(message_, field_, 0, value)
        : reflection()->SetUInt32(message_, field_, value);
  }
  void Double(double value) {
    reflection()->SetDouble(message_, field_, value);
  }
  void Text(const std::string& value) {
    field_->is_repeated()
        ? reflection()->SetRepeatedString(message_, field_, 0, value)
        : reflection()->SetString(message_, field_, value);
  }

 private:
  const google::protobuf::Reflection* reflection() const {
    return message_->GetReflection();
  }
  Message* const message_;
  const FieldDescriptor* const field_;
  Message* const before_;
};

// An invalid value in any field of any message must be refused.
class EveryFieldTest : public testing::Test {
 protected:
  // Changes each field for which `spoil` returns true, and expects
  // InvalidArgument with the field's name.
  void Refuses(
      const std::function<bool(const FieldDescriptor*, Spoil*)>& spoil) {
    fill::ExampleSource source;
    for (const Sample& sample : WordSamples(source)) {
      ASSERT_TRUE(sample.judge(*sample.wire).ok()) << sample.name;
      ForEachField(sample.wire.get(), [&](Message* message,
                                          const FieldDescriptor* field) {
        Spoil spoiled(message, field);
        if (!spoil(field, &spoiled)) return;
        ++spoiled_;
        const absl::Status status = sample.judge(*sample.wire);
        EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument)
            << sample.name << ": " << field->full_name() << ": " << status;
        const bool in_duration = field->containing_type()->name() == "Duration";
        EXPECT_TRUE(in_duration ||
                    status.message().find(field->name()) != std::string::npos)
            << field->full_name() << ": " << status;
      });
    }
  }

  int spoiled_ = 0;
};

TEST_F(EveryFieldTest, RefusesAnEnumValueThatIsNone) {
  Refuses([](const FieldDescriptor* field, Spoil* spoil) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_ENUM) return false;
    spoil->Enum(field->enum_type()
                    ->value(field->enum_type()->value_count() - 1)
                    ->number() +
                1);
    return true;
  });
  EXPECT_GE(spoiled_, 20);
}

TEST_F(EveryFieldTest, RefusesAnEnumThatIsNotSet) {
  Refuses([](const FieldDescriptor* field, Spoil* spoil) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_ENUM) return false;
    static const std::set<std::string> kMayBeNone = {
        "lockstep.v1.Cause.kind", "lockstep.v1.BucketPolicy.wire_dtype",
        "lockstep.v1.Bucket.wire"};
    if (kMayBeNone.contains(field->full_name())) return false;
    spoil->Enum(0);
    return true;
  });
  EXPECT_GE(spoiled_, 20);
}

TEST_F(EveryFieldTest, RefusesANegativeNumber) {
  Refuses([](const FieldDescriptor* field, Spoil* spoil) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_INT32 &&
        field->cpp_type() != FieldDescriptor::CPPTYPE_INT64) {
      return false;
    }
    const bool may_be_none = field->type() == FieldDescriptor::TYPE_SINT32;
    spoil->Signed(may_be_none ? -2 : -1);
    return true;
  });
  EXPECT_GE(spoiled_, 20);
}

TEST_F(EveryFieldTest, RefusesACountThatAnIntCannotHold) {
  const std::set<std::string> unsigned_words = {
      "lockstep.v1.GroupHandles.first", "lockstep.v1.RegisterChunk.index",
      "lockstep.v1.Progress.submitted", "lockstep.v1.ReadyOrder.parameters",
      "lockstep.v1.ParameterNames.count", "lockstep.v1.Announce.parameters",
      "lockstep.v1.Submitted.parameters", "lockstep.v1.Decision.parameter",
      "lockstep.v1.Decision.announcers",
      "lockstep.v1.PlanAdoptedRecord.observed_order",
      "lockstep.v1.JobAdoptedRecord.observed_order",
      "lockstep.v1.ResumeState.observed_order",
      "lockstep.v1.DurableJob.observed_order",
      "lockstep.v1.ValueDigests.parameters",
      // Another version: the coordinator refuses it, with a better message.
      "lockstep.v1.Hello.version"};
  Refuses([&](const FieldDescriptor* field, Spoil* spoil) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_UINT32) return false;
    if (unsigned_words.count(field->full_name()) > 0) return false;
    spoil->Unsigned(0x8000'0000);
    return true;
  });
  EXPECT_GE(spoiled_, 15);
}

TEST_F(EveryFieldTest, RefusesATimeThatIsNone) {
  for (const double value :
       {-1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    Refuses([&](const FieldDescriptor* field, Spoil* spoil) {
      if (field->cpp_type() != FieldDescriptor::CPPTYPE_DOUBLE) return false;
      const bool is_value =  // and no time: of a cell
          field->name() == "constant" || field->name() == "value";
      if (is_value && value == -1.0) return false;
      spoil->Double(value);
      return true;
    });
  }
  EXPECT_GE(spoiled_, 6);
}

TEST_F(EveryFieldTest, RefusesATextThatIsTooLong) {
  const std::string too_long(kTextBytesMax + 1, 'x');
  Refuses([&](const FieldDescriptor* field, Spoil* spoil) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_STRING) return false;
    spoil->Text(too_long);
    return true;
  });
  EXPECT_GE(spoiled_, 60);
}

TEST_F(EveryFieldTest, RefusesAHashThatIsNot32HexadecimalDigits) {
  static const std::set<std::string> kHashes = {
      "lockstep.v1.CheckpointDirectory.nonce",
      "lockstep.v1.CheckpointSave.part_hash",
      "lockstep.v1.CheckpointPrepared.part_hashes",
      "lockstep.v1.SavePreparedRecord.part_hashes"};
  for (const char* hash :
       {"0123456789abcdef0123456789abcde", "0123456789ABCDEF0123456789abcdef",
        "0123456789abcdef0123456789abcdef0"}) {
    Refuses([&](const FieldDescriptor* field, Spoil* spoil) {
      if (!kHashes.contains(field->full_name())) return false;
      spoil->Text(hash);
      return true;
    });
  }
  EXPECT_GE(spoiled_, 12);
}

// --- Unprintable text -------------------------------------------------------

bool IsText(const FieldDescriptor* field) {
  return field->type() == FieldDescriptor::TYPE_STRING;
}

// Tokens are compared and never shown.
bool IsSecret(const FieldDescriptor* field) { return field->name() == "token"; }

void ExpectPrintable(const Message& message) {
  std::vector<const FieldDescriptor*> fields;
  const auto* reflection = message.GetReflection();
  reflection->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const int count =
        field->is_repeated() ? reflection->FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        ExpectPrintable(field->is_repeated()
                            ? reflection->GetRepeatedMessage(message, field, i)
                            : reflection->GetMessage(message, field));
      } else if (IsText(field) && !IsSecret(field)) {
        EXPECT_TRUE(IsPrintableUtf8(
            field->is_repeated()
                ? reflection->GetRepeatedString(message, field, i)
                : reflection->GetString(message, field)))
            << field->full_name();
      }
    }
  }
}

// In every string of every message: refused with a printable error, or accepted
// without the bytes.
TEST_F(EveryFieldTest, NothingUnprintableGetsThrough) {
  fill::ExampleSource source;
  int taken = 0, refused = 0;
  for (const char* evil :
       {"w\n2026-01-01 info job x: forged", "\x1b[2J\x1b]0;title\x07",
        "\u202egnp.exe", "\u2066a\u2069", "\u009b31m", "\x7f"}) {
    for (const Sample& sample : WordSamples(source)) {
      ForEachField(sample.wire.get(), [&](Message* message,
                                          const FieldDescriptor* field) {
        if (!IsText(field)) return;
        SCOPED_TRACE(sample.name + ": " + field->full_name());
        Spoil spoiled(message, field);
        spoiled.Text(evil);
        const auto word = sample.taken(*sample.wire);
        if (word.ok()) {
          ++taken;
          ExpectPrintable(**word);
        } else {
          ++refused;
          EXPECT_EQ(word.status().code(), absl::StatusCode::kInvalidArgument);
          EXPECT_TRUE(IsPrintableUtf8(word.status().message()));
        }
      });
    }
  }
  EXPECT_GE(taken, 6 * 15);    // messages, reasons, hosts
  EXPECT_GE(refused, 6 * 30);  // names
}

TEST(MalformedTest, ATextThatIsTooLongWhenEscapedIsRefused) {
  v1::ToCoordinator message;
  message.mutable_leave()->set_reason(std::string(kTextBytesMax / 2, '\n'));
  EXPECT_TRUE(FromProto(message).ok());
  message.mutable_leave()->set_reason(std::string(kTextBytesMax / 2 + 1, '\n'));
  EXPECT_FALSE(FromProto(message).ok());
}

// --- Single faults ----------------------------------------------------------

v1::ToCoordinator Chunk() {
  v1::ToCoordinator message;
  v1::Parameter* p = message.mutable_register_chunk()->add_parameters();
  p->set_name("w");
  p->set_dtype(v1::DTYPE_F32);
  p->set_op(v1::REDUCE_OP_MEAN);
  return message;
}

TEST(MalformedTest, NamesThePathToTheFault) {
  v1::ToCoordinator message = Chunk();
  EXPECT_TRUE(FromProto(message).ok());
  message.mutable_register_chunk()->mutable_parameters(0)->add_shape(-3);
  EXPECT_EQ(FromProto(message).status().message(),
            "ToCoordinator: register_chunk.parameters[0].shape: -3 is "
            "negative");
}

TEST(MalformedTest, AShapeMustBeCountable) {
  v1::ToCoordinator message = Chunk();
  auto* shape =
      message.mutable_register_chunk()->mutable_parameters(0)->mutable_shape();
  shape->Add(int64_t{1} << 40);
  EXPECT_TRUE(FromProto(message).ok());
  shape->Add(0);
  shape->Add(int64_t{1} << 40);
  EXPECT_FALSE(FromProto(message).ok());
}

TEST(MalformedTest, AnEnumValueThatWasRemovedIsRefused) {
  v1::ToCoordinator report;
  v1::Position* at = report.mutable_epoch_report()->mutable_position();
  at->set_phase(v1::PHASE_VERDICT);
  EXPECT_TRUE(FromProto(report).ok());
  at->set_phase(static_cast<v1::Phase>(4));  // "reduced"
  EXPECT_FALSE(FromProto(report).ok());

  v1::ToWorker message;
  message.mutable_wanted()->add_commands(v1::COMMAND_DRAIN);
  EXPECT_TRUE(FromProto(message).ok());
  message.mutable_wanted()->set_commands(0, static_cast<v1::Command>(4));
  EXPECT_FALSE(FromProto(message).ok());
}

TEST(MalformedTest, AMessageWithoutABodyIsRefused) {
  EXPECT_FALSE(FromProto(v1::ToCoordinator()).ok());
  EXPECT_FALSE(FromProto(v1::ToWorker()).ok());
  EXPECT_FALSE(FromProto(v1::Record()).ok());
}

TEST(MalformedTest, MoreParametersInAChunkThanAllowedAreRefused) {
  v1::ToCoordinator message = Chunk();
  auto* list = message.mutable_register_chunk()->mutable_parameters();
  const v1::Parameter parameter = list->Get(0);
  while (list->size() <= kParametersInChunkMax) *list->Add() = parameter;
  EXPECT_FALSE(FromProto(message).ok());
}

TEST(MalformedTest, ARankOutsideItsMembersIsRefused) {
  v1::ToWorker message;
  message.mutable_epoch_formed()->set_rank(1);
  message.mutable_epoch_formed()->add_members()->mutable_process();
  EXPECT_FALSE(FromProto(message).ok());
}

// The coordinator replies to it, so the codec must accept it.
TEST(MalformedTest, AHelloOfAnotherVersionKeepsVersionAndWorkerOnly) {
  v1::ToCoordinator message;
  message.mutable_hello()->set_version(protocol::kVersion + 1);
  message.mutable_hello()->set_worker("w");
  message.mutable_hello()->mutable_spec()->set_sync(
      static_cast<v1::SyncMode>(77));
  const auto word = FromProto(message);
  ASSERT_TRUE(word.ok()) << word.status();
  const auto& hello = std::get<protocol::Hello>(word->body);
  EXPECT_EQ(hello.version, protocol::kVersion + 1);
  EXPECT_EQ(hello.worker.value, "w");
  EXPECT_FALSE(hello.spec.has_value());
}

// --- Unknown fields and invalid bytes ---------------------------------------

TEST(MalformedTest, UnknownFieldsAreIgnoredAtEveryDepth) {
  fill::ExampleSource source;
  for (const Sample& sample : WordSamples(source)) {
    const std::string plain = sample.wire->SerializeAsString();
    const auto add_unknown = [](Message* message, const FieldDescriptor*) {
      auto* unknown = message->GetReflection()->MutableUnknownFields(message);
      unknown->Clear();
      unknown->AddVarint(50'000, 1);
    };
    ForEachField(sample.wire.get(), add_unknown);
    ASSERT_GT(sample.wire->SerializeAsString().size(), plain.size());
    EXPECT_TRUE(sample.judge(*sample.wire).ok()) << sample.name;
  }
}

TEST(MalformedTest, BrokenBytesAreRefusedOrMeanSomething) {
  google::protobuf::LogSilencer silent;  // it would log every invalid string
  int accepted = 0, refused = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    fill::RandomSource source(seed);
    std::mt19937_64 random(seed);
    for (const Sample& sample : WordSamples(source)) {
      std::string bytes = sample.wire->SerializeAsString();
      if (bytes.empty()) continue;
      for (int i = 0; i < 3; ++i) bytes[random() % bytes.size()] = random();
      if (!sample.wire->ParseFromString(bytes)) continue;
      sample.judge(*sample.wire).ok() ? ++accepted : ++refused;
    }
  }
  EXPECT_GT(accepted, 100);
  EXPECT_GT(refused, 10);
}

}  // namespace
}  // namespace lockstep::proto
