// Whole jobs with an AsyncCheckpointer: the real coordinator core, the
// in-process transport and files on disk.

#ifndef LOCKSTEP_TESTS_CLIENT_STATE_CHECKPOINTER_JOB_H_
#define LOCKSTEP_TESTS_CLIENT_STATE_CHECKPOINTER_JOB_H_

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/file_system.h"
#include "lockstep/checkpointer.h"
#include "tests/client/session/inproc_job_fixture.h"

namespace lockstep::session {

// "w" f32[5,4] is cut over pipe, and its moments are sliced over data too.
struct TrainedRank {
  explicit TrainedRank(Session& session) {
    const std::vector<int> at =
        session.spec().mesh.CoordinatesOf(session.rank());
    columns = 4 / session.spec().mesh.axes[1].size;
    first_column = at[1] * columns;
    w.resize(static_cast<size_t>(5 * columns));
    first_moment = at[0] * 5 * columns / session.spec().mesh.axes[0].size;
    moments.resize(w.size() /
                   static_cast<size_t>(session.spec().mesh.axes[0].size));
    const StateSpec weight = {
        .name = "w", .shape = {5, columns}, .cuts = {{1, {"pipe"}}}};
    StateSpec sliced = weight;
    sliced.name = "w.moments";
    sliced.dtype = DType::kF64;
    sliced.slice =
        StateSlice{first_moment, static_cast<int64_t>(moments.size())};
    EXPECT_TRUE(session.RegisterState(weight, w.data()).ok());
    EXPECT_TRUE(session.RegisterState(sliced, moments.data()).ok());
    EXPECT_TRUE(session.RegisterScalar("step", &step).ok());
  }

  // What an element of the block is in the whole tensor.
  int64_t Global(int64_t element) const {
    return element / columns * 4 + first_column + element % columns;
  }
  void Set(int64_t to) {
    step = to;
    for (size_t i = 0; i < w.size(); ++i) {
      w[i] = static_cast<float>(to * 100 + Global(static_cast<int64_t>(i)));
    }
    for (size_t i = 0; i < moments.size(); ++i) {
      moments[i] = static_cast<double>(
          to * 1000 + Global(first_moment + static_cast<int64_t>(i)));
    }
  }
  void ExpectAt(int64_t at) const {
    TrainedRank expected(*this);
    expected.Set(at);
    EXPECT_EQ(step, at);
    EXPECT_EQ(w, expected.w);
    EXPECT_EQ(moments, expected.moments);
  }

  int64_t columns = 0, first_column = 0, first_moment = 0;
  std::vector<float> w;
  std::vector<double> moments;
  int64_t step = 0;
};

class CheckpointerJobFixture : public InprocJobFixture {
 protected:
  CheckpointerJobFixture()
      : directory_(testing::TempDir() + "checkpointer_job." +
                   std::to_string(getpid())) {
    std::filesystem::remove_all(directory_);
  }
  ~CheckpointerJobFixture() override {
    sessions_.clear();
    std::filesystem::remove_all(directory_);
  }

  // Calls body(session, checkpointer, its state) on all ranks of a job that has
  // connected; then all of them wait for each other.
  template <typename State = TrainedRank, typename Body>
  void ForAllWithCheckpointer(const Body& body) {
    ForAll([&](Session& session) {
      State state(session);
      ASSERT_NO_FATAL_FAILURE(ConnectWith(session, state));
      auto made = AsyncCheckpointer::Create(session, {.directory = directory_});
      ASSERT_TRUE(made.ok()) << made.status();
      body(session, **made, state);
      connected_.arrive_and_wait();
    });
  }

  // All ranks leave, and a later job of another name and mesh joins.
  void JoinLaterJob(const Mesh& mesh) {
    LeaveAll();
    sessions_.clear();
    Each<Joined> joining;
    for (int i = 0; i < kWorld; ++i) {
      JoinOptions options = OptionsOf(i);
      options.job = options.spec->name = "later";
      options.spec->mesh = mesh;
      joining.push_back(JoinAsync(options));
    }
    for (auto& each : joining) {
      Joined session = each.get();
      ASSERT_TRUE(session.ok()) << session.status();
      sessions_.push_back(*std::move(session));
    }
  }

  PosixFileSystem files_;
  const std::string directory_;

 private:
  // A state with a GradientSync seals it.
  template <typename State>
  void ConnectWith(Session& session, State& state) {
    if constexpr (requires { state.Seal(); }) {
      ASSERT_EQ(state.Seal(), absl::OkStatus());
      connected_.arrive_and_wait();
    } else {
      ASSERT_NO_FATAL_FAILURE(Connect(session));
    }
  }
};

}  // namespace lockstep::session

#endif  // LOCKSTEP_TESTS_CLIENT_STATE_CHECKPOINTER_JOB_H_
