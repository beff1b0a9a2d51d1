// A store that forwards every call to another store. Test stores derive from it and override single
// calls.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "meta/store/store.h"

namespace lazyfs::meta {

// The inner store must outlive this.
class ForwardingStore : public Store {
 public:
  explicit ForwardingStore(Store& inner) : inner_(inner) {}

  Result<std::optional<Value>> get(Key key) override { return inner_.get(key); }
  Result<std::optional<Item>> last_in(Key first, Key last) override {
    return inner_.last_in(first, last);
  }
  Result<std::vector<Item>> scan(Key first, Key last, std::size_t max_items) override {
    return inner_.scan(first, last, max_items);
  }
  std::optional<Key> end_of_part(Key key) override { return inner_.end_of_part(key); }
  Result<Seq> apply(const Batch& batch, Reserve reserve) override {
    return inner_.apply(batch, reserve);
  }
  Result<Seq> try_apply(const Batch& batch, Reserve reserve) override {
    return inner_.try_apply(batch, reserve);
  }
  Result<> make_room() override { return inner_.make_room(); }
  Result<> commit() override { return inner_.commit(); }
  Seq durable_seq() const override { return inner_.durable_seq(); }
  void promise_with(std::function<std::uint64_t()> blocks) override {
    inner_.promise_with(std::move(blocks));
  }
  bool has_room_to_record(std::uint64_t blocks) override {
    return inner_.has_room_to_record(blocks);
  }
  bool make_room_to_record(std::uint64_t blocks) override {
    return inner_.make_room_to_record(blocks);
  }
  void set_band_source(BandSource source) override { inner_.set_band_source(std::move(source)); }
  Result<> give_back_bands() override { return inner_.give_back_bands(); }
  Result<> empty_log_bands(std::span<const BandId> bands) override {
    return inner_.empty_log_bands(bands);
  }
  Result<> extend() override { return inner_.extend(); }
  std::vector<BandId> log_bands() const override { return inner_.log_bands(); }
  std::vector<LogBandUse> log_band_use() const override { return inner_.log_band_use(); }
  Superblock superblock() const override { return inner_.superblock(); }
  bool was_clean() const override { return inner_.was_clean(); }
  const std::vector<std::string>& log_losses() const override { return inner_.log_losses(); }
  void set_data_ends_known(bool known) override { inner_.set_data_ends_known(known); }
  void set_cache_bytes(std::size_t bytes) override { inner_.set_cache_bytes(bytes); }
  StoreStats stats() const override { return inner_.stats(); }
  bool failed() const override { return inner_.failed(); }
  Result<> close() override { return inner_.close(); }
  void abandon() override { inner_.abandon(); }
  void check(const CheckListener& listener) override { inner_.check(listener); }

 private:
  Store& inner_;
};

}  // namespace lazyfs::meta
