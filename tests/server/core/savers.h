// The ranks of a CoordinatorFixture as they make checkpoints: each has a report
// and the news that it was told, as session::Machine keeps them.

#ifndef LOCKSTEP_TESTS_SERVER_CORE_SAVERS_H_
#define LOCKSTEP_TESTS_SERVER_CORE_SAVERS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "protocol/checkpoint.h"
#include "tests/server/core/asking.h"
#include "tests/server/core/coordinator_fixture.h"

namespace lockstep::core {

class Savers {
 public:
  using Stage = protocol::CheckpointSave::Stage;

  explicit Savers(CoordinatorFixture* fixture)
      : reports(fixture->world()),
        news(fixture->world()),
        fixture_(*fixture),
        sessions_(fixture->Sessions()) {}

  static std::string HashOf(int rank, uint64_t number) {
    const std::string text = absl::StrCat(number, "0", rank);
    return text + std::string(32 - text.size(), 'a');
  }

  // The rank sends its report, with the outcome that it knows.
  EffectList Says(int rank) {
    protocol::CheckpointReport report = reports[rank];
    report.decided = news[rank].decided;
    report.faults = news[rank].faults;
    report.faults_more = news[rank].faults_more;
    return Take(fixture_.Says(sessions_[rank], report));
  }
  // All ranks open a directory whose newest attempt is 4; `newest`: if it was
  // committed.
  void Open(std::optional<CheckpointName> newest = std::nullopt) {
    reports[0].directory = {.path = "/shared/run",
                            .nonce = std::string(32, '7'),
                            .first_attempt = 5,
                            .newest = newest};
    for (size_t rank = 0; rank < reports.size(); ++rank) {
      reports[rank].access = absl::OkStatus();
      Says(static_cast<int>(rank));
    }
  }
  EffectList Writes(int rank, uint64_t number, int64_t step,
                    uint64_t bytes_done = 0) {
    reports[rank].save = {.number = number,
                          .step = step,
                          .stage = Stage::kWriting,
                          .bytes_done = bytes_done,
                          .bytes_total = 1 << 20};
    return Says(rank);
  }
  EffectList Wrote(int rank, uint64_t number, int64_t step) {
    reports[rank].save = {.number = number,
                          .step = step,
                          .stage = Stage::kWritten,
                          .bytes_done = 1 << 20,
                          .bytes_total = 1 << 20,
                          .part_hash = HashOf(rank, number)};
    return Says(rank);
  }
  EffectList Fails(int rank, uint64_t number, int64_t step,
                   const absl::Status& error) {
    reports[rank].save = {.number = number,
                          .step = step,
                          .stage = Stage::kFailed,
                          .error = error};
    return Says(rank);
  }
  EffectList Commits(int rank, const absl::Status& outcome) {
    reports[rank].save->committed = outcome;
    return Says(rank);
  }
  EffectList Leaves(int rank) {
    return Take(fixture_.Says(sessions_[rank], protocol::Leave{.steps = 100}));
  }

  // A new coordinator replays the journal; the ranks resume, and repeat their
  // reports in this order.
  void Restart(const std::vector<int>& order) {
    fixture_.Restart();
    for (const int rank : order) Resume(rank);
    for (const int rank : order) Says(rank);
  }
  void Resume(int rank) {
    protocol::Hello hello = fixture_.HelloOf(rank + 1);
    hello.generation = {1};
    hello.resume =
        protocol::ResumeState{.epoch = fixture_.epoch(),
                              .revision = fixture_.durable_job().revision,
                              .plan_digest = fixture_.durable_job().plan_digest,
                              .position = {12, protocol::Phase::kCompute},
                              .started = true};
    sessions_[rank] = ++last_session_;
    Take(fixture_.Hello(sessions_[rank], hello));
  }

  // The rank that was told to write the manifest; -1: none.
  int Member() const {
    for (size_t rank = 0; rank < news.size(); ++rank) {
      if (news[rank].prepared) return static_cast<int>(rank);
    }
    return -1;
  }

  EffectList Take(EffectList effects) {
    for (const Effect& effect : effects.effects) {
      const auto* send = std::get_if<Send>(&effect);
      if (send == nullptr) continue;
      const auto* told =
          std::get_if<protocol::CheckpointNews>(&send->message.body);
      for (size_t r = 0; told != nullptr && r < sessions_.size(); ++r) {
        if (sessions_[r] != send->session.value) continue;
        const protocol::CheckpointNews before = std::exchange(news[r], *told);
        if (before.decided <= news[r].decided) continue;
        news[r].decided = before.decided;
        news[r].faults = before.faults;
      }
    }
    return effects;
  }

  std::vector<protocol::CheckpointReport> reports;  // by rank
  std::vector<protocol::CheckpointNews> news;

 private:
  CoordinatorFixture& fixture_;
  std::vector<uint64_t> sessions_;
  uint64_t last_session_ = 100;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_TESTS_SERVER_CORE_SAVERS_H_
