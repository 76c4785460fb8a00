// Operator commands and workers' answers in a CoordinatorFixture.

#ifndef LOCKSTEP_TESTS_SERVER_CORE_ASKING_H_
#define LOCKSTEP_TESTS_SERVER_CORE_ASKING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "protocol/job_command.h"
#include "protocol/progress.h"
#include "protocol/session.h"
#include "protocol/types.h"
#include "tests/server/core/coordinator_fixture.h"

namespace lockstep::core {

inline EffectList Asks(CoordinatorFixture& fixture, JobCommand command,
                       const std::string& reason = "") {
  return fixture.Step(CommandJob{{7}, fixture.job(), "", command, reason});
}

inline protocol::Leave LeavesBy(Command command, uint64_t steps) {
  return {.steps = steps, .command = command};
}

inline protocol::Progress Paused(uint64_t step) {
  return {.position = {step, protocol::Phase::kIdle}, .paused = true};
}

inline std::vector<std::string> LinesOf(const CoordinatorFixture& fixture) {
  std::vector<std::string> lines;
  for (const EventView& event : fixture.View().events) {
    lines.push_back(event.text);
  }
  return lines;
}

inline void RestartAndResume(CoordinatorFixture& fixture) {
  fixture.Restart();
  for (int i = 1; i <= fixture.world(); ++i) {
    protocol::Hello hello = fixture.HelloOf(i);
    hello.generation = {1};
    hello.resume =
        protocol::ResumeState{.epoch = fixture.epoch(),
                              .revision = fixture.durable_job().revision,
                              .plan_digest = fixture.durable_job().plan_digest};
    fixture.Hello(10 + i, hello);
    fixture.Says(10 + i, protocol::Heartbeat{});
  }
}

}  // namespace lockstep::core

#endif  // LOCKSTEP_TESTS_SERVER_CORE_ASKING_H_
