// What the codecs of items share: a record's fields are listed once (`list_fields`), and three
// visitors use the list: one encodes, one decodes, one makes the table that docs/format.md shows.
// So an offset follows from the list alone. Integers are little-endian.
//
//   template <class Fields, FieldsOf<InodeRecord> Record>
//   void list_fields(Fields& fields, Record& record) {
//     fields("mode", record.mode);
//     ...
//   }
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/endian.h"
#include "base/types.h"
#include "meta/tree/key.h"

namespace lazyfs::fs {

// Satisfied by `Record` and by `const Record`.
template <class Listed, class Record>
concept FieldsOf = std::same_as<std::remove_const_t<Listed>, Record>;

// Writes fields one after the other.
class FieldWriter {
 public:
  explicit FieldWriter(std::span<std::byte> to) : to_(to) {}

  template <std::unsigned_integral T>
  void operator()(std::string_view, T value) {
    put(value);
  }
  template <class T>
    requires std::is_enum_v<T>
  void operator()(std::string_view, T value) {
    put(static_cast<std::underlying_type_t<T>>(value));
  }
  template <class Tag, class Rep>
  void operator()(std::string_view, Id<Tag, Rep> id) {
    put(id.value);
  }
  void operator()(std::string_view, const Timestamp& time) {
    put(static_cast<std::uint64_t>(time.seconds));
    put(time.nanoseconds);
  }
  void operator()(std::string_view, const meta::Key& key) {
    put(key.owner);
    put(key.offset);
    put(key.kind);
  }
  template <std::unsigned_integral T>
  void constant(std::string_view, T value) {
    put(value);
  }
  void reserved(std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i) put(std::uint8_t{0});
  }
  template <std::size_t kBytes>
  void room(const std::array<std::byte, kBytes>& bytes) {
    for (const std::byte byte : bytes) put(std::to_integer<std::uint8_t>(byte));
  }
  // A length of one byte, then the text.
  void text(std::string_view, std::string_view value) {
    CHECK(value.size() <= UINT8_MAX);
    put(static_cast<std::uint8_t>(value.size()));
    CHECK(at_ + value.size() <= to_.size());
    std::memcpy(to_.data() + at_, value.data(), value.size());
    at_ += value.size();
  }
  void finish() const { CHECK(at_ == to_.size()); }

 private:
  template <std::unsigned_integral T>
  void put(T value) {
    store_le_at<T>(to_, at_, value);
    at_ += sizeof(T);
  }

  std::span<std::byte> to_;
  std::size_t at_ = 0;
};

// Reads fields one after the other, and checks each one by itself: good() is false once a field was
// missing, a constant was wrong, or a time was impossible. Reserved bytes may have any value: a
// feature of the superblock says when they have a meaning. Bytes of room() are kept, and written
// back unchanged.
class FieldReader {
 public:
  explicit FieldReader(std::span<const std::byte> from) : from_(from) {}

  template <std::unsigned_integral T>
  void operator()(std::string_view, T& value) {
    value = take<T>();
  }
  template <class T>
    requires std::is_enum_v<T>
  void operator()(std::string_view, T& value) {
    value = static_cast<T>(take<std::underlying_type_t<T>>());
  }
  template <class Tag, class Rep>
  void operator()(std::string_view, Id<Tag, Rep>& id) {
    id.value = take<Rep>();
  }
  void operator()(std::string_view, Timestamp& time) {
    time.seconds = static_cast<std::int64_t>(take<std::uint64_t>());
    time.nanoseconds = take<std::uint32_t>();
    if (time.nanoseconds >= 1'000'000'000) good_ = false;
  }
  void operator()(std::string_view, meta::Key& key) {
    key.owner = take<std::uint64_t>();
    key.offset = take<std::uint64_t>();
    key.kind = take<std::uint8_t>();
  }
  template <std::unsigned_integral T>
  void constant(std::string_view, T value) {
    if (take<T>() != value) good_ = false;
  }
  void reserved(std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i) take<std::uint8_t>();
  }
  template <std::size_t kBytes>
  void room(std::array<std::byte, kBytes>& bytes) {
    for (std::byte& byte : bytes) byte = std::byte{take<std::uint8_t>()};
  }
  void text(std::string_view, std::string& value) {
    const std::size_t bytes = take<std::uint8_t>();
    if (!has(bytes)) return;
    value.assign(reinterpret_cast<const char*>(from_.data() + at_), bytes);
    at_ += bytes;
  }

  bool at_end() const { return at_ == from_.size(); }
  std::size_t left() const { return from_.size() - at_; }
  bool good() const { return good_; }
  bool finished() const { return good_ && at_end(); }

 private:
  bool has(std::size_t bytes) {
    if (!good_ || left() < bytes) good_ = false;
    return good_;
  }
  template <std::unsigned_integral T>
  T take() {
    if (!has(sizeof(T))) return 0;
    const T value = load_le_at<T>(from_, at_);
    at_ += sizeof(T);
    return value;
  }

  std::span<const std::byte> from_;
  std::size_t at_ = 0;
  bool good_ = true;
};

struct FieldRow {
  std::size_t offset = 0;
  std::size_t bytes = 0;  // 0: as many as the field before it says
  std::string name;
  friend bool operator==(const FieldRow&, const FieldRow&) = default;
};

// Makes a table of the fields.
class FieldTable {
 public:
  template <std::unsigned_integral T>
  void operator()(std::string_view name, const T&) {
    add(name, sizeof(T));
  }
  template <class T>
    requires std::is_enum_v<T>
  void operator()(std::string_view name, const T&) {
    add(name, sizeof(T));
  }
  template <class Tag, class Rep>
  void operator()(std::string_view name, const Id<Tag, Rep>&) {
    add(name, sizeof(Rep));
  }
  void operator()(std::string_view name, const Timestamp&) { add(name, 12); }
  void operator()(std::string_view name, const meta::Key&) { add(name, 17); }
  template <std::unsigned_integral T>
  void constant(std::string_view name, T) {
    add(name, sizeof(T));
  }
  void reserved(std::size_t bytes) { add("reserved", bytes); }
  template <std::size_t kBytes>
  void room(const std::array<std::byte, kBytes>&) {
    add("room", kBytes);
  }
  void text(std::string_view name, std::string_view) {
    add(std::string(name) + " length", 1);
    add(name, 0);
  }

  const std::vector<FieldRow>& rows() const { return rows_; }

 private:
  void add(std::string_view name, std::size_t bytes) {
    rows_.push_back({at_, bytes, std::string(name)});
    at_ += bytes;
  }

  std::vector<FieldRow> rows_;
  std::size_t at_ = 0;
};

template <class Record>
std::vector<FieldRow> fields_of() {
  FieldTable table;
  const Record record{};
  list_fields(table, record);
  return table.rows();
}

// ---- Records of a fixed size --------------------------------------------------------------------

template <std::size_t kBytes, class Record>
std::array<std::byte, kBytes> encode_fields(const Record& record) {
  std::array<std::byte, kBytes> bytes{};
  FieldWriter writer(bytes);
  list_fields(writer, record);
  writer.finish();
  return bytes;
}

// Returns whether `from` has exactly the record's bytes, and each field by itself is valid.
template <class Record>
bool decode_fields(std::span<const std::byte> from, Record& record) {
  FieldReader reader(from);
  list_fields(reader, record);
  return reader.finished();
}

}  // namespace lazyfs::fs
