// The command line of the demonstration.

#ifndef LOCKSTEP_EXAMPLES_DIGITS_DEMO_FLAGS_H_
#define LOCKSTEP_EXAMPLES_DIGITS_DEMO_FLAGS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "examples/digits/gpu_workers.h"
#include "examples/digits/trainer.h"
#include "lockstep/mesh.h"

namespace lockstep::digits {

struct Flags {
  int workers = 4;
  int64_t steps = Recipe{}.steps;
  uint64_t seed = 1;
  std::string sync = "static";
  std::string transport = "auto";
  std::string wire_dtype = "none";
  bool error_feedback = false;
  int leaves = 0;
  int run_ahead = 0;
  std::string schedule = "1f1b";  // with pipe > 1
  int pipe = 1;                   // ranks of each pipeline
  int domain = 1;                 // ranks that an image is cut among
  bool without_halos = false;     // with domain > 1
  std::string device = "cpu";
  GpuPlaces gpus;  // with device cuda
  bool hold = false;
  bool tls = false;   // between the coordinator and the workers
  std::string state;  // the folder for checkpoints; empty: none
  int64_t save_every = 10;
  bool resume = false;
  bool kill_all = false;
  int kill_worker = -1;  // which; -1: none
  bool kill_coordinator = false;
  // The killed worker is not replaced, or some steps later: the job shrinks.
  bool no_replacement = false;
  bool late_replacement = false;
  // Three coordinators with a journal in etcd; the leader is killed twice.
  bool ha = false;
  std::string etcd = "etcd";  // the program
  int64_t at_step = 0;        // with one of the last five

  bool recovers() const { return kill_worker >= 0 || kill_coordinator; }
  bool shrinks() const { return no_replacement || late_replacement; }
  bool on_gpus() const { return device == "cuda"; }
  bool halves() const { return wire_dtype != "none"; }

  // Virtual stages per rank: some schedules have two.
  int virtual_stages() const {
    return schedule == "interleaved" || schedule == "zb-v" ? 2 : 1;
  }
  int stages() const { return pipe * virtual_stages(); }
  int replicas() const { return workers / pipe / domain; }
  bool has_stages() const { return pipe > 1 || domain > 1; }
};

// Sets workers, pipe and domain. InvalidArgument for a mesh that the
// demonstration cannot have.
absl::Status SetMesh(const Mesh& mesh, Flags* flags);

// Reads and checks `flags`, and finds the GPUs if the flags ask for them.
// Returns the program's exit code if it must stop: 0 after --help, 2 for
// invalid flags, 1 for too low a limit of open files, 77 without a GPU; the
// reason has been printed.
std::optional<int> ReadFlags(int argc, char** argv, Flags* flags);

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_DEMO_FLAGS_H_
