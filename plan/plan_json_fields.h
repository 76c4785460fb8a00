// The fields of a plan in its JSON form, listed once for reader and writer.
// Fields<T>(visit) calls visit("name", &T::member) for each member of T.

#ifndef LOCKSTEP_PLAN_PLAN_JSON_FIELDS_H_
#define LOCKSTEP_PLAN_PLAN_JSON_FIELDS_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plan/ir.h"

namespace lockstep::plan::json {

template <typename T>
inline constexpr bool kIsRecord = false;

#define LOCKSTEP_PLAN_RECORD(Type) \
  template <>                      \
  inline constexpr bool kIsRecord<Type> = true
LOCKSTEP_PLAN_RECORD(CommunicatorSpec);
LOCKSTEP_PLAN_RECORD(Parameter);
LOCKSTEP_PLAN_RECORD(Slot);
LOCKSTEP_PLAN_RECORD(Bucket);
LOCKSTEP_PLAN_RECORD(PipelineSpec);
LOCKSTEP_PLAN_RECORD(LocalOp);
LOCKSTEP_PLAN_RECORD(Transfer);
LOCKSTEP_PLAN_RECORD(HaloExtent);
LOCKSTEP_PLAN_RECORD(HaloField);
LOCKSTEP_PLAN_RECORD(Halo);
LOCKSTEP_PLAN_RECORD(HaloBox);
LOCKSTEP_PLAN_RECORD(HaloFill);
LOCKSTEP_PLAN_RECORD(HaloMessage);
LOCKSTEP_PLAN_RECORD(HaloRoutes);
LOCKSTEP_PLAN_RECORD(StateDim);
LOCKSTEP_PLAN_RECORD(StateTensor);
LOCKSTEP_PLAN_RECORD(Lane);
LOCKSTEP_PLAN_RECORD(Task);
LOCKSTEP_PLAN_RECORD(RankPlan);
LOCKSTEP_PLAN_RECORD(Plan);
#undef LOCKSTEP_PLAN_RECORD

template <typename T, typename Visit>
void Fields(Visit&& visit) {
  if constexpr (std::is_same_v<T, CommunicatorSpec>) {
    visit("name", &T::name);
    visit("ranks", &T::ranks);
  } else if constexpr (std::is_same_v<T, Parameter>) {
    visit("name", &T::name);
    visit("shape", &T::shape);
    visit("dtype", &T::dtype);
    visit("op", &T::op);
    visit("axes", &T::axes);
    visit("replicated_over", &T::replicated_over);
    visit("stage", &T::stage);
  } else if constexpr (std::is_same_v<T, Slot>) {
    visit("parameter", &T::parameter);
    visit("offset", &T::offset);
    visit("count", &T::count);
  } else if constexpr (std::is_same_v<T, Bucket>) {
    visit("communicator", &T::communicator);
    visit("dtype", &T::dtype);
    visit("op", &T::op);
    visit("slots", &T::slots);
    visit("flags_offset", &T::flags_offset);
    visit("total", &T::total);
    visit("wire", &T::wire);
    visit("error_feedback", &T::error_feedback);
    visit("sharded", &T::sharded);
    visit("leaves", &T::leaves);
    visit("announced", &T::announced);
  } else if constexpr (std::is_same_v<T, PipelineSpec>) {
    visit("schedule", &T::schedule);
    visit("axis", &T::axis);
    visit("micro_batches", &T::micro_batches);
    visit("virtual_stages", &T::virtual_stages);
    visit("activations", &T::activations);
    visit("tags", &T::tags);
    visit("tag_base", &T::tag_base);
    visit("shared", &T::shared);
  } else if constexpr (std::is_same_v<T, LocalOp>) {
    visit("kind", &T::kind);
    visit("from", &T::from);
    visit("to", &T::to);
    visit("offset", &T::offset);
    visit("count", &T::count);
    visit("leaf", &T::leaf);
    visit("divisor", &T::divisor);
  } else if constexpr (std::is_same_v<T, Transfer>) {
    visit("kind", &T::kind);
    visit("communicator", &T::communicator);
    visit("dtype", &T::dtype);
    visit("shape", &T::shape);
    visit("op", &T::op);
    visit("root", &T::root);
    visit("peer", &T::peer);
    visit("tag", &T::tag);
    visit("bucket", &T::bucket);
    visit("halo", &T::halo);
    visit("group", &T::group);
    visit("after", &T::after);
    visit("after_task", &T::after_task);
    visit("buffer", &T::buffer);
    visit("divisor", &T::divisor);
    visit("before", &T::before);
    visit("then", &T::then);
  } else if constexpr (std::is_same_v<T, Lane>) {
    visit("kind", &T::kind);
    visit("name", &T::name);
    visit("transfers", &T::transfers);
  } else if constexpr (std::is_same_v<T, Task>) {
    visit("work", &T::work);
    visit("stage", &T::stage);
    visit("micro_batch", &T::micro_batch);
    visit("after", &T::after);
  } else if constexpr (std::is_same_v<T, HaloExtent>) {
    visit("axis", &T::axis);
    visit("bounds", &T::bounds);
    visit("low", &T::low);
    visit("high", &T::high);
    visit("edge", &T::edge);
    visit("constant", &T::constant);
  } else if constexpr (std::is_same_v<T, HaloField>) {
    visit("dtype", &T::dtype);
    visit("dims", &T::dims);
  } else if constexpr (std::is_same_v<T, Halo>) {
    visit("name", &T::name);
    visit("mesh", &T::mesh);
    visit("ranks", &T::ranks);
    visit("communicator", &T::communicator);
    visit("fields", &T::fields);
  } else if constexpr (std::is_same_v<T, HaloBox>) {
    visit("field", &T::field);
    visit("dims", &T::dims);
  } else if constexpr (std::is_same_v<T, HaloFill>) {
    visit("box", &T::box);
    visit("value", &T::value);
  } else if constexpr (std::is_same_v<T, HaloMessage>) {
    visit("peer", &T::peer);
    visit("bytes", &T::bytes);
    visit("boxes", &T::boxes);
  } else if constexpr (std::is_same_v<T, HaloRoutes>) {
    visit("halo", &T::halo);
    visit("own", &T::own);
    visit("fills", &T::fills);
    visit("sends", &T::sends);
    visit("receives", &T::receives);
  } else if constexpr (std::is_same_v<T, StateDim>) {
    visit("axes", &T::axes);
    visit("bounds", &T::bounds);
  } else if constexpr (std::is_same_v<T, StateTensor>) {
    visit("name", &T::name);
    visit("dtype", &T::dtype);
    visit("dims", &T::dims);
    visit("ranks", &T::ranks);
    visit("slices", &T::slices);
  } else if constexpr (std::is_same_v<T, RankPlan>) {
    visit("lanes", &T::lanes);
    visit("launch_order", &T::launch_order);
    visit("tasks", &T::tasks);
    visit("halos", &T::halos);
  } else if constexpr (std::is_same_v<T, Plan>) {
    visit("revision", &T::revision);
    visit("mesh", &T::mesh);
    visit("communicators", &T::communicators);
    visit("parameters", &T::parameters);
    visit("buckets", &T::buckets);
    visit("pipeline", &T::pipeline);
    visit("halos", &T::halos);
    visit("ranks", &T::ranks);
    visit("state", &T::state);
  }
}

// Fields that are written even with their default value, for readability.
inline bool IsTold(std::string_view field) {
  return field == "kind" || field == "work" || field == "transfers" ||
         field == "revision";
}

// The enumerators of E with their names, Name(E).
template <typename E>
std::vector<std::pair<std::string, E>> WordsOf() {
  std::vector<std::pair<std::string, E>> words;
  for (int value = 1; value < 32; ++value) {
    const std::string_view name = Name(static_cast<E>(value));
    if (name != "?") words.emplace_back(name, static_cast<E>(value));
  }
  return words;
}

}  // namespace lockstep::plan::json

#endif  // LOCKSTEP_PLAN_PLAN_JSON_FIELDS_H_
