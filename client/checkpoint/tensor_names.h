// Which tensors of a checkpoint a program loads, and under which names.
//
//   renamed  {"model.*", "net.*"}    model.w ──▶ net.w      one '*': any text
//            {"bias", "net.b"}       bias ──▶ net.b         goes before
//            patterns
//   only     {"net.*"}               these names, after renaming
//   except   {"*.exp_avg"}           but not these
//
// Threads: none. Ownership: what a constructor is given must outlive the
// object.

#ifndef LOCKSTEP_CLIENT_CHECKPOINT_TENSOR_NAMES_H_
#define LOCKSTEP_CLIENT_CHECKPOINT_TENSOR_NAMES_H_

#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace lockstep::checkpoint {

// Whether `name` is `pattern` with any text for each '*'.
bool FitsPattern(absl::string_view pattern, absl::string_view name);

class Renaming {
 public:
  explicit Renaming(const std::map<std::string, std::string>& renamed);

  // The name that the program has for a tensor of the checkpoint. Called once
  // for each tensor of it, before Faults.
  std::string NameOf(const std::string& stored);

  // For people: patterns that have other than one '*' on each side, names that
  // two patterns fit, and names and patterns that the checkpoint has not.
  std::vector<std::string> Faults() const;

 private:
  struct Pattern {
    std::string from, to;
    bool used = false;
  };

  std::map<std::string, std::string> names_;  // without '*', not used yet
  std::vector<Pattern> patterns_;
  const std::map<std::string, std::string>& renamed_;
  std::vector<std::string> faults_;
};

class Selection {
 public:
  Selection(const std::vector<std::string>& only,
            const std::vector<std::string>& except);

  bool Has(absl::string_view name);
  // For people: texts that fit no name for which Has was called.
  std::vector<std::string> Unused() const;

 private:
  // One list, with the texts of it that fitted a name.
  struct Texts {
    const std::vector<std::string>& texts;
    std::vector<bool> used;
    bool Fit(absl::string_view name);
    void ListUnused(const char* option, std::vector<std::string>* to) const;
  };

  Texts only_, except_;
};

}  // namespace lockstep::checkpoint

#endif  // LOCKSTEP_CLIENT_CHECKPOINT_TENSOR_NAMES_H_
