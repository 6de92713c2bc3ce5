//! `cargo xtask peer FOLDER`: another server's test suite, run against freerun and held against what it passed before.
//!
//! FOLDER has the suite with two programs of its own. `claim BINARY` prints the path of a wrapper that makes BINARY
//! look like the server the suite is for. `run-suite` runs the suite and writes a table of files. Nothing of the suite
//! is part of this repository. See [the page](../../tests/peer/README.md).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The reason why nothing was compared.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// There is no binary to test.
    #[error("{} is not there: `cargo xtask release` or `cargo build --release` makes it", .0.display())]
    NoBinary(PathBuf),
    /// A program of the suite did not start, or said nothing.
    #[error("{}: {reason}", program.display())]
    Failed {
        /// The program.
        program: PathBuf,
        /// The manner in which it ended.
        reason: String,
    },
    /// A file cannot be read.
    #[error("{}: {error}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// The reason.
        error: std::io::Error,
    },
    /// A table has another form.
    #[error("{}:{line}: {what}", path.display())]
    Table {
        /// Which one.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The fault of it.
        what: &'static str,
    },
    /// The list of differences has another form.
    #[error("{}: {error}", path.display())]
    Expected {
        /// Which one.
        path: PathBuf,
        /// The reason.
        error: toml::de::Error,
    },
}

/// The result of a file of the suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Score {
    /// Subtests that pass.
    passed: u32,
    /// Subtests that there are.
    total: u32,
}

/// Files of the suite with their scores.
type Scores = BTreeMap<String, Score>;

/// A deliberate difference of freerun, or a feature that it lacks.
#[derive(Default, serde::Deserialize)]
struct Expectations {
    #[serde(default)]
    difference: Vec<Difference>,
    #[serde(default)]
    missing: Vec<MissingFeature>,
}

/// Something that freerun does not have.
#[derive(serde::Deserialize)]
struct MissingFeature {
    /// Beginning of the names of the files that are about it.
    files: String,
    feature: String,
}

/// A difference that a file of the suite sees.
#[derive(serde::Deserialize)]
struct Difference {
    file: String,
    subtests: Vec<u32>,
    reason: String,
}

/// The result of the comparison.
#[derive(Debug, PartialEq, Eq)]
pub struct Report {
    /// Files that pass fewer subtests than before, or were not run; a line each.
    pub worse: Vec<String>,
    /// Files that pass more.
    pub better: Vec<String>,
    /// Subtests that fail without a reason in the list; a line for each file.
    pub unexplained: Vec<String>,
    /// Subtests passed and subtests in all.
    pub sum: Score,
}

impl std::fmt::Display for Score {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} of {}", self.passed, self.total)
    }
}

/// Runs the suite in `folder` against the release build, and compares.
pub fn run(repository: &Path, folder: &Path) -> Result<Report, PeerError> {
    let ours = repository.join("tests/peer");
    let expected_path = ours.join("expected.toml");
    let expected: Expectations =
        toml::from_str(&read(&expected_path)?).map_err(|error| PeerError::Expected { path: expected_path, error })?;
    let baseline = scores(&ours.join("baseline.tsv"))?;
    let binary = repository.join("target/release/freerun");
    if !binary.exists() {
        return Err(PeerError::NoBinary(binary));
    }
    let claim = folder.join("claim");
    let failed = |program: &Path, reason: String| PeerError::Failed { program: program.to_owned(), reason };
    let claimed = Command::new(&claim).arg(&binary).output().map_err(|error| failed(&claim, error.to_string()))?;
    let wrapper = String::from_utf8_lossy(&claimed.stdout).trim().to_owned();
    if !claimed.status.success() || wrapper.is_empty() {
        return Err(failed(&claim, claimed.status.to_string()));
    }
    let table = repository.join("target/peer.tsv");
    let outputs = repository.join("target/peer");
    let suite = folder.join("run-suite");
    // It fails where a file of the suite does, which is what is compared below.
    let mut command = Command::new(&suite);
    command.args(["-q", "-a"]).arg(folder.join("areas.tsv")).arg("-k").arg(&outputs).arg("-o").arg(&table);
    let _ = (fs::remove_file(&table), fs::remove_dir_all(&outputs));
    fs::create_dir_all(&outputs).map_err(|error| PeerError::File { path: outputs.clone(), error })?;
    command.arg(&wrapper).arg(folder).status().map_err(|error| failed(&suite, error.to_string()))?;
    let now = scores(&table)?;
    let mut report = compare(&baseline, &now);
    for (file, score) in &now {
        let output = read(&outputs.join(format!("{file}.tap")))?;
        report.unexplained.extend(unexplained(file, score.total, &output, &expected));
    }
    for difference in &expected.difference {
        let numbers: Vec<String> = difference.subtests.iter().map(u32::to_string).collect();
        println!("{} ({}): on purpose: {}", difference.file, numbers.join(" "), difference.reason);
    }
    for MissingFeature { files, feature } in &expected.missing {
        println!("{files}…: {feature} is missing");
    }
    Ok(report)
}

