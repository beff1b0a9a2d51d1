// What a power cut leaves: from the record of a workload (device/recording.h) a fresh device in a
// state that device/device.h allows. A Choice decides what it leaves open: how far each write
// pointer stands, and for each block that no flush covers whether it was kept, lost or torn.
//
//   RecordingDevice recorded(memory);
//   ... work on it ...
//   const Recording recording = recorded.recording();
//   for (std::size_t n = 0; n <= recording.ops.size(); ++n) {
//     for (EveryChoice choice; choice.goes_on(); choice.advance())
//     check(*after_power_cut(recording, n, choice));
//   }
#pragma once

#include <memory>
#include <vector>

#include "device/memory.h"
#include "device/recording.h"

namespace lazyfs::device {

// Answers questions. Not thread-safe. Answer 0 always stands for "as if no power cut had been", the
// last one for "nothing since the last flush has reached the disk".
class Choice {
 public:
  virtual ~Choice() = default;
  // A number below `options`, which is at least 1.
  virtual std::uint32_t among(std::uint32_t options) = 0;
};

class KeepAll final : public Choice {
 public:
  std::uint32_t among(std::uint32_t) override { return 0; }
};

class LoseAll final : public Choice {
 public:
  std::uint32_t among(std::uint32_t options) override { return options - 1; }
};

// Every write pointer moved, but none of the data behind it arrived (and every other mixture of
// the like) comes from here: each seed gives one and the same sequence of answers. A third of the
// seeds prefers keeping, a third losing, a third is even-handed.
class RandomChoice final : public Choice {
 public:
  explicit RandomChoice(std::uint64_t seed);
  std::uint32_t among(std::uint32_t options) override;

 private:
  std::uint64_t next();

  std::uint64_t state_;
  std::uint32_t mood_;
};

// All sequences of answers, one after the other; for small cases, as they multiply.
class EveryChoice final : public Choice {
 public:
  std::uint32_t among(std::uint32_t options) override;
  bool goes_on() const { return !is_over_; }
  void advance();

 private:
  struct Digit {
    std::uint32_t value = 0, options = 1;
  };
  std::vector<Digit> digits_;
  std::size_t at_ = 0;
  bool is_over_ = false;
};

// A device as it may be found after power was lost when ops [0, op_count) had completed and none
// later had begun. Requires op_count <= recording.ops.size(). Ops that the last flush among them
// covers are there in full. Of the others, per band:
//   - the write pointer stands anywhere that they can have brought it: at its flushed place, at the
//     place of a reset or set, or anywhere up to where appends behind one of these came;
//   - a block they wrote holds what one of them wrote, what lay there before (perhaps from an
//     earlier life of the band), the two torn at a multiple of 512 bytes, or bytes of no sense; a
//     block they did not write below the flushed write pointer is untouched, unless the band was
//     reset: then it may have turned to zeros;
//   - what they wrote behind the pointer cannot be read, but is on the medium.
// Write pointers of a device without Capabilities::set_write_pointer obey the same rules.
std::unique_ptr<MemoryDevice> after_power_cut(const Recording& recording, std::size_t op_count,
                                              Choice& choice);

}  // namespace lazyfs::device
