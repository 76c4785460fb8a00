#include "tools/perf/rank.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"

namespace lockstep::perf {

absl::Status PerfRank::Connect(const Exchange& exchange) {
  auto pending = backend_.transport->Prepare(
      {.name = "perf", .rank = rank_, .size = options_.ranks});
  if (!pending.ok()) return pending.status();
  const auto handles = exchange((*pending)->handle());
  if (!handles.ok()) return handles.status();
  auto comm = (*pending)->Connect(*handles, absl::Seconds(60));
  if (!comm.ok()) return comm.status();
  comm_ = *std::move(comm);
  connection_ = std::string(comm_->transport());
  if (const std::string why = (*pending)->choice(); !why.empty()) {
    absl::StrAppend(&connection_, " (", why, ")");
  }
  const bool wanted = options_.transport != "hierarchical" ||
                      comm_->transport() == "hierarchical";
  return wanted ? absl::OkStatus()
                : absl::UnavailableError(
                      absl::StrCat("the ranks are connected by ", connection_));
}

absl::StatusOr<Row> PerfRank::Measure(size_t bytes) {
  auto operation = PerfOperation::Create(options_, bytes, *comm_, &memory_);
  if (!operation.ok()) return operation.status();
  PerfOperation& op = **operation;
  op.Fill();
  if (absl::Status given = op.Give(); !given.ok()) return given;
  absl::StatusOr<double> warm = SecondsOf(op, options_.warmup);
  if (!warm.ok()) return warm.status();
  absl::StatusOr<double> seconds = SecondsOf(op, options_.iterations);
  if (!seconds.ok()) return seconds.status();
  op.Fill();
  if (absl::Status given = op.Give(); !given.ok()) return given;
  // All ranks' inputs must be written before any rank reads them.
  absl::StatusOr<double> checked = SecondsOf(op, 1);
  if (!checked.ok()) return checked.status();
  absl::Status taken = op.Take(*backend_.stream);
  if (!taken.ok()) return taken;
  double totals[] = {*seconds / options_.iterations,
                     static_cast<double>(op.Wrong())};
  if (absl::Status summed = Sum(totals, 2); !summed.ok()) return summed;
  return Row{.bytes = op.bytes(),
             .count = op.count(),
             .seconds = totals[0] / options_.ranks,
             .wrong = static_cast<size_t>(totals[1])};
}

absl::Status PerfRank::Finished(absl::Status called) {
  return called.ok() ? backend_.stream->Synchronize() : called;
}

absl::StatusOr<double> PerfRank::SecondsOf(PerfOperation& op, int iterations) {
  absl::Status ready = Finished(comm_->Barrier(*backend_.stream));
  if (!ready.ok()) return ready;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < iterations; ++i) {
    absl::Status called = op.Run(*backend_.stream);
    if (!called.ok()) return called;
  }
  if (absl::Status done = backend_.stream->Synchronize(); !done.ok()) {
    return done;
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
      .count();
}

absl::Status PerfRank::Sum(double* values, size_t count) {
  auto buffer = memory_.Allocate(count * sizeof(double));
  if (!buffer.ok()) return buffer.status();
  auto* const seen = reinterpret_cast<double*>(buffer->seen());
  std::copy_n(values, count, seen);
  absl::Status summed = memory_.Give(*buffer);
  if (!summed.ok()) return summed;
  summed =
      Finished(comm_->AllReduce(buffer->data(), buffer->data(), count,
                                DType::kF64, ReduceOp::kSum, *backend_.stream));
  if (summed.ok()) summed = memory_.Take(*buffer);
  std::copy_n(seen, count, values);
  return summed;
}

}  // namespace lockstep::perf
