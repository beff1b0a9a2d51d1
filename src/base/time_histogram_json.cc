#include "base/time_histogram_json.h"

#include <string>

namespace lazyfs {
namespace {

constexpr unsigned kFirstPower = 12, kLastPower = 34, kPowerStep = 2;

}  // namespace

Json to_json(const TimeHistogram& times) {
  Json below = Json::object();
  for (unsigned power = kFirstPower; power <= kLastPower; power += kPowerStep) {
    below[std::to_string(std::uint64_t{1} << power)] = times.count_below_power(power);
  }
  return Json::object({{"count", times.count()},
                       {"sum_ns", times.sum_ns()},
                       {"p50_ns", times.percentile_ns(0.5)},
                       {"p99_ns", times.percentile_ns(0.99)},
                       {"max_ns", times.max_ns()},
                       {"below_ns", below}});
}

}  // namespace lazyfs
