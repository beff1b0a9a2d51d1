#include "fuse/transport/request.h"

namespace lazyfs::fuse {
namespace {

thread_local const Request* t_current = nullptr;

}  // namespace

const Request* current_request() { return t_current; }

CurrentRequest::CurrentRequest(const Request& request) { t_current = &request; }

CurrentRequest::~CurrentRequest() { t_current = nullptr; }

}  // namespace lazyfs::fuse
