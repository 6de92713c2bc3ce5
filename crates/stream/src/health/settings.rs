//! The directives `health_check`, `health_check_timeout` and `match` of stream.

use std::time::Duration;

use freerun_conf::{Cx, Node, Problem, Shape, Value, settings};
use freerun_serve::upstream::health::{CheckSettings, MatchBlocks, MatchRef, Matches};

use super::matching::Match;

settings! {
    /// Connections that check all the time whether servers are healthy.
    #[module = "stream/health_check"]
    pub struct HealthSettings {
        /// Connects to each server of the group that the server's `proxy_pass` names, and does not use servers for which a
        /// check fails.
        ///
        /// | parameter | |
        /// |---|---|
        /// | `interval=T` | pause between two checks of a server, 5 seconds by default |
        /// | `jitter=T` | each check is delayed by up to T more, at random |
        /// | `fails=N`, `passes=N` | so many failures, or passes, in a row change the state; 1 by default |
        /// | `port=N` | another port of the server |
        /// | `udp` | the server is asked by a datagram: the `match` block has to have `send` |
        /// | `match=name` | the `match` block with what is sent and expected; otherwise a connection is enough |
        /// | `mandatory` | no session goes to a server before its first check has passed |
        /// | `persistent` | accepted after `mandatory`: the results of checks are kept over a reload in any case, as long as the checks stay the same |
        ///
        /// All of a check has to be done within `health_check_timeout`. The connection is made like a session's
        /// connection, with `proxy_bind` and `proxy_ssl`; with `proxy_protocol` it says that it is for no client. One
        /// process makes each check once, whatever the number of loops. Several checks of one group are independent; if
        /// one of them fails, the server is not used.
        ///
        /// With `udp` one datagram is sent, and one of those that come has to be what is expected; with no `expect` any one is. A
        /// server that refuses datagrams (ICMP) has failed. A header of the PROXY protocol is there only in version 2.
        health_check: Option<HealthCheck>, in STREAM_SERVER, own, fidelity = Own;
        /// The longest time of a check.
        health_check_timeout: Duration = "5s", in STREAM | STREAM_SERVER, fidelity = Own;
        /// The bytes that a `health_check` sends to a server, and the answer that has to come from it.
        ///
        /// | line | |
        /// |---|---|
        /// | `send "text";` | is sent at once; `\x0d` is the byte with this number, also in `expect` |
        /// | `expect "text";` | has to be in the first 256 KiB that come, or in one of the datagrams |
        /// | `expect ~ expression;` | has to match them |
        #[name = "match"]
        matches: Matches<Match>, in STREAM, fidelity = Own;
    }
}

/// The settings of a check.
#[derive(Debug, Clone)]
pub struct HealthCheck {
    /// The parameters that all protocols have.
    pub checking: CheckSettings,
    /// The bytes that are sent and expected.
    pub matching: Option<MatchRef<Match>>,
    /// Whether servers are asked by datagrams.
    pub udp: bool,
}

impl Value for HealthCheck {
    const SHAPE: Shape = Shape::at_least(
        0,
        "[interval=time] [jitter=time] [fails=number] [passes=number] [port=number] [mandatory [persistent]] [match=name] [udp]",
    );

    fn parse(directive: &Node, cx: &mut Cx) -> Result<HealthCheck, Problem> {
        let mut check = HealthCheck { checking: CheckSettings::of(directive), matching: None, udp: false };
        for (index, word) in directive.args.iter().enumerate() {
            if check.checking.parameter(directive, index, word)? {
                continue;
            }
            if word.text == "udp" {
                check.udp = true;
                continue;
            }
            let matching = MatchBlocks::of_parameter(word, cx);
            check.matching = Some(matching.ok_or_else(|| Problem::invalid_parameter(directive, word))?);
        }
        Ok(check)
    }
}
