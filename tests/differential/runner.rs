//! The runner: starts nginx and the server under test alike, has the same observed of both, and reports what differs.
//!
//! No other file starts the two or judges whether they agree; a test says what is started, what is observed and what counts. Without
//! nginx a test is skipped here. With `FREERUN_TEST_AGAINST=nginx` both are nginx, which shows that a test itself is stable.
//! `FREERUN_TEST_SHOW` prints what came back.

use freerun_testkit::{Kind, Setup, TestServer, check, require};
use std::fmt::{Debug, Display};

/// A value of nginx, and the same one of the server under test.
#[derive(Debug)]
pub struct Both<T> {
    pub nginx: T,
    pub freerun: T,
}

/// Makes a value with each of the two kinds of servers, first with nginx; `None` without nginx.
#[track_caller]
pub fn both<T>(mut make: impl FnMut(Kind) -> T) -> Option<Both<T>> {
    require::nginx().then(|| Both { nginx: make(Kind::Nginx), freerun: make(Kind::under_test()) })
}

/// Starts both servers with this configuration; they run side by side. `None`: nginx, or its module for `stream`, is missing.
#[track_caller]
pub fn start(setup: &Setup) -> Option<Both<TestServer>> {
    is_runnable(setup).then(|| both(|kind| setup.start(kind)))?
}

/// Observes both servers with this configuration, one after the other. `None`: nginx, or its module for `stream`, is missing.
#[track_caller]
pub fn observe<T>(setup: &Setup, mut look: impl FnMut(&mut TestServer) -> T) -> Option<Both<T>> {
    is_runnable(setup).then(|| both(|kind| look(&mut setup.start(kind))))?
}

/// Observes each server with this configuration; without nginx, only the server under test. This is for what each of them
/// has to do, whatever the other one does.
#[track_caller]
pub fn observe_each(setup: &Setup, mut look: impl FnMut(&mut TestServer)) {
    if is_runnable(setup) {
        look(&mut setup.start(Kind::Nginx));
    }
    look(&mut setup.start(Kind::under_test()));
}

#[track_caller]
fn is_runnable(setup: &Setup) -> bool {
    !setup.has_stream() || require::nginx_module("ngx_stream_module").is_some()
}

/// Whether `FREERUN_TEST_SHOW` asks for what came back.
pub fn shows() -> bool {
    std::env::var_os("FREERUN_TEST_SHOW").is_some()
}

impl<T> Both<T> {
    /// Looks at both values, first at nginx's.
    pub fn each<'b, R>(&'b self, mut look: impl FnMut(&'b T) -> R) -> Both<R> {
        Both { nginx: look(&self.nginx), freerun: look(&self.freerun) }
    }

    /// Changes both values.
    pub fn map<R>(self, mut change: impl FnMut(T) -> R) -> Both<R> {
        Both { nginx: change(self.nginx), freerun: change(self.freerun) }
    }
}

impl Both<TestServer> {
    /// The first port of each.
    pub fn ports(&self) -> [u16; 2] {
        [self.nginx.port(), self.freerun.port()]
    }
}

impl<T: PartialEq + Debug> Both<T> {
    /// The difference of the values; `None` if they are the same.
    pub fn difference(&self) -> Option<String> {
        let Both { nginx, freerun } = self;
        (nginx != freerun).then(|| format!("  - {nginx:?}\n  + {freerun:?}\n"))
    }

    /// Has the test fail if the values differ; `case` names what they are of.
    #[track_caller]
    pub fn assert_same(&self, case: impl Display) {
        assert_none(case, self.difference());
    }
}

impl Both<Vec<String>> {
    /// Has the test fail if the lines differ; shows the lines that only one of the two has.
    #[track_caller]
    pub fn assert_same_lines(&self, case: impl Display) {
        assert_none(case, line_difference(&self.nginx, &self.freerun));
    }

    /// Has the test fail if the results of any case differ; `name` names the case with that number.
    #[track_caller]
    pub fn assert_same_cases(&self, name: impl Fn(usize) -> String) {
        let Both { nginx, freerun } = self;
        assert_eq!(nginx.len(), freerun.len(), "numbers of cases: nginx, freerun");
        let mut report = Report::default();
        for (number, (nginx, freerun)) in nginx.iter().zip(freerun).enumerate() {
            report.add(name(number), (nginx != freerun).then(|| format!("  - {nginx}\n  + {freerun}\n")));
        }
        report.finish();
    }
}

#[track_caller]
fn assert_none(case: impl Display, difference: Option<String>) {
    if let Some(difference) = difference {
        panic!("{case}: they differ (- nginx, + freerun)\n{difference}");
    }
}

/// The lines of one and of the other, `-` before a line that only nginx has, `+` before a line that only freerun has; `None` if
/// all are the same.
pub fn line_difference(nginx: &[String], freerun: &[String]) -> Option<String> {
    if nginx == freerun {
        return None;
    }
    let only = |mark: char, some: &[String], others: &[String]| {
        let lines = some.iter().filter(|line| !others.contains(line));
        lines.map(|line| format!("  {mark} {line}\n")).collect::<String>()
    };
    let out = only('-', nginx, freerun) + &only('+', freerun, nginx);
    if !out.is_empty() {
        return Some(out);
    }
    // The same lines, in another order or number.
    let at = nginx.iter().zip(freerun).position(|(one, other)| one != other).unwrap_or(nginx.len().min(freerun.len()));
    let shown = |lines: &[String]| lines.iter().skip(at.saturating_sub(1)).take(6).cloned().collect::<Vec<_>>();
    Some(format!("  in another order: - {:?}\n  + {:?}\n", shown(nginx), shown(freerun)))
}

