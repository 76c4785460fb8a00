#include "client/gradient/reduction.h"

#include <string>
#include <utility>

#include "client/executor/enqueue.h"
#include "client/transport/extended_collectives.h"

namespace lockstep::gradient {

absl::StatusOr<std::unique_ptr<Reduction>> Reduction::Create(
    Options options,
    absl::FunctionRef<absl::StatusOr<ArenaBuffer>(size_t)> allocate) {
  transport::Compute& compute = *options.compute;
  const int leaves = options.leaves;
  std::unique_ptr<Reduction> reduction(new Reduction(std::move(options)));
  absl::StatusOr<ArenaBuffer> buffer = allocate(sizeof(StepMemory));
  if (!buffer.ok()) return buffer.status();
  reduction->memory_ = *std::move(buffer);
  buffer = compute.AllocateStaging(sizeof(StepMemory));
  if (!buffer.ok()) return buffer.status();
  reduction->staging_ = *std::move(buffer);
  if (leaves > 0) {
    auto norms = LeafNorms::Create(leaves, compute, allocate);
    if (!norms.ok()) return norms.status();
    reduction->leaf_norms_ = *std::move(norms);
  }
  auto queue = compute.MakeQueue("ls-comm");
  if (!queue.ok()) return queue.status();
  reduction->queue_ = *std::move(queue);
  return reduction;
}

void Reduction::FailUnless(int communicator, const absl::Status& status) {
  if (!status.ok()) on_failure_(communicator, status);
}

// --- Buckets ----------------------------------------------------------------

void Reduction::LaunchBucket(Layout& layout, int item,
                             std::vector<Event> after) {
  const Layout::Item& it = layout.items()[item];
  if (layout.store().Exchanges(it.bucket)) {
    LaunchExchange(layout, it, std::exchange(after, {}));
  }
  const bool checked = IsChecked(layout, it);
  queue_->Launch(
      {.after = std::move(after),
       .before =
           [&layout, &it](Site& site) {
             layout.store().Load(site, it.bucket);
             return site.status();
           },
       .communicate =
           [this, &layout, &it, checked](Stream& stream) {
             return Enqueue(layout, it, checked ? ChecksOf(it) : Checks(),
                            stream);
           },
       .then =
           [this, &layout, &it, checked](Site& site,
                                         const absl::Status& launched) {
             if (!launched.ok()) return on_failure_(-1, launched);
             if (Brought(site, layout, it) && !checked) Count(site, layout, it);
           },
       // The next bucket's reduction does not wait for this one's norm.
       .aside = true});
}

absl::Status Reduction::Enqueue(const Layout& layout, const Layout::Item& item,
                                Checks checks, Stream& stream) {
  Communicator& communicator = *communicators_[item.communicator];
  const plan::Bucket& bucket = layout.bucket(item.bucket);
  std::byte* const wire = layout.store().OnWire(item.bucket).data;
  if (item.exchange.has_value() && !layout.store().Exchanges(item.bucket)) {
    return EnqueueSumInPairs(communicator, bucket, wire, std::move(checks),
                             stream);
  }
  if (!checks.empty()) {
    const plan::Transfer& planned = *item.transfers[0].transfer;
    return transport::CheckedAllReduce(communicator, wire, CountOf(planned),
                                       planned.dtype, planned.op,
                                       std::move(checks), stream);
  }
  return executor::EnqueueTogether(item.transfers, communicator, stream);
}

absl::Status Reduction::EnqueueSumInPairs(Communicator& communicator,
                                          const plan::Bucket& bucket,
                                          std::byte* sums, Checks checks,
                                          Stream& stream) {
  const bool mean = bucket.op == ReduceOp::kMean;
  const double factor = mean ? 1.0 / bucket.leaves : 1.0;
  const DType dtype = SumTypeOf(bucket);
  if (checks.empty()) {
    return transport::AllReducePairs(communicator, sums, sums, bucket.total,
                                     dtype, factor, stream);
  }
  return transport::CheckedAllReducePairs(communicator, sums, bucket.total,
                                          dtype, factor, std::move(checks),
                                          stream);
}

void Reduction::LaunchExchange(Layout& layout, const Layout::Item& item,
                               std::vector<Event> after) {
  Communicator& communicator = *communicators_[item.communicator];
  queue_->Launch(
      {.after = std::move(after),
       .communicate =
           [&item, &communicator](Stream& stream) {
             return executor::Enqueue(*item.exchange, communicator, stream);
           },
       .then =
           [this, &layout, &item, &communicator](Site& site,
                                                 const absl::Status& launched) {
             if (!launched.ok()) return on_failure_(-1, launched);
             const absl::Status exchanged = communicator.status();
             if (!exchanged.ok()) {
               return on_failure_(item.communicator, exchanged);
             }
             const plan::Bucket& bucket = layout.bucket(item.bucket);
             const bool mean = bucket.op == ReduceOp::kMean;
             site.ReducePairs(layout.store().sums(item.bucket).slices(),
                              communicator.size(), SumTypeOf(bucket),
                              mean ? 1.0 / bucket.leaves : 1.0,
                              layout.store().BucketData(item.bucket) +
                                  item.slice.offset * SizeOf(bucket.dtype),
                              bucket.dtype, item.slice.count);
             FailUnless(-1, site.status());
           }});
}

void Reduction::LaunchShared(Layout& layout, int item, const Share& share,
                             std::vector<Event> after) {
  const Layout::Item& it = layout.items()[item];
  const plan::Bucket& bucket = layout.bucket(it.bucket);
  Communicator& communicator = *communicators_[it.communicator];
  std::byte* data = layout.store().BucketData(it.bucket);
  std::byte* wire = layout.store().OnWire(it.bucket).data;
  const plan::Transfer& planned = *it.transfers[0].transfer;
  const bool wide = planned.dtype != WireOf(bucket);
  if (wide) wire = layout.store().Wide(it.bucket);
  const bool rescales = bucket.op == ReduceOp::kMean;
  const double divisor =
      planned.op == ReduceOp::kMean ? communicator.size() : 1;
  const double factor = divisor / share.announcers;
  // The flag apart: it says whether others gave a gradient.
  const auto zero = [data, &bucket](Site& site) {
    site.Zero(data, bucket.flags_offset * SizeOf(bucket.dtype));
  };
  queue_->Launch({.after = std::move(after),
                  .before =
                      [&layout, &it, share, zero, wide](Site& site) {
                        if (!share.gives) zero(site);
                        if (wide) {
                          layout.store().LoadWide(site, it.bucket);
                        } else {
                          layout.store().Load(site, it.bucket);
                        }
                        return site.status();
                      },
                  .communicate =
                      [&communicator, &planned, wire](Stream& stream) {
                        return executor::Enqueue({&planned, {wire, wire}},
                                                 communicator, stream);
                      },
                  .then =
                      [=, this, &layout, &it, &bucket](
                          Site& site, const absl::Status& launched) {
                        if (!launched.ok()) return on_failure_(-1, launched);
                        if (!HasCome(it)) return;
                        if (wide) {
                          layout.store().UnloadWide(site, it.bucket, factor);
                        } else {
                          layout.store().Unload(site, it.bucket, it.slice);
                        }
                        if (rescales && !wide) {
                          site.Scale(data, bucket.dtype, factor,
                                     bucket.slots[0].count);
                        }
                        Count(site, layout, it);
                        if (!share.gives) zero(site);
                        FailUnless(-1, site.status());
                      }});
}

void Reduction::LaunchZeros(Layout& layout, std::vector<int> parameters) {
  if (parameters.empty()) return;
  queue_->Launch(
      {.before =
           [&layout, zeroed = std::move(parameters)](Site& site) {
             for (const int parameter : zeroed) {
               layout.store().Zero(site, parameter);
             }
             return site.status();
           },
       .then = [this](Site&,
                      const absl::Status& done) { FailUnless(-1, done); }});
}

bool Reduction::IsChecked(Layout& layout, const Layout::Item& item) {
  const int b = item.bucket;
  return item.owns_slice && !layout.store().Exchanges(b) &&
         layout.store().OnWire(b).dtype == layout.bucket(b).dtype &&
         transport::CanCheck(*communicators_[item.communicator]);
}

Reduction::Checks Reduction::ChecksOf(const Layout::Item& item) {
  Checks checks;
  const auto add = [&checks](const auto& ranges, kernels::FiniteCheck* total) {
    for (const kernels::ElementRange& range : ranges) {
      checks.push_back({{range.offset, range.count}, total});
    }
  };
  add(item.owned, &moved().norm);
  for (const Layout::OwnedPart& part : item.of_leaves) {
    add(part.ranges, leaf_norms_->total(part.leaf));
  }
  return checks;
}

bool Reduction::Brought(Site& site, Layout& layout, const Layout::Item& item) {
  if (!HasCome(item)) return false;
  layout.store().Unload(site, item.bucket, item.slice);
  return true;
}

bool Reduction::HasCome(const Layout::Item& item) {
  const absl::Status reduced = communicators_[item.communicator]->status();
  if (!reduced.ok()) on_failure_(item.communicator, reduced);
  return reduced.ok();
}

void Reduction::Count(Site& site, Layout& layout, const Layout::Item& item) {
  site.AddFiniteCheck(layout.store().BucketData(item.bucket),
                      layout.bucket(item.bucket).dtype, item.owned,
                      item.scratch.data(), &moved().norm);
  for (const Layout::OwnedPart& part : item.of_leaves) {
    site.AddFiniteCheck(layout.store().BucketData(item.bucket),
                        layout.bucket(item.bucket).dtype, part.ranges,
                        part.scratch.data(), leaf_norms_->total(part.leaf));
  }
  FailUnless(-1, site.status());
}

void Reduction::LaunchGather(const Layout& layout, const Layout::Gather& gather,
                             std::byte* parameters, std::vector<Event> after,
                             absl::AnyInvocable<void(Event)> arrived) {
  Communicator& communicator = *communicators_[gather.communicator];
  queue_->Launch(
      {.after = std::move(after),
       .communicate =
           [&layout, &gather, &communicator, parameters](Stream& stream) {
             const std::byte* const mine =
                 parameters + gather.slice.offset *
                                  SizeOf(layout.bucket(gather.bucket).dtype);
             return executor::Enqueue({gather.transfer, {mine, parameters}},
                                      communicator, stream);
           },
       .then =
           [this, &gather, &communicator, arrived = std::move(arrived)](
               Site& site, const absl::Status& launched) mutable {
             if (!launched.ok()) return on_failure_(-1, launched);
             const absl::Status gathered = communicator.status();
             if (!gathered.ok()) {
               return on_failure_(gather.communicator, gathered);
             }
             arrived(site.Done());
             FailUnless(-1, site.status());
           }});
}

void Reduction::Run(absl::AnyInvocable<void()> work) {
  queue_->Launch({.then = [work = std::move(work)](
                              Site&, const absl::Status&) mutable { work(); }});
}

// --- The verdict ------------------------------------------------------------

void Reduction::LaunchVerdict(
    std::shared_ptr<PendingVerdict::State> verdict,
    std::function<StepStamp(Ballot*)> enter,
    std::function<void(absl::StatusOr<Verdict>)> judge) {
  const bool on_close = on_close_;  // the verdict may change it
  queue_->Launch(
      {.before =
           [this, verdict, enter = std::move(enter)](Site& site) {
             auto ballot = TakeBallot(site, *verdict);
             if (!ballot.ok()) return ballot.status();
             verdict->stamp = enter(&*ballot);
             fetched().ballot = Encode(verdict->stamp, *ballot);
             site.Copy(&fetched().ballot, &moved().ballot,
                       sizeof(BallotVectors));
             return site.status();
           },
       .communicate =
           [this](Stream& stream) { return ExchangeBallots(stream); },
       .then =
           [this, verdict, judge = std::move(judge)](
               Site& site, const absl::Status& launched) {
             const absl::StatusOr<BallotVectors> reduced =
                 launched.ok() ? FetchBallot(site) : launched;
             if (!reduced.ok()) return judge(reduced.status());
             verdict->vectors = *reduced;
             judge(Decode(verdict->stamp, communicators_[0]->size(),
                          verdict->terms(), *reduced));
           }});
  if (on_close) closed_ = true;
}

void Reduction::SetOnClose(bool on_close) {
  on_close_ = on_close;
  queue_->SetOnDrain(on_close);
}

void Reduction::RunIfClosed() {
  if (closed_.exchange(false)) queue_->Drain();
}

absl::Status Reduction::ExchangeBallots(Stream& stream) {
  Communicator& world = *communicators_[0];
  BallotVectors& v = moved().ballot;
  return world.Group([&]() -> absl::Status {
    absl::Status sum = world.AllReduce(v.sum.data(), v.sum.data(), v.sum.size(),
                                       DType::kF64, ReduceOp::kSum, stream);
    if (!sum.ok()) return sum;
    absl::Status max = world.AllReduce(v.max.data(), v.max.data(), v.max.size(),
                                       DType::kU64, ReduceOp::kMax, stream);
    if (!max.ok() || !leaf_norms_) return max;
    return leaf_norms_->Exchange(world, stream);
  });
}

void Reduction::FetchNorm(Site& site) {
  site.Copy(&moved().norm, &fetched().norm, sizeof(kernels::FiniteCheck));
  site.Zero(&moved().norm, sizeof(kernels::FiniteCheck));
  if (leaf_norms_) leaf_norms_->Fetch(site);
}

absl::StatusOr<Ballot> Reduction::TakeBallot(
    Site& site, const PendingVerdict::State& verdict) {
  FetchNorm(site);
  absl::Status got = site.status();
  if (got.ok()) got = site.Done().Wait();
  if (got.ok()) got = CheckCommunicators();
  if (!got.ok()) return got;
  Ballot ballot = FetchedBallot(verdict);
  if (leaf_norms_) {
    ballot.nonfinite += static_cast<int64_t>(leaf_norms_->Give(site));
  }
  return ballot;
}

Ballot Reduction::FetchedBallot(const PendingVerdict::State& verdict) {
  const kernels::FiniteCheck& norm = fetched().norm;
  return Ballot{.norm_squared = norm.sum_of_squares,
                .nonfinite = static_cast<int64_t>(norm.non_finite),
                .samples = verdict.options.samples,
                .more_data = verdict.options.more_data,
                .terms = verdict.terms()};
}

absl::Status Reduction::CheckCommunicators() {
  for (size_t c = 0; c < communicators_.size(); ++c) {
    if (communicators_[c] == nullptr) continue;
    absl::Status status = communicators_[c]->status();
    if (status.ok()) continue;
    on_failure_(static_cast<int>(c), status);
    return status;
  }
  return absl::OkStatus();
}

// A transfer that failed has aborted the world, so its status covers all.
absl::StatusOr<BallotVectors> Reduction::FetchBallot(Site& site) {
  site.Copy(&moved().ballot, &fetched().ballot, sizeof(BallotVectors));
  if (leaf_norms_) leaf_norms_->FetchSums(site);
  absl::Status got = site.status();
  if (got.ok()) got = site.Done().Wait();
  if (got.ok()) got = communicators_[0]->status();
  if (!got.ok()) return got;
  if (leaf_norms_) SetNormSquared(leaf_norms_->Sum(), &fetched().ballot);
  return fetched().ballot;
}

void Reduction::Abort(const absl::Status& cause) {
  const std::string message(cause.message());
  for (const auto& communicator : communicators_) {
    if (communicator != nullptr) communicator->Abort(message);
  }
}

}  // namespace lockstep::gradient
