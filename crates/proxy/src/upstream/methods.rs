//! The directives that choose how the next server is found.

use std::time::Duration;

use freerun_conf::{Cx, Node, Problem, Setting, SettingsSet, Shape, Value, Word, parse_time, settings};
use freerun_http::template::Template;
use freerun_http::values::switch::Present;
use freerun_upstream::GroupSettings;
use freerun_upstream::balance::{Measure, Method, Two};
use freerun_upstream::group::QueueSettings;
use freerun_upstream::health::OutlierRules;

use crate::upstream::sticky::Sticky;

/// Longest queue: beyond it requests would only wait for their timeouts.
const MAX_QUEUE: u32 = 1 << 20;

settings! {
    /// How the servers of a group take turns.
    #[module = "upstream_method"]
    pub struct MethodSettings {
        /// Asks the server with the fewest connections for its weight; several of them take turns.
        ///
        /// Connections of all loops count.
        #[name = "least_conn"]
        method: Balance, in UPSTREAM;
        /// Clients that authenticate their connection (`Authorization: NTLM …` or `Negotiate …`) have a connection of their own to
        /// one of the servers: from such a request on, all requests of the client's connection go there, until it is closed.
        ///
        /// It needs `keepalive` with room for as many clients, and `proxy_http_version 1.1`, which is the default.
        ntlm: Present<0>, in UPSTREAM;
        /// Requests that no server has room for (`max_conns`) wait here: most of them, and how long each, 60 seconds by default.
        ///
        /// Those who have waited longest are served first. When the queue is full, or the time over, the answer is 502. Who has an answer
        /// already (`proxy_next_upstream http_503`) does not wait for another server. `$upstream_queue_time` tells how long it took.
        queue: Option<Queue>, in UPSTREAM;
        /// Clients stay with the server that they had before.
        ///
        /// | form | |
        /// |---|---|
        /// | `cookie name [expires=time \| max] [domain=domain] [path=path] [httponly] [secure] [samesite=strict \| lax \| none \| $variable]` | a cookie says which: the server's `route`, or the MD5 sum of its address |
        /// | `route $variable …` | the first that is not empty is compared with the `route` of the servers |
        /// | `learn create=$variable lookup=$variable zone=name:size [timeout=time] [header]` | the application has sessions; which server has made one is seen in its response and remembered |
        ///
        /// When the server cannot be asked, another one is chosen as for a new client. Servers with `drain` are asked only by clients
        /// that are bound to them.
        sticky: Option<Sticky>, in UPSTREAM, since = "1.29.6",
            fidelity = Differs("learn: sessions are learned from the response's head with and without header; there is no sync, for there is one process");
        /// Leaves a server out for a while when its answers are much worse than they should be; off unless written.
        ///
        /// | parameter | |
        /// |---|---|
        /// | `consecutive=N` | so many errors in a row, 5 by default; 0: does not count |
        /// | `rate=N%` | this share of the answers within `window`, 50 % by default; 0: does not count |
        /// | `window=T`, `requests=N` | a share is that of the last T (10 seconds) with at least N (20) answers |
        /// | `ejection=T`, `max_ejection=T` | how long the first ejection lasts (30 seconds); the next one twice as long, the third three times, at most the other time (5 minutes) |
        /// | `max_ejected=N%` | no more than this share of the group is out at a time, 50 % by default |
        ///
        /// Errors are failures (as `max_fails` counts them) and statuses from 500 on. Each window without errors takes one ejection back.
        outlier_detection: Option<Outliers>, in UPSTREAM, fidelity = Own;
    }
    also {
        /// Clients of one network have one server: the hash of the first three octets of an IPv4 address, or of a whole IPv6
        /// address, chooses it. When it cannot be asked, the hash is changed up to 19 times; then servers take turns.
        "ip_hash" => method: Shape::exactly(0, ""), in UPSTREAM,
            fidelity = Differs("which network has which server is another matter than in nginx");
        /// The hash of a text chooses the server, as in the Perl library Cache::Memcached; with `consistent` the points of
        /// ketama do, as in Cache::Memcached::Fast, so that few texts change their server when one comes or goes.
        "hash" => method: Shape::between(1, 2, "key [consistent]"), in UPSTREAM;
        /// A server at random, by weight; with `two` the better one of two: with fewer connections (`least_conn`), or the faster one.
        "random" => method: Shape::between(0, 2, "[two [least_conn | least_time=header | least_time=last_byte]]"), in UPSTREAM;
        /// Asks the server with the smallest product of the time it takes, on an average, and its connections, for its weight.
        ///
        /// The time is that to the response's head or to its end; with `inflight` requests on their way count, too. A server
        /// of which nothing is known is tried first, and an average counts half after 10 seconds without requests, so that
        /// one that was slow once is tried again.
        "least_time" => method: Shape::between(1, 2, "header | last_byte [inflight]"), in UPSTREAM, since = "1.31.0";
    }
}

/// The method of a group, and the text that it depends on.
#[derive(Debug, Clone, Default)]
pub struct Balance {
    method: Method,
    key: Option<Template>,
}

impl Setting for Balance {
    const SHAPE: Shape = Shape::exactly(0, "");

