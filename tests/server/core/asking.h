// An operator who asks, and workers that answer, in a Scene.

#ifndef LOCKSTEP_TESTS_SERVER_CORE_ASKING_H_
#define LOCKSTEP_TESTS_SERVER_CORE_ASKING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "plan/words/job_command.h"
#include "plan/words/protocol.h"
#include "tests/server/core/scene.h"

namespace lockstep::core {

inline std::string Asks(Scene& scene, JobCommand command,
                        const std::string& reason = "") {
  return scene.Step(CommandJob{{7}, scene.job(), "", command, reason});
}

inline protocol::Leave LeavesBy(Command command, uint64_t steps) {
  return {.steps = steps, .command = command};
}

inline protocol::Progress Paused(uint64_t step) {
  return {.position = {step, protocol::Phase::kIdle}, .paused = true};
}

inline std::vector<std::string> LinesOf(const Scene& scene) {
  std::vector<std::string> lines;
  for (const EventView& event : scene.View().events) {
    lines.push_back(event.text);
  }
  return lines;
}

inline void RestartAndResume(Scene& scene) {
  scene.Restart();
  for (int i = 1; i <= scene.world(); ++i) {
    protocol::Hello hello = scene.HelloOf(i);
    hello.generation = {1};
    hello.resume =
        protocol::ResumeState{.epoch = scene.epoch(),
                              .revision = scene.durable_job().revision,
                              .plan_digest = scene.durable_job().plan_digest};
    scene.Hello(10 + i, hello);
    scene.Says(10 + i, protocol::Heartbeat{});
  }
}

}  // namespace lockstep::core

#endif  // LOCKSTEP_TESTS_SERVER_CORE_ASKING_H_
