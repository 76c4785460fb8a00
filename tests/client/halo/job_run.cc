#include "tests/client/halo/job_run.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

namespace lockstep::halo_model {

using conformance::PlacedTensor;
using conformance::Placement;

// A call on one rank, until its outputs are fetched.
struct JobRun::RankCall {
  std::vector<std::unique_ptr<Bytes>> hosts;  // padded tensors, then blocks
  std::vector<PlacedTensor> placed;
  std::vector<void*> padded, blocks;
  std::optional<PendingCollective> pending;
};

absl::StatusOr<std::unique_ptr<JobRun>> JobRun::Make(
    const HaloJob& job, conformance::Groups& groups, bool checked) {
  std::unique_ptr<JobRun> made(new JobRun(job, groups));
  auto ranks =
      conformance::HaloRanks::Make(job.mesh, job.declared, groups, checked);
  if (!ranks.ok()) return ranks.status();
  made->ranks_ = *std::move(ranks);
  for (int rank = 0; rank < job.ranks(); ++rank) {
    auto stream = groups.MakeStream(rank);
    if (!stream.ok()) return stream.status();
    made->streams_.push_back(*std::move(stream));
  }
  return made;
}

absl::StatusOr<std::vector<ExchangeBytes>> JobRun::Run(
    const std::vector<PassCall>& calls,
    const std::vector<ExchangeValues>& values, Placement placement) {
  std::vector<std::vector<RankCall>> made(calls.size());
  absl::Status status;
  for (size_t c = 0; c < calls.size(); ++c) {
    made[c].resize(job_.ranks());
    for (int rank = 0; rank < job_.ranks(); ++rank) {
      status.Update(Enqueue(calls[c], values[calls[c].exchange], rank,
                            placement, &made[c][rank]));
    }
  }
  std::vector<ExchangeBytes> outputs(calls.size());
  for (size_t c = 0; c < calls.size(); ++c) {
    const ExchangeValues& of = values[calls[c].exchange];
    outputs[c].resize(job_.ranks());
    for (int rank = 0; rank < job_.ranks(); ++rank) {
      RankCall& call = made[c][rank];
      if (call.pending.has_value()) status.Update(call.pending->Wait());
      status.Update(streams_[rank]->Synchronize());
      for (const PlacedTensor& tensor : call.placed) {
        status.Update(tensor.Fetch(*streams_[rank]));
      }
      const size_t tensors = call.padded.size();
      for (size_t t = 0; t < tensors; ++t) {
        Bytes output = *call.hosts[calls[c].backward ? tensors + t : t];
        if (calls[c].backward && calls[c].in_place) {
          const Bytes& padded = *call.hosts[t];
          const size_t size = padded.size() / of.models[t].padded[rank].size();
          output.clear();
          for (const int64_t cell : Interior(of, calls[c].exchange, t, rank)) {
            output.insert(output.end(), &padded[cell * size],
                          &padded[cell * size] + size);
          }
        }
        outputs[c][rank].push_back(std::move(output));
      }
    }
  }
  if (!status.ok()) return status;
  return outputs;
}

absl::Status JobRun::Enqueue(const PassCall& call, const ExchangeValues& values,
                             int rank, Placement placement, RankCall* made) {
  constexpr std::byte kUnwritten{0xa5};
  const size_t tensors = values.models.size();
  for (size_t t = 0; t < tensors; ++t) {
    Bytes padded = values.padded_gradients[rank][t];
    if (!call.backward) {
      std::fill(padded.begin(), padded.end(), kUnwritten);
      const Bytes& block = values.blocks[rank][t];
      const size_t size = padded.size() / values.models[t].padded[rank].size();
      const std::byte* from = block.data();
      for (const int64_t cell : Interior(values, call.exchange, t, rank)) {
        if (!call.in_place) break;
        std::copy_n(from, size, &padded[cell * size]);
        from += size;
      }
    }
    made->hosts.push_back(std::make_unique<Bytes>(std::move(padded)));
  }
  for (size_t t = 0; t < tensors; ++t) {
    made->hosts.push_back(std::make_unique<Bytes>(values.blocks[rank][t]));
    Bytes& block = *made->hosts.back();
    if (call.backward) std::fill(block.begin(), block.end(), kUnwritten);
  }
  Stream& stream = *streams_[rank];
  for (const auto& host : made->hosts) {
    auto placed =
        PlacedTensor::Make(host.get(), ranks_->memory(rank), placement, stream);
    if (!placed.ok()) return placed.status();
    const bool is_padded = made->placed.size() < tensors;
    made->placed.push_back(*std::move(placed));
    void* const data = made->placed.back().data();
    if (is_padded) {
      made->padded.push_back(data);
    } else {
      made->blocks.push_back(call.in_place ? nullptr : data);
    }
  }
  const HaloExchange& halo = ranks_->at(rank, call.exchange);
  const std::vector<const void*> blocks(made->blocks.begin(),
                                        made->blocks.end());
  if (call.on_stream) {
    return call.backward ? halo.RunBackward(made->padded, made->blocks, stream)
                         : halo.Run(blocks, made->padded, stream);
  }
  const Event there = stream.Record();
  auto pending = call.backward
                     ? halo.StartBackward(made->padded, made->blocks, {there})
                     : halo.Start(blocks, made->padded, {there});
  if (!pending.ok()) return pending.status();
  made->pending = *std::move(pending);
  return absl::OkStatus();
}

std::vector<int64_t> JobRun::Interior(const ExchangeValues& values,
                                      size_t exchange, size_t tensor,
                                      int rank) const {
  const TensorModel& model = values.models[tensor];
  return CellsOfBox(model.padded_shapes[rank], model.blocks[rank].low,
                    job_.declared[rank][exchange].tensors[tensor].shape);
}

std::string JobRun::CheckBlocks(const std::vector<ExchangeValues>& values) {
  for (size_t e = 0; e < values.size(); ++e) {
    for (int rank = 0; rank < job_.ranks(); ++rank) {
      const HaloExchange& halo = ranks_->at(rank, e);
      const auto blocks = halo.blocks();
      const auto types = halo.padded_types();
      std::vector<Bytes> trimmed = values[e].blocks[rank];
      std::vector<const void*> in;
      std::vector<void*> out;
      for (size_t t = 0; t < trimmed.size(); ++t) {
        const HaloBlock& got = (*blocks)[t];
        const HaloBlock& wanted = values[e].models[t].blocks[rank];
        if (got.field != wanted.field || got.begin != wanted.begin ||
            got.low != wanted.low || got.high != wanted.high ||
            (*types)[t].shape != values[e].models[t].padded_shapes[rank]) {
          return absl::StrCat("exchange ", e, ", rank ", rank, ", tensor ", t,
                              ": the block is elsewhere");
        }
        std::fill(trimmed[t].begin(), trimmed[t].end(), std::byte{0xa5});
        in.push_back(values[e].padded[rank][t].data());
        out.push_back(trimmed[t].data());
      }
      if (ranks_->memory(rank).device != nullptr) continue;  // no host memory
      if (!halo.Trim(in, out).ok() || trimmed != values[e].blocks[rank]) {
        return absl::StrCat("exchange ", e, ", rank ", rank,
                            ": the blocks are not trimmed");
      }
    }
  }
  return "";
}

}  // namespace lockstep::halo_model
