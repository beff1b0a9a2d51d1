#include "fuse/session/options_in_force.h"

#include <utility>

#include "base/log.h"

namespace lazyfs::fuse {
namespace {

// The first option that differs and that only a new mount can change; nullptr if there is none.
const char* fixed_difference(const Options& a, const Options& b) {
  const SessionOptions &x = a.session, &y = b.session;
  if (x.requests.writeback_cache != y.requests.writeback_cache) {
    return y.requests.writeback_cache ? "writeback" : "nowriteback";
  }
  if (x.requests.announce_opens != y.requests.announce_opens) return "opens";
  if (x.allow_other != y.allow_other) return y.allow_other ? "allow_other" : "noallow_other";
  if (x.idmap != y.idmap) return y.idmap ? "idmap" : "noidmap";
  if (x.debug != y.debug) return "debug";
  if (x.read_ahead_kib != y.read_ahead_kib) return "readahead";
  if (x.request_timeout_s != y.request_timeout_s) return "request_timeout";
  if (x.transport.choice != y.transport.choice) return "transport";
  if (x.transport.spin != y.transport.spin) return "spin";
  if (x.transport.threads_max != y.transport.threads_max) return "threads";
  if (x.transport.cpu_latency != y.transport.cpu_latency) return "awake";
  if (a.log_file != b.log_file) return "logfile";
  if (a.error_program != b.error_program) return "on_error";
  if (a.after_error != b.after_error) return "errors";
  if (a.panic_trigger != b.panic_trigger) return "panic_trigger";
  if (a.restart != b.restart) return "restart";
  return nullptr;
}

}  // namespace

std::expected<SyncChoice, std::string> OptionsInForce::change(fs::Volume& volume,
                                                              std::string_view list) {
  MutexLock lock(mu_);
  auto wanted = parse_options({std::string(list)}, false, options_);
  if (!wanted) return std::unexpected(wanted.error());
  if (const char* const name = fixed_difference(options_, *wanted)) {
    return std::unexpected("option '" + std::string(name) +
                           "': cannot be changed by a remount; unmount, and mount again");
  }
  if (const auto changed = volume.change_options(wanted->volume); !changed) {
    return std::unexpected(std::string(describe(changed.error())));
  }
  log::set_level(wanted->log_level);
  options_ = *std::move(wanted);
  return options_.session.requests.sync;
}

}  // namespace lazyfs::fuse
