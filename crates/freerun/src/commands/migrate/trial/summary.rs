//! The result of a trial: the differences in groups, and the figures.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::comparison::DifferenceKind;
use super::replay::{ReplayEnd, ReplayResult, ReplayResults, UnstableParts};
use super::request_list::{LineCounts, ReplayedRequest, RequestSource};
use super::sites::SiteListener;
use crate::cli::{ExplainRequest, Options};
use crate::commands::explain::{Explainer, Explanation, parse_request};
use crate::quoting::shell_quoted;

/// The most groups; the requests of further ones are counted.
const MAX_GROUPS: usize = 200;

/// The most requests that are explained, so that their location is known.
const MAX_EXPLAINED: usize = 2000;

/// Steps of an explanation that decide nothing about an answer.
const OTHER_STEPS: [&str; 4] = ["access_log", "limit_rate", "limit_rate_after", "listen"];

/// Differences of one kind at one location.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct DifferenceGroup {
    /// The part of the answer that differs.
    pub kind: DifferenceKind,
    /// Number of requests.
    pub count: usize,
    /// The part in nginx's answer to the first request.
    pub nginx: String,
    /// The part in freerun's answer to it.
    pub freerun: String,
    /// A sentence that says in which way they differ there.
    pub reason: String,
    /// The first name of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The location.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// The places, `FILE:LINE`, of the location or the server and of the directive that decides, each with the directive.
    pub places: Vec<String>,
    /// The command that sends the first request to nginx.
    pub example: String,
}

/// The times of the answers of a server, in milliseconds.
#[derive(Debug, Default, PartialEq, Serialize)]
pub struct AnswerTimes {
    /// The median.
    pub median_ms: f64,
    /// The time that 99 of 100 answers have not taken.
    pub p99_ms: f64,
}

/// The result of a trial.
#[derive(Debug, Default, Serialize)]
pub struct TrialSummary {
    /// The main file of the configuration.
    pub configuration: String,
    /// The logs or the list that the requests come from.
    pub sources: Vec<RequestSource>,
    /// The paths of logs that no request comes from, each with the reason.
    pub unused: Vec<(String, String)>,
    /// The paths of long logs: their ends alone were read.
    pub ends: Vec<String>,
    /// Lines of the logs or the list that are no requests.
    pub lines: LineCounts,
    /// Number of requests that were chosen.
    pub chosen: usize,
    /// Number of requests that were sent to both servers.
    pub sent: usize,
    /// Number of requests with the same answer of both.
    pub same: usize,
    /// Number of requests whose answers differ.
    pub different: usize,
    /// Number of requests that neither server has answered.
    pub unanswered: usize,
    /// The first reason why nginx has not answered, if it has not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nginx_error: Option<String>,
    /// Number of requests whose answers both have a body too long to be compared.
    pub too_long: usize,
    /// Number of requests whose answers could not be compared, since parts of them change.
    pub unstable_requests: usize,
    /// The differences, the most frequent ones first.
    pub differences: Vec<DifferenceGroup>,
    /// Number of further differences, which are in none of these groups.
    pub further_differences: usize,
    /// The parts that change from one answer to the next, also in nginx's own answers, or differ only at times.
    pub unstable: UnstableParts,
    /// The addresses that no request was sent to, each with the reason.
    pub left_out: Vec<(String, &'static str)>,
    /// Sentences about what is in the trial as it will not be.
    pub notes: Vec<String>,
    /// Directives that do another thing with their values than in nginx, whatever the answers are.
    pub differing_directives: Vec<String>,
    /// The times of nginx.
    pub nginx: AnswerTimes,
    /// The times of the server that was tried.
    pub freerun: AnswerTimes,
    /// The reason why no more requests were sent.
    pub end: ReplayEnd,
}

/// The result of a trial in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrialOutcome {
    /// All requests that were chosen have the same answer of both.
    Same,
    /// Some answers differ, or could not be compared.
    Differs,
    /// Nothing was compared.
    Nothing,
}

