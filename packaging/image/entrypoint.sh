#!/bin/sh
# The first process of the container: it prepares the configuration as the official image of nginx documents it, then becomes the
# server. Programs in /docker-entrypoint.d run in the order of their names: *.sh by themselves, *.envsh in this shell, so that what
# they export is there for the rest; both only if they are executable.
set -eu

say() {
	if [ -z "${NGINX_ENTRYPOINT_QUIET_LOGS:-}" ]; then
		echo "$0: $*"
	fi
}

case "${1:-}" in
nginx | freerun)
	found=no
	for file in /docker-entrypoint.d/*; do
		[ -f "$file" ] || continue
		found=yes
		case "$file" in
		*.envsh)
			if [ -x "$file" ]; then
				say "reading $file"
				. "$file"
			else
				say "ignoring $file, which is not executable"
			fi
			;;
		*.sh)
			if [ -x "$file" ]; then
				say "running $file"
				"$file"
			else
				say "ignoring $file, which is not executable"
			fi
			;;
		*) say "ignoring $file" ;;
		esac
	done
	if [ "$found" = no ]; then
		say "nothing is in /docker-entrypoint.d"
	fi
	say "the configuration is complete, the server starts"
	;;
esac

exec "$@"
