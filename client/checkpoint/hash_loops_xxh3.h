// The loops themselves, for the source that includes this. XXH_INLINE_ALL gives
// each source its own copy of xxHash with its own vector instructions.

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "client/checkpoint/hash_loops.h"

namespace lockstep::checkpoint {
namespace {

constexpr HashLoops kLoops = {
    .update_128 =
        [](void* state, const void* bytes, size_t size) {
          XXH3_128bits_update(static_cast<XXH3_state_t*>(state), bytes, size);
        },
    .update_64 =
        [](void* state, const void* bytes, size_t size) {
          XXH3_64bits_update(static_cast<XXH3_state_t*>(state), bytes, size);
        },
    .hash_64 = [](const void* bytes,
                  size_t size) { return XXH3_64bits(bytes, size); },
};

}  // namespace
}  // namespace lockstep::checkpoint
