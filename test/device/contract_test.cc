// The contract of the devices that need no disk.
#include "test/device/contract.h"

#include "device/faulty.h"
#include "device/memory.h"
#include "device/read_ahead.h"
#include "device/read_turns.h"
#include "device/recording.h"

namespace lazyfs::device {
namespace {

class MemoryBench final : public Bench {
 public:
  explicit MemoryBench(Capabilities capabilities) : memory_(contract_geometry(), capabilities) {}
  Device& device() override { return memory_; }
  bool reopen(bool read_only) override {
    if (read_only || memory_.capabilities().keeps_write_pointers) return false;
    memory_.forget_write_pointers();
    return true;
  }

 private:
  MemoryDevice memory_;
};

template <class Wrapper>
class WrappedBench final : public Bench {
 public:
  Device& device() override { return wrapper_; }

 private:
  MemoryDevice memory_{contract_geometry()};
  Wrapper wrapper_{memory_};
};

template <class B, class... Arguments>
std::function<std::unique_ptr<Bench>()> maker(Arguments... arguments) {
  return [=] { return std::make_unique<B>(arguments...); };
}

INSTANTIATE_TEST_SUITE_P(
    Memory, DeviceContract,
    testing::Values(Subject{"memory", maker<MemoryBench>(Capabilities{.set_write_pointer = true})},
                    Subject{"memory_without_set", maker<MemoryBench>(Capabilities{})},
                    Subject{"memory_with_a_limit",
                            maker<MemoryBench>(Capabilities{.max_open_bands = 4})},
                    Subject{"memory_without_pointers",
                            maker<MemoryBench>(Capabilities{.keeps_write_pointers = false})},
                    Subject{"read_ahead", maker<WrappedBench<ReadAheadDevice>>()},
                    Subject{"read_turns", maker<WrappedBench<ReadTurnsDevice>>()},
                    Subject{"recording", maker<WrappedBench<RecordingDevice>>()},
                    Subject{"faulty_without_faults", maker<WrappedBench<FaultyDevice>>()}),
    subject_name);

}  // namespace
}  // namespace lazyfs::device