    fn set(previous: Option<Balance>, directive: &Node, cx: &mut Cx) -> Result<Balance, Problem> {
        if previous.is_some() {
            cx.warn(redefined(directive));
        }
        let args = &*directive.args;
        let invalid = |word: &Word| Problem::invalid_parameter(directive, word);
        let mut key = None;
        let method = match directive.name.text.as_str() {
            "least_conn" => Method::LeastConn,
            "ip_hash" => Method::IpHash,
            "hash" => {
                let method = match args.get(1) {
                    None => Method::Hash,
                    Some(word) if word.text == "consistent" => Method::ConsistentHash,
                    Some(word) => return Err(invalid(word)),
                };
                key = Some(Template::parse(&args[0], cx)?);
                method
            }
            "random" => match args {
                [] => Method::Random,
                [two, rest @ ..] if two.text == "two" => match rest {
                    [] => Method::RandomTwo(Two::LeastConn),
                    [word] => Method::RandomTwo(match word.text.as_str() {
                        "least_conn" => Two::LeastConn,
                        "least_time=header" => Two::LeastTime(Measure::Header),
                        "least_time=last_byte" => Two::LeastTime(Measure::LastByte),
                        _ => return Err(invalid(word)),
                    }),
                    _ => return Err(Problem::wrong_count(directive)),
                },
                [word, ..] => return Err(invalid(word)),
            },
            _ => {
                let measure = match args[0].text.as_str() {
                    "header" => Measure::Header,
                    "last_byte" => Measure::LastByte,
                    _ => return Err(invalid(&args[0])),
                };
                let inflight = match args.get(1) {
                    None => false,
                    Some(word) if word.text == "inflight" => true,
                    Some(word) => return Err(invalid(word)),
                };
                Method::LeastTime { measure, inflight }
            }
        };
        Ok(Balance { method, key })
    }
}

fn redefined(directive: &Node) -> Problem {
    Problem::warning("load balancing method redefined").at_node(directive)
}

/// `queue number [timeout=time]`
#[derive(Debug, Clone, Copy)]
pub struct Queue(QueueSettings);

impl Value for Queue {
    const SHAPE: Shape = Shape::between(1, 2, "number [timeout=time]");

    fn parse(directive: &Node, _: &mut Cx) -> Result<Queue, Problem> {
        let word = &directive.args[0];
        let invalid = |word: &Word| Problem::invalid_value(directive, word);
        let length = number(&word.text).filter(|&length| length > 0).ok_or_else(|| invalid(word))?.min(MAX_QUEUE);
        let mut timeout = Duration::from_secs(60);
        if let Some(word) = directive.args.get(1) {
            let value =
                word.text.strip_prefix("timeout=").ok_or_else(|| Problem::invalid_parameter(directive, word))?;
            timeout = time(value).ok_or_else(|| Problem::invalid_parameter(directive, word))?;
        }
        Ok(Queue(QueueSettings { length, timeout }))
    }
}

pub(crate) fn number(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

pub(crate) fn time(text: &str) -> Option<Duration> {
    parse_time(text)
}

/// `outlier_detection [parameter=value …]`
#[derive(Debug, Clone)]
pub struct Outliers(OutlierRules);

impl Value for Outliers {
    const SHAPE: Shape = Shape::at_least(0, "[parameter=value …]");

    fn parse(directive: &Node, _: &mut Cx) -> Result<Outliers, Problem> {
        let mut rules = OutlierRules::default();
        for word in &directive.args {
            let invalid = || Problem::invalid_parameter(directive, word);
            let (name, value) = word.text.split_once('=').ok_or_else(invalid)?;
            let percent = || value.strip_suffix('%').and_then(number).filter(|&share| share <= 100);
            let positive = || time(value).filter(|time| !time.is_zero());
            match name {
                "consecutive" => rules.consecutive = number(value).ok_or_else(invalid)?,
                "rate" if value == "0" => rules.rate = 0,
                "rate" => rules.rate = percent().ok_or_else(invalid)?,
                "window" => rules.window = positive().ok_or_else(invalid)?,
                "requests" => rules.requests = number(value).ok_or_else(invalid)?,
                "ejection" => rules.ejection = positive().ok_or_else(invalid)?,
                "max_ejection" => rules.max_ejection = positive().ok_or_else(invalid)?,
                "max_ejected" => rules.max_ejected = percent().ok_or_else(invalid)?,
                _ => return Err(invalid()),
            }
        }
        Ok(Outliers(rules))
    }
}

/// What a choice in a group depends on, apart from the servers.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// The text that is hashed.
    pub key: Option<Template>,
    /// How clients are bound.
    pub sticky: Option<Sticky>,
    /// Whether client connections are.
    pub ntlm: bool,
}

/// What the block says of the method.
pub fn group_settings(settings: &SettingsSet) -> (GroupSettings, Choice) {
    let own = settings.get::<MethodSettings>();
    let group = GroupSettings {
        method: own.method.method,
        queue: own.queue.map(|queue| queue.0),
        outlier: own.outlier_detection.as_ref().map(|outliers| outliers.0.clone()),
    };
    (group, Choice { key: own.method.key.clone(), sticky: own.sticky.clone(), ntlm: own.ntlm.0 })
}

/// Whether servers after a directive of this name cannot be `backup`; `None`: it does not choose the method.
pub fn refuses_backup(directive: &str) -> Option<bool> {
    match directive {
        "ip_hash" | "hash" | "random" => Some(true),
        "least_conn" | "least_time" => Some(false),
        _ => None,
    }
}

/// As nginx warns: a method after `keepalive` takes its place there.
pub fn warn_of_order(block: &Node, cx: &mut Cx) {
    let mut kept = false;
    for directive in block.children() {
        if directive.name.text == "keepalive" {
            kept = true;
        } else if refuses_backup(&directive.name.text).is_some() && std::mem::take(&mut kept) {
            cx.warn(redefined(directive));
        }
    }
}
