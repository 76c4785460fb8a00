#include "tools/ctl/checkpoint_copy_command.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/file_system.h"
#include "base/text/count.h"
#include "base/text/units.h"
#include "base/text/utf8.h"
#include "client/checkpoint/consolidate.h"
#include "client/checkpoint/directory.h"
#include "client/checkpoint/foreign.h"
#include "client/checkpoint/import.h"
#include "client/checkpoint/seed_layout.h"
#include "tools/ctl/print.h"

namespace lockstep::ctl {
namespace {

using checkpoint::AttemptFolder;
using checkpoint::ForeignCheckpoint;
using checkpoint::HashCheck;
using checkpoint::Manifest;

constexpr absl::Duration kProgressEvery = absl::Seconds(3);

checkpoint::CopyProgress PrintProgress() {
  return [next = absl::Now() + kProgressEvery](uint64_t done,
                                               uint64_t total) mutable {
    const absl::Time now = absl::Now();
    if (now < next) return;
    next = now + kProgressEvery;
    absl::FPrintF(stderr, "lockstepctl: %d of %d MiB\n", done >> 20,
                  total >> 20);
  };
}

// Where the manifest's files are.
struct SourceCheckpoint {
  std::string folder;
  Manifest manifest;
};

absl::StatusOr<SourceCheckpoint> ReadOwn(
    FileSystem& files, const std::string& path,
    const std::vector<AttemptFolder>& committed, int64_t step) {
  const auto found = checkpoint::NewestOf(
      path, committed, step < 0 ? std::nullopt : std::optional<int64_t>(step));
  if (!found.ok()) return found.status();
  auto manifest = checkpoint::ReadManifest(&files, *found);
  if (!manifest.ok()) return manifest.status();
  return SourceCheckpoint{found->path, *std::move(manifest)};
}

// Whether `path` is a folder with names of that layout.
bool IsSeedLayout(FileSystem& files, const std::string& path) {
  const auto names = files.List(path);
  if (!names.ok()) return false;
  return std::any_of(names->begin(), names->end(), [](const auto& name) {
    return name == checkpoint::kSeedShardingName || name == "rank_0" ||
           name == checkpoint::kConsolidatedName;
  });
}

absl::StatusOr<SourceCheckpoint> ReadSource(FileSystem& files,
                                            const std::string& path,
                                            int64_t step) {
  const auto committed = checkpoint::FindCommitted(&files, path);
  if (committed.ok()) return ReadOwn(files, path, *committed, step);
  if (!IsSeedLayout(files, path)) return committed.status();
  auto seed = checkpoint::ReadSeedLayout(&files, path);
  if (!seed.ok()) return seed.status();
  if (step >= 0 && step != seed->manifest.step) {
    return absl::NotFoundError(absl::StrCat(
        path, " is of step ", seed->manifest.step, ", not of step ", step));
  }
  return SourceCheckpoint{std::move(seed->folder), std::move(seed->manifest)};
}

// Files of other programs, or the newest checkpoint of a job.
absl::StatusOr<ForeignCheckpoint> ReadAny(FileSystem& files,
                                          const std::string& path) {
  const auto committed = checkpoint::FindCommitted(&files, path);
  if (!committed.ok()) {
    const bool is_none = files.List(path).ok() && !IsSeedLayout(files, path);
    return is_none ? committed.status() : checkpoint::ReadForeign(&files, path);
  }
  auto own = ReadOwn(files, path, *committed, /*step=*/-1);
  if (!own.ok()) return own.status();
  return ForeignCheckpoint{std::move(own->folder), std::move(own->manifest)};
}

HashCheck CheckOf(const std::string& name) {
  if (name == "sampled") return HashCheck::kSampled;
  return name == "off" ? HashCheck::kOff : HashCheck::kFull;
}

}  // namespace

int CheckpointConsolidate(const std::string& path, const std::string& target,
                          const CopyCheckpointOptions& options) {
  PosixFileSystem files;
  const auto source = ReadSource(files, path, options.step);
  if (!source.ok()) return Refuse(source.status());
  const bool is_foreign = source->manifest.is_foreign;
  const std::string file =
      files.List(target).ok()
          ? absl::StrCat(target, "/", checkpoint::kConsolidatedName)
          : target;
  const auto written = checkpoint::Consolidate(
      &files, source->folder, source->manifest, file,
      {.check = is_foreign ? HashCheck::kOff : CheckOf(options.check),
       .sample_seed = static_cast<uint64_t>(absl::ToUnixNanos(absl::Now())),
       .on_progress = PrintProgress()});
  if (!written.ok()) return Refuse(written.status());
  Print(absl::StrFormat(
      "%s: %s of step %d, %d bytes, xxh3 %s%s\n", Printable(file),
      Count(written->header.tensors.size(), "tensor"), source->manifest.step,
      written->hashes.bytes, written->hashes.file,
      is_foreign ? "; the source has no hashes, none were compared" : ""));
  return 0;
}

int CheckpointImport(const std::string& path, const std::string& directory,
                     const CopyCheckpointOptions& options) {
  PosixFileSystem files;
  const auto source = ReadAny(files, path);
  if (!source.ok()) return Refuse(source.status());
  checkpoint::ImportOptions import{.on_progress = PrintProgress()};
  if (options.step >= 0) import.step = options.step;
  const auto folder = checkpoint::Import(&files, *source, directory, import);
  if (!folder.ok()) return Refuse(folder.status());
  Print(absl::StrFormat("%s: %s%s\n", Printable(folder->path),
                        Count(source->manifest.tensors.size(), "tensor"),
                        source->manifest.is_foreign
                            ? "; the source has no hashes, none were compared"
                            : absl::StrCat(" of ", Printable(source->folder))));
  return 0;
}

}  // namespace lockstep::ctl
