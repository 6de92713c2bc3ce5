//! `userid`: identifies clients by a cookie.

use std::cell::{OnceCell, RefCell};
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::net::IpAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use bytes::Bytes;
use freerun_conf::{
    Cx, Node, Problem, Setting, SettingsSet, Shape, Value, bytes_of, group, into_bytes, keyword_enum, parse_seconds,
    settings, text_of,
};
use freerun_http::log_error;
use freerun_http::module::Module;
use freerun_http::request::handler::{Filter, Slot};
use freerun_http::request::response::Response;
use freerun_http::request::{Address, Request};
use freerun_http::template::Template;
use freerun_http::variables;
use freerun_http::variables::Variable;
use freerun_proto::credentials::decode_base64;
use freerun_proto::date::cookie_date;
use freerun_runtime::log::clock;

settings! {
    /// Cookies that identify clients.
    #[module = "userid"]
    pub struct UserIdSettings {
        /// Sends a cookie to clients without one (`on`; `v1`: in the first version), or only reads it (`log`).
        userid: UserId = "off", in HTTP | SERVER | LOCATION;
        /// Name of the cookie.
        userid_name: String = "uid", in HTTP | SERVER | LOCATION;
        /// Domain of the cookie; with `none` it has none.
        userid_domain: String = "none", in HTTP | SERVER | LOCATION;
        /// Path of the cookie.
        userid_path: String = "/", in HTTP | SERVER | LOCATION;
        /// The time that the browser keeps the cookie; `off` is until the session ends, `max` until 2037.
        userid_expires: CookieExpiry = "off", in HTTP | SERVER | LOCATION;
        /// Flags of the cookie.
        userid_flags: CookieFlags = "off", in HTTP | SERVER | LOCATION, since = "1.19.3";
        /// A letter, digit or `=` at the end of the cookie: cookies without it are sent once more.
        userid_mark: Mark = "off", in HTTP | SERVER | LOCATION;
        /// Value of the field `P3P` that is sent with the cookie.
        userid_p3p: String = "none", in HTTP | SERVER | LOCATION;
        /// The number of the server in the cookie; by default its address.
        userid_service: Option<u64>, in HTTP | SERVER | LOCATION;
    }
}

keyword_enum! {
    /// The mode of `userid`.
    pub enum Mode {
        /// Cookies are neither read nor sent.
        Off = "off",
        /// Cookies are read.
        Log = "log",
        /// Cookies are read and sent, in the first version.
        V1 = "v1",
        /// Cookies are read and sent.
        On = "on",
    }
}

/// The value of `userid`: whether, and how, clients get a cookie.
#[derive(Debug, Clone)]
pub struct UserId {
    mode: Mode,
    /// The value of `$uid_reset`, which may be a map.
    reset: Template,
}

impl Value for UserId {
    const SHAPE: Shape = Shape::exactly(1, "on | v1 | log | off");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<UserId, Problem> {
        let mode = Mode::parse(directive, cx)?;
        let reset = match mode {
            Mode::Off | Mode::Log => Template::default(),
            Mode::V1 | Mode::On => {
                let mut word = directive.args[0].clone();
                word.text = "$uid_reset".to_owned();
                Template::parse(&word, cx)?
            }
        };
        Ok(UserId { mode, reset })
    }
}

/// The value of `userid_expires`: the lifetime of the cookie.
#[derive(Debug, Clone, Copy)]
pub enum CookieExpiry {
    /// The cookie ends with the browser's session.
    Off,
    /// The cookie expires at the end of 2037.
    Max,
    /// The cookie expires after this number of seconds.
    After(i64),
}

impl Value for CookieExpiry {
    const SHAPE: Shape = Shape::exactly(1, "time | max | off");

