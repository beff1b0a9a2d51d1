// Changes the trace of a correct volume to that of a volume or disk that violates a safety rule.
// The rules are in rules_test.cc. The explorer must find a failure in each changed trace.
#pragma once

#include "crash/trace.h"

namespace lazyfs::crash {

// Rule 1: data is not flushed before the transaction that refers to it is written.
Trace without_flush_of_data(Trace trace);
// Rule 2: bands of data are reset before the transaction that emptied them is written.
Trace with_early_resets_of_data(Trace trace);
// Rule 3: bands of the log are reset before the transaction that passed them is written.
Trace with_early_resets_of_log(Trace trace);
// Rule 4: a sync returns before its transaction is durable.
Trace without_flush_of_log(Trace trace);
// Rule 4: the superblock of a session is not durable before its transactions are written.
Trace without_flush_of_superblock(Trace trace);

}  // namespace lazyfs::crash
