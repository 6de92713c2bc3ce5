//! The directives `health_check` and `match`.

use std::time::Duration;

use freerun_conf::{Cx, Node, Problem, Shape, Value, Word, parse_time, settings};
use freerun_serve::upstream::health::{CheckSettings, MatchBlocks, MatchRef, Matches};
use freerun_serve::upstream::number;

use crate::health::grpc;
use crate::health::grpc::GrpcCheck;
use crate::health::matching::MatchTests;

settings! {
    /// Requests that check all the time whether servers are healthy.
    #[module = "health_check"]
    pub struct HealthSettings {
        /// Sends requests to each server of the group that the location's `proxy_pass`, `grpc_pass`, `fastcgi_pass`,
        /// `uwsgi_pass` or `scgi_pass` names, and does not use servers whose responses fail the tests.
        ///
        /// | parameter | |
        /// |---|---|
        /// | `interval=T` | pause between two checks of a server, 5 seconds by default |
        /// | `jitter=T` | each check is delayed by up to T more, at random |
        /// | `fails=N`, `passes=N` | so many failures, or passes, in a row change the state; 1 by default |
        /// | `uri=/path` | the URI that is requested, `/` by default |
        /// | `port=N` | another port of the server |
        /// | `match=name` | the `match` block that the response has to pass; otherwise its status has to be 2xx or 3xx |
        /// | `mandatory` | no request is sent to a server before its first check has passed |
        /// | `persistent` | accepted after `mandatory`: the results of checks are kept over a reload in any case, as long as the checks stay the same |
        /// | `keepalive_time=T` | checks use one connection for that long |
        /// | `type=grpc` | each check is a call of gRPC's health service, which has to answer `SERVING`; instead of `uri` and `match` |
        /// | `grpc_service=name` | with `type=grpc`: the service that is asked about, by default the whole server |
        /// | `grpc_status=N` | with `type=grpc`: the check passes if the call ends with this status, such as `12` of servers without the health service |
        ///
        /// The request has the fields of `proxy_set_header` (the parameters of `fastcgi_param`); variables about the
        /// client are empty. The timeouts are the location's. One process sends each check once, whatever the number of
        /// loops. Several checks of one group are independent; if one of them fails, the server is not used.
        health_check: Option<HealthCheck>, in LOCATION, own, fidelity = Own;
        /// Tests that a response to a `health_check` has to pass, all of them.
        ///
        /// | test | |
        /// |---|---|
        /// | `status 200-399 404;`, `status ! 500;` | the status is, or is not, one of these |
        /// | `header Name;`, `header ! Name;` | there is such a field, or none |
        /// | `header Name = text;`, `!=` | there is one with this value, or with another one |
        /// | `header Name ~ expression;`, `!~` | there is one with a value that matches, or does not |
        /// | `body ~ expression;`, `!~` | the first 256 KiB of the body match, or do not |
        /// | `require $variable …;` | all of these are neither empty nor `0`; `$upstream_status` and `$upstream_http_…` can be used |
        #[name = "match"]
        matches: Matches<MatchTests>, in HTTP, fidelity = Own;
    }
}

/// The settings of a check.
#[derive(Debug, Clone)]
pub struct HealthCheck {
    /// The parameters that all protocols have.
    pub checking: CheckSettings,
    /// The URI that is asked for.
    pub uri: String,
    /// The tests that the response has to pass.
    pub matching: Option<MatchRef<MatchTests>>,
    /// Time for which a connection is used.
    pub keepalive_time: Option<Duration>,
    /// The question to gRPC's health service, instead of the URI.
    pub grpc: Option<GrpcCheck>,
}

impl Value for HealthCheck {
    const SHAPE: Shape = Shape::at_least(
        0,
        "[interval=time] [jitter=time] [fails=number] [passes=number] [port=number] [mandatory [persistent]] [uri=uri] \
         [match=name] [keepalive_time=time] [type=grpc [grpc_service=name] [grpc_status=code]]",
    );

    fn parse(directive: &Node, cx: &mut Cx) -> Result<HealthCheck, Problem> {
        let mut check = HealthCheck {
            checking: CheckSettings::of(directive),
            uri: "/".to_owned(),
            matching: None,
            keepalive_time: None,
            grpc: None,
        };
        for (index, word) in directive.args.iter().enumerate() {
            check.parameter(directive, index, word, cx)?;
        }
        check.settle_type(directive)?;
        Ok(check)
    }
}

impl HealthCheck {
    fn parameter(&mut self, directive: &Node, index: usize, word: &Word, cx: &mut Cx) -> Result<(), Problem> {
        if self.checking.parameter(directive, index, word)? {
            return Ok(());
        }
        if let Some(matching) = MatchBlocks::of_parameter(word, cx) {
            self.matching = Some(matching);
            return Ok(());
        }
        let invalid = || Problem::invalid_parameter(directive, word);
        match word.text.split_once('=').unwrap_or((&word.text, "")) {
            ("uri", value) if is_uri(value) => self.uri = value.to_owned(),
            ("keepalive_time", value) => self.keepalive_time = Some(parse_time(value).ok_or_else(invalid)?),
            ("type", "grpc") => drop(self.grpc.get_or_insert_default()),
            ("grpc_service", name) => self.grpc.get_or_insert_default().service = name.to_owned(),
            ("grpc_status", value) => {
                let status = number(value).ok_or_else(invalid)?;
                self.grpc.get_or_insert_default().status = status;
            }
            _ => return Err(invalid()),
        }
        Ok(())
    }

    /// Checks that the parameters are of one type of check.
    fn settle_type(&mut self, directive: &Node) -> Result<(), Problem> {
        if self.grpc.is_none() {
            return Ok(());
        }
        let of = |start: &'static str| directive.args.iter().find(move |word| word.text.starts_with(start));
        if let Some(word) = of("grpc_").filter(|_| of("type=").is_none()) {
            let problem = Problem::new(format!("\"{}\" stands without \"type=grpc\"", word.text));
            return Err(problem.at(word.place));
        }
        if let Some(word) = of("uri=").or_else(|| of("match=")) {
            let problem = Problem::new(format!("\"{}\" cannot stand beside \"type=grpc\"", word.text));
            return Err(problem.at(word.place));
        }
        grpc::PATH.clone_into(&mut self.uri);
        Ok(())
    }
}

/// Whether the text can stand in a request line.
fn is_uri(text: &str) -> bool {
    text.starts_with('/') && text.bytes().all(|byte| byte > b' ' && byte != 0x7f)
}
