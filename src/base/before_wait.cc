#include "base/before_wait.h"

namespace lazyfs {
namespace {

thread_local const std::function<void()>* t_action = nullptr;
thread_local bool t_may_wait = true;

}  // namespace

void about_to_wait() {
  if (t_action) (*t_action)();
}

BeforeWait::BeforeWait(const std::function<void()>& action) { t_action = &action; }

BeforeWait::~BeforeWait() { t_action = nullptr; }

bool may_wait() { return t_may_wait; }

MustNotWait::MustNotWait() { t_may_wait = false; }

MustNotWait::~MustNotWait() { t_may_wait = true; }

}  // namespace lazyfs
