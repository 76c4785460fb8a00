// A job of several ranks in this process, each with its part of some tensors
// and a Saver.

#ifndef LOCKSTEP_TESTS_CLIENT_STATE_SAVER_JOB_H_
#define LOCKSTEP_TESTS_CLIENT_STATE_SAVER_JOB_H_

#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/state/saver.h"
#include "client/transport/device_context.h"
#include "gtest/gtest.h"
#include "tests/client/checkpoint/checkpoint_folder.h"
#include "tests/client/state/fake_coordinator.h"
#include "tests/support/memory_file_system.h"

namespace lockstep::state {

// A tensor whose contents depend on the step.
inline std::string ContentsAt(const JobTensor& tensor, int64_t step) {
  return checkpoint::PatternBytes(
      checkpoint::TensorBytes(tensor.type).value(),
      static_cast<uint32_t>(tensor.name.size() * 31 + step));
}

// Parameters, moments and small things of a model, of several dtypes.
inline std::vector<JobTensor> ModelState() {
  return {{"model.embedding", {DType::kBF16, {12, 10}}},
          {"model.weight", {DType::kF32, {9, 4, 3}}},
          {"model.bias", {DType::kF32, {7}}},
          {"optimizer.m.weight", {DType::kF32, {9, 4, 3}}},
          {"optimizer.v.weight", {DType::kF64, {9, 4, 3}}},
          {"optimizer.mask", {DType::kBool, {5, 5}}},
          {"optimizer.step", {DType::kI64, {}}},
          {"scales", {DType::kF8E4M3, {16}}},
          {"nothing", {DType::kF32, {0, 4}}}};
}

// How a job with `ranks` ranks holds the tensors: every third one whole on all
// ranks, the others cut anyhow.
inline std::vector<CheckpointJob> CutJobs(const std::vector<JobTensor>& tensors,
                                          int ranks, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<CheckpointJob> jobs;
  for (int rank = 0; rank < ranks; ++rank) {
    jobs.push_back({.name = "digits",
                    .epoch = static_cast<int64_t>(seed),
                    .mesh = {{{"data", ranks}}},
                    .rank = rank,
                    .tensors = tensors});
  }
  for (size_t t = 0; t < tensors.size(); ++t) {
    const TensorType& type = tensors[t].type;
    if (checkpoint::ElementsOf(type.shape) == 0) continue;
    if (t % 3 == 0) {
      const StatePart whole{t, checkpoint::WholeOf(type)};
      for (CheckpointJob& job : jobs) job.held.push_back(whole);
      jobs[random() % jobs.size()].written.push_back(whole);
      continue;
    }
    const auto slices = checkpoint::RandomSlices(type, ranks, &random);
    for (size_t i = 0; i < slices.size(); ++i) {
      if (checkpoint::ElementsOf(slices[i].shape) == 0) continue;
      jobs[i].held.push_back({t, slices[i]});
      jobs[i].written.push_back({t, slices[i]});
    }
  }
  return jobs;
}

class SaverJob {
 public:
  // Each rank gets memory for what it holds.
  SaverJob(std::vector<CheckpointJob> jobs, FileSystem* files)
      : SaverJob(std::move(jobs), [files](int) { return files; }) {}
  SaverJob(std::vector<CheckpointJob> jobs,
           const std::function<FileSystem*(int rank)>& files)
      : coordinator_(static_cast<int>(jobs.size())),
        jobs_(std::move(jobs)),
        nonces_(jobs_.size()),
        savers_(jobs_.size()) {
    for (size_t rank = 0; rank < jobs_.size(); ++rank) {
      files_.push_back(files(static_cast<int>(rank)));
      devices_.push_back(transport::MakeHostDeviceContext());
      Allocate(&jobs_[rank]);
    }
  }
  // The parts have memory already.
  struct WithMemory {};
  SaverJob(WithMemory, std::vector<CheckpointJob> jobs, FileSystem* files)
      : coordinator_(static_cast<int>(jobs.size())),
        jobs_(std::move(jobs)),
        nonces_(jobs_.size()),
        savers_(jobs_.size()) {
    for (size_t rank = 0; rank < jobs_.size(); ++rank) {
      files_.push_back(files);
      devices_.push_back(transport::MakeHostDeviceContext());
    }
  }
  ~SaverJob() { Close(); }

  FakeCoordinator& coordinator() { return coordinator_; }
  Saver& saver(int rank) { return *savers_[static_cast<size_t>(rank)]; }
  int ranks() const { return static_cast<int>(jobs_.size()); }
  const CheckpointJob& job(int rank) const {
    return jobs_[static_cast<size_t>(rank)];
  }

