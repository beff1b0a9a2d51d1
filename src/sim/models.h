// The catalogue of simulated disks. Each parameter of a model is listed with its origin.
// Thread-safe: nothing changes after the start.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/disk.h"

namespace lazyfs::sim {

struct Parameter {
  std::string name;
  double value = 0;
  std::string unit;
  std::string origin;  // measured or published by whom, derived from what, or "chosen: why"
};

// What `smrsim disks` prints of a model. Models fill it while they set their parameters.
class ParameterSheet {
 public:
  // `cache_divisor`: divides the sizes of persistent caches and their maps, and the time to read a
  // cache. Nothing else differs from the drive. REQUIRES: not 0.
  explicit ParameterSheet(std::uint32_t cache_divisor = 1) : cache_divisor_(cache_divisor) {}
  std::uint32_t cache_divisor() const { return cache_divisor_; }

  // Lists the parameter, in place of one of the same name, and returns the value.
  double add(std::string name, double value, std::string unit, std::string origin);
  std::uint32_t count(std::string name, std::uint32_t value, std::string unit,
                      std::string origin);
  const std::vector<Parameter>& parameters() const { return parameters_; }

 private:
  std::uint32_t cache_divisor_;
  std::vector<Parameter> parameters_;
};

struct Model {
  std::string_view name;
  std::string_view kind;  // conventional, drive-managed, host-managed
  std::string_view description;
  // How many requests the drive orders itself; 1: it serves them as they come.
  std::uint32_t queue_depth;
  // Makes a fresh disk and lists its parameters.
  std::unique_ptr<Disk> (*make)(ParameterSheet& sheet);
};

std::span<const Model> models();
// Returns nullptr when no model has that name, in whatever case.
const Model* find_model(std::string_view name);

// A model as a program's user names it: "NAME", or "NAME/N" with a persistent cache that is N times
// smaller, so that short loads show the effects of long ones.
struct ModelChoice {
  const Model* model;
  std::uint32_t cache_divisor = 1;
  std::unique_ptr<Disk> make() const;
};
// Returns nullopt when no model has that name, N is no number from 1 to 1000, or the model has no
// persistent cache.
std::optional<ModelChoice> choose_model(std::string_view name);

}  // namespace lazyfs::sim
