// One worker of the weather job: run it under `lockstepctl run`.
//
//   lockstepctl run -n 4 -f examples/specs/weather.yaml --
//       build/user/bin/weather --picture weather.png
//
// Moves the water and the temperature of a real forecast with a given wind for
// a few hundred steps. The globe is cut over the axes "lat" and "lon" of the
// job's mesh; in each step a worker gets the halo of its tile from the others,
// and computes the interior meanwhile. At the end rank 0 computes all steps
// alone and compares: "weather: PASS" and exit code 0 if every bit is equal.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/command_line.h"
#include "examples/weather/forecast.h"
#include "examples/weather/grid.h"
#include "examples/weather/picture.h"
#include "examples/weather/tile_model.h"
#include "lockstep/halo_exchange.h"
#include "lockstep/host_calls.h"
#include "lockstep/mesh.h"
#include "lockstep/session.h"

namespace lockstep::weather {
namespace {

// How long a worker may compute without a collective: --steps is the user's.
constexpr absl::Duration kAloneMax = absl::Hours(1);

struct WeatherFlags {
  int steps = 300;
  bool no_halo = false;
  std::string picture;
};

// How the job's mesh cuts the globe.
struct Cut {
  int lats, lons;
  std::vector<Tile> tiles;  // by rank
};

absl::StatusOr<Cut> CutOver(const Mesh& mesh) {
  const int lat = mesh.AxisIndex("lat"), lon = mesh.AxisIndex("lon");
  if (mesh.axes.size() != 2 || lat != 0 || lon != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the mesh is ", ToString(mesh), "; it must be lat=N,lon=M"));
  }
  Cut cut{.lats = mesh.axes[lat].size, .lons = mesh.axes[lon].size};
  if (cut.lats > kRows || cut.lons > kColumns) {
    return absl::InvalidArgumentError(
        absl::StrCat("the mesh is ", ToString(mesh), "; the globe has ", kRows,
                     " rows and ", kColumns, " columns"));
  }
  for (int rank = 0; rank < mesh.WorldSize(); ++rank) {
    const std::vector<int> at = mesh.CoordinatesOf(rank);
    cut.tiles.push_back(TileAt(at[lat], cut.lats, at[lon], cut.lons));
  }
  return cut;
}

HaloSpec HaloOf(const Tile& tile) {
  const std::vector<HaloDim> dims = {{.dim = -2,
                                      .axis = "lat",
                                      .low = kHalo,
                                      .high = kHalo,
                                      .edge = HaloEdge::kReplicate},
                                     {.dim = -1,
                                      .axis = "lon",
                                      .low = kHalo,
                                      .high = kHalo,
                                      .edge = HaloEdge::kPeriodic}};
  return {.name = "weather",
          .tensors = {{.dtype = DType::kF32,
                       .shape = {tile.rows, tile.columns},
                       .dims = dims},
                      {.dtype = DType::kF32,
                       .shape = {kLevels, tile.rows, tile.columns},
                       .dims = dims}}};
}

// A model of one tile and its memory, which the transport uses without a copy.
struct Worker {
  ArenaBuffer now, next;
  TileModel model;

