// The all-reduce of an MPI, measured as in sweep.h. Compiled with each MPI's
// own compiler, and run by its launcher:
//
//   mpirun -n 2 mpi_side SECONDS BYTES ...     prints "BYTES seconds" lines

#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
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

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int i = 2; i < argc; ++i) {
    const size_t bytes = std::strtoull(argv[i], nullptr, 10);
    const double seconds = MedianTime(bytes, std::atof(argv[1]), rank);
    if (rank == 0) std::printf("%zu %.9f\n", bytes, seconds);
  }
  MPI_Finalize();
}
