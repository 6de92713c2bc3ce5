#!/bin/sh
# With NGINX_ENTRYPOINT_WORKER_PROCESSES_AUTOTUNE the server has as many event loops as the container has processors: those that its
# group may use, rounded up, but no more than the machine has.
set -eu

[ -n "${NGINX_ENTRYPOINT_WORKER_PROCESSES_AUTOTUNE:-}" ] || exit 0
[ -w /etc/nginx/nginx.conf ] || exit 0

count=$(nproc)
if [ -r /sys/fs/cgroup/cpu.max ]; then
	read -r quota period </sys/fs/cgroup/cpu.max
	if [ "$quota" != max ]; then
		limit=$(((quota + period - 1) / period))
		if [ "$limit" -lt "$count" ]; then count=$limit; fi
	fi
fi
text=$(sed "s/^worker_processes .*;/worker_processes $count;/" /etc/nginx/nginx.conf)
printf '%s\n' "$text" >/etc/nginx/nginx.conf
