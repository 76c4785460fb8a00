// The base of FromProto: reads fields, validates them, and stores the first
// fault with the path of its field.
//
//   void Read(const v1::MeshAxis& from, MeshAxis* to, Decoder* d) {
//     d->Name("name", from.name(), &to->name);
//     d->Positive("size", from.size(), &to->size);
//   }
//
// Internal to the codec. Reading continues after a fault, so that every Read is
// a plain list of fields; the result is then unusable.

#ifndef LOCKSTEP_PROTO_DECODER_H_
#define LOCKSTEP_PROTO_DECODER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/text/utf8.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/repeated_field.h"

namespace lockstep::proto {

// Upper limits of received data. Counts that are not listed are limited by the
// size of a message.
inline constexpr size_t kNameBytesMax = 4096;  // names, digests, tokens
inline constexpr size_t kTextBytesMax = 1 << 20;
inline constexpr size_t kOpaqueBytesMax = 1 << 16;    // handles, verdicts
inline constexpr size_t kSessionSecretBytesMax = 64;  // of a Welcome
inline constexpr size_t kPlanPartBytesMax = 512 << 10;
inline constexpr int kDimensionsMax = 64;  // of shapes and meshes
inline constexpr int kRanksMax = 1 << 20;
inline constexpr int kParametersInChunkMax = 1 << 16;
inline constexpr int kStatesInChunkMax = 1 << 16;
inline constexpr int kManyMax = 1 << 24;  // parameters, transfers of a plan

class Decoder {
 public:
  // Errors start with `message`.
  explicit Decoder(absl::string_view message) : message_(message) {}

  void Fail(const char* field, absl::string_view why);
  const absl::Status& status() const { return status_; }

  // --- Single fields ---
  // A name is compared with others, so it is not changed: if it is not
  // printable (base/text/utf8.h), it is refused.
  void Name(const char* field, const std::string& from, std::string* to);
  // A text is for people, so it is escaped where it is not printable. The limit
  // is for the escaped text.
  void Label(const char* field, const std::string& from, std::string* to) {
    Bytes(field, Printable(from), kNameBytesMax, to);
  }
  void Text(const char* field, const std::string& from, std::string* to) {
    Bytes(field, Printable(from), kTextBytesMax, to);
  }
  // 32 lower case hexadecimal digits.
  void Hash(const char* field, const std::string& from, std::string* to);
  // Not validated for display, since it is never displayed.
  void Secret(const char* field, const std::string& from, std::string* to) {
    Bytes(field, from, kNameBytesMax, to);
  }
  void Opaque(const char* field, const std::string& from, std::string* to) {
    Bytes(field, from, kOpaqueBytesMax, to);
  }
  void PlanData(const char* field, const std::string& from, std::string* to) {
    Bytes(field, from, kPlanPartBytesMax, to);
  }
  void SessionSecret(const char* field, const std::string& from,
                     std::string* to) {
    Bytes(field, from, kSessionSecretBytesMax, to);
  }

  // An integer in [least, INT_MAX].
  void Int(const char* field, int64_t from, int least, int* to);
  void NotNegative(const char* field, int64_t from, int64_t* to);
  // At most kDimensionsMax sizes whose product, in bytes, fits in an int64.
  void Shape(const char* field,
             const google::protobuf::RepeatedField<int64_t>& from,
             std::vector<int64_t>* to);
  // Neither infinite nor no number.
  void Finite(const char* field, double from, double* to);
  // A time in seconds, finite and not negative.
  void Seconds(const char* field, double from, double* to);
  void Duration(const char* field, const google::protobuf::Duration& from,
                absl::Duration* to);
  // Copies the numbers.
  void Numbers(const char* field,
               const google::protobuf::RepeatedField<uint32_t>& from,
               int count_max, std::vector<uint32_t>* to) {
    if (!Count(field, from.size(), count_max)) return;
    to->assign(from.begin(), from.end());
  }
  // A gRPC status code other than OK.
  void ErrorCode(const char* field, uint32_t from, absl::StatusCode* to);

  // `is_valid` is the generated E_IsValid. Value 0 is refused.
  template <typename E>
  void Enum(const char* field, int from, bool (*is_valid)(int), E* to) {
    if (from == 0 || !is_valid(from)) {
      Fail(field, absl::StrCat(from, " is no such value"));
    }
    *to = static_cast<E>(from);
  }

  // --- Messages and lists ---
  // A required message.
  template <typename Wire, typename Word>
  void Message(const char* field, bool present, const Wire& from, Word* to) {
    if (!present) return Fail(field, "is missing");
    Nested(field, -1, from, to);
  }

  // A message whose presence the oneof states.
  template <typename Word, typename Wire, typename Variant>
  void Body(const char* field, const Wire& from, Variant* to) {
    Nested(field, -1, from, &to->template emplace<Word>());
  }
  template <typename Word, typename Wire>
  void Optional(const char* field, bool present, const Wire& from,
                std::optional<Word>* to) {
    if (present) Nested(field, -1, from, &to->emplace());
  }

  template <typename List, typename Word>
  void Each(const char* field, const List& from, int count_max,
            std::vector<Word>* to) {
    if (!Count(field, from.size(), count_max)) return;
    to->reserve(from.size());
    for (int i = 0; i < from.size(); ++i) {
      Nested(field, i, from[i], &to->emplace_back());
    }
  }

  // Names, as plain strings or as ids.
  template <typename List>
  void Names(const char* field, const List& from, int count_max,
             std::vector<std::string>* to) {
    if (!Count(field, from.size(), count_max)) return;
    for (const std::string& name : from) Name(field, name, &to->emplace_back());
  }
  template <typename List, typename Id>
  void Ids(const char* field, const List& from, int count_max,
           std::vector<Id>* to) {
    if (!Count(field, from.size(), count_max)) return;
    for (const std::string& name : from) {
      Name(field, name, &to->emplace_back().value);
    }
  }

  // Checks the length of a list.
  bool Count(const char* field, int count, int count_max);

 private:
  void Bytes(const char* field, const std::string& from, size_t bytes_max,
             std::string* to);

  template <typename Wire, typename Word>
  void Nested(const char* field, int index, const Wire& from, Word* to) {
    path_.emplace_back(field, index);
    Read(from, to, this);  // an overload of the codec
    path_.pop_back();
  }

  const absl::string_view message_;
  std::vector<std::pair<const char*, int>> path_;  // index -1: not in a list
  absl::Status status_;
};

template <typename Word, typename Wire>
absl::StatusOr<Word> Decode(absl::string_view message, const Wire& from) {
  Decoder decoder(message);
  Word word;
  Read(from, &word, &decoder);
  if (!decoder.status().ok()) return decoder.status();
  return word;
}

}  // namespace lockstep::proto

#endif  // LOCKSTEP_PROTO_DECODER_H_
