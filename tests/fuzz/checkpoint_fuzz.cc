// Files of checkpoints, ours and other programs': headers of safetensors,
// manifests, parts of ranks, sharding and training states, names of folders.
//
//   | kind | bytes |

#include <cstring>
#include <iterator>
#include <string>

#include "base/text/utf8.h"
#include "client/checkpoint/directory.h"
#include "client/checkpoint/manifest.h"
#include "client/checkpoint/manifest_fields.h"
#include "client/checkpoint/safetensors.h"
#include "client/checkpoint/seed_sharding.h"
#include "client/checkpoint/strict_json.h"
#include "client/checkpoint/training_texts.h"
#include "client/state/part.h"
#include "tests/fuzz/fuzz_input.h"

namespace lockstep::fuzz {
namespace {

// The header's length and JSON, in a file that has as much data as the header
// says, or other.
void ReadSafetensors(const std::string& bytes) {
  if (bytes.size() < 2) return;
  const auto data = static_cast<uint8_t>(bytes[0]);
  const std::string json = bytes.substr(1);
  std::string file(checkpoint::kHeaderPrefixBytes, '\0');
  const uint64_t length = json.size();
  std::memcpy(file.data(), &length, sizeof length);
  file += json;
  const uint64_t size = file.size() + uint64_t{data} * 4;
  const auto begin = checkpoint::DataBegin(
      absl::string_view(file).substr(0, checkpoint::kHeaderPrefixBytes), size);
  if (!begin.ok()) return;
  const auto header = checkpoint::ParseHeader(file, size);
  if (!header.ok()) {
    return Require(IsPrintableUtf8(header.status().message()),
                   "an error is printable");
  }
  Require(file.size() + header->data_bytes() == size,
          "the tensors fill the data");
  checkpoint::TrainingOf(header->metadata).IgnoreError();
  const auto again = checkpoint::FormatHeader(*header);
  if (!again.ok()) return;  // a name that Lockstep does not write
  const auto read =
      checkpoint::ParseHeader(*again, again->size() + header->data_bytes());
  Require(read.ok() && *read == *header, "a header survives a round trip");
}

void ReadPrefix(const std::string& bytes) {
  checkpoint::DataBegin(bytes, bytes.size()).IgnoreError();
  checkpoint::ParseHeader(bytes, bytes.size()).IgnoreError();
}

// `text` without the hash of its end, which no fuzzer finds.
void ReadManifest(const std::string& text) {
  checkpoint::ParseManifest(text).IgnoreError();
  const auto manifest = checkpoint::ParseManifest(checkpoint::WithDigest(text));
  if (!manifest.ok()) return;
  const auto again = checkpoint::FormatManifest(*manifest);
  Require(again.ok(), "a manifest that was read can be written");
  const auto read = checkpoint::ParseManifest(*again);
  Require(read.ok() && *read == *manifest, "a manifest survives a round trip");
}

void ReadJson(const std::string& text) {
  checkpoint::ParseStrictJson(text).IgnoreError();
  checkpoint::ParseSeedSharding(text).IgnoreError();
  checkpoint::ParseSeedTraining(text).IgnoreError();
}

void ReadPart(const std::string& text) {
  const std::string whole = checkpoint::WithDigest(text);
  const auto part =
      state::ParsePart(whole, checkpoint::CheckDigest(whole, "part").value());
  if (!part.ok()) return;
  const state::PartText formatted = state::FormatPart(*part);
  const auto again = state::ParsePart(formatted.text, formatted.hash);
  Require(again.ok() && *again == *part, "a part survives a round trip");
}

void ReadName(const std::string& text) {
  const auto name = checkpoint::ParseFolderName(text);
  if (!name) return;
  Require(checkpoint::FolderName(*name) == text, "a folder has one name");
}

constexpr void (*kKinds[])(const std::string&) = {&ReadSafetensors, &ReadPrefix,
                                                  &ReadManifest,    &ReadJson,
                                                  &ReadPart,        &ReadName};

}  // namespace
}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep::fuzz;
  FuzzInput input(data, size);
  const int kind = input.Below(static_cast<int>(std::size(kKinds)));
  kKinds[kind](input.Rest());
  return 0;
}
