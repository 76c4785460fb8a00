// One function for each schedule: the order of one rank, or of all. schedule.h
// defines the schedules; the shape must be in the schedule's domain.

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
// The orders of all ranks: weight gradients are placed by simulating all ranks
// together.
std::vector<Order> ZbVOrders(const ScheduleShape& shape);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_SCHEDULE_ORDERS_H_
