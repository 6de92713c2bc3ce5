"""Runs a command under what directives of a unit forbid: restrict.py DIRECTIVE=VALUE... -- COMMAND...

systemd does this by filters of system calls (systemd.exec(5)); the same filters are made here with libseccomp, so that no systemd has
to run. A directive that is not known here is an error.
"""

import ctypes
import errno
import os
import socket
import subprocess
import sys

import seccomp

CLONE_NEW = {
    "cgroup": 0x02000000,
    "ipc": 0x08000000,
    "net": 0x40000000,
    "mnt": 0x00020000,
    "pid": 0x20000000,
    "user": 0x10000000,
    "uts": 0x04000000,
}
PR_SET_MDWE = 65
MAX_FAMILY = 46


def members(name):
    """The system calls of a name; those of a group (@file-system) as systemd has it."""
    if not name.startswith("@"):
        return {name}
    text = subprocess.run(["systemd-analyze", "syscall-filter", name], check=True, capture_output=True, text=True).stdout
    found = set()
    for line in text.splitlines()[1:]:
        line = line.strip()
        if line and not line.startswith("#"):
            found |= members(line)
    return found


def allow_list(value):
    """SystemCallFilter=: the first list allows; those with ~ take away."""
    allowed = set()
    taken = set()
    target = allowed
    for word in value.split():
        if word.startswith("~"):
            target = taken
            word = word[1:]
        target |= members(word)
    wanted = seccomp.SyscallFilter(seccomp.ERRNO(errno.EPERM))
    for name in sorted((allowed - taken) | {"execve", "exit", "exit_group"}):
        try:
            wanted.add_rule(seccomp.ALLOW, name)
        except (RuntimeError, ValueError, OSError):
            pass  # Not a system call of this machine, or newer than the library.
    # Newer than the library of Debian 12.
    if "cachestat" in allowed:
        wanted.add_rule(seccomp.ALLOW, 451)
    return wanted


def deny(rules):
    wanted = seccomp.SyscallFilter(seccomp.ALLOW)
    for code, name, *arguments in rules:
        wanted.add_rule(seccomp.ERRNO(code), name, *arguments)
    return wanted


def restrict(name, value):
    """Restricts this process; nothing is forbidden before `load`, which is last."""
    if name == "SystemCallFilter":
        return allow_list(value)
    if name == "RestrictAddressFamilies":
        allowed = {getattr(socket, family) for family in value.split()}
        families = [family for family in range(MAX_FAMILY) if family not in allowed]
        return deny((errno.EAFNOSUPPORT, "socket", seccomp.Arg(0, seccomp.EQ, family)) for family in families)
    if (name, value) == ("RestrictNamespaces", "true"):
        rules = [(errno.EPERM, "setns"), (errno.ENOSYS, "clone3")]
        for flag in CLONE_NEW.values():
            rules += [(errno.EPERM, call, seccomp.Arg(0, seccomp.MASKED_EQ, flag, flag)) for call in ("clone", "unshare")]
        return deny(rules)
    if (name, value) == ("RestrictSUIDSGID", "true"):
        rules = []
        for bit in (0o4000, 0o2000):
            for call, place in (("chmod", 1), ("fchmod", 1), ("fchmodat", 2), ("mkdir", 1), ("mkdirat", 2)):
                rules.append((errno.EPERM, call, seccomp.Arg(place, seccomp.MASKED_EQ, bit, bit)))
        return deny(rules)
    if (name, value) == ("RestrictRealtime", "true"):
        return deny([(errno.EPERM, "sched_setscheduler", seccomp.Arg(1, seccomp.NE, 0))])
    if (name, value) == ("LockPersonality", "true"):
        return deny([(errno.EPERM, "personality", seccomp.Arg(0, seccomp.NE, 0))])
    if (name, value) == ("MemoryDenyWriteExecute", "true"):
        # A kernel before 6.3 cannot: the filter that systemd uses there.
        if ctypes.CDLL(None).prctl(PR_SET_MDWE, 1, 0, 0, 0) == 0:
            return None
        return deny(
            [
                (errno.EPERM, "mmap", seccomp.Arg(2, seccomp.MASKED_EQ, 6, 6)),
                (errno.EPERM, "mprotect", seccomp.Arg(2, seccomp.MASKED_EQ, 4, 4)),
            ]
        )
    raise SystemExit(f"restrict.py: what does {name}={value} forbid?")


def main():
    end = sys.argv.index("--")
    # The list of what is allowed comes last: it does not have the call that loads a filter.
    directives = sorted(sys.argv[1:end], key=lambda argument: argument.startswith("SystemCallFilter="))
    filters = [restrict(*argument.split("=", 1)) for argument in directives]
    for wanted in filters:
        if wanted is not None:
            wanted.load()
    os.execvp(sys.argv[end + 1], sys.argv[end + 1 :])


main()
