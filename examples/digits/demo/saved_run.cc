#include "examples/digits/demo/saved_run.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "base/file_system.h"
#include "client/checkpoint/directory.h"
#include "examples/digits/demo/judgement.h"
#include "examples/digits/demo/screen.h"
#include "examples/digits/demo/training.h"
#include "examples/digits/weights_file.h"
#include "lockstep/mesh.h"

namespace lockstep::digits {
namespace {

bool HaveSameBits(const NamedWeights& a, const NamedWeights& b) {
  return a.name == b.name && a.values.size() == b.values.size() &&
         std::memcmp(a.values.data(), b.values.data(),
                     a.values.size() * sizeof(double)) == 0;
}

struct Comparison {
  double difference = 0;  // the largest of any worker
  bool same_bits = true;  // of all workers
};

absl::StatusOr<Comparison> Compare(const Flags& flags, const JobFiles& files,
                                   const Flags& whole,
                                   const JobFiles& whole_files) {
  const auto expected = WeightsOfCopy(whole, whole_files, 0, /*order=*/{});
  if (!expected.ok()) return expected.status();
  Comparison result;
  for (int copy = 0; copy < CopiesOf(flags); ++copy) {
    const auto weights = WeightsOfCopy(flags, files, copy, *expected);
    if (!weights.ok()) return weights.status();
    const auto difference = LargestDifference(*expected, *weights);
    if (!difference.ok()) return difference.status();
    result.difference = std::max(result.difference, *difference);
    result.same_bits =
        result.same_bits && std::equal(expected->begin(), expected->end(),
                                       weights->begin(), HaveSameBits);
  }
  return result;
}

}  // namespace

absl::StatusOr<std::optional<SavedRun>> FindSavedRun(const Flags& flags) {
  PosixFileSystem file_system;
  const auto found = checkpoint::FindCommitted(&file_system, flags.state);
  if (absl::IsNotFound(found.status())) return std::nullopt;
  if (!found.ok()) return found.status();
  const auto manifest = checkpoint::ReadManifest(&file_system, found->back());
  if (!manifest.ok()) return manifest.status();
  SavedRun run{.step = manifest->training.step, .mesh = manifest->mesh};
  const auto leaves = manifest->training.metadata.find("leaves");
  if (leaves == manifest->training.metadata.end() ||
      !absl::SimpleAtoi(leaves->second, &run.leaves)) {
    return absl::FailedPreconditionError(
        absl::StrFormat("%s has checkpoints of another program", flags.state));
  }
  return run;
}

absl::Status CheckSavedRun(const Flags& flags,
                           const std::optional<SavedRun>& saved) {
  if (!flags.resume) {
    if (!saved) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrFormat(
        "%s has a checkpoint of step %d: go on from it with --resume, or give "
        "another folder",
        flags.state, saved->step));
  }
  if (!saved) {
    return absl::FailedPreconditionError(
        absl::StrFormat("%s has no checkpoint to resume from", flags.state));
  }
  if (saved->leaves != flags.leaves) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "the checkpoint in %s was saved with --leaves %d: give the same",
        flags.state, saved->leaves));
  }
  if (saved->step >= flags.steps) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "the checkpoint in %s has all of %d steps: there is nothing to resume",
        flags.state, flags.steps));
  }
  return absl::OkStatus();
}

int CompareWithUninterrupted(const Flags& flags, const SavedRun& saved,
                             const JobFiles& files) {
  Flags whole = flags;
  absl::Status meshed = SetMesh(saved.mesh, &whole);
  if (!meshed.ok()) {
    absl::FPrintF(stderr, "demo: %s\n", std::string(meshed.message()));
    return 1;
  }
  whole.state.clear();
  whole.resume = false;
  const JobFiles whole_files;
  if (!whole_files.status().ok()) {
    absl::FPrintF(stderr, "demo: %s\n", whole_files.status().message());
    return 1;
  }
  Screen screen(whole);
  absl::PrintF("training without interruption, on mesh %s\n",
               ToString(saved.mesh));
  const int trained = TrainTogether(whole, whole_files, screen);
  if (trained != 0) return trained;
  const auto compared = Compare(flags, files, whole, whole_files);
  if (!compared.ok()) {
    absl::FPrintF(stderr, "demo: %s\n",
                  std::string(compared.status().message()));
    return 1;
  }
  const bool same_sums = flags.leaves > 0 || (whole.workers == flags.workers &&
                                              whole.pipe == flags.pipe &&
                                              whole.domain == flags.domain);
  absl::PrintF(
      "resumed from step %d; weights of the uninterrupted training: %s\n",
      saved.step,
      compared->same_bits
          ? "equal, bit for bit"
          : absl::StrFormat("they differ by up to %.3g", compared->difference));
  if (compared->same_bits) return 0;
  return !same_sums && compared->difference <= kLargestDifference ? 0 : 1;
}

}  // namespace lockstep::digits
