//! The observer that makes an explanation of the way of a request.

use std::cell::{Cell, RefCell};

use freerun_conf::text_of;
use freerun_http::content::path;
use freerun_http::request::Request;
use freerun_http::request::handler::{Outcome, Phase};
use freerun_http::request::location::Location;
use freerun_http::request::observer::{ObservedStep, Observer};
use freerun_http::request::response::{Body, Response};
use freerun_http::route::{LocationTrial, TrialKind};
use freerun_http::script::Action;
use freerun_modules::precontent::try_files;
use freerun_proto::{Method, Status};
use freerun_proxy::description::{self, PassDescription};

use super::directives::{WrittenDirective, WrittenDirectives};
use super::explanation::ExplainedStep;
use super::handlers::{HandlerPart, words_of};

/// The files that a `try_files` has looked for, for the machine to be asked about.
#[derive(Debug)]
pub struct LookedFor {
    /// The index of the step.
    pub step: usize,
    /// The paths, and whether each has to be a folder.
    pub files: Vec<(Vec<u8>, bool)>,
}

/// The results of an observation.
#[derive(Debug, Default)]
pub struct Observations {
    /// The steps.
    pub steps: Vec<ExplainedStep>,
    /// The files of `try_files`.
    pub looked_for: Vec<LookedFor>,
    /// The request that is passed on.
    pub pass: Option<PassDescription>,
    /// The file that is sent.
    pub file: Option<Vec<u8>>,
    /// The assumptions.
    pub assumptions: Vec<String>,
}

/// The observer.
pub struct Trace<'d> {
    directives: &'d WrittenDirectives,
    observed: RefCell<Observations>,
    /// The locations that were tried since the last choice began.
    tried: RefCell<Vec<String>>,
    /// The position of the location that the last step about a location has named.
    at: Cell<u32>,
    /// The status of the last answer, before `error_page`, and the position of the location that has given it.
    answered: Cell<(u16, u32)>,
}

impl<'d> Trace<'d> {
    /// An observer of a request to this configuration.
    pub fn new(directives: &'d WrittenDirectives) -> Trace<'d> {
        let (observed, tried, at, answered) = Default::default();
        Trace { directives, observed, tried, at, answered }
    }

    /// The results of an observation.
    pub fn finish(self) -> Observations {
        self.observed.into_inner()
    }

    fn push(&self, step: ExplainedStep) {
        self.observed.borrow_mut().steps.push(step);
    }

    /// A step about the directive at this position.
    fn step(&self, kind: &str, order: u32, result: String) -> ExplainedStep {
        let written = self.directives.get(order);
        let text = written.map(|written| written.text.clone()).unwrap_or_default();
        let place = written.and_then(|written| written.place.clone());
        ExplainedStep { kind: kind.to_owned(), text, place, result, details: Vec::new() }
    }

    /// Names the location of the request, unless the last step about one has named it.
    fn note_location(&self, request: &Request) {
        let location = &request.place.location;
        if self.at.replace(location.order) == location.order {
            return;
        }
        let written = self.directives.get(location.order);
        if written.is_some_and(|written| written.name == "if") {
            // The step about the condition has named it.
            return;
        }
        let tried = self.tried.take();
        let mut step = if written.is_some_and(|written| written.name == "server") {
            let text = "none: the directives of the server apply".to_owned();
            ExplainedStep { kind: "location".to_owned(), text, ..ExplainedStep::default() }
        } else {
            self.step("location", location.order, String::new())
        };
        if let Some((order, outer)) = self.directives.around(location.order, "location")
            && order != location.order
        {
            step.kind = step.text.split(' ').next().unwrap_or_default().to_owned();
            step.result = format!("inside \"{}\"", outer.text);
        }
        if location.internal && !request.place.internal {
            step.result = "it is internal, and the request comes from a client".to_owned();
        }
        step.details = tried;
        self.push(step);
    }

    /// The directives of a handler that apply at the request's location.
    fn written_of(&self, request: &Request, names: &[&str]) -> Vec<&'d WrittenDirective> {
        names.iter().flat_map(|name| self.directives.in_force(request.place.location.order, name)).collect()
    }