/// What differs in a case with several things to compare: all their differences, or `None` without one.
pub fn all_differences(differences: &[String]) -> Option<String> {
    (!differences.is_empty()).then(|| differences.concat())
}

/// The cases of a test: their number, and those that differ.
#[derive(Debug, Default)]
pub struct Report {
    total: usize,
    failed: usize,
    text: String,
}

impl Report {
    /// Counts a case. It agrees if there is no difference; one without words is one all the same.
    pub fn add(&mut self, case: impl Display, difference: Option<String>) {
        self.total += 1;
        if let Some(difference) = difference {
            self.failed += 1;
            self.text += &format!("{case}\n{difference}");
            if !difference.ends_with('\n') {
                self.text.push('\n');
            }
        }
    }

    /// Has the test fail if any case differs. The servers have to be gone: on a panic they would print their logs.
    #[track_caller]
    pub fn finish(self) {
        let Report { total, failed, text } = self;
        println!("{total} cases, {failed} differ");
        assert!(failed == 0, "{failed} of {total} cases differ (- nginx, + freerun)\n{text}");
    }
}

/// The answer of `-t` to a configuration.
#[derive(Debug, PartialEq, Eq)]
pub struct Verdict {
    pub code: Option<i32>,
    /// The warnings and the first error, each behind its level in brackets.
    pub lines: Vec<String>,
}

impl Verdict {
    /// Asks a server of this kind for its verdict.
    pub fn of(kind: Kind, text: &str) -> Verdict {
        let checked = check(kind, text).expect("it starts");
        // `nginx: [level] …`, in all of nginx's lines but its own success.
        let lines =
            checked.stderr.lines().filter_map(|line| line.split_once(": [").map(|(_, rest)| format!("[{rest}")));
        // Who checks as root is warned; and freerun does not have all modules of nginx.
        let is_own =
            |line: &String| line.contains("\"user\" directive makes sense") || is_about_missing_module(kind, line);
        Verdict { code: checked.code, lines: lines.filter(|line| !is_own(line)).collect() }
    }

    /// The errors, without their level.
    pub fn errors(&self) -> Vec<&str> {
        self.lines.iter().filter_map(|line| line.strip_prefix("[emerg] ")).collect()
    }

    /// The words of the first error; empty without one.
    pub fn error(&self) -> &str {
        self.lines.iter().find_map(|line| line.strip_prefix("[emerg] ")).unwrap_or_default()
    }

    /// Whether the configuration is accepted.
    pub fn is_accepted(&self) -> bool {
        self.code == Some(0)
    }
}

/// Whether this is the warning of freerun about a module of nginx that it does not have.
fn is_about_missing_module(kind: Kind, line: &str) -> bool {
    let name = line.strip_prefix("[warn] module \"").and_then(|rest| rest.split_once('"'));
    kind == Kind::Freerun
        && name.is_some_and(|(_, rest)| {
            rest.starts_with(" is not loaded: there is no such module, its directives are unknown in ")
        })
}

impl Both<Verdict> {
    /// Whether the verdicts are the same. nginx has no place for what it looks at when all has been read, and is silent about some errors.
    pub fn agree(&self) -> bool {
        let Both { nginx, freerun } = self;
        let is_silent = nginx.code == Some(1) && nginx.lines.is_empty();
        nginx.code == freerun.code && (is_silent || self.have_same_words())
    }

    /// Whether the lines are the same but for the places that nginx does not say.
    pub fn have_same_words(&self) -> bool {
        let (nginx, freerun) = (&self.nginx.lines, &self.freerun.lines);
        nginx.len() == freerun.len() && nginx.iter().zip(freerun).all(|(theirs, ours)| same_words(theirs, ours))
    }
}

/// Whether two errors are the same but for the place, which nginx may not say.
pub fn same_words(nginx: &str, freerun: &str) -> bool {
    let rest = freerun.strip_prefix(nginx);
    let placed = nginx.rsplit(':').next().is_some_and(|line| line.parse::<usize>().is_ok());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(" in ") && !placed)
}

/// Has `-t` of both look at the text of each case, and the test fail where `agree` says so; cases have a name before their text.
#[track_caller]
pub fn compare_verdicts<N: Display>(
    cases: impl IntoIterator<Item = (N, String)>,
    mut agree: impl FnMut(usize, &Both<Verdict>) -> bool,
) {
    let mut report = Report::default();
    for (number, (name, text)) in cases.into_iter().enumerate() {
        let Some(verdicts) = both(|kind| Verdict::of(kind, &text)) else { return };
        let Both { nginx, freerun } = &verdicts;
        let agreed = agree(number, &verdicts);
        report.add(name, (!agreed).then(|| format!("  - {nginx:?}\n  + {freerun:?}\n")));
    }
    report.finish();
}

#[test]
fn lines_that_differ_are_shown_with_their_server() {
    let lines = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let difference = |nginx: &str, freerun: &str| line_difference(&lines(nginx), &lines(freerun));
    assert_eq!(difference("a b", "a b"), None);
    assert_eq!(difference("a b", "a c").as_deref(), Some("  - b\n  + c\n"));
    assert!(difference("a b", "b a").is_some_and(|told| told.starts_with("  in another order: ")));
    assert!(difference("a", "a a").is_some_and(|told| told.starts_with("  in another order: ")));
}

#[test]
fn a_difference_without_words_is_one() {
    let mut report = Report::default();
    report.add("the same", None);
    report.add("another", Some(String::new()));
    assert_eq!((report.total, report.failed), (2, 1));
}
