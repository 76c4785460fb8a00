#include "client/state/load_state.h"

#include <cstddef>
#include <random>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "client/checkpoint/load.h"
#include "client/checkpoint/manifest.h"
#include "client/state/job_directory.h"

namespace lockstep::state {
namespace {

checkpoint::HashCheck CheckOf(LoadCheck check) {
  switch (check) {
    case LoadCheck::kFull: return checkpoint::HashCheck::kFull;
    case LoadCheck::kSampled: return checkpoint::HashCheck::kSampled;
    case LoadCheck::kOff: return checkpoint::HashCheck::kOff;
  }
  return checkpoint::HashCheck::kFull;
}

// All tensors of the job: strictness is about these. `to` is where each held
// part is read.
std::vector<checkpoint::WantedTensor> Wanted(const CheckpointJob& job,
                                             const std::vector<void*>& to) {
  std::vector<checkpoint::WantedTensor> wanted;
  for (const JobTensor& tensor : job.tensors) {
    wanted.push_back({.name = tensor.name, .type = tensor.type});
  }
  for (size_t i = 0; i < job.held.size(); ++i) {
    const StatePart& part = job.held[i];
    const JobTensor& tensor = job.tensors[part.tensor];
    wanted.push_back({tensor.name, tensor.type, part.box, to[i]});
  }
  return wanted;
}

// Copies each held part.
absl::Status CopyParts(const CheckpointJob& job, const std::vector<void*>& from,
                       const std::vector<void*>& to,
                       transport::DeviceContext* device) {
  Event done;
  absl::Status status = device->Perform(
      nullptr, [&](transport::DeviceContext::KernelQueue& queue) {
        for (size_t i = 0; i < job.held.size(); ++i) {
          queue.Copy(from[i], to[i], BytesOf(job, job.held[i]));
        }
        done = queue.Done();
        return queue.status();
      });
  status.Update(done.Wait());
  return status;
}

// Reads into staging memory, and copies it to the device.
absl::Status LoadThroughStaging(
    const CheckpointJob& job, const std::vector<void*>& memory,
    transport::DeviceContext* device,
    absl::FunctionRef<absl::Status(const std::vector<void*>& to)> read) {
  size_t bytes = 0;
  for (const StatePart& part : job.held) bytes += BytesOf(job, part);
  if (bytes == 0) return read(memory);
  const auto staging = device->AllocateStaging(bytes);
  if (!staging.ok()) return staging.status();
  std::vector<void*> staged;
  size_t at = 0;
  for (const StatePart& part : job.held) {
    staged.push_back(staging->data() + at);
    at += BytesOf(job, part);
  }
  // Tensors that are not read keep their values.
  absl::Status status = CopyParts(job, memory, staged, device);
  if (status.ok()) status = read(staged);
  if (status.ok()) status = CopyParts(job, staged, memory, device);
  return status;
}

}  // namespace

absl::StatusOr<checkpoint::AttemptFolder> FindStep(FileSystem* files,
                                                   const std::string& directory,
                                                   int64_t step) {
  const auto attempts =
      checkpoint::ListAttempts(files, CheckpointsIn(directory));
  if (!attempts.ok()) return attempts.status();
  return checkpoint::NewestOf(directory, *attempts, step);
}

absl::StatusOr<TrainingState> LoadState(FileSystem* files,
                                        const checkpoint::AttemptFolder& folder,
                                        const CheckpointJob& job,
                                        transport::DeviceContext* device,
                                        const LoadCheckpointOptions& options) {
  const auto manifest = checkpoint::ReadManifest(files, folder);
  if (!manifest.ok()) return manifest.status();
  const checkpoint::LoadOptions load_options{
      .check = CheckOf(options.check),
      .sample_seed = std::random_device()(),
      .renamed = options.renamed,
      .only = options.only,
      .except = options.except};
  std::vector<void*> memory;
  for (const StatePart& part : job.held) memory.push_back(part.data);
  const auto read = [&](const std::vector<void*>& to) {
    return checkpoint::LoadTensors(files, folder.path, *manifest,
                                   Wanted(job, to), load_options);
  };
  const bool on_device = device->NeedsOneOrder();
  const absl::Status status =
      on_device ? LoadThroughStaging(job, memory, device, read) : read(memory);
  if (!status.ok()) return status;
  return manifest->training;
}

}  // namespace lockstep::state