/// The subtests of a file that have failed, or were not reached, for no reason in the list. `output` is what the file has
/// written, in the Test Anything Protocol.
fn unexplained(file: &str, total: u32, output: &str, expected: &Expectations) -> Option<String> {
    if expected.missing.iter().any(|missing| file.starts_with(&missing.files)) {
        return None;
    }
    let known: BTreeSet<u32> = expected
        .difference
        .iter()
        .filter(|one| one.file == file)
        .flat_map(|one| one.subtests.iter().copied())
        .collect();
    let number = |line: &str| line.split_whitespace().next()?.parse::<u32>().ok();
    let result = |line: &str| number(line.strip_prefix("not ").unwrap_or(line).strip_prefix("ok ")?);
    let reached: BTreeSet<u32> = output.lines().filter_map(result).collect();
    // What a file marks as TODO fails with the server that the suite is for, too.
    let failed = output.lines().filter(|line| !line.contains("# TODO")).filter_map(|line| line.strip_prefix("not ok "));
    let failed: Vec<String> =
        failed.filter_map(number).filter(|number| !known.contains(number)).map(|number| number.to_string()).collect();
    let left = (1..=total).filter(|number| !reached.contains(number) && !known.contains(number)).count();
    match (failed.is_empty(), left) {
        (true, 0) => None,
        (true, _) => Some(format!("{file}: {left} subtests were not reached")),
        (false, 0) => Some(format!("{file}: {} failed", failed.join(" "))),
        (false, _) => Some(format!("{file}: {} failed, {left} subtests were not reached", failed.join(" "))),
    }
}

fn read(path: &Path) -> Result<String, PeerError> {
    fs::read_to_string(path).map_err(|error| PeerError::File { path: path.to_owned(), error })
}

/// A table whose first line names its columns, `file`, `passed` and `total` among them.
fn scores(path: &Path) -> Result<Scores, PeerError> {
    parse(&read(path)?).map_err(|(line, what)| PeerError::Table { path: path.to_owned(), line, what })
}

fn parse(text: &str) -> Result<Scores, (usize, &'static str)> {
    let mut lines = text.lines().enumerate();
    let heads: Vec<&str> = lines.next().map(|(_, line)| line.split('\t').collect()).unwrap_or_default();
    let column = |name: &str| heads.iter().position(|head| *head == name);
    let (Some(file), Some(passed), Some(total)) = (column("file"), column("passed"), column("total")) else {
        return Err((1, "no columns file, passed and total"));
    };
    let mut scores = Scores::new();
    for (index, line) in lines {
        let cells: Vec<&str> = line.split('\t').collect();
        let number =
            |column: usize| cells.get(column).and_then(|cell| cell.parse().ok()).ok_or((index + 1, "no number"));
        let name = cells.get(file).ok_or((index + 1, "no file"))?;
        scores.insert((*name).to_owned(), Score { passed: number(passed)?, total: number(total)? });
    }
    Ok(scores)
}

