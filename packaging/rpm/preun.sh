# $1 is the number of packages of this name that stay installed: 1 for an upgrade.
if [ "$1" -eq 0 ]; then
	if command -v systemctl >/dev/null; then
		systemctl disable freerun.service >/dev/null 2>&1 || true
	fi
	if [ -d /run/systemd/system ]; then
		systemctl stop freerun.service || true
	elif [ -s /run/freerun.pid ]; then
		kill -QUIT "$(cat /run/freerun.pid)" 2>/dev/null || true
	fi
fi
