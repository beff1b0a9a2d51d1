// A fuzzer of one target: TARGET is its name in fuzz/targets.h.

#include <cstdint>

#include "base/log.h"
#include "fuzz/targets.h"

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  lazyfs::log::set_level(lazyfs::log::Level::kOff);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  lazyfs::fuzz::TARGET(std::as_bytes(std::span(data, size)));
  return 0;
}