fn compare(baseline: &Scores, now: &Scores) -> Report {
    let mut report =
        Report { worse: Vec::new(), better: Vec::new(), unexplained: Vec::new(), sum: Score { passed: 0, total: 0 } };
    for (file, before) in baseline {
        match now.get(file) {
            None => report.worse.push(format!("{file}: was not run")),
            Some(score) if score.passed < before.passed => {
                report.worse.push(format!("{file}: {score}, before {before}"));
            }
            Some(score) if score.passed > before.passed => {
                report.better.push(format!("{file}: {score}, before {before}"));
            }
            Some(_) => {}
        }
    }
    for score in now.values() {
        report.sum.passed += score.passed;
        report.sum.total += score.total;
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_passes_less_or_is_missing_is_worse() {
        let before = parse("file\tpassed\ttotal\na.t\t3\t4\nb.t\t2\t2\nc.t\t0\t0\nd.t\t1\t1\n").unwrap();
        let now = parse("file\tresult\tpassed\ttotal\na.t\tFAIL\t2\t4\nb.t\tPASS\t2\t2\nc.t\tFAIL\t1\t9\n").unwrap();
        let report = compare(&before, &now);
        assert_eq!(report.worse, ["a.t: 2 of 4, before 3 of 4", "d.t: was not run"]);
        assert_eq!(report.better, ["c.t: 1 of 9, before 0 of 0"]);
        assert_eq!(report.sum, Score { passed: 5, total: 15 });
    }

    #[test]
    fn what_fails_needs_a_reason() {
        let text = "[[difference]]\nfile = \"a.t\"\nsubtests = [2]\nreason = \"so\"\n\
                    [[missing]]\nfiles = \"mail\"\nfeature = \"mail\"\n";
        let expected: Expectations = toml::from_str(text).unwrap();
        let output = "1..4\nok 1 - one\nnot ok 2 - two\nnot ok 3 - three # TODO not yet\n";
        let look = |file, total, more: &str| unexplained(file, total, &format!("{output}{more}"), &expected);
        assert_eq!(look("a.t", 4, "ok 4 - four\n"), None);
        assert_eq!(look("a.t", 4, "not ok 4 - four\n").unwrap(), "a.t: 4 failed");
        assert_eq!(look("a.t", 4, "").unwrap(), "a.t: 1 subtests were not reached");
        assert_eq!(look("b.t", 5, "not ok 4\n").unwrap(), "b.t: 2 4 failed, 1 subtests were not reached");
        // The file ends before the subtest that has a reason.
        assert_eq!(unexplained("a.t", 2, "1..2\nok 1 - one\n", &expected), None);
        assert_eq!(look("mail_ssl.t", 9, ""), None);
        assert_eq!(unexplained("c.t", 0, "1..0 # SKIP no c\n", &expected), None);
    }

    #[test]
    fn tables_of_another_form_are_refused() {
        assert_eq!(parse("").unwrap_err(), (1, "no columns file, passed and total"));
        assert_eq!(parse("file\tpassed\ttotal\na.t\t1\n").unwrap_err(), (2, "no number"));
    }

    #[test]
    fn the_list_and_the_baseline_can_be_read() {
        let ours = crate::repository().join("tests/peer");
        let baseline = scores(&ours.join("baseline.tsv")).unwrap();
        let expected: Expectations = toml::from_str(&read(&ours.join("expected.toml")).unwrap()).unwrap();
        for difference in expected.difference {
            let score = baseline.get(&difference.file).unwrap_or_else(|| panic!("no {}", difference.file));
            let lost = u32::try_from(difference.subtests.len()).unwrap();
            assert!(lost > 0 && score.passed + lost <= score.total.max(lost), "{}", difference.file);
            assert!(!difference.reason.is_empty(), "{}", difference.file);
        }
    }
}
