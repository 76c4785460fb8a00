// Compiled with AVX2 where there is such a thing, and alone: it includes no
// header with functions that another source might share with it.

#include "client/checkpoint/hash_loops.h"

#ifdef __AVX2__
#include "client/checkpoint/hash_loops_xxh3.h"

namespace lockstep::checkpoint {

const HashLoops* Avx2HashLoops() {
  return __builtin_cpu_supports("avx2") ? &kLoops : nullptr;
}

}  // namespace lockstep::checkpoint

#else

namespace lockstep::checkpoint {

const HashLoops* Avx2HashLoops() { return nullptr; }

}  // namespace lockstep::checkpoint

#endif
