// Reads SQLite's write-ahead log before SQLite does.
//
// SQLite takes the valid beginning of the log and ignores the rest without a
// word, so a flipped bit in the middle would drop what was committed behind it.
// This check tells the two ends of a log apart:
//
//   | header | frame | frame | frame | fra        cut: the file ends in a frame
//   | header | frame | fr*me | frame | frame      not cut: bytes follow the
//                     ▲ the valid beginning ends  first invalid frame, as they
//                                                 do in a log that is reused
//
// Format: https://www.sqlite.org/fileformat2.html#the_write_ahead_log
//
// Threads: pure functions and values.

#ifndef LOCKSTEP_SERVER_JOURNAL_WAL_CHECK_H_
#define LOCKSTEP_SERVER_JOURNAL_WAL_CHECK_H_

#include <cstddef>

#include "absl/strings/string_view.h"

namespace lockstep::journal {

struct WalExtent {
  size_t valid = 0;  // bytes of the valid beginning
  // What follows it is shorter than a frame: the file ends there. False for an
  // absent log.
  bool cut = false;
};

// `log`: the whole file.
WalExtent ExamineWal(absl::string_view log);

}  // namespace lockstep::journal

#endif  // LOCKSTEP_SERVER_JOURNAL_WAL_CHECK_H_
