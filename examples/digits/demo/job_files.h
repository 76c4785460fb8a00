// The files of the demonstration: the spec of its job, the weights of each
// process, the coordinator's journal, the certificates and, with --ha, etcd's
// files.

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

  // Makes an authority, and a TLS folder for each side. `host`: the address of
  // the coordinator.
  absl::Status MakeCertificates(const std::string& host = "127.0.0.1") const;
  std::string CoordinatorTls() const;
  std::string WorkerTls() const;

  // With --ha: the coordinators' tokens, etcd's data, and certificates of
  // another authority, for etcd at `host` and its clients.
  std::string OperatorToken() const { return File("operator-token"); }
  std::string WorkerToken() const { return File("worker-token"); }
  std::string EtcdData() const { return File("etcd"); }
  absl::Status MakeEtcdCertificates(const std::string& host) const;
  std::string EtcdServerTls() const;
  std::string EtcdClientTls() const;

 private:
  std::string File(const std::string& name) const {
    return folder_.path() / name;
  }

  launch::ScratchFolder folder_;
};

std::string WorkerName(int worker);

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_DEMO_JOB_FILES_H_
