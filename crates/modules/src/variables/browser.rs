//! `modern_browser`, `ancient_browser`: classifies browsers by `User-Agent`.

use std::borrow::Cow;
use std::sync::Arc;

use freerun_conf::{
    Cx, Many, Node, Problem, Setting, Shape, Value as Parsed, Word, bytes_of, group, keyword_enum, settings,
};
use freerun_http::content::msie;
use freerun_http::module::Module;
use freerun_http::request::Request;
use freerun_http::variables::{Variable, VariableValue};
use freerun_proto::HeaderId;
use memchr::memmem;

settings! {
    /// Old and new browsers.
    #[module = "browser"]
    pub struct BrowserSettings {
        /// The version from which on a browser (msie, gecko, opera, safari, konqueror) is modern; with `unlisted`,
        /// browsers that are not listed are modern.
        modern_browser: Modern, in HTTP | SERVER | LOCATION;
        /// Strings in `User-Agent` that make a browser ancient; `netscape4` stands for Netscape 1 to 4.
        ancient_browser: Many<BrowserNames>, in HTTP | SERVER | LOCATION;
        /// The value of `$modern_browser`.
        modern_browser_value: LastText = "1", in HTTP | SERVER | LOCATION;
        /// The value of `$ancient_browser`.
        ancient_browser_value: LastText = "1", in HTTP | SERVER | LOCATION;
    }
}

/// A text; if there are several directives, the last one counts.
#[derive(Debug, Clone, Default)]
pub struct LastText(Box<str>);

impl Setting for LastText {
    const SHAPE: Shape = Shape::exactly(1, "string");

    fn set(_: Option<LastText>, directive: &Node, _: &mut Cx) -> Result<LastText, Problem> {
        Ok(LastText(directive.args[0].text.as_str().into()))
    }
}

/// The strings of one `ancient_browser`.
#[derive(Debug, Clone)]
pub struct BrowserNames(Vec<String>);

impl Parsed for BrowserNames {
    const SHAPE: Shape = Shape::at_least(1, "string …");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<BrowserNames, Problem> {
        Vec::parse(directive, cx).map(BrowserNames)
    }
}

keyword_enum! {
    /// A browser. They are looked for in this order, because each claims to be the later ones.
    #[derive(PartialOrd, Ord)]
    pub enum Browser {
        /// Opera.
        Opera = "opera",
        /// Internet Explorer.
        Msie = "msie",
        /// Mozilla and related browsers.
        Gecko = "gecko",
        /// Safari.
        Safari = "safari",
        /// Konqueror.
        Konqueror = "konqueror",
    }
}

impl Browser {
    /// The name in `User-Agent`, the number of bytes between it and the version, and the least number of bytes before
    /// it.
    fn mark(self) -> (&'static [u8], usize, usize) {
        const MOZILLA: usize = b"Mozilla/5.0 (".len();
        const COMPATIBLE: usize = b"Mozilla/5.0 (compatible; ".len();
        match self {
            // `Opera/9` or `Opera 9`.
            Browser::Opera => (b"Opera", 1, 0),
            Browser::Msie => (b"MSIE ", 0, COMPATIBLE),
            Browser::Gecko => (b"rv:", 0, MOZILLA),
            Browser::Safari => (b"Safari/", 0, MOZILLA),
            Browser::Konqueror => (b"Konqueror/", 0, COMPATIBLE),
        }
    }

    /// The version in a `User-Agent`, if it is this browser.
    fn version(self, agent: &[u8]) -> Option<BrowserVersion> {
        let (mark, between, before) = self.mark();
        let at = memmem::find(agent.get(before..)?, mark)? + before + mark.len() + between;
        agent.get(at..).filter(|rest| !rest.is_empty()).map(|rest| BrowserVersion::read(rest).0)
    }
}

/// A version of up to four numbers, as one number: as in nginx, each number counts a hundred of the next one, so that
/// 5.500 is 10.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct BrowserVersion(u64);

impl BrowserVersion {
    /// Parses a version, and returns how many bytes belong to it.
    fn read(text: &[u8]) -> (BrowserVersion, usize) {
        let mut numbers = [0u64; 4];
        let mut number = 0;
        let mut used = text.len();
        for (at, byte) in text.iter().enumerate() {
            match byte {
                b'0'..=b'9' => {
                    let digit = u64::from(byte - b'0');
                    numbers[number] = numbers[number].saturating_mul(10).saturating_add(digit);
                }
                b'.' if number < 3 => number += 1,
                _ => {
                    used = at;
                    break;
                }
            }
        }
        let version = numbers.iter().fold(0u64, |sum, number| sum.saturating_mul(100).saturating_add(*number));
        (BrowserVersion(version), used)
    }
}

