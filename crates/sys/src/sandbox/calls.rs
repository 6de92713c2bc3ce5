//! The system calls that a worker needs, and names of those that an attacker would need.

use libc::c_long;

/// `cachestat(2)`, which the library for C has no name for on all machines.
const CACHESTAT: c_long = 451;

/// The highest number of a system call that this list was made with. A higher one is answered with `ENOSYS`, so that a
/// newer library for C falls back to what it did before.
pub(super) const HIGHEST_KNOWN: c_long = 462;

/// The calls that are allowed whatever their arguments are.
#[rustfmt::skip]
pub(super) const ALLOWED: &[c_long] = &[
    // Time.
    libc::SYS_clock_getres, libc::SYS_clock_gettime, libc::SYS_clock_nanosleep, libc::SYS_getitimer,
    libc::SYS_gettimeofday, libc::SYS_nanosleep, libc::SYS_setitimer, libc::SYS_timerfd_create,
    libc::SYS_timerfd_gettime, libc::SYS_timerfd_settime, libc::SYS_times,
    // Events.
    libc::SYS_epoll_create1, libc::SYS_epoll_ctl, libc::SYS_epoll_pwait, libc::SYS_epoll_pwait2, libc::SYS_eventfd2,
    libc::SYS_inotify_add_watch, libc::SYS_inotify_init1, libc::SYS_inotify_rm_watch, libc::SYS_ppoll,
    libc::SYS_pselect6, libc::SYS_signalfd4,
    // Sockets; socket(2) itself depends on its arguments.
    libc::SYS_accept4, libc::SYS_accept, libc::SYS_bind, libc::SYS_connect, libc::SYS_getpeername,
    libc::SYS_getsockname, libc::SYS_getsockopt, libc::SYS_listen, libc::SYS_recvfrom, libc::SYS_recvmmsg,
    libc::SYS_recvmsg, libc::SYS_sendmmsg, libc::SYS_sendmsg, libc::SYS_sendto, libc::SYS_setsockopt,
    libc::SYS_shutdown,
    // Files, by name.
    libc::SYS_faccessat, libc::SYS_faccessat2, libc::SYS_fchmodat, libc::SYS_fchownat, libc::SYS_getcwd,
    libc::SYS_linkat, libc::SYS_mkdirat, libc::SYS_newfstatat, libc::SYS_openat, libc::SYS_openat2,
    libc::SYS_readlinkat, libc::SYS_renameat2, libc::SYS_statfs, libc::SYS_statx,
    libc::SYS_symlinkat, libc::SYS_unlinkat, libc::SYS_utimensat,
    // Files, by descriptor.
    CACHESTAT, libc::SYS_close, libc::SYS_close_range, libc::SYS_copy_file_range, libc::SYS_dup, libc::SYS_dup3,
    libc::SYS_fadvise64, libc::SYS_fallocate, libc::SYS_fchmod, libc::SYS_fchown, libc::SYS_fcntl,
    libc::SYS_fdatasync, libc::SYS_flock, libc::SYS_fstat, libc::SYS_fstatfs, libc::SYS_fsync, libc::SYS_ftruncate,
    libc::SYS_getdents64, libc::SYS_lseek, libc::SYS_pipe2, libc::SYS_pread64, libc::SYS_preadv, libc::SYS_preadv2,
    libc::SYS_pwrite64, libc::SYS_pwritev, libc::SYS_pwritev2, libc::SYS_read, libc::SYS_readahead, libc::SYS_readv,
    libc::SYS_sendfile, libc::SYS_splice, libc::SYS_tee, libc::SYS_write,
    libc::SYS_writev,
    // Memory; mprotect(2) depends on its arguments.
    libc::SYS_brk, libc::SYS_madvise, libc::SYS_mincore, libc::SYS_mlock, libc::SYS_mlock2, libc::SYS_mmap,
    libc::SYS_mremap, libc::SYS_msync, libc::SYS_munlock, libc::SYS_munmap,
    // Threads; clone(2) depends on its arguments, clone3(2) is answered with ENOSYS.
    libc::SYS_clone3, libc::SYS_exit, libc::SYS_exit_group, libc::SYS_futex, libc::SYS_futex_waitv,
    libc::SYS_get_robust_list, libc::SYS_getcpu, libc::SYS_membarrier, libc::SYS_rseq, libc::SYS_sched_get_priority_max,
    libc::SYS_sched_get_priority_min, libc::SYS_sched_getaffinity, libc::SYS_sched_getattr, libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler, libc::SYS_sched_setaffinity, libc::SYS_sched_setattr, libc::SYS_sched_yield,
    libc::SYS_set_robust_list, libc::SYS_set_tid_address, libc::SYS_setpriority, libc::SYS_getpriority,
    // Signals; tgkill(2) depends on its arguments.
    libc::SYS_restart_syscall, libc::SYS_rt_sigaction, libc::SYS_rt_sigpending, libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn, libc::SYS_rt_sigtimedwait, libc::SYS_sigaltstack,
    // Facts about the process and the machine.
    libc::SYS_capget, libc::SYS_getegid, libc::SYS_geteuid, libc::SYS_getgid, libc::SYS_getgroups, libc::SYS_getpgid,
    libc::SYS_getpid, libc::SYS_getppid, libc::SYS_getrandom, libc::SYS_getresgid, libc::SYS_getresuid,
    libc::SYS_getrusage, libc::SYS_getsid, libc::SYS_gettid, libc::SYS_getuid, libc::SYS_sysinfo, libc::SYS_umask,
    libc::SYS_uname,
];

