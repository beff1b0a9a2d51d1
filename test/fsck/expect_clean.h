// Checks a filesystem that is not mounted, data included: the check must find nothing.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "device/device.h"
#include "fsck/check.h"
#include "meta/store/store.h"

namespace lazyfs::fsck {

inline void expect_clean(device::Device& device) {
  const auto store = meta::Store::open(device, {.background = false, .read_only = true});
  ASSERT_TRUE(store) << describe(store.error());
  const auto print = [](const std::string& problem) { ADD_FAILURE() << problem; };
  EXPECT_TRUE(check(**store, device, {.data = true}, print));
}

}  // namespace lazyfs::fsck
