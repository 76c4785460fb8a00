// Loads this rank's part of the registered state from a committed checkpoint.
//
// Threads: the caller's, which blocks until all is read.

#ifndef LOCKSTEP_CLIENT_STATE_LOAD_STATE_H_
#define LOCKSTEP_CLIENT_STATE_LOAD_STATE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/file_system.h"
#include "client/checkpoint/directory.h"
#include "client/state/checkpoint_job.h"
#include "client/transport/device_context.h"
#include "lockstep/checkpointer.h"
#include "lockstep/training_state.h"

namespace lockstep::state {

// The committed attempt of `step`, the newest if there are several. NotFound
// names the steps that there are.
absl::StatusOr<checkpoint::AttemptFolder> FindStep(FileSystem* files,
                                                   const std::string& directory,
                                                   int64_t step);

// Reads job.held. Host memory is read into directly; device memory through
// staging memory of the same size. `options.step` is not used. Errors: those of
// LoadTensors (client/checkpoint/load.h) and ReadManifest, ResourceExhausted
// without staging memory, errors of the device.
absl::StatusOr<TrainingState> LoadState(FileSystem* files,
                                        const checkpoint::AttemptFolder& folder,
                                        const CheckpointJob& job,
                                        transport::DeviceContext* device,
                                        const LoadCheckpointOptions& options);

}  // namespace lockstep::state

#endif  // LOCKSTEP_CLIENT_STATE_LOAD_STATE_H_
