// What a mount does before the first operation: makes the bands' accounts agree with the device.
#pragma once

#include "base/result.h"
#include "data/band_table.h"
#include "device/device.h"
#include "fs/item/schema.h"
#include "meta/store/store.h"

namespace lazyfs::fs {

struct RecoveredBands {
  std::uint32_t reset = 0;
  std::uint32_t with_lost_blocks = 0;
  std::uint64_t lost_blocks = 0;  // that no session recorded; now recorded as dead
};

// Fills `bands` from the summaries. For each data band, by its summary and the device's write
// pointer:
//   written, nothing live      reset, logs erased: the crash came before or during its reset
//   pointer past the account   the blocks between were appended but not recorded: recorded as dead
//   pointer before it          blocks that the account has are missing: the band is set aside
// A device without write pointers does not know the ends of the bands. After a clean end the bands
// end where their summaries say, and set_write_pointer() states these ends. After a crash a band
// that is partly written counts as full: what lies past its account may have been written, and is
// recorded as dead. A band without an account is free; the appender resets it before it is written.
// With `read_only` nothing is written: bands of the first row are left, and lost blocks of the
// second row are recorded in `bands` only.
Result<RecoveredBands> recover_bands(device::Device& device, meta::Store& store,
                                     data::BandTable& bands, bool read_only);

// Erases the records of ranges that an unfinished repair has found lost. Each mount for writing
// must call it, because users may then delete files whose blocks the repair would take for lost
// ones.
Result<> erase_lost_ranges(meta::Store& store);

// The volume's counters. kItemBad: it has none.
Result<CounterRecord> read_counters(meta::Store& store);

}  // namespace lazyfs::fs
