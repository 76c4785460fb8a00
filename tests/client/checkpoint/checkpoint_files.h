// Tensors in files, for the tests of the writer and of the reader.

#ifndef LOCKSTEP_TESTS_CLIENT_CHECKPOINT_CHECKPOINT_FILES_H_
#define LOCKSTEP_TESTS_CLIENT_CHECKPOINT_CHECKPOINT_FILES_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/file_system.h"
#include "client/checkpoint/safetensors_writer.h"

namespace lockstep::checkpoint {

// Bytes that differ from place to place and from seed to seed.
inline std::string PatternBytes(size_t bytes, uint32_t seed) {
  std::string text(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) {
    text[i] = static_cast<char>((i + seed * 977u) * 2654435761u >> 13);
  }
  return text;
}

// Tensors with their contents, by name.
class TensorSet {
 public:
  void Add(const std::string& name, TensorType type) {
    const uint64_t bytes = TensorBytes(type).value();
    contents_[name] = PatternBytes(bytes, contents_.size() + 1);
    types_.emplace_back(name, std::move(type));
  }
  const std::string& at(const std::string& name) const {
    return contents_.at(name);
  }
  std::vector<TensorToWrite> ToWrite() const {
    std::vector<TensorToWrite> tensors;
    for (const auto& [name, type] : types_) {
      tensors.push_back({.name = name,
                         .type = type,
                         .pieces = FromMemory(contents_.at(name).data())});
    }
    return tensors;
  }

 private:
  std::map<std::string, std::string> contents_;
  std::vector<std::pair<std::string, TensorType>> types_;
};

// Three blocks: "large" is in all of them, the others in the last one. "empty"
// has no bytes.
inline const TensorSet& ThreeBlocks() {
  static const TensorSet* const set = [] {
    auto* tensors = new TensorSet;
    tensors->Add("bias", {DType::kBF16, {7}});
    tensors->Add("large", {DType::kF32, {3, 800'000}});
    tensors->Add("mask", {DType::kBool, {5, 3}});
    tensors->Add("empty", {DType::kF16, {4, 0}});
    tensors->Add("scale", {DType::kF32, {}});
    return tensors;
  }();
  return *set;
}

}  // namespace lockstep::checkpoint

#endif  // LOCKSTEP_TESTS_CLIENT_CHECKPOINT_CHECKPOINT_FILES_H_
