#include "client/checkpoint/consolidate.h"

#include <memory>

#include "client/checkpoint/checkpoint_reader.h"
#include "client/checkpoint/training_texts.h"
#include "client/checkpoint/whole_tensors.h"

namespace lockstep::checkpoint {
namespace {

std::string ParentOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

absl::StatusOr<WrittenFile> Consolidate(FileSystem* files,
                                        const std::string& folder,
                                        const Manifest& manifest,
                                        const std::string& target,
                                        const ConsolidateOptions& options) {
  auto reader =
      CheckpointReader::Open(files, folder, manifest,
                             {.check = options.check,
                              .sample_seed = options.sample_seed,
                              .open_files_max = options.open_files_max});
  if (!reader.ok()) return reader.status();
  WholeTensors whole(reader->get(), options.on_progress);
  TrainingState training = manifest.training;
  training.step = manifest.step;
  absl::StatusOr<WrittenFile> written =
      WriteSafetensors(files, target, whole.All(), TextsOf(training));
  if (!written.ok()) return written;
  absl::Status status = files->SyncDirectory(ParentOf(target));
  if (!status.ok()) {
    files->Remove(target).IgnoreError();
    return status;
  }
  return written;
}

}  // namespace lockstep::checkpoint
