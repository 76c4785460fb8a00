// Marks what liblockstep_client.so shows of itself; all else is hidden.

#ifndef LOCKSTEP_EXPORT_H_
#define LOCKSTEP_EXPORT_H_

#define LOCKSTEP_EXPORT __attribute__((visibility("default")))

#endif  // LOCKSTEP_EXPORT_H_