  static absl::StatusOr<Worker> Create(const Tile& tile, Session& session) {
    const size_t bytes = TileModel::FloatsOf(tile) * sizeof(float);
    auto now = session.Allocate(bytes);
    if (!now.ok()) return now.status();
    auto next = session.Allocate(bytes);
    if (!next.ok()) return next.status();
    TileModel model(tile, Forecast(), now->as<float>().data(),
                    next->as<float>().data());
    return Worker{std::move(*now), std::move(*next), std::move(model)};
  }
};

absl::Status Step(const HaloExchange& halo, TileModel& model) {
  // The tiles are in the padded tensors already.
  const auto pending =
      halo.Start({nullptr, nullptr}, {model.water(), model.temperature()});
  if (!pending.ok()) return pending.status();
  model.AdvanceInterior();
  if (auto status = pending->Wait(); !status.ok()) return status;
  model.AdvanceRim();
  return absl::OkStatus();
}

// Each tile as if nothing were beyond it.
void StepWithoutHalo(TileModel& model) {
  model.FillHalo(TileEdge::kNearest, TileEdge::kNearest);
  model.AdvanceInterior();
  model.AdvanceRim();
}

// All steps on the whole globe, without Lockstep.
Globe RunAlone(int steps) {
  const Tile globe;
  std::vector<float> now(TileModel::FloatsOf(globe)), next(now.size());
  TileModel model(globe, Forecast(), now.data(), next.data());
  for (int step = 0; step < steps; ++step) {
    model.FillHalo(TileEdge::kNearest, TileEdge::kOpposite);
    model.AdvanceInterior();
    model.AdvanceRim();
  }
  return model.Values();
}

absl::StatusOr<std::vector<std::vector<float>>> Gather(const AxisGroup& world,
                                                       const float* values,
                                                       size_t count) {
  const auto gathered = AllGatherObjects(
      world, {reinterpret_cast<const char*>(values), count * sizeof(float)});
  if (!gathered.ok()) return gathered.status();
  std::vector<std::vector<float>> all;
  for (const std::string& bytes : *gathered) {
    auto& floats = all.emplace_back(bytes.size() / sizeof(float));
    std::memcpy(floats.data(), bytes.data(), bytes.size());
  }
  return all;
}

absl::StatusOr<Globe> GatherGlobe(const AxisGroup& world, const Cut& cut,
                                  const TileModel& model) {
  const std::vector<float> own = model.Values();
  const auto values = Gather(world, own.data(), own.size());
  if (!values.ok()) return values.status();
  Globe globe(kGlobeCells);
  for (size_t rank = 0; rank < cut.tiles.size(); ++rank) {
    const Tile& tile = cut.tiles[rank];
    const float* row = (*values)[rank].data();
    for (int plane = 0; plane < kPlanes; ++plane) {
      for (int r = tile.row; r < tile.row + tile.rows; ++r) {
        std::copy(row, row + tile.columns,
                  &globe[(plane * kRows + r) * kColumns + tile.column]);
        row += tile.columns;
      }
    }
  }
  return globe;
}

// Bytes that a step writes into the halos of a tile.
int64_t HaloBytesOf(const Tile& tile) {
  const auto cells = static_cast<int64_t>(tile.PaddedCells()) -
                     int64_t{tile.rows} * tile.columns;
  return cells * kPlanes * static_cast<int64_t>(sizeof(float));
}

// Whether all bits are equal; prints how many cells differ.
bool Compare(const Globe& parallel, const Globe& alone) {
  int64_t differing = 0;
  float largest = 0;
  for (size_t i = 0; i < kGlobeCells; ++i) {
    if (std::bit_cast<uint32_t>(parallel[i]) ==
        std::bit_cast<uint32_t>(alone[i])) {
      continue;
    }
    ++differing;
    largest = std::max(largest, std::abs(parallel[i] - alone[i]));
  }
  std::printf("differing from one process: %lld of %zu cells, by %g at most\n",
              static_cast<long long>(differing), kGlobeCells, largest);
  return differing == 0;
}

// Also computes all steps without halos, for the map of what they change.
absl::Status Draw(const HaloExchange& halo, const AxisGroup& world,
                  const Cut& cut, Worker& worker, const Globe& after,
                  const WeatherFlags& flags, Session& session) {
  const Tile& tile = cut.tiles[session.rank()];
  auto status = halo.Forward(
      {nullptr, nullptr}, {worker.model.water(), worker.model.temperature()});
  if (!status.ok()) return status;
  auto padded = Gather(world, worker.model.water(), tile.PaddedCells());
  if (!padded.ok()) return padded.status();
  auto uncoupled = Worker::Create(tile, session);
  if (!uncoupled.ok()) return uncoupled.status();
  {
    const auto busy = session.Busy("steps without halos", kAloneMax);
    for (int step = 0; step < flags.steps; ++step)
      StepWithoutHalo(uncoupled->model);
  }
  auto after_without_halos = GatherGlobe(world, cut, uncoupled->model);
  if (!after_without_halos.ok()) return after_without_halos.status();
  if (session.rank() != 0) return absl::OkStatus();
  return WritePicture({.before = Forecast(),
                       .after = after,
                       .after_without_halos = *std::move(after_without_halos),
                       .lats = cut.lats,
                       .lons = cut.lons,
                       .tiles = cut.tiles,
                       .padded = *std::move(padded)},
                      flags.picture);
}

// Returns whether rank 0 found all bits equal; true on the other ranks.
absl::StatusOr<bool> Run(Session& session, const WeatherFlags& flags) {
  const auto cut = CutOver(session.spec().mesh);
  if (!cut.ok()) return cut.status();
  const Tile& tile = cut->tiles[session.rank()];
  const auto halo = session.Halo(HaloOf(tile));
  if (!halo.ok()) return halo.status();
  const auto world = session.Group({"lat", "lon"});
  if (!world.ok()) return world.status();
  if (auto status = session.Connect(); !status.ok()) return status;
  auto worker = Worker::Create(tile, session);
  if (!worker.ok()) return worker.status();

  if (auto status = Barrier(*world); !status.ok()) return status;
  absl::Time begin = absl::Now();
  for (int step = 0; step < flags.steps; ++step) {
    if (flags.no_halo) {
      StepWithoutHalo(worker->model);
    } else if (auto status = Step(*halo, worker->model); !status.ok()) {
      return status;
    }
  }
  if (auto status = Barrier(*world); !status.ok()) return status;
  const double seconds = absl::ToDoubleSeconds(absl::Now() - begin);

  const auto after = GatherGlobe(*world, *cut, worker->model);
  if (!after.ok()) return after.status();
  if (!flags.picture.empty()) {
    if (auto status =
            Draw(*halo, *world, *cut, *worker, *after, flags, session);
        !status.ok()) {
      return status;
    }
  }
  if (session.rank() != 0) return true;

  int64_t halo_bytes = 0;
  for (const Tile& one : cut->tiles) halo_bytes += HaloBytesOf(one);
  begin = absl::Now();
  const auto busy = session.Busy("all steps in one process", kAloneMax);
  const Globe alone = RunAlone(flags.steps);
  const double seconds_alone = absl::ToDoubleSeconds(absl::Now() - begin);
  std::printf(
      "%d steps on %s: %.2f s, halos of %lld bytes a step; one process: "
      "%.2f s\n",
      flags.steps, ToString(session.spec().mesh).c_str(), seconds,
      static_cast<long long>(halo_bytes), seconds_alone);
  return Compare(*after, alone);
}

int Main(int argc, char** argv) {
  WeatherFlags flags;
  CommandLine line(
      "A worker that moves a forecast's fields with a wind, cut over the mesh "
      "axes lat and lon, and compares with one process.",
      "weather");
  line.Add("--steps", &flags.steps, "of ten minutes").Positive().ShowDefault();
  line.AddFlag("--no-halo", &flags.no_halo,
               "compute each tile alone, which must differ");
  line.Add("--picture", &flags.picture,
           "draw fields, halos and what they change into this PNG file");
  if (const std::optional<int> exit_code = line.Parse(argc, argv)) {
    return *exit_code;
  }
  const auto session = Session::Join({});  // options from LOCKSTEP_*
  absl::Status status = session.status();
  bool is_equal = false;
  if (status.ok()) {
    const auto run = Run(**session, flags);
    status = run.status();
    is_equal = run.ok() && *run;
    const bool is_first = (*session)->rank() == 0;
    const absl::Status left = (*session)->Leave();
    if (status.ok()) status = left;
    if (status.ok() && is_first) {
      std::printf("weather: %s\n", is_equal ? "PASS" : "FAIL");
    }
  }
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() && is_equal ? 0 : 1;
}

}  // namespace
}  // namespace lockstep::weather

int main(int argc, char** argv) { return lockstep::weather::Main(argc, argv); }
