// The forms of a spec's values: how a value of each type is written, read and
// bounded. The table of fields (field.cc) uses one for each field.
//
// A form has
//   Type, Domain   for people, as in docs/spec.md
//   Print, Read    the canonical text, and the value of any accepted text;
//                  Read(Print(v)) is v for every v in the domain
//   Fault          why a value is out of its domain; empty if it is not

#ifndef LOCKSTEP_SPEC_VALUE_FORMAT_H_
#define LOCKSTEP_SPEC_VALUE_FORMAT_H_

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "lockstep/job_spec.h"

namespace lockstep::spec {

// The text of one field: a word, a list, or a map in written order.
using WrittenList = std::vector<std::string>;
using WrittenMap = std::vector<std::pair<std::string, std::string>>;
using Written = std::variant<std::string, WrittenList, WrittenMap>;

// The word, if it is a single one; InvalidArgument for a list or a map.
absl::StatusOr<std::string> WordOf(const Written& written);

// A whole number.
template <typename T>
struct NumberForm {
  T min;
  T max;
  std::string Type() const { return "number"; }
  std::string Domain() const;
  Written Print(T value) const;
  absl::StatusOr<T> Read(const Written& written) const;
  std::string Fault(T value, const JobSpec& spec) const;
};

struct SizeForm {
  int64_t min;
  int64_t max;
  std::string Type() const { return "size"; }
  std::string Domain() const;
  Written Print(int64_t value) const;
  absl::StatusOr<int64_t> Read(const Written& written) const;
  std::string Fault(int64_t value, const JobSpec& spec) const;
};

// Whole milliseconds, which messages represent exactly.
struct DurationForm {
  absl::Duration min;
  absl::Duration max;
  std::string Type() const { return "duration"; }
  std::string Domain() const;
  Written Print(absl::Duration value) const;
  absl::StatusOr<absl::Duration> Read(const Written& written) const;
  std::string Fault(absl::Duration value, const JobSpec& spec) const;
};

// One of a few words, each with its value.
template <typename T>
struct ChoiceForm {
  std::vector<std::pair<std::string, T>> choices;
  std::string Type() const { return "word"; }
  std::string Domain() const;
  Written Print(const T& value) const;
  absl::StatusOr<T> Read(const Written& written) const;
  std::string Fault(const T& value, const JobSpec& spec) const;
};

struct BoolForm {
  std::string Type() const { return "word"; }
  std::string Domain() const { return "false, true"; }
  Written Print(bool value) const { return value ? "true" : "false"; }
  absl::StatusOr<bool> Read(const Written& written) const;
  std::string Fault(bool, const JobSpec&) const { return ""; }
};

// The name of a job or of a worker.
struct NameForm {
  std::string Type() const { return "name"; }
  std::string Domain() const;
  Written Print(const std::string& value) const { return value; }
  absl::StatusOr<std::string> Read(const Written& written) const;
  std::string Fault(const std::string& value, const JobSpec& spec) const;
};

// Empty, or one name for each rank of the mesh and each spare.
struct WorkersForm {
  std::string Type() const { return "list of names"; }
  std::string Domain() const;
  Written Print(const std::vector<std::string>& value) const { return value; }
  absl::StatusOr<std::vector<std::string>> Read(const Written& written) const;
  std::string Fault(const std::vector<std::string>& value,
                    const JobSpec& spec) const;
};

// "data=2,pipe=4", or a map {data: 2, pipe: 4}.
struct MeshForm {
  std::string Type() const { return "axes"; }
  std::string Domain() const;
  Written Print(const Mesh& value) const { return ToString(value); }
  absl::StatusOr<Mesh> Read(const Written& written) const;
  std::string Fault(const Mesh& value, const JobSpec& spec) const;
};

}  // namespace lockstep::spec

#endif  // LOCKSTEP_SPEC_VALUE_FORMAT_H_
