// Mutations that make plans compute the wrong thing. Most of the mutants run to
// the end with equal types at both ends of every transfer: only their values
// are wrong.

#ifndef LOCKSTEP_TESTS_PLAN_MUTATION_WRONG_KINDS_H_
#define LOCKSTEP_TESTS_PLAN_MUTATION_WRONG_KINDS_H_

#include <vector>

#include "tests/plan/mutation/mutants.h"

namespace lockstep::plan {

// Tasks:
//
//   task before its feeder      before the local task that feeds it: a stage of
//                               the same rank, or a pass of its micro-batch
//   micro-batch dropped         on one rank, in one column or in all
//   pass dropped                a forward or backward with its messages, in one
//                               column or in all
//   pass computed twice         in one column or in all
//   weight pass dropped         in one column or in all
//   micro-batch beyond M        of a task, a rank, a column or all columns
//   stage on another rank       one task, or two stages exchanged
//   tasks without a pipeline
const std::vector<Mutation>& WrongTasks();

// Messages:
//
//   message from another replica
//                               the sender is the same place of another column
//   replicas exchanged          one message of two replicas, or a whole lane
//   buffer used too early       its last use is not waited for
//   buffer of another message   of the same rank, direction and type
//   buffer missing              -1, at one end or at both
//   buffer out of range         at one end or at both
//   parts swapped               the tags or the types of two parts
//   part tags swapped           the tags of two messages of a lane
const std::vector<Mutation>& WrongMessages();

// Gradients:
//
//   shared sum dropped          at both ends, in one column or in all
//   shared sum after its bucket
//                               the bucket does not wait for it
//   shared sum earlier          not after the rank's last task
//   reduction earlier           on one rank, or on all of the bucket's group
//   bucket transfer dropped, repeated
//                               on all ranks of the bucket's group
//   bucket transfers reordered  two of one bucket, or both in one group
//   parameters gathered late    those of a sharded bucket, after a task
const std::vector<Mutation>& WrongGradients();

// Lanes and transfers of both:
//
//   lane that nothing runs      a second gradient lane; a message that no task
//                               needs; a collective without a bucket
//   verdict's communicator      a bucket or a message on communicator 0
//   another type on both sides  of a message, or of a bucket on all ranks
const std::vector<Mutation>& WrongLanes();

// Local operations, norms and verdicts (elements.h):
//
//   operation dropped, doubled, out of order, of another type, of other
//   elements, with another divisor, on the wrong side, on another transfer
//                               on one rank, or on all that have the transfer
//   norm of other elements      no rank counts some, or two ranks do
//   norm for another leaf
//   shared counted at both ends
//                               the parameter is none that stages share
//   some ranks sum in pairs     and others exchange, or the other way round
//   announced as well           a bucket that is not, or one that is no longer
//   verdict dropped, doubled    the lane or a part, on one rank or on all
//   verdict of another kind     kind, count, dtype, op, group or order
//   verdict elsewhere           on another communicator of the world
//   verdict earlier             than other launches
const std::vector<Mutation>& WrongOperations();

// All of these.
const std::vector<Mutation>& WrongKinds();

// The one kind that needs a plan without a pipeline.
inline constexpr char kTasksWithoutPipeline[] = "tasks without a pipeline";

}  // namespace lockstep::plan

#endif  // LOCKSTEP_TESTS_PLAN_MUTATION_WRONG_KINDS_H_
