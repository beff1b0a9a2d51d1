// JSON values, and their conversion from and to text. nlohmann-json converts the text. Only json.cc
// includes its header, which takes longer to compile than most files that print a few counters.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace lazyfs {

// A value and everything in it. Members of an object keep the order in which they were added.
class Json {
 public:
  using Array = std::vector<Json>;
  using Member = std::pair<std::string, Json>;
  using Object = std::vector<Member>;

  Json() = default;  // null
  Json(bool value) : value_(value) {}
  Json(double value) : value_(value) {}
  template <std::unsigned_integral T>
  Json(T value) : value_(std::uint64_t{value}) {}
  template <std::signed_integral T>
  Json(T value) : value_(std::int64_t{value}) {}
  Json(std::string value) : value_(std::move(value)) {}
  Json(std::string_view value) : value_(std::string(value)) {}
  Json(const char* value) : value_(std::string(value)) {}
  // An array. T is any type that converts to a value.
  template <class T>
  Json(const std::vector<T>& values) : value_(Array(values.begin(), values.end())) {}

  static Json array() { return Json(Array{}); }
  static Json object(std::initializer_list<Member> members = {}) { return Json(Object(members)); }
  // Returns nullopt when `text` is not JSON.
  static std::optional<Json> parse(std::string_view text);

  bool is_object() const { return std::holds_alternative<Object>(value_); }
  bool is_array() const { return std::holds_alternative<Array>(value_); }
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool contains(std::string_view name) const { return find(name) != nullptr; }

  // Returns the member, which is added as null when the object lacks it. A null becomes an object.
  Json& operator[](std::string_view name);
  // Returns the member. REQUIRES: the value is an object with that member.
  const Json& operator[](std::string_view name) const;
  // Appends to the array. A null becomes an array.
  void push_back(Json value);
  // REQUIRES: the value is an array (an object).
  const Array& items() const { return std::get<Array>(value_); }
  const Object& members() const { return std::get<Object>(value_); }

  // REQUIRES: the value is a string (a number; it is converted).
  const std::string& text() const { return std::get<std::string>(value_); }
  std::uint64_t number() const;
  double real() const;
  bool boolean() const { return std::get<bool>(value_); }

  // Text on one line, or indented by two spaces. Bytes that are not UTF-8 are replaced.
  std::string dump(bool indented = false) const;

 private:
  struct ToLibrary;  // in json.cc
  explicit Json(Array value) : value_(std::move(value)) {}
  explicit Json(Object value) : value_(std::move(value)) {}
  const Json* find(std::string_view name) const;

  std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string, Array,
               Object>
      value_;
};

}  // namespace lazyfs