    /// A step about the handler of a module.
    fn handler_step(&self, request: &Request, module: &str, result: String) -> ExplainedStep {
        let written = words_of(module).map(|words| self.written_of(request, words.directives)).unwrap_or_default();
        let kind = match module {
            "static" => "file",
            module => written.last().map_or(module, |written| written.name.as_str()),
        };
        match &written[..] {
            [] => ExplainedStep { kind: kind.to_owned(), text: module.to_owned(), result, ..ExplainedStep::default() },
            [one] => ExplainedStep {
                kind: kind.to_owned(),
                text: one.text.clone(),
                place: one.place.clone(),
                result,
                details: Vec::new(),
            },
            several => {
                let line = |written: &&WrittenDirective| match &written.place {
                    Some(place) => format!("{}  ({place})", written.text),
                    None => written.text.clone(),
                };
                let kind = if module == "access" { "access" } else { kind };
                let details = several.iter().map(line).collect();
                let text = format!("{} directives", several.len());
                ExplainedStep { kind: kind.to_owned(), text, place: None, result, details }
            }
        }
    }

    fn assume(&self, assumption: &str) {
        let assumptions = &mut self.observed.borrow_mut().assumptions;
        if !assumptions.iter().any(|known| known == assumption) {
            assumptions.push(assumption.to_owned());
        }
    }

    /// Describes the request that a module of the family passes on.
    fn pass(&self, request: &Request, module: &str) -> Outcome {
        let pass = match description::describe(request, module) {
            Ok(pass) => pass,
            Err(outcome) => {
                let result = format!("the request cannot be passed on: {}", Trace::result(Phase::Content, &outcome));
                self.push(self.handler_step(request, module, result));
                return outcome;
            }
        };
        let result = match pass.servers.as_str() {
            "" => "the name is looked up by the resolver when the request comes".to_owned(),
            servers => format!("to {}{servers}", pass.scheme),
        };
        let mut step = self.handler_step(request, module, result);
        if let Some(group) = self.directives.named_block("upstream", &pass.servers) {
            for server in self.directives.children(group) {
                let place = server.place.as_ref().map(|place| format!("  ({place})")).unwrap_or_default();
                step.details.push(format!("upstream {}: {}{place}", pass.servers, server.text));
            }
            self.assume("which server of the group is chosen depends on the requests before, and on their health");
        }
        if let Some(key) = &pass.cache_key {
            let bypassed = if pass.is_bypassed { "; the cache is not looked at" } else { "" };
            let unstored = if pass.is_unstored { "; the response is not stored" } else { "" };
            step.details.push(format!("cache key: {}{bypassed}{unstored}", text_of(key)));
            if !pass.is_bypassed {
                self.assume("nothing is stored in the cache");
            }
        }
        step.details.extend(lines(&pass.text).map(|line| format!("> {line}")));
        self.push(step);
        self.observed.borrow_mut().pass = Some(pass);
        Response::new(Status::OK, &b""[..], Body::Empty).into()
    }

    /// The result of a handler in words.
    fn result(phase: Phase, outcome: &Outcome) -> String {
        match outcome {
            Outcome::Declined if phase == Phase::Access => "no rule applies".to_owned(),
            Outcome::Declined => "the request goes on".to_owned(),
            Outcome::Allowed => "the request may pass".to_owned(),
            Outcome::Response(response) => format!("answers {}", response.status.code()),
            Outcome::Status(status) if phase == Phase::Access => format!("refused: {}", status.code()),
            Outcome::Status(status) => format!("answers {}", status.code()),
            Outcome::ClientRedirect(status, location) => {
                format!("answers {} with Location: {}", status.code(), text_of(location))
            }
            Outcome::Redirect(path, args) => format!("goes on with {}", uri(path, args.as_deref())),
            Outcome::Named(name) => format!("goes on in {name}"),
            Outcome::Close => "closes the connection".to_owned(),
        }
    }

    /// The value of a variable, by its name without `$`.
    fn value(&self, request: &Request, name: &str) -> Option<String> {
        let variable = request.generation.http.variables.find(&name.to_ascii_lowercase())?;
        variable.get(request).map(|value| text_of(&value).into_owned())
    }
}

