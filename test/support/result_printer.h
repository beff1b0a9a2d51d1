// Makes GoogleTest print a Result by the name of its error.
#pragma once

#include <gtest/gtest.h>

#include <ostream>

#include "base/result.h"

namespace lazyfs {

template <class T>
void PrintTo(const std::expected<T, Errc>& result, std::ostream* out) {
  if (!result) {
    *out << name_of(result.error());
  } else if constexpr (requires { *out << *result; }) {
    *out << "ok: " << *result;
  } else {
    *out << "ok";
  }
}

inline void PrintTo(const std::unexpected<Errc>& error, std::ostream* out) {
  *out << name_of(error.error());
}
inline void PrintTo(Errc error, std::ostream* out) { *out << name_of(error); }

}  // namespace lazyfs
