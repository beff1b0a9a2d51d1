#include "base/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/check.h"

namespace lazyfs {
namespace {

using Library = nlohmann::ordered_json;

Json from_library(const Library& from) {
  switch (from.type()) {
    case Library::value_t::boolean: return from.get<bool>();
    case Library::value_t::number_integer: return from.get<std::int64_t>();
    case Library::value_t::number_unsigned: return from.get<std::uint64_t>();
    case Library::value_t::number_float: return from.get<double>();
    case Library::value_t::string: return from.get<std::string>();
    case Library::value_t::array: {
      Json to = Json::array();
      for (const Library& item : from) to.push_back(from_library(item));
      return to;
    }
    case Library::value_t::object: {
      Json to = Json::object();
      for (const auto& [name, value] : from.items()) to[name] = from_library(value);
      return to;
    }
    default: return {};
  }
}

}  // namespace

struct Json::ToLibrary {
  Library operator()(std::monostate) const { return nullptr; }
  Library operator()(const Array& items) const {
    Library to = Library::array();
    for (const Json& item : items) to.push_back(std::visit(*this, item.value_));
    return to;
  }
  Library operator()(const Object& members) const {
    Library to = Library::object();
    for (const auto& [name, value] : members) to[name] = std::visit(*this, value.value_);
    return to;
  }
  Library operator()(const auto& scalar) const { return scalar; }
};

std::optional<Json> Json::parse(std::string_view text) {
  const Library parsed = Library::parse(text, nullptr, false);
  if (parsed.is_discarded()) return std::nullopt;
  return from_library(parsed);
}

const Json* Json::find(std::string_view name) const {
  const auto* members = std::get_if<Object>(&value_);
  if (!members) return nullptr;
  const auto at = std::ranges::find(*members, name, &Member::first);
  return at == members->end() ? nullptr : &at->second;
}

Json& Json::operator[](std::string_view name) {
  if (const Json* member = find(name)) return const_cast<Json&>(*member);
  if (std::holds_alternative<std::monostate>(value_)) value_ = Object{};
  return std::get<Object>(value_).emplace_back(std::string(name), Json()).second;
}

const Json& Json::operator[](std::string_view name) const {
  const Json* member = find(name);
  CHECK(member != nullptr);
  return *member;
}

void Json::push_back(Json value) {
  if (std::holds_alternative<std::monostate>(value_)) value_ = Array{};
  std::get<Array>(value_).push_back(std::move(value));
}

std::uint64_t Json::number() const {
  if (const auto* whole = std::get_if<std::uint64_t>(&value_)) return *whole;
  if (const auto* whole = std::get_if<std::int64_t>(&value_)) {
    return static_cast<std::uint64_t>(*whole);
  }
  return static_cast<std::uint64_t>(std::get<double>(value_));
}

double Json::real() const {
  if (const auto* real = std::get_if<double>(&value_)) return *real;
  if (const auto* whole = std::get_if<std::int64_t>(&value_)) return static_cast<double>(*whole);
  return static_cast<double>(std::get<std::uint64_t>(value_));
}

std::string Json::dump(bool indented) const {
  const Library library = std::visit(ToLibrary{}, value_);
  return library.dump(indented ? 2 : -1, ' ', false, Library::error_handler_t::replace);
}

}  // namespace lazyfs