/// The values of `modern_browser` at one level.
#[derive(Debug, Clone, Default)]
pub struct Modern {
    unlisted: bool,
    /// The browsers in the order in which they are looked for.
    list: Arc<Vec<(Browser, BrowserVersion)>>,
}

impl Setting for Modern {
    const SHAPE: Shape = Shape::between(1, 2, "browser version | unlisted");

    fn set(previous: Option<Modern>, directive: &Node, _: &mut Cx) -> Result<Modern, Problem> {
        let mut modern = previous.unwrap_or_default();
        let unknown = |word: &Word| {
            Problem::new(format!("unknown browser name \"{}\"", word.text)).at_node(directive).at(word.place)
        };
        match directive.args.as_slice() {
            [word] if word.text == "unlisted" => modern.unlisted = true,
            [name, version] => {
                let browser = Browser::from_word(&name.text).ok_or_else(|| unknown(name))?;
                let text = version.text.as_bytes();
                let (read, used) = BrowserVersion::read(text);
                if used < text.len() && text.iter().any(|byte| !byte.is_ascii_digit() && *byte != b'.') {
                    let message = format!("invalid browser version \"{}\"", version.text);
                    return Err(Problem::new(message).at_node(directive).at(version.place));
                }
                let list = Arc::make_mut(&mut modern.list);
                list.push((browser, read));
                list.sort_by_key(|(browser, _)| *browser);
            }
            [word, ..] => return Err(unknown(word)),
            [] => return Err(Problem::wrong_count(directive)),
        }
        Ok(modern)
    }
}

/// The module `browser`.
pub static MODULE: Module = Module {
    name: "browser",
    groups: &[group::<BrowserSettings>()],
    variables: &[
        Variable::named(
            "modern_browser",
            "The value of `modern_browser_value` if the browser is a modern one by `modern_browser`; empty otherwise.",
            |request, _| {
                let settings = request.settings().get::<BrowserSettings>();
                value(is_modern(request, settings), &settings.modern_browser_value)
            },
        )
        .changeable(),
        Variable::named(
            "ancient_browser",
            "The value of `ancient_browser_value` if the browser is an ancient one by `ancient_browser`; empty \
             otherwise.",
            |request, _| {
                let settings = request.settings().get::<BrowserSettings>();
                value(!is_modern(request, settings), &settings.ancient_browser_value)
            },
        )
        .changeable(),
        Variable::named("msie", "`1` if the browser is Internet Explorer; empty otherwise.", |request, _| {
            msie::is_msie(request).then_some(Cow::Borrowed(b"1"))
        })
        .changeable(),
    ],
    ..Module::EMPTY
};

fn value<'r>(holds: bool, text: &'r LastText) -> VariableValue<'r> {
    holds.then(|| bytes_of(&text.0))
}

fn is_modern(request: &Request, settings: &BrowserSettings) -> bool {
    judge(request.head.value(HeaderId::UserAgent).unwrap_or_default(), settings)
}

fn judge(agent: &[u8], settings: &BrowserSettings) -> bool {
    let modern = &settings.modern_browser;
    // Opera claims to be other browsers: if it is not in the list of modern ones, it must not match another entry.
    if !modern.list.is_empty()
        && let Some(version) = Browser::Opera.version(agent)
    {
        return matches!(modern.list.first(), Some((Browser::Opera, wanted)) if version >= *wanted);
    }
    for (browser, wanted) in modern.list.iter() {
        if let Some(version) = browser.version(agent) {
            return version >= *wanted;
        }
    }
    let ancient = settings.ancient_browser.iter().flat_map(|names| &names.0).any(|name| match name.as_str() {
        "netscape4" => is_netscape4(agent),
        name => memmem::find(agent, &bytes_of(name)).is_some(),
    });
    !ancient && modern.unlisted
}

/// Whether it is `Mozilla/4.72 [en]` or older; this includes browsers that claim an old version.
fn is_netscape4(agent: &[u8]) -> bool {
    agent.len() >= b"Mozilla/4.72 [".len()
        && agent.starts_with(b"Mozilla/")
        && agent.get(8).is_some_and(|major| (b'1'..=b'4').contains(major))
}
