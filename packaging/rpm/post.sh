#CHANGE_BINARY#

# $1 is the number of packages of this name that are installed from now on: 2 for an upgrade.
if command -v systemd-sysusers >/dev/null; then
	systemd-sysusers freerun.conf || true
fi
if ! getent passwd freerun >/dev/null; then
	useradd --system --user-group --no-create-home --home-dir /nonexistent --shell /sbin/nologin --comment "freerun web server" freerun
fi
install -d -m 755 /var/lib/freerun /var/cache/freerun /var/log/freerun
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
fi
if [ "$1" -gt 1 ]; then
	change_binary /run/freerun.pid /usr/sbin/freerun -c /etc/freerun/freerun.conf -t -q || true
elif command -v systemctl >/dev/null; then
	# The distribution's presets say whether services are enabled.
	systemctl preset freerun.service >/dev/null 2>&1 || true
fi
