// The device by which a volume reads and writes data. The metadata store uses the disk itself.
#pragma once

#include "device/read_ahead.h"
#include "device/read_turns.h"
#include "fs/volume/switched_device.h"

namespace lazyfs::fs {

// Thread-safe. The disk must outlive this.
struct DataDevice {
  explicit DataDevice(device::Device& disk) : switched(disk) {}

  SwitchedDevice switched;  // the disk; a shutdown switches it off
  device::ReadTurnsDevice turns{switched};
  device::ReadAheadDevice ahead{turns};  // for all except the scrubber, which reads `switched`
};

}  // namespace lazyfs::fs
