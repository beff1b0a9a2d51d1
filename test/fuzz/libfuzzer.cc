// A fuzzer of one target: TARGET is its name in fuzz/targets.h.
#include <spdlog/spdlog.h>

#include <cstdint>

#include "fuzz/targets.h"

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  spdlog::set_level(spdlog::level::off);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  lazyfs::fuzz::TARGET(std::as_bytes(std::span(data, size)));
  return 0;
}