/// Calls of x86-64 that do what others of the list do.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
pub(super) const ALLOWED_HERE: &[c_long] = &[
    libc::SYS_access, libc::SYS_arch_prctl, libc::SYS_creat, libc::SYS_dup2, libc::SYS_epoll_create,
    libc::SYS_epoll_wait, libc::SYS_eventfd, libc::SYS_getdents, libc::SYS_getpgrp, libc::SYS_getrlimit,
    libc::SYS_inotify_init, libc::SYS_link, libc::SYS_lstat, libc::SYS_mkdir, libc::SYS_open, libc::SYS_pipe,
    libc::SYS_poll, libc::SYS_readlink, libc::SYS_rename, libc::SYS_renameat, libc::SYS_rmdir, libc::SYS_select,
    libc::SYS_stat, libc::SYS_symlink, libc::SYS_sync_file_range, libc::SYS_time, libc::SYS_unlink,
];

/// `renameat` and `sync_file_range` of aarch64, which the crate `libc` does not name there.
#[cfg(target_arch = "aarch64")]
pub(super) const ALLOWED_HERE: &[c_long] = &[38, 84];

/// No list is made for other machines.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) const ALLOWED_HERE: &[c_long] = &[];

/// Calls that are not allowed, and what they are called: a log is read by somebody who does not know the numbers.
const NAMED: &[(c_long, &str)] = &[
    (libc::SYS_acct, "acct"),
    (libc::SYS_add_key, "add_key"),
    (libc::SYS_adjtimex, "adjtimex"),
    (libc::SYS_bpf, "bpf"),
    (libc::SYS_capset, "capset"),
    (libc::SYS_chdir, "chdir"),
    (libc::SYS_chroot, "chroot"),
    (libc::SYS_clock_adjtime, "clock_adjtime"),
    (libc::SYS_clock_settime, "clock_settime"),
    (libc::SYS_clone, "clone"),
    (libc::SYS_delete_module, "delete_module"),
    (libc::SYS_execve, "execve"),
    (libc::SYS_execveat, "execveat"),
    (libc::SYS_fanotify_init, "fanotify_init"),
    (libc::SYS_fchdir, "fchdir"),
    (libc::SYS_finit_module, "finit_module"),
    (libc::SYS_init_module, "init_module"),
    (libc::SYS_io_uring_setup, "io_uring_setup"),
    (libc::SYS_ioctl, "ioctl"),
    (libc::SYS_kcmp, "kcmp"),
    (libc::SYS_kexec_load, "kexec_load"),
    (libc::SYS_keyctl, "keyctl"),
    (libc::SYS_kill, "kill"),
    (libc::SYS_memfd_create, "memfd_create"),
    (libc::SYS_mknodat, "mknodat"),
    (libc::SYS_mount, "mount"),
    (libc::SYS_mprotect, "mprotect"),
    (libc::SYS_name_to_handle_at, "name_to_handle_at"),
    (libc::SYS_open_by_handle_at, "open_by_handle_at"),
    (libc::SYS_perf_event_open, "perf_event_open"),
    (libc::SYS_personality, "personality"),
    (libc::SYS_pidfd_getfd, "pidfd_getfd"),
    (libc::SYS_pidfd_open, "pidfd_open"),
    (libc::SYS_pidfd_send_signal, "pidfd_send_signal"),
    (libc::SYS_pivot_root, "pivot_root"),
    (libc::SYS_prctl, "prctl"),
    (libc::SYS_prlimit64, "prlimit64"),
    (libc::SYS_process_vm_readv, "process_vm_readv"),
    (libc::SYS_process_vm_writev, "process_vm_writev"),
    (libc::SYS_ptrace, "ptrace"),
    (libc::SYS_quotactl, "quotactl"),
    (libc::SYS_reboot, "reboot"),
    (libc::SYS_request_key, "request_key"),
    (libc::SYS_setgid, "setgid"),
    (libc::SYS_setgroups, "setgroups"),
    (libc::SYS_sethostname, "sethostname"),
    (libc::SYS_setns, "setns"),
    (libc::SYS_setresgid, "setresgid"),
    (libc::SYS_setresuid, "setresuid"),
    (libc::SYS_setsid, "setsid"),
    (libc::SYS_settimeofday, "settimeofday"),
    (libc::SYS_setuid, "setuid"),
    (libc::SYS_setxattr, "setxattr"),
    (libc::SYS_socket, "socket"),
    (libc::SYS_socketpair, "socketpair"),
    (libc::SYS_swapon, "swapon"),
    (libc::SYS_syslog, "syslog"),
    (libc::SYS_tgkill, "tgkill"),
    (libc::SYS_umount2, "umount2"),
    (libc::SYS_unshare, "unshare"),
    (libc::SYS_userfaultfd, "userfaultfd"),
    (libc::SYS_wait4, "wait4"),
];

/// The name of a system call that is not allowed, if it has one here.
pub(super) fn name(number: c_long) -> Option<&'static str> {
    NAMED.iter().find(|(known, _)| *known == number).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_both_allowed_and_named_as_denied() {
        for (number, name) in NAMED {
            assert!(!ALLOWED.contains(number) && !ALLOWED_HERE.contains(number), "{name}");
        }
    }
}