  // Before Open; the default is host memory.
  void SetDevice(int rank, std::unique_ptr<transport::DeviceContext> device) {
    devices_[static_cast<size_t>(rank)] = std::move(device);
  }

  // Runs `call(rank)` on a thread for each rank; the statuses by rank.
  std::vector<absl::Status> OnAll(
      const std::function<absl::Status(int rank)>& call) {
    std::vector<absl::Status> statuses(jobs_.size());
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < jobs_.size(); ++rank) {
      threads.emplace_back(
          [&, rank] { statuses[rank] = call(static_cast<int>(rank)); });
    }
    for (std::thread& thread : threads) thread.join();
    return statuses;
  }

  std::vector<absl::Status> Open(const SaverOptions& options) {
    return OnAll([&](int rank) {
      const auto r = static_cast<size_t>(rank);
      auto saver = Saver::Open(jobs_[r],
                               {files_[r], coordinator_.channel(rank),
                                devices_[r].get(), &nonces_[r]},
                               options);
      if (!saver.ok()) return saver.status();
      savers_[r] = *std::move(saver);
      return absl::OkStatus();
    });
  }
  void Close() {
    OnAll([&](int rank) {
      savers_[static_cast<size_t>(rank)].reset();
      return absl::OkStatus();
    });
  }

  // Sets all memory to what it is at this step.
  void SetStep(int64_t step) {
    for (CheckpointJob& job : jobs_) {
      for (const StatePart& part : job.held) {
        const std::string bytes = PartAt(job, part, step);
        std::memcpy(part.data, bytes.data(), bytes.size());
      }
    }
  }
  // Names of tensors that are not as at this step.
  std::vector<std::string> Different(int64_t step) const {
    std::vector<std::string> names;
    for (const CheckpointJob& job : jobs_) {
      for (const StatePart& part : job.held) {
        const std::string bytes = PartAt(job, part, step);
        if (std::memcmp(part.data, bytes.data(), bytes.size()) == 0) continue;
        names.push_back(
            absl::StrCat(job.tensors[part.tensor].name, " of rank ", job.rank));
      }
    }
    return names;
  }

  // SetStep, and then saves it; the errors of Save and Wait.
  std::vector<absl::Status> Save(int64_t step) {
    SetStep(step);
    return OnAll([&](int rank) {
      absl::Status status =
          saver(rank).Save(TrainingAt(step), /*stream=*/nullptr);
      status.Update(saver(rank).Wait());
      return status;
    });
  }
  std::vector<absl::Status> Load(const LoadCheckpointOptions& options = {}) {
    return OnAll([&](int rank) { return saver(rank).Load(options).status(); });
  }

  static TrainingState TrainingAt(int64_t step) {
    return {.step = step,
            .epoch = 2,
            .learning_rate = 0.1 / static_cast<double>(step + 3),
            .metadata = {{"note", "a \"text\""}},
            .samples = SampleCursor{7, 1797, step * 32}};
  }

 private:
  static std::string PartAt(const CheckpointJob& job, const StatePart& part,
                            int64_t step) {
    const JobTensor& tensor = job.tensors[part.tensor];
    const checkpoint::CutTensor whole{.name = tensor.name,
                                      .type = tensor.type,
                                      .slices = {},
                                      .bytes = ContentsAt(tensor, step)};
    return whole.At(part.box);
  }

  // Parts that are written are in the memory of those that are held.
  void Allocate(CheckpointJob* job) {
    for (StatePart& part : job->held) {
      memory_.push_back(std::make_unique<std::string>(BytesOf(*job, part), 0));
      part.data = memory_.back()->data();
    }
    for (StatePart& part : job->written) {
      for (const StatePart& held : job->held) {
        if (held.tensor == part.tensor && held.box == part.box) {
          part.data = held.data;
        }
      }
    }
  }

  FakeCoordinator coordinator_;
  std::vector<CheckpointJob> jobs_;
  std::vector<std::string> nonces_;  // Saver::Context::last_nonce
  std::vector<FileSystem*> files_;
  std::vector<std::unique_ptr<transport::DeviceContext>> devices_;
  std::vector<std::unique_ptr<std::string>> memory_;
  std::vector<std::unique_ptr<Saver>> savers_;
};

}  // namespace lockstep::state

#endif  // LOCKSTEP_TESTS_CLIENT_STATE_SAVER_JOB_H_
