#!/bin/sh
# Writes a configuration for each template, with the environment's variables in it. Only variables that there are, and whose names
# match NGINX_ENVSUBST_FILTER, are replaced: $host stays.
set -eu

templates=${NGINX_ENVSUBST_TEMPLATE_DIR:-/etc/nginx/templates}
[ -d "$templates" ] || exit 0

filter=${NGINX_ENVSUBST_FILTER:-}
# shellcheck disable=SC2016
names=$(awk -v filter="$filter" 'BEGIN { for (name in ENVIRON) if (name ~ /^[A-Za-z_][A-Za-z0-9_]*$/ && name ~ filter) printf "${%s} ", name }')

# The suffix of templates, and the folder that they are written to.
substitute() {
	find "$templates" -follow -type f -name "*$1" -print | sort | while IFS= read -r template; do
		name=${template#"$templates"/}
		output=$2/${name%"$1"}
		if ! mkdir -p "$(dirname "$output")" || [ ! -w "$(dirname "$output")" ]; then
			echo "$0: $2 is not writable, and $template is left out" >&2
			return 0
		fi
		envsubst "$names" <"$template" >"$output"
	done
}

substitute "${NGINX_ENVSUBST_TEMPLATE_SUFFIX:-.template}" "${NGINX_ENVSUBST_OUTPUT_DIR:-/etc/nginx/conf.d}"

stream_suffix=${NGINX_ENVSUBST_STREAM_TEMPLATE_SUFFIX:-.stream-template}
if [ -n "$(find "$templates" -follow -type f -name "*$stream_suffix" -print -quit)" ]; then
	output=${NGINX_ENVSUBST_STREAM_OUTPUT_DIR:-/etc/nginx/stream-conf.d}
	substitute "$stream_suffix" "$output"
	if ! grep -qs '^ *stream *{' /etc/nginx/nginx.conf; then
		if [ -w /etc/nginx/nginx.conf ]; then
			printf '\nstream {\n    include %s/*.conf;\n}\n' "$output" >>/etc/nginx/nginx.conf
		else
			echo "$0: /etc/nginx/nginx.conf is not writable, so it does not include $output" >&2
		fi
	fi
fi
