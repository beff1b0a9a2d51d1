#include "fuse/session/confine.h"

#include <cap-ng.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <vector>

#include "base/log.h"

namespace lazyfs::fuse {
namespace {

// Sanitizers fork, trace and write reports.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsSanitized = true;
#else
constexpr bool kIsSanitized = false;
#endif

// Calls that are refused whatever their arguments are. libseccomp skips those that this
// architecture does not have.
constexpr int kForbidden[] = {
    // older forms of the calls below
    SCMP_SYS(fork), SCMP_SYS(vfork), SCMP_SYS(creat), SCMP_SYS(unlink), SCMP_SYS(rename),
    SCMP_SYS(link), SCMP_SYS(symlink), SCMP_SYS(mkdir), SCMP_SYS(rmdir), SCMP_SYS(mknod),
    SCMP_SYS(chmod), SCMP_SYS(chown), SCMP_SYS(lchown), SCMP_SYS(ioperm), SCMP_SYS(iopl),
    SCMP_SYS(renameat),
    // programs and other processes
    SCMP_SYS(execve), SCMP_SYS(execveat), SCMP_SYS(ptrace), SCMP_SYS(process_vm_writev),
    SCMP_SYS(kill), SCMP_SYS(tkill), SCMP_SYS(rt_sigqueueinfo), SCMP_SYS(rt_tgsigqueueinfo),
    SCMP_SYS(pidfd_send_signal), SCMP_SYS(pidfd_open),
    // names, owners, modes (of which access control lists are a part) and attributes
    SCMP_SYS(unlinkat), SCMP_SYS(renameat2), SCMP_SYS(linkat), SCMP_SYS(symlinkat),
    SCMP_SYS(mkdirat), SCMP_SYS(mknodat), SCMP_SYS(fchmodat), SCMP_SYS(fchmod), SCMP_SYS(fchownat),
    SCMP_SYS(fchown), SCMP_SYS(truncate), SCMP_SYS(open_by_handle_at), SCMP_SYS(name_to_handle_at),
    SCMP_SYS(setxattr), SCMP_SYS(lsetxattr), SCMP_SYS(fsetxattr), SCMP_SYS(removexattr),
    SCMP_SYS(lremovexattr), SCMP_SYS(fremovexattr),
    // the network
    SCMP_SYS(bind), SCMP_SYS(listen), SCMP_SYS(accept), SCMP_SYS(accept4),
    // mounts, roots and namespaces
    SCMP_SYS(mount), SCMP_SYS(umount2), SCMP_SYS(move_mount), SCMP_SYS(open_tree), SCMP_SYS(fsopen),
    SCMP_SYS(fsconfig), SCMP_SYS(fsmount), SCMP_SYS(fspick), SCMP_SYS(mount_setattr),
    SCMP_SYS(pivot_root), SCMP_SYS(chroot), SCMP_SYS(setns), SCMP_SYS(unshare),
    // the kernel itself
    SCMP_SYS(init_module), SCMP_SYS(finit_module), SCMP_SYS(delete_module), SCMP_SYS(kexec_load),
    SCMP_SYS(reboot), SCMP_SYS(swapon), SCMP_SYS(swapoff), SCMP_SYS(bpf), SCMP_SYS(perf_event_open),
    SCMP_SYS(userfaultfd), SCMP_SYS(add_key), SCMP_SYS(request_key), SCMP_SYS(keyctl),
    SCMP_SYS(acct), SCMP_SYS(quotactl), SCMP_SYS(sethostname), SCMP_SYS(setdomainname),
    SCMP_SYS(settimeofday), SCMP_SYS(clock_settime), SCMP_SYS(io_uring_setup),
    // identity
    SCMP_SYS(setuid), SCMP_SYS(setgid), SCMP_SYS(setreuid), SCMP_SYS(setregid), SCMP_SYS(setresuid),
    SCMP_SYS(setresgid), SCMP_SYS(setgroups), SCMP_SYS(setfsuid), SCMP_SYS(setfsgid),
    SCMP_SYS(capset)};

// The first number that Linux 6.1, for which the list above was made, does not know. Newer calls
// can do what the list forbids, and libraries know how to do without them. Linux adds some five a
// year.
constexpr int kFirstNewCall = 451;
constexpr int kLastNewCall = 599;

// A filter of system calls that allows what no rule refuses. The first error of a rule is kept.
class Filter {
 public:
  Filter() : context_(seccomp_init(SCMP_ACT_ALLOW), &seccomp_release) {
    if (!context_) {
      error_ = ENOMEM;
      return;
    }
    keep(seccomp_attr_set(context_.get(), SCMP_FLTATR_CTL_TSYNC, 1));  // all threads
    keep(seccomp_attr_set(context_.get(), SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(EPERM)));
    keep(seccomp_attr_set(context_.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2));  // a binary search
  }

