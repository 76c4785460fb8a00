// LOCKSTEP_EXPORT marks the symbols that liblockstep_client.so exports; all
// others are hidden. LOCKSTEP_HIDDEN hides internal parts of an exported class.

#ifndef LOCKSTEP_EXPORT_H_
#define LOCKSTEP_EXPORT_H_

#define LOCKSTEP_EXPORT __attribute__((visibility("default")))
#define LOCKSTEP_HIDDEN __attribute__((visibility("hidden")))

#endif  // LOCKSTEP_EXPORT_H_