impl TrialSummary {
    /// Adds the results. The configuration of `options` explains where each request goes.
    pub fn add(
        &mut self,
        results: ReplayResults,
        requests: &[ReplayedRequest],
        listeners: &[SiteListener],
        options: &Options,
    ) {
        let ReplayResults { results, unstable, nginx_error, end } = results;
        (self.unstable, self.nginx_error, self.end) = (unstable, nginx_error, end);
        (self.chosen, self.sent) = (requests.len(), results.len());
        // Each request is counted once; only what was compared in all its parts can be the same.
        for result in &results {
            let count = match result {
                result if !result.differences.is_empty() => &mut self.different,
                result if result.has_no_answer => &mut self.unanswered,
                result if result.is_unstable => &mut self.unstable_requests,
                result if result.is_too_long => &mut self.too_long,
                _ => &mut self.same,
            };
            *count += 1;
        }
        let times = |choose: fn(&(Duration, Duration)) -> Duration| {
            let mut times: Vec<Duration> =
                results.iter().filter_map(|result| result.times.as_ref()).map(choose).collect();
            AnswerTimes::of(&mut times)
        };
        (self.nginx, self.freerun) = (times(|times| times.0), times(|times| times.1));
        let mut different: Vec<&ReplayResult> =
            results.iter().filter(|result| !result.differences.is_empty()).collect();
        if different.is_empty() {
            return;
        }
        // The first request of a group does not depend on which answer came first.
        different.sort_by_key(|result| result.request);
        // A request that cannot be explained is in a group without a place.
        let explainer = Explainer::start(options, None).ok();
        let mut groups: BTreeMap<(Option<String>, Option<String>, DifferenceKind, String), usize> = BTreeMap::new();
        for (number, result) in different.into_iter().enumerate() {
            let request = &requests[result.request];
            let listener = &listeners[request.listener];
            let explanation = explainer.as_ref().filter(|_| number < MAX_EXPLAINED);
            let explanation = explanation.and_then(|explainer| explain(explainer, request, listener));
            let explanation = explanation.unwrap_or_default();
            for difference in &result.differences {
                let shape = shape(difference);
                let key = (explanation.server.clone(), explanation.location.clone(), difference.kind.clone(), shape);
                if let Some(group) = groups.get(&key) {
                    self.differences[*group].count += 1;
                    continue;
                }
                if self.differences.len() >= MAX_GROUPS {
                    self.further_differences += 1;
                    continue;
                }
                groups.insert(key, self.differences.len());
                self.differences.push(DifferenceGroup {
                    kind: difference.kind.clone(),
                    count: 1,
                    nginx: difference.nginx.clone(),
                    freerun: difference.freerun.clone(),
                    reason: difference.reason.clone(),
                    server: explanation.server.clone().filter(|name| !name.is_empty()),
                    location: explanation.location.clone(),
                    places: places(&explanation),
                    example: curl(request, listener),
                });
            }
        }
        if let Some(explainer) = explainer {
            explainer.stop();
        }
        self.differences.sort_by(|one, other| other.count.cmp(&one.count).then_with(|| one.kind.cmp(&other.kind)));
    }

    /// Number of requests that were chosen and not compared, or not in all parts.
    pub fn not_compared(&self) -> usize {
        self.chosen.saturating_sub(self.same + self.different)
    }

    /// The result in one word. What was not compared is not the same.
    pub fn outcome(&self) -> TrialOutcome {
        match self {
            summary if summary.chosen > 0 && summary.same == summary.chosen => TrialOutcome::Same,
            summary if summary.same + summary.different + summary.unstable_requests + summary.too_long == 0 => {
                TrialOutcome::Nothing
            }
            _ => TrialOutcome::Differs,
        }
    }
}

impl AnswerTimes {
    fn of(times: &mut [Duration]) -> AnswerTimes {
        times.sort_unstable();
        let at = |share: f64| {
            let place = (times.len() as f64 * share).ceil() as usize;
            let time = times.get(place.saturating_sub(1)).copied().unwrap_or_default();
            // Microseconds are enough.
            (time.as_secs_f64() * 1e6).round() / 1e3
        };
        AnswerTimes { median_ms: at(0.5), p99_ms: at(0.99) }
    }
}

/// The manner in which a part differs: another status is another group, another value of a field is not.
fn shape(difference: &super::comparison::Difference) -> String {
    let is_absent = |text: &str| text == "absent";
    match difference.kind {
        DifferenceKind::Field(_) => format!("{} {}", is_absent(&difference.nginx), is_absent(&difference.freerun)),
        DifferenceKind::Status => {
            let code = |text: &str| text.split(' ').next().unwrap_or_default().to_owned();
            format!("{} {}", code(&difference.nginx), code(&difference.freerun))
        }
        DifferenceKind::Answer => format!("{} {}", difference.nginx, difference.freerun),
        DifferenceKind::Body => String::new(),
    }
}

/// The way of a request through the configuration.
fn explain(explainer: &Explainer, request: &ReplayedRequest, listener: &SiteListener) -> Option<Explanation> {
    let scheme = if listener.is_tls { "https" } else { "http" };
    let (host, port) = (request.host(), listener.written.port());
    let asked = parse_request(&format!("{} {scheme}://{host}:{port}{}", request.method, request.target)).ok()?;
    let text = |(name, value): &(String, Vec<u8>)| format!("{name}: {}", freerun_conf::text_of(value));
    let fields = std::iter::once(format!("Host: {}", request.authority)).chain(request.fields.iter().map(text));
    let options = ExplainRequest {
        fields: fields.collect(),
        to: Some(listener.reached.to_string()),
        ..ExplainRequest::default()
    };
    explainer.explain(asked, &options).ok()
}

