// A source of values for tests/support/fill.h that a fuzzer controls: messages
// with every field set from its bytes.

#ifndef LOCKSTEP_TESTS_FUZZ_FUZZ_SOURCE_H_
#define LOCKSTEP_TESTS_FUZZ_FUZZ_SOURCE_H_

#include <string>

#include "tests/fuzz/fuzz_input.h"
#include "tests/support/fill.h"

namespace lockstep::fuzz {

class FuzzSource final : public fill::Source {
 public:
  explicit FuzzSource(FuzzInput* input) : input_(input) {}

  uint64_t Number(uint64_t max) override { return input_->Number(max); }
  // Mostly one of a few, so that names meet.
  std::string Text() override {
    static const char* const kTexts[] = {"", "w-0", "w-1", "data", "p", "x"};
    const uint8_t kind = input_->Byte();
    return kind < 240 ? kTexts[kind % 6] : input_->Text(64);
  }
  bool Bool() override { return input_->Byte() % 2 == 1; }
  int Count() override { return input_->Below(4); }

 private:
  FuzzInput* const input_;
};

}  // namespace lockstep::fuzz

#endif  // LOCKSTEP_TESTS_FUZZ_FUZZ_SOURCE_H_