  void refuse(int call, int error) { add(call, error, nullptr, 0); }
  void refuse_unless(int call, unsigned argument, std::uint64_t value) {
    const scmp_arg_cmp condition{argument, SCMP_CMP_NE, value, 0};
    add(call, EPERM, &condition, 1);
  }
  // Refuses the call when `argument` & `mask` is `value`.
  void refuse_if_masked(int call, unsigned argument, std::uint64_t mask, std::uint64_t value,
                        int error) {
    const scmp_arg_cmp condition{argument, SCMP_CMP_MASKED_EQ, mask, value};
    add(call, error, &condition, 1);
  }

  // Returns an errno or 0. From now on no thread gets new privileges either.
  int install() {
    if (error_ == 0) keep(seccomp_load(context_.get()));
    return error_;
  }

 private:
  void add(int call, int error, const scmp_arg_cmp* conditions, unsigned count) {
    if (error_ != 0) return;
    const auto action = SCMP_ACT_ERRNO(static_cast<std::uint32_t>(error));
    keep(seccomp_rule_add_array(context_.get(), action, call, count, conditions));
  }
  void keep(int result) {
    if (error_ == 0 && result < 0) error_ = -result;
  }

  const std::unique_ptr<void, decltype(&seccomp_release)> context_;
  int error_ = 0;
};

int install_filter() {
  Filter filter;
  for (const int call : kForbidden) filter.refuse(call, EPERM);
  for (int call = kFirstNewCall; call <= kLastNewCall; ++call) filter.refuse(call, ENOSYS);
  // A filter cannot see arguments in memory. glibc uses the older calls when these do not exist.
  for (const int call : {SCMP_SYS(clone3), SCMP_SYS(openat2)}) filter.refuse(call, ENOSYS);
  filter.refuse_if_masked(SCMP_SYS(clone), 0, CLONE_THREAD, 0, EPERM);  // threads, not processes
  for (const int flag : {O_WRONLY, O_RDWR, O_CREAT, O_TRUNC}) {
    const auto bit = static_cast<std::uint64_t>(flag);
    filter.refuse_if_masked(SCMP_SYS(openat), 2, bit, bit, EACCES);
    filter.refuse_if_masked(SCMP_SYS(open), 1, bit, bit, EACCES);
  }
  filter.refuse_unless(SCMP_SYS(socket), 0, AF_UNIX);                                // the log's
  filter.refuse_unless(SCMP_SYS(tgkill), 0, static_cast<std::uint64_t>(getpid()));  // abort()
  return filter.install();
}

}  // namespace

void drop_capabilities() {
  if (geteuid() != 0) return;
  if (capng_get_caps_process() != 0) return log::warn("capabilities cannot be read");
  std::vector<unsigned> kept;
  for (const unsigned capability : std::initializer_list<unsigned>{
           CAP_SYS_ADMIN, CAP_SYS_PTRACE, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH}) {
    if (capng_have_capability(CAPNG_PERMITTED, capability) == 1) kept.push_back(capability);
  }
  capng_clear(CAPNG_SELECT_BOTH);
  for (const unsigned capability : kept) {
    capng_update(CAPNG_ADD, static_cast<capng_type_t>(CAPNG_EFFECTIVE | CAPNG_PERMITTED |
                                                      CAPNG_BOUNDING_SET),
                 capability);
  }
  if (const int error = capng_apply(CAPNG_SELECT_BOTH); error != 0) {
    log::warn("capabilities cannot be given up: libcap-ng error {}", error);
  }
}

void confine() {
  if (geteuid() != 0 || kIsSanitized) return;
  if (const int error = install_filter(); error != 0) {
    log::warn("system calls cannot be restricted: {}", std::strerror(error));
  }
}

}  // namespace lazyfs::fuse