    fn parse(directive: &Node, _: &mut Cx) -> Result<CookieExpiry, Problem> {
        let word = &directive.args[0];
        Ok(match word.text.as_str() {
            "off" => CookieExpiry::Off,
            "max" => CookieExpiry::Max,
            text => match parse_seconds(text).and_then(|seconds| i64::try_from(seconds).ok()) {
                Some(0) => CookieExpiry::Off,
                Some(seconds) => CookieExpiry::After(seconds),
                None => return Err(Problem::invalid_value(directive, word)),
            },
        })
    }
}

/// The value of `userid_mark`: the character that marks current cookies; a cookie without it is sent anew.
#[derive(Debug, Clone, Copy)]
pub struct Mark(Option<u8>);

impl Value for Mark {
    const SHAPE: Shape = Shape::exactly(1, "letter | digit | = | off");

    fn parse(directive: &Node, _: &mut Cx) -> Result<Mark, Problem> {
        let word = &directive.args[0];
        match word.text.as_bytes() {
            b"off" => Ok(Mark(None)),
            [mark] if mark.is_ascii_alphanumeric() || *mark == b'=' => Ok(Mark(Some(*mark))),
            _ => {
                let what = "value must be \"off\" or a single letter, digit or \"=\"";
                Err(Problem::directive(directive, what).at(word.place))
            }
        }
    }
}

/// The value of `userid_flags`: the attributes of the cookie.
#[derive(Debug, Clone, Copy, Default)]
pub struct CookieFlags {
    off: bool,
    secure: bool,
    http_only: bool,
    same_site: Option<&'static str>,
}

impl Setting for CookieFlags {
    const SHAPE: Shape = Shape::at_least(1, "off | flag …");

    fn set(previous: Option<CookieFlags>, directive: &Node, cx: &mut Cx) -> Result<CookieFlags, Problem> {
        let mut flags = previous.unwrap_or_default();
        for word in &directive.args {
            let text = word.text.to_ascii_lowercase();
            let known = match text.as_str() {
                "off" => std::mem::replace(&mut flags.off, true),
                "secure" => std::mem::replace(&mut flags.secure, true),
                "httponly" => std::mem::replace(&mut flags.http_only, true),
                _ => {
                    let sites = ["samesite=strict", "samesite=lax", "samesite=none"];
                    let Some(site) = sites.into_iter().find(|site| *site == text) else {
                        return Err(Problem::new(format!("invalid value \"{}\"", word.text)).at(word.place));
                    };
                    let known = flags.same_site.is_some();
                    flags.same_site = flags.same_site.or(Some(site));
                    known
                }
            };
            if known {
                cx.warn(Problem::warning(format!("duplicate value \"{}\"", word.text)).at(word.place));
            }
        }
        Ok(flags)
    }
}

/// The module `userid`.
pub static MODULE: Module = Module {
    name: "userid",
    groups: &[group::<UserIdSettings>()],
    filters: &[Filter { slot: Slot::UserId, wanted, run }],
    variables: &[
        Variable::named(
            "uid_got",
            "The name of the cookie that `userid_name` gives, and the identifier that the client has sent in it.",
            |request, _| shown(request, |state| got(request, state)),
        ),
        Variable::named(
            "uid_set",
            "The name of the cookie that `userid_name` gives, and the identifier that is sent to the client.",
            |request, _| shown(request, |state| new(request, state)),
        ),
        Variable::named(
            "uid_reset",
            "If `set` gives it a value that is neither empty nor `0`, the client gets a new identifier; with \
             `log` the error log tells of it.",
            |request, _| {
                let reset = request.find_shared::<UserIdState>()?.reset.borrow().clone()?;
                Some(reset.to_vec().into())
            },
        )
        .settable(|request, value| {
            *request.shared().get::<UserIdState>().reset.borrow_mut() = Some(Bytes::copy_from_slice(value));
        }),
    ],
    ..Module::EMPTY
};

fn wanted(settings: &SettingsSet) -> bool {
    matches!(settings.get::<UserIdSettings>().userid.mode, Mode::V1 | Mode::On)
}

