// The files of the demonstration: the spec of its job, the weights of each
// process, the coordinator's journal and the certificates.

#ifndef LOCKSTEP_EXAMPLES_DIGITS_DEMO_JOB_FILES_H_
#define LOCKSTEP_EXAMPLES_DIGITS_DEMO_JOB_FILES_H_

#include <string>

#include "absl/status/status.h"
#include "examples/digits/demo/flags.h"
#include "tools/launch/scratch_folder.h"

namespace lockstep::digits {

// The paths of the files. The destructor removes the folder.
class JobFiles {
 public:
  // Why the folder could not be created; else OK.
  const absl::Status& status() const { return folder_.status(); }

  // The weights of one process that trained alone, or of this worker.
  std::string OfOneProcess() const { return File("one"); }
  std::string OfWorker(int worker) const;

  // Writes the spec of a job with buckets as small as its network, so that the
  // first ones are reduced during the backward pass.
  absl::Status WriteSpec(const Flags& flags) const;
  std::string Spec() const { return File("spec.yaml"); }
  // The coordinator's journal: a folder.
  std::string Journal() const { return File("journal"); }

  // Makes an authority, and a TLS folder for each side.
  absl::Status MakeCertificates() const;
  std::string CoordinatorTls() const;
  std::string WorkerTls() const;

 private:
  std::string File(const std::string& name) const {
    return folder_.path() / name;
  }

  launch::ScratchFolder folder_;
};

std::string WorkerName(int worker);

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_DEMO_JOB_FILES_H_
