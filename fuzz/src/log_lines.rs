//! Lines of access logs, as `freerun migrate --run` reads them.

use freerun_serve::logs::access_log::{Escape, LineFormat};

use crate::target::Target;
use crate::targets::owned;

/// Runs [`log_line`].
pub static LOG_LINE: Target = Target {
    name: "log_line",
    body: log_line,
    seeds: || {
        owned(&[
            b"\x00$remote_addr [$time_local] \"$request\" $status\n1.2.3.4 [10/Oct/2026:13:55:36 +0000] \"GET /a HTTP/1.1\" 200" as &[u8],
            b"\x01{\"r\":\"$request\",\"h\":\"${host}\"}\n{\"r\":\"GET \\/\\u00e9 HTTP/1.1\",\"h\":\"a\\\\\"}",
            b"\x02$time_iso8601$pipe$request_method|$uri\n2026-10-10T13:55:36+00:00.GET|/a",
        ])
    },
    words: &[
        b"$", b"${", b"}", b"\"", b" ", b"\\x22", b"\\u0041", b"\\", b"$status", b"$request", b"-", b"GET / HTTP/1.1", b"\n",
    ],
};

/// A format and a line of it: no panic, no value that is not in the line, and what is escaped is read back. The first byte
/// chooses the escaping.
pub fn log_line(data: &[u8]) {
    let Some((option, rest)) = data.split_first() else { return };
    let escape = [Escape::Default, Escape::Json, Escape::None][usize::from(option % 3)];
    let mut parts = rest.splitn(2, |byte| *byte == b'\n');
    let (text, line) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let format = LineFormat::new(escape, &freerun_conf::text_of(text));
    if let Some(values) = format.read(line) {
        let length: usize = values.iter().map(|(_, value)| value.len()).sum();
        assert!(length <= line.len(), "values are longer than their line: {values:?}");
        assert!(values.len() <= format.names().count());
    }
    let mut written = Vec::new();
    escape.push(line, &mut written);
    assert_eq!(escape.undo(&written), line, "{escape:?}");
}