/// The bytes in a cookie.
type Uid = [u8; 16];

/// The length of the bytes in Base64, without padding.
const BASE64_LEN: usize = 22;

/// The state of a client's cookie, determined when it is first used.
#[derive(Default)]
struct UserIdState {
    /// The cookie that the client sent, and whether it has the right mark.
    got: OnceCell<Option<(Uid, bool)>>,
    new: OnceCell<Option<Uid>>,
    reset: RefCell<Option<Bytes>>,
}

/// Prints `name=` and the numbers of a cookie.
fn shown<'r>(request: &'r Request, uid: impl FnOnce(&UserIdState) -> Option<Uid>) -> variables::VariableValue<'r> {
    let state = request.shared().get::<UserIdState>();
    uid(&state).map(|uid| into_bytes(text(request, &uid)).into())
}

fn text(request: &Request, uid: &Uid) -> String {
    let mut text = format!("{}=", request.settings().get::<UserIdSettings>().userid_name);
    for word in uid.chunks_exact(4) {
        // The numbers are printed in the byte order of the machine that nginx is compared on.
        for byte in word.iter().rev() {
            text.push_str(&format!("{byte:02X}"));
        }
    }
    text
}

fn got(request: &Request, state: &UserIdState) -> Option<Uid> {
    read(request, state).map(|(uid, _)| uid)
}

fn read(request: &Request, state: &UserIdState) -> Option<(Uid, bool)> {
    *state.got.get_or_init(|| {
        let settings = request.settings().get::<UserIdSettings>();
        if matches!(settings.userid.mode, Mode::Off) {
            return None;
        }
        let name = &settings.userid_name;
        let value = request.head.cookie(name)?;
        let shown = || text_of(value).into_owned();
        let Some(base64) = value.get(..BASE64_LEN) else {
            log_error!(request, Error, "client sent too short userid cookie \"{name}={}\"", shown());
            return None;
        };
        let Some(uid) = decode_base64(base64).and_then(|uid| Uid::try_from(uid).ok()) else {
            log_error!(request, Error, "client sent invalid userid cookie \"{name}={}\"", shown());
            return None;
        };
        let marked = match settings.userid_mark.0 {
            None => true,
            Some(mark) => value.get(BASE64_LEN..).is_some_and(|end| end.starts_with(&[mark, b'='])),
        };
        Some((uid, marked))
    })
}

/// The new cookie for the client.
fn new(request: &Request, state: &UserIdState) -> Option<Uid> {
    *state.new.get_or_init(|| {
        let settings = request.settings().get::<UserIdSettings>();
        let mode = settings.userid.mode;
        if matches!(mode, Mode::Off | Mode::Log) {
            return None;
        }
        let known = read(request, state);
        let reset = settings.userid.reset.render(request);
        if let Some((uid, marked)) = known
            && matches!(&*reset, b"" | b"0")
        {
            return (!marked).then_some(uid);
        }
        if let Some((uid, _)) = known.filter(|_| &*reset == b"log") {
            log_error!(request, Notice, "userid cookie \"{}\" was reset", text(request, &uid));
        }
        Some(make(request, settings, mode))
    })
}

/// A number that distinguishes this process from others that make cookies in the same second.
fn start() -> u32 {
    static START: OnceLock<u32> = OnceLock::new();
    *START.get_or_init(|| {
        let chance = RandomState::new().hash_one(0) as u32;
        chance << 16 | std::process::id() & 0xffff
    })
}

