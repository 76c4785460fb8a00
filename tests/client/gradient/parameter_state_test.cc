// The state of parameters in whole jobs: values and the optimizer's slices, as
// checkpoints see them.

#include <cstddef>
#include <string>
#include <vector>

#include "lockstep/gradient_sync.h"
#include "plan/state/state.h"
#include "tests/client/session/inproc_job_fixture.h"

namespace lockstep::session {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kRows = 7, kColumns = 11;  // of "w"
constexpr int64_t kCount = 150;              // of "b"

// Parameters whose slices begin in the middle of a row.
struct TwoParameters {
  explicit TwoParameters(Session& session)
      : sync(*GradientSync::Create(session)),
        w(*sync->Register({.name = "w", .shape = {kRows, kColumns}})),
        b(*sync->Register({.name = "b", .shape = {kCount}})) {}

  std::unique_ptr<GradientSync> sync;
  ParameterId w, b;
};

class ParameterStateTest : public InprocJobFixture {
 protected:
  ParameterStateTest() { spec_.mesh = {{{"data", kWorld}}}; }
};

// What a checkpoint would have of a tensor: each element from a rank that holds
// it, f32.
class Assembled {
 public:
  void Add(const RegisteredState& state, const Mesh& mesh, int rank) {
    MutexLock lock(&mutex_);
    for (size_t t = 0; t < state.tensors->size(); ++t) {
      const plan::StateTensor& tensor = (*state.tensors)[t];
      std::vector<float>& values = tensors_[tensor.name];
      values.resize(tensor.dims.size() == 2
                        ? static_cast<size_t>(tensor.dims[0].extent() *
                                              tensor.dims[1].extent())
                        : static_cast<size_t>(tensor.dims[0].extent()));
      for (const plan::HeldBox& held : plan::BoxesOf(tensor, mesh, rank)) {
        Copy(held, static_cast<const float*>(state.memory[t]) + held.offset,
             tensor, &values);
      }
    }
  }
  std::vector<float> Of(const std::string& name) {
    MutexLock lock(&mutex_);
    return tensors_[name];
  }

 private:
  static void Copy(const plan::HeldBox& held, const float* from,
                   const plan::StateTensor& tensor, std::vector<float>* to) {
    const bool matrix = tensor.dims.size() == 2;
    const int64_t columns = matrix ? tensor.dims[1].extent() : 1;
    const int64_t wide = matrix ? held.box.shape[1] : 1;
    for (int64_t row = 0; row < held.box.shape[0]; ++row) {
      for (int64_t column = 0; column < wide; ++column) {
        const int64_t at = (held.box.begin[0] + row) * columns +
                           (matrix ? held.box.begin[1] : 0) + column;
        (*to)[static_cast<size_t>(at)] += *from++;
      }
    }
  }

  Mutex mutex_;
  std::map<std::string, std::vector<float>> tensors_ ABSL_GUARDED_BY(mutex_);
};

std::vector<float> Counted(int64_t count, float first) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) {
    values.push_back(first + static_cast<float>(i));
  }
  return values;
}

// Each rank writes its own slices only; together they are the tensors.
TEST_F(ParameterStateTest, SlicesOfAllRanksAreTheTensors) {
  spec_.sync = SyncMode::kReduceScatter;
  Assembled assembled;
  JoinAll();
  ForAll([&](Session& session) {
    TwoParameters model(session);
    const ParameterState state{.slices = {{"m"}, {"v"}}};
    ASSERT_EQ(model.sync->RegisterState(model.w, state), absl::OkStatus());
    ASSERT_EQ(model.sync->RegisterState(model.b, state), absl::OkStatus());
    ASSERT_EQ(model.sync->Seal(), absl::OkStatus());
    std::vector<std::vector<float>> kept;
    for (const ParameterId id : {model.w, model.b}) {
      const ParameterSlice slice = *model.sync->Slice(id);
      const auto value = *model.sync->Value<float>(id);
      for (size_t i = slice.offset; i < slice.offset + slice.count; ++i) {
        value[i] = 1 + static_cast<float>(i);
      }
      for (const char* suffix : {"m", "v"}) {
        const float first = 1000 + static_cast<float>(slice.offset);
        kept.push_back(Counted(static_cast<int64_t>(slice.count), first));
        ASSERT_EQ(model.sync->SetSliceMemory(id, suffix, kept.back().data()),
                  absl::OkStatus());
      }
    }
    const auto registered = session.impl().state().Registered();
    ASSERT_TRUE(registered.ok()) << registered.status();
    ASSERT_EQ(registered->tensors->size(), 6u);
    EXPECT_EQ((*registered->tensors)[1].name, "w.m");
    assembled.Add(*registered, session.spec().mesh, session.rank());
    connected_.arrive_and_wait();
  });
  EXPECT_EQ(assembled.Of("w"), Counted(kRows * kColumns, 1));
  EXPECT_EQ(assembled.Of("w.m"), Counted(kRows * kColumns, 1000));
  EXPECT_EQ(assembled.Of("b"), Counted(kCount, 1));
  EXPECT_EQ(assembled.Of("b.v"), Counted(kCount, 1000));
}

