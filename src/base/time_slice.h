// Shortens the time that a thread runs before the scheduler gives its CPU to another thread.
#pragma once

namespace lazyfs {

// Gives the calling thread, and threads that it makes later, the shortest time slice of Linux: 0.1
// ms instead of 0.7 to 2.8 ms. The scheduler prefers a thread whose slice ends early. So a thread
// that a request wakes need not wait until other threads have used up their slices. The thread's
// share of the CPU stays the same. Best effort: Linux before 6.12 has one slice for all threads,
// and threads of other policies than SCHED_OTHER and SCHED_BATCH stay as they are.
void shorten_time_slice();

}  // namespace lazyfs