/// The place of the location, or else of the server, and of the last directive before the answer.
fn places(explanation: &Explanation) -> Vec<String> {
    let step = |kind: &str| explanation.steps.iter().rev().find(|step| step.kind == kind && step.place.is_some());
    let block = step("location").or_else(|| step("server"));
    let decides = explanation.steps.iter().rev();
    let decides = decides.filter(|step| !OTHER_STEPS.contains(&step.kind.as_str())).find(|step| step.place.is_some());
    let mut places = Vec::new();
    for step in [block, decides].into_iter().flatten() {
        let text = match step.kind.as_str() {
            "server" => format!("server {}", step.text),
            kind if step.text.starts_with(kind) => step.text.clone(),
            kind => format!("{kind} {}", step.text),
        };
        let line = format!("{} ({})", text.trim_end(), step.place.as_deref().unwrap_or_default());
        if !places.contains(&line) {
            places.push(line);
        }
    }
    places
}

/// The command that sends a request to nginx.
fn curl(request: &ReplayedRequest, listener: &SiteListener) -> String {
    let (scheme, usual) = if listener.is_tls { ("https", 443) } else { ("http", 80) };
    let insecure = if listener.is_tls { "k" } else { "" };
    let mut command = match request.method.as_str() {
        "GET" => format!("curl -si{insecure} --path-as-is"),
        "HEAD" => format!("curl -sI{insecure} --path-as-is"),
        method => format!("curl -si{insecure} --path-as-is -X {method}"),
    };
    for (name, value) in &request.fields {
        command += &format!(" -H {}", shell_quoted(&format!("{name}: {}", freerun_conf::text_of(value))));
    }
    let nginx = listener.nginx;
    let port = request.authority[request.host().len()..].strip_prefix(':').and_then(|port| port.parse().ok());
    if format!("{}:{}", request.host(), port.unwrap_or(usual)) != nginx.to_string() {
        command += &format!(" --connect-to ::{nginx}");
    }
    format!("{command} {}", shell_quoted(&format!("{scheme}://{}{}", request.authority, request.target)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_ranks() {
        let mut times: Vec<Duration> = (1..=200).rev().map(Duration::from_millis).collect();
        assert_eq!(AnswerTimes::of(&mut times), AnswerTimes { median_ms: 100.0, p99_ms: 198.0 });
        assert_eq!(AnswerTimes::of(&mut []), AnswerTimes::default());
    }

    #[test]
    fn a_request_becomes_a_command() {
        let listener = |nginx: &str, is_tls| {
            let nginx = nginx.parse().expect("an address");
            SiteListener { written: nginx, reached: nginx, nginx, freerun: nginx, is_tls }
        };
        let request = |authority: &str, fields: &[(&str, &str)]| ReplayedRequest {
            method: "GET".to_owned(),
            target: "/it's?a".to_owned(),
            authority: authority.to_owned(),
            listener: 0,
            fields: fields.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec())).collect(),
        };
        let command = curl(&request("a.example", &[("accept", "x")]), &listener("127.0.0.1:443", true));
        let expected =
            "curl -sik --path-as-is -H 'accept: x' --connect-to ::127.0.0.1:443 'https://a.example/it'\\''s?a'";
        assert_eq!(command, expected);
        let command = curl(&request("127.0.0.1:8080", &[]), &listener("127.0.0.1:8080", false));
        assert_eq!(command, "curl -si --path-as-is 'http://127.0.0.1:8080/it'\\''s?a'");
    }

    #[test]
    fn what_was_not_compared_is_not_the_same() {
        let result = |request| ReplayResult {
            request,
            differences: Vec::new(),
            is_unstable: false,
            times: None,
            has_no_answer: false,
            is_too_long: false,
        };
        let request = || ReplayedRequest {
            method: "GET".to_owned(),
            target: "/".to_owned(),
            authority: "a".to_owned(),
            listener: 0,
            fields: Vec::new(),
        };
        let outcome = |results: Vec<ReplayResult>| {
            let mut summary = TrialSummary::default();
            let results = ReplayResults { results, ..ReplayResults::default() };
            summary.add(results, &[request(), request()], &[], &Options::default());
            (summary.outcome(), summary.same, summary.not_compared())
        };
        assert_eq!(outcome(vec![result(0), result(1)]), (TrialOutcome::Same, 2, 0));
        // The time was over.
        assert_eq!(outcome(vec![result(0)]), (TrialOutcome::Differs, 1, 1));
        assert_eq!(outcome(Vec::new()), (TrialOutcome::Nothing, 0, 2));
        let unstable = || ReplayResult { is_unstable: true, ..result(1) };
        let too_long = || ReplayResult { is_too_long: true, ..result(1) };
        let unanswered = || ReplayResult { has_no_answer: true, ..result(1) };
        for other in [unstable(), too_long(), unanswered()] {
            assert_eq!(outcome(vec![result(0), other]), (TrialOutcome::Differs, 1, 1));
        }
        assert_eq!(outcome(vec![unstable(), too_long()]), (TrialOutcome::Differs, 0, 2));
        assert_eq!(outcome(vec![unanswered(), unanswered()]), (TrialOutcome::Nothing, 0, 2));
    }
}
