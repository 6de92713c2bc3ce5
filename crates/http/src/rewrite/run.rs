//! Running a script.

use freerun_conf::text_of;
use freerun_proto::Status;
use freerun_proto::uri::{EscapeSet, escape_into};
use freerun_runtime::files::FileError;
use freerun_serve::loops::local::LoopLocal;
use freerun_serve::values::Comparison;

use crate::content::open;
use crate::content::open_error::OpenError;
use crate::log_error;
use crate::regex::{GaveUp, Pattern};
use crate::request::Request;
use crate::request::handler::Outcome;
use crate::request::location::Location;
use crate::request::observer::{ObservedStep, Observer};
use crate::rewrite::RewriteSettings;
use crate::rewrite::replace::{self, NextStep};
use crate::rewrite::returns;
use crate::script::condition::{Condition, FileTest, Test};
use crate::script::{Action, Assignment, ScriptStep};
use crate::template::Template;
use crate::variables::RequestSetTarget;

/// The log line for a request that has entered an `if` that passes requests on, and then an `if` without content. As in
/// nginx it is answered with 500: a file, which may be the source of a program, is not what the first block is for.
const CONTENT_LOST: &str =
    "the last \"if\" that was entered does not say what makes the content, as an earlier one does";

/// The result of a script.
pub enum ScriptEnd {
    /// The request stays where it is.
    Stays,
    /// The path was changed: a location has to be found for it.
    Moved,
    /// The script has an answer.
    Answer(Outcome),
}

/// The reason why a script pauses.
enum Pause {
    Ended(ScriptEnd),
    /// The attributes of a file are needed, which may take a wait.
    File(FileTest, Vec<u8>),
}

/// The state of a running script.
struct ScriptRun {
    outer: LoopLocal<Location>,
    next: usize,
    /// The location of the current `if`, and the next step in it.
    inner: Option<(LoopLocal<Location>, usize)>,
    moved: bool,
    /// Whether captures are escaped for `set`, which ends when a `rewrite` has matched.
    quotes: bool,
    /// The origin of the content, as the `if` blocks that were entered say it.
    content: BranchContent,
}

/// The origin of the content, as the `if` blocks that were entered say it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BranchContent {
    /// No block has said how.
    Unsaid,
    /// The last block says how.
    Said,
    /// A block has said how, and a later one, which applies, does not.
    Lost,
}

/// The result of a script that begins with `return`: most scripts have no other directive.
pub fn at_once<O: Observer>(request: &mut Request, observer: O) -> Option<ScriptEnd> {
    let location = request.place.location.clone();
    match location.script.first() {
        Some(ScriptStep::Act(action @ Action::Return(answer), order)) => {
            let answer = returns::answer(answer, request);
            observer.stepped(request, *order, ObservedStep::Act(action));
            Some(ScriptEnd::Answer(answer))
        }
        _ => None,
    }
}

/// Runs the script of the request's location. If an `if` in it holds, the request is in the location of that `if`
/// afterwards.
pub async fn script<O: Observer>(request: &mut Request, observer: O) -> ScriptEnd {
    let mut run = ScriptRun {
        outer: request.place.location.clone(),
        next: 0,
        inner: None,
        moved: false,
        quotes: true,
        content: BranchContent::Unsaid,
    };
    let mut holds = None;
    loop {
        match run.advance(request, holds.take(), observer) {
            Pause::Ended(ScriptEnd::Stays) if run.content == BranchContent::Lost => {
                log_error!(request, Error, "{CONTENT_LOST}");
                return ScriptEnd::Answer(Outcome::Status(Status::INTERNAL_SERVER_ERROR));
            }
            Pause::Ended(ended) => return ended,
            Pause::File(test, path) => match Box::pin(open::stat(request, &path)).await {
                Ok(meta) => holds = Some(test.holds(&meta)),
                Err(OpenError::File(error @ FileError::Pool(_))) => {
                    return ScriptEnd::Answer(Outcome::Status(OpenError::File(error).status()));
                }
                Err(error) => {
                    if let OpenError::File(system) = &error
                        && !error.is_missing()
                    {
                        log_error!(request, Crit, "{}", system.describe(&path));
                    }
                    holds = Some(false);
                }
            },
        }
    }
}

/// Whether the path that the client sent has a `%` or a `+`.
fn had_escapes(request: &Request) -> bool {
    if request.is_subrequest() {
        return false;
    }
    let target = request.head.uri();
    let end = memchr::memchr(b'?', target).unwrap_or(target.len());
    memchr::memchr2(b'%', b'+', &target[..end]).is_some()
}

impl ScriptRun {
    /// Continues the script, with the answer about the file that it had paused for.
    fn advance<O: Observer>(&mut self, request: &mut Request, mut file: Option<bool>, observer: O) -> Pause {
        loop {
            let (location, at) = match &self.inner {
                Some((location, next)) => (location.clone(), *next),
                None => (self.outer.clone(), self.next),
            };
            let Some(step) = location.script.get(at) else {
                if self.inner.take().is_some() {
                    continue;
                }
                return Pause::Ended(if self.moved { ScriptEnd::Moved } else { ScriptEnd::Stays });
            };
            match step {
                ScriptStep::If(condition, branch, order) => {
                    let holds = match (file.take(), &condition.test) {
                        (Some(holds), _) => Ok(holds),
                        (None, Test::File(test, path)) => {
                            return Pause::File(*test, self.text(request, path));
                        }
                        (None, _) => self.holds(request, condition),
                    };
                    let holds = match holds {
                        Ok(holds) => holds,
                        Err(error) => return Pause::Ended(ScriptEnd::Answer(gave_up(request, &error))),
                    };
                    self.next += 1;
                    let holds = holds != condition.negative;
                    observer.stepped(request, *order, ObservedStep::Condition(holds));
                    if holds {
                        self.content = match self.content {
                            _ if branch.has_content => BranchContent::Said,
                            BranchContent::Unsaid => BranchContent::Unsaid,
                            BranchContent::Said | BranchContent::Lost => BranchContent::Lost,
                        };
                        request.place.location = request.generation.location(branch);
                        self.inner = Some((request.place.location.clone(), 0));
                    }
                }
                ScriptStep::Act(action, order) => {
                    match &mut self.inner {
                        Some((_, next)) => *next += 1,
                        None => self.next += 1,
                    }
                    if let Some(ended) = self.act(request, action, *order, observer) {
                        return Pause::Ended(ended);
                    }
                }
            }
        }
    }

