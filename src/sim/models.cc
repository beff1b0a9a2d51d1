#include "sim/models.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <system_error>

#include "sim/model_parameters.h"

namespace lazyfs::sim {
namespace {

constexpr Model kModels[] = {
    {"ST8000AS0002", "drive-managed", "Seagate, 8 TB, 3.5 inch; static mapping, cleans when idle",
     32, make_st8000as0002},
    {"ST5000AS0011", "drive-managed", "Seagate, 5 TB, 3.5 inch; static mapping, cleans when idle",
     32, make_st5000as0011},
    {"ST4000LM016", "drive-managed", "Seagate, 4 TB, 2.5 inch; static mapping, cleans when idle",
     32, make_st4000lm016},
    {"WD40NMZW", "drive-managed",
     "Western Digital, 4 TB, 2.5 inch; dynamic mapping, always cleans in small pieces", 1,
     make_wd40nmzw},
    {"WD5000YS", "conventional", "Western Digital, 500 GB, 3.5 inch", 32, make_wd5000ys},
    {"cheetah9lp", "conventional", "Seagate ST39102LW, 9.1 GB, SCSI, 10,045 rpm", 1,
     make_cheetah9lp},
    {"host-managed", "host-managed",
     "the ST8000AS0002's mechanics, zones of 256 MiB that are written at their pointers only", 32,
     make_host_managed},
};

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

}  // namespace

double ParameterSheet::add(std::string name, double value, std::string unit,
                           std::string origin) {
  const auto same = std::ranges::find(parameters_, name, &Parameter::name);
  Parameter& parameter = same == parameters_.end() ? parameters_.emplace_back() : *same;
  parameter = {std::move(name), value, std::move(unit), std::move(origin)};
  return value;
}

std::uint32_t ParameterSheet::count(std::string name, std::uint32_t value, std::string unit,
                                    std::string origin) {
  add(std::move(name), value, std::move(unit), std::move(origin));
  return value;
}

std::span<const Model> models() { return kModels; }

const Model* find_model(std::string_view name) {
  const auto same = [](char a, char b) { return lower(a) == lower(b); };
  const auto found = std::ranges::find_if(kModels, [&](const Model& model) {
    return std::ranges::equal(model.name, name, same);
  });
  return found == std::end(kModels) ? nullptr : &*found;
}

std::unique_ptr<Disk> ModelChoice::make() const {
  ParameterSheet sheet(cache_divisor);
  return model->make(sheet);
}

std::optional<ModelChoice> choose_model(std::string_view name) {
  if (const Model* const model = find_model(name)) return ModelChoice{model};
  const auto slash = name.rfind('/');
  if (slash == name.npos) return std::nullopt;
  const std::string_view text = name.substr(slash + 1);
  ModelChoice choice{find_model(name.substr(0, slash))};
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), choice.cache_divisor);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  const bool fits = choice.cache_divisor >= 1 && choice.cache_divisor <= 1000;
  if (!choice.model || choice.model->kind != "drive-managed" || !is_number || !fits) {
    return std::nullopt;
  }
  return choice;
}

std::vector<Zone> even_zones(std::uint32_t surfaces, std::uint64_t sectors,
                             std::uint32_t outer_track_sectors, std::uint32_t inner_track_sectors,
                             double switch_ms, double revolution_ms) {
  constexpr std::uint32_t kZones = 30;
  std::vector<Zone> zones(kZones);
  std::uint64_t track_sectors = 0;  // of a track of each zone together
  for (std::uint32_t i = 0; i < kZones; ++i) {
    zones[i].track_sectors =
        outer_track_sectors - (outer_track_sectors - inner_track_sectors) * i / (kZones - 1);
    track_sectors += zones[i].track_sectors;
  }
  const auto cylinders =
      static_cast<std::uint32_t>(sectors / (surfaces * track_sectors) + 1);
  for (std::uint32_t i = 0; i < kZones; ++i) {
    Zone& zone = zones[i];
    zone.first_cylinder = i * cylinders;
    zone.cylinders = cylinders;
    zone.track_skew = zone.cylinder_skew =
        static_cast<std::uint32_t>(std::ceil(switch_ms / revolution_ms * zone.track_sectors));
  }
  return zones;
}

}  // namespace lazyfs::sim
