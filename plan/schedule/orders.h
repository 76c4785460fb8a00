// One function for each schedule: the order of one rank, or of all of them.
// schedule.h says what they are; the shape is inside of its domain.

#ifndef LOCKSTEP_PLAN_SCHEDULE_ORDERS_H_
#define LOCKSTEP_PLAN_SCHEDULE_ORDERS_H_

#include <vector>

#include "plan/schedule/schedule.h"

namespace lockstep::plan {

using Order = std::vector<Action>;

Order GPipeOrder(const ScheduleShape& shape, int rank);
Order OneFOneBOrder(const ScheduleShape& shape, int rank);
Order InterleavedOrder(const ScheduleShape& shape, int rank);
Order ZbH1Order(const ScheduleShape& shape, int rank);
// Orders of all ranks: where weight gradients fit is found by playing them
// together.
std::vector<Order> ZbVOrders(const ScheduleShape& shape);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_SCHEDULE_ORDERS_H_