fn make(request: &Request, settings: &UserIdSettings, mode: Mode) -> Uid {
    static SECOND: AtomicU32 = AtomicU32::new(FIRST);
    static FIRST_VERSION: AtomicU32 = AtomicU32::new(1);
    /// The lowest byte is the version.
    const FIRST: u32 = 0x0303_0302;
    let time = clock::now().secs as u32;
    // A number that is too large is truncated, as in nginx.
    let service = settings.userid_service.map(|service| service as u32);
    let words = if mode == Mode::V1 {
        let count = FIRST_VERSION.fetch_add(0x100, Relaxed);
        [service.unwrap_or(0), time, start(), count].map(u32::to_le_bytes)
    } else {
        let mut count = SECOND.fetch_add(0x100, Relaxed);
        if count < FIRST {
            count = FIRST;
            SECOND.store(FIRST + 0x100, Relaxed);
        }
        let service = service.map_or_else(|| address(request), u32::to_be_bytes);
        [service, time.to_be_bytes(), start().to_be_bytes(), count.to_be_bytes()]
    };
    let mut uid = Uid::default();
    uid.copy_from_slice(words.as_flattened());
    uid
}

/// Four bytes of the server's address.
fn address(request: &Request) -> [u8; 4] {
    match request.client.local() {
        Address::Ip(address) => match address.ip() {
            IpAddr::V4(ip) => ip.octets(),
            IpAddr::V6(ip) => (ip.to_bits() as u32).to_be_bytes(),
        },
        Address::Unix(_) => [0; 4],
    }
}

fn run(request: &mut Request, response: &mut Response) {
    if request.is_subrequest() {
        return;
    }
    let state = request.shared().get::<UserIdState>();
    let Some(uid) = new(request, &state) else { return };
    let settings = request.settings().get::<UserIdSettings>();
    let mut cookie = into_bytes(format!("{}=", settings.userid_name));
    push_base64(&uid, settings.userid_mark.0, &mut cookie);
    let mut attribute = |text: &str, value: &[u8]| {
        cookie.extend_from_slice(&bytes_of(text));
        cookie.extend_from_slice(value);
    };
    match settings.userid_expires {
        CookieExpiry::Off => {}
        CookieExpiry::Max => attribute("; expires=", b"Thu, 31-Dec-37 23:55:55 GMT"),
        CookieExpiry::After(seconds) => {
            attribute("; expires=", &cookie_date(clock::now().secs.saturating_add(seconds)))
        }
    }
    if settings.userid_domain != "none" {
        attribute("; domain=", &bytes_of(&settings.userid_domain));
    }
    attribute("; path=", &bytes_of(&settings.userid_path));
    let flags = settings.userid_flags;
    if flags.secure {
        attribute("; secure", b"");
    }
    if flags.http_only {
        attribute("; httponly", b"");
    }
    if let Some(site) = flags.same_site {
        attribute("; ", site.as_bytes());
    }
    response.add(&b"Set-Cookie"[..], cookie);
    if settings.userid_p3p != "none" {
        response.add(&b"P3P"[..], bytes_of(&settings.userid_p3p).into_owned());
    }
}

/// Base64 (RFC 4648 section 4) of a cookie, with the mark in the place of the first `=`.
fn push_base64(uid: &Uid, mark: Option<u8>, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for group in uid.chunks(3) {
        let bits = group.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for digit in 0..=group.len() {
            out.push(DIGITS[(bits >> (18 - 6 * digit) & 63) as usize]);
        }
    }
    // Writing to memory cannot fail.
    let _ = out.write_all(&[mark.unwrap_or(b'='), b'=']);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_written_and_read() {
        let uid: Uid = *b"\x7f\x00\x00\x01\x65\x60\x40\x1f\x52\x54\x16\x1d\x03\x03\x04\x02";
        let mut text = Vec::new();
        push_base64(&uid, None, &mut text);
        assert_eq!(text, b"fwAAAWVgQB9SVBYdAwMEAg==");
        assert_eq!(decode_base64(&text[..BASE64_LEN]).unwrap(), uid);
        text.clear();
        push_base64(&uid, Some(b'A'), &mut text);
        assert_eq!(text, b"fwAAAWVgQB9SVBYdAwMEAgA=");
    }
}
