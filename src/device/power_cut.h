// Builds the state of a device after a power cut, from the recording of a workload
// (device/recording.h). device/device.h allows several states: each write pointer has several
// possible positions, and each block that no flush covers may be kept, lost or torn. A Choice
// selects one of them.
//
//   RecordingDevice recorded(memory);
//   ... work on it ...
//   const Recording recording = recorded.recording();
//   for (std::size_t n = 0; n <= recording.ops.size(); ++n) {
//     for (EveryChoice choice; choice.is_valid(); choice.advance()) {
//       check(*after_power_cut(recording, n, choice));
//     }
//   }
#pragma once

#include <memory>
#include <vector>

#include "device/memory.h"
#include "device/recording.h"

namespace lazyfs::device {

// Selects one of several possible outcomes. Option 0 always means "everything has reached the
// disk". The last option means "nothing since the last flush has reached the disk".
// Not thread-safe.
class Choice {
 public:
  virtual ~Choice() = default;
  // Returns a number below `options`. REQUIRES: options >= 1.
  virtual std::uint32_t among(std::uint32_t options) = 0;
  // The same, for the positions that a band's write pointer may have.
  virtual std::uint32_t among_positions(std::uint32_t options) { return among(options); }
};

class KeepAll final : public Choice {
 public:
  std::uint32_t among(std::uint32_t) override { return 0; }
};

class LoseAll final : public Choice {
 public:
  std::uint32_t among(std::uint32_t options) override { return options - 1; }
};

// Selects at random. Each seed gives one sequence of selections, always the same. A third of the
// seeds prefers keeping, a third prefers losing, and a third has no preference. Together they reach
// mixtures, for example a write pointer that has moved over data that was lost.
class RandomChoice final : public Choice {
 public:
  explicit RandomChoice(std::uint64_t seed);
  std::uint32_t among(std::uint32_t options) override;

 private:
  std::uint64_t next();

  std::uint64_t state_;
  std::uint32_t preference_;
};

// Loses whole tails of bands: each write pointer is anywhere, and every block below it has reached
// the disk. Disks that keep the order of writes to a zone behave like this.
class LoseTails final : public Choice {
 public:
  explicit LoseTails(std::uint64_t seed) : positions_(seed) {}
  std::uint32_t among(std::uint32_t) override { return 0; }
  std::uint32_t among_positions(std::uint32_t options) override {
    return positions_.among(options);
  }

 private:
  RandomChoice positions_;
};

// Enumerates all sequences of selections. Their number grows exponentially with their length, so
// this suits small cases only.
class EveryChoice final : public Choice {
 public:
  std::uint32_t among(std::uint32_t options) override;
  bool is_valid() const { return !is_over_; }  // false after the last sequence
  void advance();

 private:
  struct Digit {
    std::uint32_t value = 0, options = 1;
  };
  std::vector<Digit> digits_;
  std::size_t at_ = 0;
  bool is_over_ = false;
};

// Returns a device in a state that a power cut may leave after ops [0, op_count) have completed and
// no later op has begun. The ops that the last flush among them covers are complete. For the other
// ops, per band:
//   - the write pointer is at its flushed position, at the position of a reset or set, or anywhere
//     from there to the end of the appends that followed;
//   - a written block holds the bytes of one of these appends, the earlier bytes (perhaps of the
//     band's previous contents), a mixture of two versions torn at a multiple of 512 bytes, or
//     arbitrary bytes;
//   - an unwritten block below the flushed write pointer is unchanged; if the band was reset, the
//     block may be zero instead;
//   - each block of a band that was discarded, with or without a flush since, and that no later
//     flushed append has written, holds what it held before, or zeros;
//   - blocks written past the final write pointer are on the medium but cannot be read.
// The same holds for a device without Capabilities::set_write_pointer. Without keeps_write_pointers
// all ends are unknown, every block can be read, and the device remembers which blocks were written
// since the last reset of their band, whether or not they have reached the medium.
// REQUIRES: op_count <= recording.ops.size().
std::unique_ptr<MemoryDevice> after_power_cut(const Recording& recording, std::size_t op_count,
                                              Choice& choice);

}  // namespace lazyfs::device
