//! `keepalive_timeout` and `keepalive_disable`.

use std::time::Duration;

use freerun_conf::{Cx, Node, Problem, Setting, Shape, Value, parse_time};

/// The time for which an idle connection is kept, and the time that the client reads in `Keep-Alive`.
#[derive(Debug, Clone, Copy)]
pub struct KeepaliveTimeout {
    /// The time for which it is kept; zero turns keep-alive off.
    pub timeout: Duration,
    /// The value of `Keep-Alive: timeout=`, in seconds.
    pub header: Option<u64>,
}

impl Value for KeepaliveTimeout {
    const SHAPE: Shape = Shape::between(1, 2, "timeout [header_timeout]");

    fn parse(directive: &Node, _: &mut Cx) -> Result<KeepaliveTimeout, Problem> {
        let time = |index: usize| {
            let word = &directive.args[index];
            parse_time(&word.text).ok_or_else(|| Problem::invalid_value(directive, word))
        };
        let header = if directive.args.len() > 1 { Some(time(1)?.as_secs()) } else { None };
        Ok(KeepaliveTimeout { timeout: time(0)?, header })
    }
}

/// Browsers that do not cope with keep-alive.
#[derive(Debug, Clone, Copy)]
pub struct KeepaliveDisable {
    /// Old versions of Internet Explorer, after a POST.
    pub msie6: bool,
    /// Safari on macOS and similar systems.
    pub safari: bool,
}

impl Setting for KeepaliveDisable {
    const SHAPE: Shape = Shape::between(1, 2, "none | browser …");

    fn set(previous: Option<KeepaliveDisable>, directive: &Node, cx: &mut Cx) -> Result<KeepaliveDisable, Problem> {
        let mut disable = previous.unwrap_or(KeepaliveDisable { msie6: false, safari: false });
        for word in &directive.args {
            let browser = match word.text.to_ascii_lowercase().as_str() {
                "none" => continue,
                "msie6" => &mut disable.msie6,
                "safari" => &mut disable.safari,
                _ => return Err(Problem::new(format!("invalid value \"{}\"", word.text)).at(word.place)),
            };
            if std::mem::replace(browser, true) {
                cx.warn(Problem::warning(format!("duplicate value \"{}\"", word.text)).at(word.place));
            }
        }
        Ok(disable)
    }
}

impl KeepaliveDisable {
    /// Whether a client with this `User-Agent` must not keep its connection.
    pub fn concerns(self, user_agent: &[u8], is_post: bool) -> bool {
        let has = |text: &[u8]| memchr::memmem::find(user_agent, text).is_some();
        let is_old = || has(b"MSIE ") && (has(b"MSIE 4.") || has(b"MSIE 5.") || has(b"MSIE 6.")) && !has(b"Opera");
        if self.msie6 && is_post && is_old() {
            return true;
        }
        self.safari && has(b"Mac OS X") && has(b"Safari/") && !has(b"Chrome/")
    }
}