// Without slices every rank holds all.
TEST_F(ParameterStateTest, InOtherModesStateIsWhole) {
  JoinAll();
  ForAll([&](Session& session) {
    TwoParameters model(session);
    std::vector<float> w(kRows * kColumns), m(kRows * kColumns);
    ASSERT_EQ(model.sync->RegisterState(
                  model.w, {.value = w.data(), .slices = {{"m", DType::kF32}}}),
              absl::OkStatus());
    ASSERT_EQ(model.sync->Seal(), absl::OkStatus());
    ASSERT_EQ(model.sync->SetSliceMemory(model.w, "m", m.data()),
              absl::OkStatus());
    const auto registered = session.impl().state().Registered();
    ASSERT_TRUE(registered.ok()) << registered.status();
    EXPECT_THAT(registered->memory, ElementsAre(w.data(), m.data()));
    for (const plan::StateTensor& tensor : *registered->tensors) {
      EXPECT_THAT(tensor.slices, IsEmpty());
      EXPECT_EQ(tensor.ranks.size(), size_t{kWorld});
    }
    connected_.arrive_and_wait();
  });
}

TEST_F(ParameterStateTest, WrongCallsAreNamed) {
  JoinAll();
  ForAll([&](Session& session) {
    TwoParameters model(session);
    float w[kRows * kColumns];
    const auto refused = [&](const absl::Status& status) {
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      return std::string(status.message());
    };
    EXPECT_EQ(refused(model.sync->RegisterState({2}, {.value = w})),
              "parameter 2 is not registered: there are 2");
    EXPECT_EQ(refused(model.sync->RegisterState(model.w, {})),
              "the state of w has no value");
    EXPECT_THAT(refused(model.sync->RegisterState(
                    model.w, {.value = w, .cuts = {{2, {"data"}}}})),
                HasSubstr("dim 2 of a tensor with 2 dimensions"));
    ASSERT_EQ(
        model.sync->RegisterState(model.w, {.value = w, .slices = {{"m"}}}),
        absl::OkStatus());
    EXPECT_THAT(refused(model.sync->RegisterState(model.w, {.value = w})),
                HasSubstr("registered twice"));
    EXPECT_EQ(refused(model.sync->SetSliceMemory(model.w, "v", w)),
              "no state w.v is registered");
    EXPECT_EQ(refused(model.sync->SetSliceMemory(model.b, "m", w)),
              "no state b.m is registered");
    EXPECT_EQ(refused(model.sync->SetSliceMemory({-1}, "m", w)),
              "parameter -1 is not registered: there are 2");
    ASSERT_EQ(model.sync->Seal(), absl::OkStatus());
    EXPECT_EQ(model.sync->RegisterState(model.b, {.value = w}).code(),
              absl::StatusCode::kFailedPrecondition);
    connected_.arrive_and_wait();
  });
}

TEST_F(ParameterStateTest, TheLibraryHasTheValuesOfAShardedJob) {
  spec_.sync = SyncMode::kReduceScatter;
  JoinAll();
  ForAll([&](Session& session) {
    TwoParameters model(session);
    float w[kRows * kColumns];
    const absl::Status refused =
        model.sync->RegisterState(model.w, {.value = w});
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(refused.message()), HasSubstr("reduce_scatter"));
    connected_.arrive_and_wait();
  });
}

}  // namespace
}  // namespace lockstep::session
