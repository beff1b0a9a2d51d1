#include "fuse/session/confine.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/log.h"

namespace lazyfs::fuse {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
constexpr std::uint32_t kArchitecture = 0;  // no filter for others
#endif

// Sanitizers fork, trace and write reports.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsSanitized = true;
#else
constexpr bool kIsSanitized = false;
#endif

constexpr std::uint32_t kRefuse = SECCOMP_RET_ERRNO | EPERM;

// Calls that are refused whatever their arguments are.
constexpr std::uint32_t kForbidden[] = {
#ifdef __NR_fork
    __NR_fork, __NR_vfork, __NR_creat, __NR_unlink, __NR_rename, __NR_link, __NR_symlink,
    __NR_mkdir, __NR_rmdir, __NR_mknod, __NR_chmod, __NR_chown, __NR_lchown, __NR_ioperm, __NR_iopl,
    __NR_renameat,
#endif
    // programs and other processes
    __NR_execve, __NR_execveat, __NR_ptrace, __NR_process_vm_writev, __NR_kill, __NR_tkill,
    __NR_rt_sigqueueinfo, __NR_rt_tgsigqueueinfo, __NR_pidfd_send_signal, __NR_pidfd_open,
    // names, and what belongs to them (an access control list is a mode, too)
    __NR_unlinkat, __NR_renameat2, __NR_linkat, __NR_symlinkat, __NR_mkdirat, __NR_mknodat,
    __NR_fchmodat, __NR_fchmod, __NR_fchownat, __NR_fchown, __NR_truncate, __NR_open_by_handle_at,
    __NR_name_to_handle_at, __NR_setxattr, __NR_lsetxattr, __NR_fsetxattr, __NR_removexattr,
    __NR_lremovexattr, __NR_fremovexattr,
    // the network
    __NR_bind, __NR_listen, __NR_accept, __NR_accept4,
    // mounts, roots and namespaces
    __NR_mount, __NR_umount2, __NR_move_mount, __NR_open_tree, __NR_fsopen, __NR_fsconfig,
    __NR_fsmount, __NR_fspick, __NR_mount_setattr, __NR_pivot_root, __NR_chroot, __NR_setns,
    __NR_unshare,
    // the kernel itself
    __NR_init_module, __NR_finit_module, __NR_delete_module, __NR_kexec_load, __NR_reboot,
    __NR_swapon, __NR_swapoff, __NR_bpf, __NR_perf_event_open, __NR_userfaultfd, __NR_add_key,
    __NR_request_key, __NR_keyctl, __NR_acct, __NR_quotactl, __NR_sethostname, __NR_setdomainname,
    __NR_settimeofday, __NR_clock_settime, __NR_io_uring_setup,
    // identity
    __NR_setuid, __NR_setgid, __NR_setreuid, __NR_setregid, __NR_setresuid, __NR_setresgid,
    __NR_setgroups, __NR_setfsuid, __NR_setfsgid, __NR_capset};

// The first number that Linux 6.1, for which the list above was made, does not know. Newer calls
// can do what the list forbids, and libraries know how to do without them.
constexpr std::uint32_t kFirstNewCall = 451;

class Filter {
 public:
  Filter() {
    load(offsetof(seccomp_data, arch));
    add(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0);
    answer(kRefuse);
    load(offsetof(seccomp_data, nr));
#ifdef __x86_64__
    add(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1);  // the x32 calls, by other numbers
    answer(kRefuse);
#endif
    add(BPF_JMP | BPF_JGE | BPF_K, kFirstNewCall, 0, 1);
    answer(SECCOMP_RET_ERRNO | ENOSYS);
    for (const std::uint32_t call : kForbidden) {
      add(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1);
      answer(kRefuse);
    }
    // Calls whose arguments lie in memory cannot be looked into: their callers know what to do.
    for (const std::uint32_t call : {__NR_clone3, __NR_openat2}) {
      add(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1);
      answer(SECCOMP_RET_ERRNO | ENOSYS);
    }
    allow_only(__NR_clone, 0, BPF_JSET, CLONE_THREAD);  // threads, not processes
    refuse_if(__NR_openat, 2, O_WRONLY | O_RDWR | O_CREAT | O_TRUNC, EACCES);
#ifdef __NR_open
    refuse_if(__NR_open, 1, O_WRONLY | O_RDWR | O_CREAT | O_TRUNC, EACCES);
#endif
    allow_only(__NR_socket, 0, BPF_JEQ, AF_UNIX);                               // the log's
    allow_only(__NR_tgkill, 0, BPF_JEQ, static_cast<std::uint32_t>(getpid()));  // abort()
    answer(SECCOMP_RET_ALLOW);
  }

  // False: errno says why.
  bool install() {
    sock_fprog program{};
    program.len = static_cast<unsigned short>(code_.size());
    program.filter = code_.data();
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
  }

 private:
  void add(unsigned code, std::uint32_t k, unsigned yes = 0, unsigned no = 0) {
    code_.push_back({static_cast<std::uint16_t>(code), static_cast<std::uint8_t>(yes),
                     static_cast<std::uint8_t>(no), k});
  }
  void load(std::size_t offset) {
    add(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset));
  }
  // The lower half: flags and domains lie there.
  void load_argument(std::size_t index) {
    load(offsetof(seccomp_data, args) + index * sizeof(std::uint64_t));
  }
  void answer(std::uint32_t what) { add(BPF_RET | BPF_K, what); }

  // `test`: BPF_JSET for any of the bits, BPF_JEQ for the value.
  void allow_only(std::uint32_t call, std::size_t argument, unsigned test, std::uint32_t value) {
    add(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 4);
    load_argument(argument);
    add(BPF_JMP | test | BPF_K, value, 1, 0);
    answer(kRefuse);
    answer(SECCOMP_RET_ALLOW);
  }
  void refuse_if(std::uint32_t call, std::size_t argument, std::uint32_t bits, int error) {
    add(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 4);
    load_argument(argument);
    add(BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1);
    answer(SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error));
    answer(SECCOMP_RET_ALLOW);
  }

  std::vector<sock_filter> code_;
};

constexpr std::uint64_t bit(int capability) { return std::uint64_t{1} << capability; }

}  // namespace

void drop_capabilities() {
  if (geteuid() != 0) return;
  constexpr std::uint64_t kept =
      bit(CAP_SYS_ADMIN) | bit(CAP_SYS_PTRACE) | bit(CAP_DAC_OVERRIDE) | bit(CAP_DAC_READ_SEARCH);
  for (int capability = 0; capability <= CAP_LAST_CAP; ++capability) {
    // An older kernel does not know the last ones.
    if ((kept & bit(capability)) == 0) prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
  }
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> data{};
  if (syscall(SYS_capget, &header, data.data()) != 0) {
    return log::warn("capabilities cannot be read: {}", std::strerror(errno));
  }
  for (std::size_t i = 0; i < data.size(); ++i) {
    const auto mask = static_cast<std::uint32_t>(kept >> (32 * i));
    data[i].permitted &= mask;
    data[i].effective &= mask;
    data[i].inheritable = 0;
  }
  if (syscall(SYS_capset, &header, data.data()) != 0) {
    log::warn("capabilities cannot be given up: {}", std::strerror(errno));
  }
}

void confine() {
  if (geteuid() != 0 || kIsSanitized || kArchitecture == 0) return;
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || !Filter().install()) {
    log::warn("system calls cannot be restricted: {}", std::strerror(errno));
  }
}

}  // namespace lazyfs::fuse
