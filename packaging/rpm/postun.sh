if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
fi
# Folders that are empty go. The user stays, as files of it may.
if [ "$1" -eq 0 ]; then
	for folder in /etc/freerun /var/lib/freerun /var/cache/freerun /var/log/freerun \
		/usr/share/freerun/html /usr/share/freerun /usr/share/doc/freerun/examples /usr/share/doc/freerun; do
		rmdir "$folder" 2>/dev/null || true
	done
fi
