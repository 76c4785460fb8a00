// Checkpoints of state in device memory, on a fake GPU.

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/transport/nccl/cuda_stream.h"
#include "client/transport/nccl/nccl.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/state/saver_job.h"
#include "tests/support/fake_gpu.h"

namespace lockstep::state {
namespace {

using ::testing::IsEmpty;

// One rank with two tensors in device memory.
class DeviceStateTest : public testing::Test {
 protected:
  DeviceStateTest()
      : tables_(gpus_.TablesOf(0)),
        transport_(*transport::nccl::MakeTransport(tables_)),
        arena_(transport_->MakeArena()) {
    stream_ = *transport::nccl::CudaStream::Create(tables_.cuda.get());
    CheckpointJob job{.name = "digits", .epoch = 1, .mesh = {{{"data", 1}}}};
    for (const JobTensor& tensor : std::vector<JobTensor>{
             {"w", {DType::kF32, {70, 30}}}, {"b", {DType::kBF16, {30}}}}) {
      const StatePart part = {job.tensors.size(),
                              checkpoint::WholeOf(tensor.type)};
      job.tensors.push_back(tensor);
      job.held.push_back(part);
      buffers_.push_back(*arena_->Allocate(BytesOf(job, part)));
      job.held.back().data = buffers_.back().data();
    }
    job.written = job.held;
    job_ = std::make_unique<SaverJob>(SaverJob::WithMemory{},
                                      std::vector<CheckpointJob>{job}, &files_);
    job_->SetDevice(0, *transport_->MakeDeviceContext());
    EXPECT_THAT(job_->Open({.directory = "/digits"}),
                testing::Each(absl::OkStatus()));
  }
  ~DeviceStateTest() override {
    job_.reset();
    stream_.reset();
    buffers_.clear();
    EXPECT_THAT(gpus_.violations(), IsEmpty());
  }

  // Enqueues a kernel that sets all memory to what it is at this step.
  void Compute(int64_t step) {
    for (size_t i = 0; i < buffers_.size(); ++i) {
      std::byte* const data = gpus_.Reach(buffers_[i].data());
      gpus_.LaunchKernel(
          stream_->handle(),
          [data, bytes = ContentsAt(job_->job(0).tensors[i], step)] {
            std::memcpy(data, bytes.data(), bytes.size());
          });
    }
  }
  // The names of tensors that are not as at this step.
  std::vector<std::string> Different(int64_t step) {
    std::vector<std::string> names;
    for (size_t i = 0; i < buffers_.size(); ++i) {
      const JobTensor& tensor = job_->job(0).tensors[i];
      const std::byte* const data = gpus_.Reach(buffers_[i].data());
      gpus_.LaunchKernel(stream_->handle(), [&names, &tensor, data, step] {
        const std::string bytes = ContentsAt(tensor, step);
        if (std::memcmp(data, bytes.data(), bytes.size()) == 0) return;
        names.push_back(tensor.name);
      });
    }
    EXPECT_EQ(stream_->Synchronize(), absl::OkStatus());
    return names;
  }

  fake::FakeGpus gpus_{fake::GpuOptions()};
  transport::nccl::Tables tables_;
  std::unique_ptr<transport::Transport> transport_;
  MemoryFileSystem files_;
  std::unique_ptr<Arena> arena_;
  std::vector<ArenaBuffer> buffers_;
  std::unique_ptr<transport::nccl::CudaStream> stream_;
  std::unique_ptr<SaverJob> job_;
};

TEST_F(DeviceStateTest, IsSavedAndLoadedThroughStaging) {
  Compute(20);
  ASSERT_EQ(stream_->Synchronize(), absl::OkStatus());
  ASSERT_EQ(job_->saver(0).Save(SaverJob::TrainingAt(20), nullptr),
            absl::OkStatus());
  Compute(21);
  ASSERT_EQ(job_->saver(0).Wait(), absl::OkStatus());
  EXPECT_THAT(Different(21), IsEmpty());
  ASSERT_TRUE(job_->saver(0).Load({}).ok());
  EXPECT_THAT(Different(20), IsEmpty());
}

TEST_F(DeviceStateTest, IsCopiedOnTheStreamBetweenTheWorkOfTwoSteps) {
  // Twice: the staging memory is used again.
  for (const int64_t step : {20, 30}) {
    Compute(step);
    ASSERT_EQ(job_->saver(0).Save(SaverJob::TrainingAt(step), stream_.get()),
              absl::OkStatus());
    Compute(step + 1);
    ASSERT_EQ(job_->saver(0).Wait(), absl::OkStatus());
    ASSERT_EQ(stream_->Synchronize(), absl::OkStatus());
    ASSERT_TRUE(job_->saver(0).Load({}).ok());
    EXPECT_THAT(Different(step), IsEmpty());
  }
}

TEST_F(DeviceStateTest, KeepsTensorsThatAreNotLoaded) {
  Compute(20);
  ASSERT_EQ(stream_->Synchronize(), absl::OkStatus());
  ASSERT_EQ(job_->saver(0).Save(SaverJob::TrainingAt(20), nullptr),
            absl::OkStatus());
  Compute(21);
  ASSERT_EQ(stream_->Synchronize(), absl::OkStatus());
  ASSERT_TRUE(job_->saver(0).Load({.only = {"b"}}).ok());
  EXPECT_THAT(Different(21), testing::ElementsAre("b"));
  EXPECT_THAT(Different(20), testing::ElementsAre("w"));
}

TEST_F(DeviceStateTest, RefusesAStreamOfTheHost) {
  HostStream host;
  EXPECT_TRUE(absl::IsInvalidArgument(
      job_->saver(0).Save(SaverJob::TrainingAt(20), &host)));
  EXPECT_EQ(job_->saver(0).Wait(), absl::OkStatus()) << "Save has returned it";
  EXPECT_EQ(job_->saver(0).newest(), std::nullopt);
}

}  // namespace
}  // namespace lockstep::state
