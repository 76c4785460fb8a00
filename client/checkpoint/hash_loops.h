// The loops of content hashes, compiled for two kinds of CPU.
//
// xxHash chooses its vector instructions when it is compiled. Debian's baseline
// is SSE2; with AVX2 the two hashes of a file take half the time.

#ifndef LOCKSTEP_CLIENT_CHECKPOINT_HASH_LOOPS_H_
#define LOCKSTEP_CLIENT_CHECKPOINT_HASH_LOOPS_H_

#include <cstddef>
#include <cstdint>

namespace lockstep::checkpoint {

// Functions of XXH3. `state` is an XXH3_state_t, which is the same for both.
struct HashLoops {
  void (*update_128)(void* state, const void* bytes, size_t size);
  void (*update_64)(void* state, const void* bytes, size_t size);
  uint64_t (*hash_64)(const void* bytes, size_t size);
};

// For every CPU.
const HashLoops& BaselineHashLoops();

// nullptr if this CPU has no AVX2 or this build has no loops for it.
const HashLoops* Avx2HashLoops();

// The faster one of those.
inline const HashLoops& BestHashLoops() {
  static const HashLoops& best =
      Avx2HashLoops() != nullptr ? *Avx2HashLoops() : BaselineHashLoops();
  return best;
}

}  // namespace lockstep::checkpoint

#endif  // LOCKSTEP_CLIENT_CHECKPOINT_HASH_LOOPS_H_