    fn act<O: Observer>(
        &mut self,
        request: &mut Request,
        action: &Action<Request>,
        order: u32,
        observer: O,
    ) -> Option<ScriptEnd> {
        let ended = match action {
            Action::Break => Some(ScriptEnd::Stays),
            Action::Return(answer) => Some(ScriptEnd::Answer(returns::answer(answer, request))),
            Action::Set(target, value) => self.set(request, *target, value).map(ScriptEnd::Answer),
            Action::Assign(assignment) => self.assign(request, assignment).map(ScriptEnd::Answer),
            Action::Rewrite(rule) => {
                let logs = logs(request);
                let matched = matches(request, &rule.pattern, &rule.text, &request.asked.path);
                match matched {
                    Ok(true) => {}
                    Ok(false) => {
                        observer.stepped(request, order, ObservedStep::Rewrite(rule, false));
                        return None;
                    }
                    Err(error) => return Some(ScriptEnd::Answer(gave_up(request, &error))),
                }
                self.quotes = rule.redirects();
                let next = replace::apply(rule, request, had_escapes(request), logs);
                observer.stepped(request, order, ObservedStep::Rewrite(rule, true));
                return match next {
                    NextStep::Goes => {
                        self.moved = true;
                        None
                    }
                    NextStep::Ended { find: true } => Some(ScriptEnd::Moved),
                    NextStep::Ended { find: false } => Some(ScriptEnd::Stays),
                    NextStep::Answer(outcome) => Some(ScriptEnd::Answer(outcome)),
                };
            }
        };
        observer.stepped(request, order, ObservedStep::Act(action));
        ended
    }

    fn set(&self, request: &mut Request, target: RequestSetTarget, value: &Template) -> Option<Outcome> {
        match target {
            RequestSetTarget::Slot(slot) => {
                let kept = if value.has_captures() {
                    request.values().set(slot, &self.text(request, value))
                } else {
                    request.values().set(slot, &value.render(request))
                };
                kept.err().map(|error| fails(request, &error))
            }
            RequestSetTarget::Call(set) => {
                let value = self.text(request, value);
                set(request, &value);
                None
            }
        }
    }

    fn assign(&self, request: &mut Request, assignment: &Assignment<Request>) -> Option<Outcome> {
        let arguments: Vec<Vec<u8>> = assignment.arguments.iter().map(|value| self.text(request, value)).collect();
        match (assignment.calculate)(request, &arguments) {
            Ok(None) => None,
            Ok(Some(value)) => match assignment.target {
                RequestSetTarget::Slot(slot) => {
                    request.values().set(slot, &value).err().map(|error| fails(request, &error))
                }
                RequestSetTarget::Call(set) => {
                    set(request, &value);
                    None
                }
            },
            Err(why) => Some(fails(request, &why)),
        }
    }

    /// A value of the script, with captures escaped as long as `quotes` is set.
    fn text(&self, request: &Request, value: &Template) -> Vec<u8> {
        let escapes = self.quotes && value.has_captures() && had_escapes(request);
        let mut out = Vec::new();
        value.render_with(request, &mut out, |capture, out| {
            if escapes { escape_into(EscapeSet::Args, capture, out) } else { out.extend_from_slice(capture) }
        });
        out
    }

    fn holds(&self, request: &Request, condition: &Condition<Request>) -> Result<bool, GaveUp> {
        // The caller looks at files.
        let Test::Compare(comparison) = &condition.test else { return Ok(false) };
        match comparison {
            Comparison::Equal(variable, wanted) if wanted.has_captures() => {
                Ok(*variable.get(request).unwrap_or_default() == self.text(request, wanted))
            }
            Comparison::Match(variable, pattern, text) => {
                let value = variable.get(request).unwrap_or_default();
                matches(request, pattern, text, &value)
            }
            comparison => comparison.holds(request),
        }
    }
}

/// Logs why a variable gets no value.
fn fails(request: &Request, why: &dyn std::fmt::Display) -> Outcome {
    log_error!(request, Error, "{why}");
    Outcome::Status(Status::INTERNAL_SERVER_ERROR)
}

fn logs(request: &Request) -> bool {
    request.settings().get::<RewriteSettings>().rewrite_log
}

/// Matches an expression of the script; without a match, `$1` to `$9` are cleared.
fn matches(request: &Request, pattern: &Pattern, text: &str, subject: &[u8]) -> Result<bool, GaveUp> {
    let matched = pattern.matches(subject, &request.captures)?;
    if logs(request) {
        let verb = if matched { "matches" } else { "does not match" };
        log_error!(request, Notice, "\"{text}\" {verb} \"{}\"", text_of(subject));
    }
    if !matched {
        request.captures.clear();
    }
    Ok(matched)
}

fn gave_up(request: &Request, error: &GaveUp) -> Outcome {
    log_error!(request, Alert, "{error} on \"{}\"", text_of(&request.asked.path));
    Outcome::Status(Status::INTERNAL_SERVER_ERROR)
}
