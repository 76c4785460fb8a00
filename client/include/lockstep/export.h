// Marks what liblockstep_client.so shows of itself; all else is hidden. The
// private parts of a shown class are marked hidden again.

#ifndef LOCKSTEP_CLIENT_INCLUDE_LOCKSTEP_EXPORT_H_
#define LOCKSTEP_CLIENT_INCLUDE_LOCKSTEP_EXPORT_H_

#define LOCKSTEP_EXPORT __attribute__((visibility("default")))
#define LOCKSTEP_HIDDEN __attribute__((visibility("hidden")))

#endif  // LOCKSTEP_CLIENT_INCLUDE_LOCKSTEP_EXPORT_H_
