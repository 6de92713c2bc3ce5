# Has the server of a pid file run the binary that is now at the path it was started by (USR2), without losing a request. The rest of
# the arguments is the command that tests the configuration. Fails, and leaves the old binary running, if it is refused or the new
# one does not start.
change_binary() {
	pid_file=$1
	shift
	old=$(cat "$pid_file" 2>/dev/null) || return 0
	[ -n "$old" ] && kill -0 "$old" 2>/dev/null || return 0
	# It runs already.
	[ "$(readlink "/proc/$old/exe")" != "$(readlink -f "$1")" ] || return 0
	if ! "$@"; then
		echo "The server goes on with the binary that it has: the new one refuses the configuration." >&2
		return 1
	fi
	kill -USR2 "$old"
	tries=0
	until new=$(cat "$pid_file" 2>/dev/null) && [ -n "$new" ] && [ "$new" != "$old" ] && kill -0 "$new" 2>/dev/null; do
		tries=$((tries + 1))
		if [ "$tries" -gt 300 ]; then
			echo "The server goes on with the binary that it has: the new one has not started; its error log says why." >&2
			return 1
		fi
		sleep 0.1
	done
	kill -QUIT "$old"
}
