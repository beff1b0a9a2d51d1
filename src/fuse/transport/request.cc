#include "fuse/transport/request.h"

namespace lazyfs::fuse {
namespace {

thread_local const Request* t_current = nullptr;
thread_local bool t_is_deferred = false;

}  // namespace

const Request* current_request() { return t_current; }

void defer_current_request() { t_is_deferred = true; }

bool current_request_is_deferred() { return t_is_deferred; }

CurrentRequest::CurrentRequest(const Request& request) {
  t_current = &request;
  t_is_deferred = false;
}

CurrentRequest::~CurrentRequest() { t_current = nullptr; }

}  // namespace lazyfs::fuse
