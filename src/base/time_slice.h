// How long a thread runs before the scheduler lets another one run that wants the same CPU.
#pragma once

namespace lazyfs {

// Gives the calling thread, and threads that it makes from now on, the shortest slice of time that
// Linux has (0.1 ms; usual are 0.7 to 2.8). The scheduler prefers a thread whose slice ends early:
// one that a program wakes by a request need not wait until others have used up their slices. Its
// share of the CPU stays the same. Best effort: Linux before 6.12 has one slice for all threads,
// and threads of other policies than SCHED_OTHER and SCHED_BATCH stay as they are.
void shorten_time_slice();

}  // namespace lazyfs
