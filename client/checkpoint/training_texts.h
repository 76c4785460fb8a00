// A training state as the metadata of a safetensors file, which are texts.
//
//   format                        "pt": other programs want it
//   step                          "20"
//   lockstep.epoch                "2"
//   lockstep.learning_rate        "0.1": the same double when it is read again
//   lockstep.samples.seed         "7", and of the other fields of the sample
//   lockstep.samples.dataset_size "1797"     cursor, if there is one
//   lockstep.samples.position     "640"
//   ...                           the texts of the training state itself
//
// Threads: none.

#ifndef LOCKSTEP_CLIENT_CHECKPOINT_TRAINING_TEXTS_H_
#define LOCKSTEP_CLIENT_CHECKPOINT_TRAINING_TEXTS_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "lockstep/training_state.h"

namespace lockstep::checkpoint {

// A text of the training state that has one of the names above is left out.
std::map<std::string, std::string> TextsOf(const TrainingState& training);

// The inverse, for the metadata of any program's file: names that do not begin
// with "lockstep." stay texts of the training state, `format` and `step` too. A
// `step` that is no number is 0. InvalidArgument names a text that begins with
// "lockstep." and is not as above.
absl::StatusOr<TrainingState> TrainingOf(
    const std::map<std::string, std::string>& texts);

}  // namespace lockstep::checkpoint

#endif  // LOCKSTEP_CLIENT_CHECKPOINT_TRAINING_TEXTS_H_
