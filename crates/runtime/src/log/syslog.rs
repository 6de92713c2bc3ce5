//! Messages of syslog (RFC 3164), as nginx writes them.

use super::clock;
use super::level::Level;
use crate::host;

/// Names of the facilities; the place in the list is the number.
pub const FACILITIES: [&str; 24] = [
    "kern", "user", "mail", "daemon", "auth", "intern", "lpr", "news", "uucp", "clock", "authpriv", "ftp", "ntp",
    "audit", "alert", "cron", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7",
];

/// The beginning of all messages of a log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// Number of the facility, an index of [`FACILITIES`].
    pub facility: u8,
    /// The program's name in the message.
    pub tag: String,
    /// Whether the message has the host's name.
    pub hostname: bool,
}

impl Header {
    /// Appends the beginning of a message: `<190>Nov 21 07:05:00 host tag: `.
    pub fn push(&self, severity: Level, out: &mut Vec<u8>) {
        let priority = u32::from(self.facility) * 8 + u32::from(severity as u8 - 1);
        out.extend_from_slice(format!("<{priority}>").as_bytes());
        out.extend_from_slice(&clock::syslog_time(clock::now().secs));
        out.push(b' ');
        if self.hostname {
            out.extend_from_slice(host::name());
            out.push(b' ');
        }
        out.extend_from_slice(self.tag.as_bytes());
        out.extend_from_slice(b": ");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_begin_as_nginx_s() {
        let mut out = Vec::new();
        Header { facility: 23, tag: "nginx".into(), hostname: true }.push(Level::Info, &mut out);
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with("<190>"), "{text}");
        assert!(text.ends_with(&format!(" {} nginx: ", String::from_utf8_lossy(host::name()))), "{text}");
        let mut out = Vec::new();
        Header { facility: 1, tag: String::new(), hostname: false }.push(Level::Crit, &mut out);
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with("<10>") && text.ends_with(" : ") && text.len() == 4 + 15 + 3, "{text}");
    }
}
