//! The result of a trial: the differences in groups, and the figures.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::comparison::DifferenceKind;
use super::replay::ReplayResult;
use super::request_list::{LineCounts, ReplayedRequest};
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
    pub sources: Vec<String>,
    /// Lines of the logs or the list that are no requests.
    pub lines: LineCounts,
    /// Number of requests that were chosen.
    pub chosen: usize,
    /// Number of requests that were sent to both servers.
    pub sent: usize,
    /// Number of requests with the same answer of both.
    pub same: usize,
    /// Number of requests that neither server has answered.
    pub unanswered: usize,
    /// The first reason why nginx has not answered, if it has not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nginx_error: Option<String>,
    /// Number of answers with a body too long to be compared.
    pub too_long: usize,
    /// The differences, the most frequent ones first.
    pub differences: Vec<DifferenceGroup>,
    /// Number of further differences, which are in none of these groups.
    pub further_differences: usize,
    /// The parts that change from one answer to the next, also in nginx's own answers, with the number of requests.
    pub unstable: BTreeMap<String, usize>,
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
    /// Whether the time was over, or the user had enough, before all were sent.
    pub is_cut: bool,
}

/// The name of a part of an answer.
pub fn part(kind: &DifferenceKind) -> String {
    match kind {
        DifferenceKind::Answer => "answer".to_owned(),
        DifferenceKind::Status => "status".to_owned(),
        DifferenceKind::Field(name) => format!("field {name}"),
        DifferenceKind::Body => "body".to_owned(),
    }
}

impl TrialSummary {
    /// Adds the results. The configuration of `options` explains where each request goes.
    pub fn add(
        &mut self,
        results: &[ReplayResult],
        requests: &[ReplayedRequest],
        listeners: &[SiteListener],
        options: &Options,
    ) {
        self.chosen = requests.len();
        self.sent = results.len();
        self.is_cut = self.sent < self.chosen;
        self.too_long = results.iter().filter(|result| result.is_too_long).count();
        self.unanswered = results.iter().filter(|result| result.has_no_answer).count();
        self.same = results.iter().filter(|result| result.differences.is_empty() && !result.has_no_answer).count();
        self.nginx_error = results.iter().find_map(|result| result.nginx_error.clone());
        for difference in results.iter().flat_map(|result| &result.unstable) {
            *self.unstable.entry(part(&difference.kind)).or_default() += 1;
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

    /// Whether all answers were the same.
    pub fn is_same(&self) -> bool {
        self.differences.is_empty() && self.further_differences == 0
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
}
