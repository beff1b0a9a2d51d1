// A store that counts its lookups of last items, and the items that scans return: for tests of how
// far walks go.
#pragma once

#include <utility>
#include <vector>

#include "meta/store/store.h"

namespace lazyfs::fsck {

class CountingStore : public meta::Store {
 public:
  explicit CountingStore(meta::Store& store) : store_(store) {}

  std::uint64_t scanned_items() const { return scanned_items_; }
  std::uint64_t looked_up() const { return looked_up_; }

  Result<std::vector<meta::Item>> scan(meta::Key first, meta::Key last,
                                       std::size_t max_items) override {
    auto items = store_.scan(first, last, max_items);
    if (items) scanned_items_ += items->size();
    return items;
  }
  Result<std::optional<meta::Value>> get(meta::Key key) override { return store_.get(key); }
  Result<std::optional<meta::Item>> last_in(meta::Key first, meta::Key last) override {
    ++looked_up_;
    return store_.last_in(first, last);
  }
  std::optional<meta::Key> end_of_part(meta::Key key) override { return store_.end_of_part(key); }
  Result<Seq> apply(const meta::Batch& batch, meta::Reserve reserve) override {
    return store_.apply(batch, reserve);
  }
  Result<> commit() override { return store_.commit(); }
  Seq durable_seq() const override { return store_.durable_seq(); }
  void promise_with(std::function<std::uint64_t()> blocks) override {
    store_.promise_with(std::move(blocks));
  }
  bool has_room_to_record(std::uint64_t blocks) override {
    return store_.has_room_to_record(blocks);
  }
  bool make_room_to_record(std::uint64_t blocks) override {
    return store_.make_room_to_record(blocks);
  }
  void set_band_source(BandSource source) override { store_.set_band_source(std::move(source)); }
  Result<> give_back_bands() override { return store_.give_back_bands(); }
  Result<> extend() override { return store_.extend(); }
  std::vector<BandId> log_bands() const override { return store_.log_bands(); }
  std::vector<LogBandUse> log_band_use() const override { return store_.log_band_use(); }
  meta::Superblock superblock() const override { return store_.superblock(); }
  bool was_clean() const override { return store_.was_clean(); }
  void set_data_ends_known(bool known) override { store_.set_data_ends_known(known); }
  void set_cache_bytes(std::size_t bytes) override { store_.set_cache_bytes(bytes); }
  meta::StoreStats stats() const override { return store_.stats(); }
  bool failed() const override { return store_.failed(); }
  Result<> close() override { return store_.close(); }
  void abandon() override { store_.abandon(); }
  Result<> check(const std::function<void(std::string)>& problem) override {
    return store_.check(problem);
  }

 private:
  meta::Store& store_;
  std::uint64_t scanned_items_ = 0;
  std::uint64_t looked_up_ = 0;
};

}  // namespace lazyfs::fsck
