// The all-reduce of an MPI. Compiled with each MPI's own compiler, and run by
// its launcher. Prints "BYTES seconds" lines:
//
//   mpirun -n 2 mpi_side SECONDS BYTES ...
//       measured as in sweep.h
//   mpirun -n 2 mpi_side loop WARMUP ITERATIONS BYTES ...
//       measured as by lockstep-perf: the mean of one call in a loop

#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

double Once(std::vector<float>& values, int rank) {
  std::fill(values.begin(), values.end(), 1.0f + static_cast<float>(rank));
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()),
                MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  const double seconds = MPI_Wtime() - begin;
  MPI_Barrier(MPI_COMM_WORLD);
  return seconds;
}

double MedianTime(size_t bytes, double most, int rank) {
  std::vector<float> values(bytes / sizeof(float));
  for (int i = 0; i < 2; ++i) Once(values, rank);
  int iterations =
      std::clamp(static_cast<int>(most / (Once(values, rank) + 1e-9)), 7, 2000);
  MPI_Bcast(&iterations, 1, MPI_INT, 0, MPI_COMM_WORLD);
  std::vector<double> seconds;
  for (int i = 0; i < iterations; ++i) seconds.push_back(Once(values, rank));
  std::nth_element(seconds.begin(), seconds.begin() + iterations / 2,
                   seconds.end());
  return seconds[iterations / 2];
}

double SecondsOfLoop(std::vector<float>& values, int iterations) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  for (int i = 0; i < iterations; ++i) {
    MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()),
                  MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }
  return MPI_Wtime() - begin;
}

// The mean of one call over the iterations and ranks, on rank 0.
double MeanTime(size_t bytes, int warmup, int iterations) {
  std::vector<float> values(bytes / sizeof(float), 0.0f);
  SecondsOfLoop(values, warmup);
  const double own = SecondsOfLoop(values, iterations) / iterations;
  double sum = 0;
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Reduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  return sum / ranks;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const bool loop = argc > 4 && std::strcmp(argv[1], "loop") == 0;
  for (int i = loop ? 4 : 2; i < argc; ++i) {
    const size_t bytes = std::strtoull(argv[i], nullptr, 10);
    const double seconds =
        loop ? MeanTime(bytes, std::atoi(argv[2]), std::atoi(argv[3]))
             : MedianTime(bytes, std::atof(argv[1]), rank);
    if (rank == 0) std::printf("%zu %.9f\n", bytes, seconds);
  }
  MPI_Finalize();
}
