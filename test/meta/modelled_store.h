// A store, what it must hold, and how a test changes both.
#pragma once

#include <memory>
#include <string>

#include "test/meta/fixture.h"

namespace lazyfs::meta {

class ModelledStoreTest : public ::testing::Test {
 protected:
  void TearDown() override { store.reset(); }  // before the device goes, which the test has
  void open_on(device::Device& device, const StoreOptions& options = quiet_options()) {
    store.reset();
    if (auto* memory = dynamic_cast<device::MemoryDevice*>(&device)) {
      memory->forget_write_pointers();
    }
    auto opened = Store::open(device, options);
    ASSERT_TRUE(opened) << describe(opened.error());
    store = std::move(*opened);
  }
  void put(std::uint64_t key, char letter) {
    Batch batch;
    const std::string value(1000, letter);
    batch.put({1, 1, key}, as_value(value));
    const auto applied = store->apply(batch);
    ASSERT_TRUE(applied) << describe(applied.error());
    model[{1, 1, key}] = value;
  }

  std::unique_ptr<Store> store;
  Model model;
};

}  // namespace lazyfs::meta