/// A URI as text.
pub fn uri(path: &[u8], args: Option<&[u8]>) -> String {
    match args {
        Some(args) if !args.is_empty() => format!("{}?{}", text_of(path), text_of(args)),
        _ => text_of(path).into_owned(),
    }
}

/// The lines of a head, without the empty one at its end.
pub fn lines(head: &[u8]) -> impl Iterator<Item = String> {
    let lines = head.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    lines.filter(|line| !line.is_empty()).map(|line| text_of(line).into_owned())
}

impl Observer for &Trace<'_> {
    fn stand_in(self, request: &mut Request, handler: usize) -> Option<Outcome> {
        self.note_location(request);
        let module = request.place.location.handler_modules[handler];
        let phase = request.place.location.handlers[handler].phase;
        let part = words_of(module).map_or(HandlerPart::Answers, |words| words.part);
        let is_reading = matches!(request.asked.method, Method::Get | Method::Head);
        match part {
            // Documents of DAV are files, as others are.
            HandlerPart::Answers if matches!(module, "dav" | "dav_ext") && is_reading => return None,
            HandlerPart::Runs
                if module == "auth_jwt" && !self.written_of(request, &["auth_jwt_key_request"]).is_empty() => {}
            HandlerPart::Runs => {
                if module == "try_files" {
                    let files = try_files::candidates(request);
                    let step = self.observed.borrow().steps.len();
                    self.observed.borrow_mut().looked_for.push(LookedFor { step, files });
                }
                return None;
            }
            _ => {}
        }
        Some(match part {
            HandlerPart::PassesOn if phase == Phase::Content => self.pass(request, module),
            HandlerPart::Answers if phase == Phase::Content => {
                self.push(self.handler_step(request, module, "answers what a running server knows".to_owned()));
                self.assume("the answer of a handler that only a running server knows has status 200");
                Response::new(Status::OK, &b""[..], Body::Empty).into()
            }
            HandlerPart::Runs | HandlerPart::Passes => {
                self.push(self.handler_step(request, module, "known when the request comes".to_owned()));
                self.assume("another server lets the request pass");
                Outcome::Allowed
            }
            HandlerPart::PassesOn | HandlerPart::Answers | HandlerPart::LeftOut => {
                self.push(self.handler_step(request, module, "takes no part in the answer".to_owned()));
                Outcome::Declined
            }
        })
    }

    fn handled(self, request: &Request, handler: usize, outcome: &Outcome) {
        let module = request.place.location.handler_modules[handler];
        let phase = request.place.location.handlers[handler].phase;
        let result = Trace::result(phase, outcome);
        let is_declined = matches!(outcome, Outcome::Declined);
        match module {
            "index" | "autoindex" | "fancyindex" | "random_index" | "gzip_static" | "mp4" | "flv" | "static"
            | "dav" | "dav_ext"
                if is_declined => {}
            "realip" => {
                let result = format!("the client's address is {}", freerun_http::log::Peer(request.peer()));
                if request.has_real_peer() {
                    self.push(self.handler_step(request, module, result));
                }
            }
            "try_files" if is_declined => {
                let result = format!("goes on with {}", uri(&request.asked.path, request.asked.args.as_deref()));
                self.push(self.handler_step(request, module, result));
            }
            _ => {
                let step = self.handler_step(request, module, result);
                let is_file = matches!(module, "static" | "gzip_static" | "index" | "autoindex" | "mp4" | "flv");
                if !is_file {
                    return self.push(step);
                }
                let file = path::file_name(request);
                let root = ["alias", "root"]
                    .iter()
                    .find_map(|name| self.directives.in_force(request.place.location.order, name).first().copied());
                let by = root.map(|root| match &root.place {
                    Some(place) => format!("{}  ({place})", root.text),
                    None => root.text.clone(),
                });
                let text = text_of(&file).into_owned();
                let kind = if matches!(outcome, Outcome::Response(_)) { "file" } else { step.kind.as_str() };
                let kind = kind.to_owned();
                self.push(ExplainedStep { kind, text, place: None, details: by.into_iter().collect(), ..step });
                if matches!(outcome, Outcome::Response(_)) {
                    self.observed.borrow_mut().file = Some(file);
                }
            }
        }
    }

    fn before_choice(self, _: &Request) {
        self.tried.borrow_mut().clear();
        self.at.set(0);
    }

    fn tried(self, trial: &LocationTrial<'_, Location>) {
        let written = self.directives.get(trial.location.order);
        let text = written.map_or(trial.location.name.as_str(), |written| written.text.as_str());
        let result = match (trial.kind, trial.applies) {
            (TrialKind::Exact, _) => "is the path",
            (TrialKind::LongestPrefix, _) if trial.location.no_regex => {
                "is the longest prefix, and no expression is tried after it"
            }
            (TrialKind::LongestPrefix, _) => "is the longest prefix",
            (TrialKind::Folder, _) => "is the path with a slash, and the client is sent there",
            (TrialKind::Regex, true) => "matches",
            (TrialKind::Regex, false) => "does not match",
            (TrialKind::Predicate, true) => "holds",
            (TrialKind::Predicate, false) => "does not hold",
        };
        let place = written.and_then(|written| written.place.as_ref()).map(|place| format!("  ({place})"));
        self.tried.borrow_mut().push(format!("{text}{}: {result}", place.unwrap_or_default()));
    }

    fn entered(self, request: &Request) {
        self.note_location(request);
    }

    fn stepped(self, request: &Request, order: u32, step: ObservedStep<'_>) {
        let name = self.directives.get(order).map_or("script", |written| written.name.as_str());
        let asked = &request.asked;
        let result = match step {
            ObservedStep::Condition(true) => "holds".to_owned(),
            ObservedStep::Condition(false) => "does not hold".to_owned(),
            ObservedStep::Rewrite(_, false) => "does not match".to_owned(),
            ObservedStep::Rewrite(rule, true) if rule.redirects() => "matches; the client is redirected".to_owned(),
            ObservedStep::Rewrite(_, true) => {
                format!("matches; the URI is now {}", uri(&asked.path, asked.args.as_deref()))
            }
            ObservedStep::Act(Action::Return(answer)) => format!("answers {}", answer.status.code()),
            ObservedStep::Act(Action::Break) => "ends the script".to_owned(),
            ObservedStep::Act(_) => {
                let variable = self.directives.get(order).and_then(|written| written.args.first());
                let variable = variable.and_then(|word| word.strip_prefix('$'));
                match variable.and_then(|name| Some((name, self.value(request, name)?))) {
                    Some((name, value)) => format!("${name} is now \"{value}\""),
                    None => "has run".to_owned(),
                }
            }
        };
        if !matches!(step, ObservedStep::Condition(_)) {
            self.note_location_of_server(request);
        }
        self.push(self.step(name, order, result));
        // The settings of an `if` apply from here on, which the step says.
        self.at.set(request.place.location.order);
    }

    fn failed(self, request: &Request, status: Status) {
        self.answered.set((status.code(), request.place.location.order));
    }

    fn answered(self, request: &Request, response: &Response) {
        self.answered.set((response.status.code(), request.place.location.order));
    }

    fn replaced(self, request: &Request) {
        let (status, order) = self.answered.get();
        let status = status.to_string();
        let pages = self.directives.in_force(order, "error_page");
        let names_it = |page: &&&WrittenDirective| page.args.contains(&status);
        let page = pages.iter().find(names_it).or(pages.first());
        let result =
            format!("{status} is replaced: goes on with {}", uri(&request.asked.path, request.asked.args.as_deref()));
        let (text, place) = page.map(|page| (page.text.clone(), page.place.clone())).unwrap_or_default();
        self.push(ExplainedStep { kind: "error_page".to_owned(), text, place, result, details: Vec::new() });
        self.observed.borrow_mut().pass = None;
        self.observed.borrow_mut().file = None;
    }
}

impl Trace<'_> {
    /// A script of the server runs before a location is chosen: it needs no step about one.
    fn note_location_of_server(&self, request: &Request) {
        if request.place.location.is(&request.place.server.entry) {
            self.at.set(request.place.location.order);
        } else {
            self.note_location(request);
        }
    }
}
