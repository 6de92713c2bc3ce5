//! The survey of a configuration of nginx: it looks up every directive in the tables, and tries the rest as a start
//! would.
//!
//! A directive that the tables do not have is noted and taken out. The rest is built; a directive with an error is
//! noted and taken out, too, and the rest is built again, until it has no errors.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use freerun_conf::{
    Block, Contexts, Fidelity, Loader, Node, Place, Problem, Severity, Sources, Tree, missing, module_of, unmarked,
};
use freerun_serve::configuration::zones::Zones;
use serde::Serialize;

use super::concern;
use crate::commands::check;
use crate::commands::reference::variables;
use crate::configuration::{KnownFacts, Side, build_tree, registry};
use crate::source::Input;
use crate::source::loader::Recorder;

/// The most attempts to build the configuration, each without what was wrong before.
const MAX_ROUNDS: usize = 64;

/// After how many messages about values, files and names the search for further ones ends.
const MAX_MESSAGES: usize = 200;

/// The note about a host that has no address.
const NOT_NEEDED: &str = "a server starts without it, and uses it as soon as it has an address";

/// For how many unknown names similar ones are looked for.
const MAX_COMPARED: usize = 500;

/// The result. Lists of directives have the most used ones first.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Survey {
    /// The main file.
    pub configuration: String,
    /// Number of files that were read, the main file included.
    pub files: usize,
    /// Number of directives, `include` not counted.
    pub directives: usize,
    /// Number of directives that work, though perhaps not as in nginx, or that are accepted without effect.
    pub accepted: usize,
    /// Directives that are the same as in nginx, or that nginx does not have.
    pub works: Vec<UsedName>,
    /// Directives that work, with a difference that concerns what is written.
    pub differs: Vec<UsedName>,
    /// Directives that work, with a difference that what is written does not meet.
    pub differs_in_principle: Vec<UsedName>,
    /// Directives that are accepted and have no effect.
    pub no_effect: Vec<UsedName>,
    /// Directives that freerun does not have.
    pub missing: Vec<UsedName>,
    /// Variables of nginx that freerun does not have.
    pub missing_variables: Vec<UsedName>,
    /// Other reasons to refuse a start.
    pub refused: Vec<SurveyMessage>,
    /// Files, hosts and users that the configuration needs and this machine does not have, and what files that are not
    /// there may define.
    pub not_found: Vec<SurveyMessage>,
    /// Warnings of a start.
    pub warnings: Vec<SurveyMessage>,
    /// Number of the things not found that would keep a server from starting on this machine.
    pub needed_to_start: usize,
    /// Whether so much was refused that not all of it was looked for.
    pub may_be_more: bool,
    /// Whether a directive without effect is there whose effect somebody may miss.
    #[serde(skip)]
    is_effect_missed: bool,
}

/// A name and its uses.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct UsedName {
    /// The directive, or the variable with its `$`.
    pub name: String,
    /// Number of times that it is written.
    pub uses: usize,
    /// The place of the first use, `FILE:LINE`.
    pub first: String,
    /// The module that has it, of what is missing and known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module: Option<&'static str>,
    /// The difference, the reason, or what to do instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub told: Option<String>,
}

/// A message about one place.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct SurveyMessage {
    /// The message, in nginx's words where nginx has some.
    pub message: String,
    /// `FILE:LINE`, if it is about a place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// Advice for the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

/// The result in a number, which is the exit code of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Everything that is written works as in nginx.
    Works = 0,
    /// All of it is accepted, but something that is written does another thing than in nginx.
    Differs = 1,
    /// A server would not start: something is missing or refused, or this machine lacks a file or a user.
    Missing = 2,
}

impl Survey {
    /// The result in a number.
    pub fn verdict(&self) -> Verdict {
        if !self.is_accepted() || self.needed_to_start > 0 {
            Verdict::Missing
        } else if self.differs.is_empty() && !self.is_effect_missed {
            Verdict::Works
        } else {
            Verdict::Differs
        }
    }

    /// Whether freerun has all that the configuration names. A machine that has the files as well could start a server.
    pub fn is_accepted(&self) -> bool {
        self.missing.is_empty() && self.missing_variables.is_empty() && self.refused.is_empty()
    }

    /// Reads a configuration.
    ///
    /// # Errors
    /// The main file cannot be read.
    pub fn of(input: &Input, loader: &mut dyn Loader) -> Result<Survey, Problem> {
        let mut files = IncludeLoader { loader, problems: Vec::new() };
        let mut tree = freerun_conf::parse(&input.conf, input.globals.as_deref(), &input.conf_prefix, &mut files);
        if tree.sources.iter().all(|source| source.command_line)
            && let Some(error) = tree.error
        {
            return Err(error);
        }
        let sources = tree.sources.clone();
        let mut survey = Survey {
            configuration: input.conf.clone(),
            files: sources.iter().filter(|source| !source.command_line).count(),
            directives: count(&tree.nodes),
            ..Survey::default()
        };
        let absent = std::mem::take(&mut files.problems);
        survey.not_found.extend(absent.iter().map(|problem| SurveyMessage::of(problem, &sources)));
        survey.needed_to_start = survey.not_found.len();
        if let Some(error) = tree.error.take() {
            let mut told = SurveyMessage::of(&error, &sources);
            told.help.get_or_insert("what follows the error is not in this report".to_owned());
            survey.refused.push(told);
        }
        let mut tables = Tables::new(&sources);
        tables.variables(&tree.nodes);
        let mut removed = RemovedNames::default();
        tables.take_missing(&mut tree.nodes, Contexts::MAIN, &mut removed);
        let mut wrong = HashSet::new();
        let whole = std::mem::take(&mut tree.nodes);
        let mut rest = whole.clone();
        for round in 1.. {
            let attempt = Tree { nodes: rest.clone(), ..tree.clone() };
            let (known, zones) = (KnownFacts::default(), Zones::default());
            let failure = match build_tree(input, attempt, files.loader, Side::Master, known, zones) {
                Ok(built) => {
                    let warnings = built.warnings.iter().filter(|warning| warning.level == Severity::Warn);
                    survey.warnings.extend(warnings.map(|warning| SurveyMessage::of(warning, &sources)));
                    survey.not_found.extend(check::unknown_names(&built).iter().map(|name| {
                        let mut told = SurveyMessage::of(name, &sources);
                        told.help.get_or_insert_with(|| NOT_NEEDED.to_owned());
                        told
                    }));
                    break;
                }
                Err(failure) => failure,
            };
            let mut culprits = Vec::new();
            for problem in failure.problems.iter() {
                let culprit = culprit(&rest, problem);
                let mut told = SurveyMessage::of(problem, &sources);
                if !removed.explains(problem) && !tables.explains(problem) {
                    let is_elsewhere = !absent.is_empty() && is_undefined(problem);
                    if is_elsewhere {
                        told.help = Some("an included file that was not found may have it".to_owned());
                    }
                    let is_absent = is_elsewhere || is_of_machine(problem);
                    let list = if is_absent { &mut survey.not_found } else { &mut survey.refused };
                    if !list.contains(&told) {
                        list.push(told);
                        survey.needed_to_start += usize::from(is_absent);
                        wrong.extend(culprit.filter(|_| !is_absent).map(|node| node.order));
                    }
                }
                culprits.extend(culprit.map(|node| (node.order, node.block.is_some())));
            }
            // A block goes only if nothing smaller does.
            let has_leaf = culprits.iter().any(|(_, is_block)| !is_block);
            let orders: HashSet<u32> =
                culprits.iter().filter(|(_, is_block)| !(has_leaf && *is_block)).map(|(order, _)| *order).collect();
            if orders.is_empty() || !remove(&mut rest, &orders, &mut removed) {
                break;
            }
            if round >= MAX_ROUNDS || survey.refused.len() + survey.not_found.len() >= MAX_MESSAGES {
                survey.may_be_more = true;
                break;
            }
        }
        tables.classify(&whole, Contexts::MAIN, &wrong);
        let lost = tables.lost + wrong.len();
        survey.accepted = survey.directives.saturating_sub(lost);
        survey.is_effect_missed = tables.is_effect_missed;
        let Tables { works, differs, differs_in_principle, no_effect, missing, missing_variables, .. } = tables;
        survey.works = works.list();
        survey.differs = differs.list();
        survey.differs_in_principle = differs_in_principle.list();
        survey.no_effect = no_effect.list();
        survey.missing = missing.list();
        survey.missing_variables = missing_variables.list();
        Ok(survey)
    }
}

impl SurveyMessage {
    fn of(problem: &Problem, sources: &Sources) -> SurveyMessage {
        let place = problem.reported.or(problem.place).and_then(|place| sources.location(place));
        SurveyMessage { message: problem.message.clone(), place, help: problem.hint.clone() }
    }
}

/// The files of a configuration. An included file that cannot be read is noted.
struct IncludeLoader<'l> {
    loader: &'l mut dyn Loader,
    problems: Vec<Problem>,
}

impl Loader for IncludeLoader<'_> {
    fn load(&mut self, path: &str) -> std::io::Result<Vec<u8>> {
        self.loader.load(path)
    }

    fn glob(&mut self, pattern: &str) -> std::io::Result<Vec<String>> {
        self.loader.glob(pattern)
    }

    fn goes_on_without(&mut self, problem: &Problem) -> bool {
        self.problems.push(problem.clone());
        true
    }
}

/// The files on the disk.
pub fn disk() -> impl Loader {
    Recorder::default()
}

fn count(nodes: &[Node]) -> usize {
    nodes.iter().map(|node| 1 + inside(node)).sum()
}

/// The directives inside a block; what a directive reads itself, such as the entries of `map`, are none.
fn inside(node: &Node) -> usize {
    let is_raw = registry().named(&node.name.text).next().is_some_and(|known| known.shape.block == Block::Raw);
    if is_raw { 0 } else { count(node.children()) }
}

/// Uses of one name, by the note about it.
#[derive(Default)]
struct Uses(BTreeMap<(String, Option<String>), UsedName>);

impl Uses {
    fn add(&mut self, name: &str, told: Option<String>, first: String, module: Option<&'static str>) {
        let new = || UsedName { name: name.to_owned(), uses: 0, first, module, told: told.clone() };
        self.0.entry((name.to_owned(), told.clone())).or_insert_with(new).uses += 1;
    }

    /// The note about a name that was met before.
    fn note_of(&self, name: &str) -> Option<Option<String>> {
        let ((known, told), _) = self.0.range((name.to_owned(), None)..).next()?;
        (known == name).then(|| told.clone())
    }

    fn list(self) -> Vec<UsedName> {
        let mut list: Vec<UsedName> = self.0.into_values().collect();
        list.sort_by(|a, b| b.uses.cmp(&a.uses).then_with(|| a.name.cmp(&b.name)));
        list
    }
}

/// The directives by what the tables say of them.
struct Tables<'s> {
    sources: &'s Sources,
    works: Uses,
    differs: Uses,
    differs_in_principle: Uses,
    no_effect: Uses,
    missing: Uses,
    missing_variables: Uses,
    /// The directives that are missing, those inside of them included.
    lost: usize,
    /// Number of different names that were compared with all known ones.
    compared: usize,
    /// Whether a directive without effect is there whose effect somebody may miss.
    is_effect_missed: bool,
}

impl<'s> Tables<'s> {
    fn new(sources: &'s Sources) -> Tables<'s> {
        let (works, differs, differs_in_principle, no_effect) = Default::default();
        let (missing, missing_variables) = Default::default();
        Tables {
            sources,
            works,
            differs,
            differs_in_principle,
            no_effect,
            missing,
            missing_variables,
            lost: 0,
            compared: 0,
            is_effect_missed: false,
        }
    }

    fn place(&self, place: Place) -> String {
        self.sources.location(place).unwrap_or_default()
    }

    /// Takes out the directives that no table has, with what is inside of them.
    fn take_missing(&mut self, nodes: &mut Vec<Node>, context: Contexts, removed: &mut RemovedNames) {
        nodes.retain_mut(|node| {
            let name = node.name.text.as_str();
            if !registry().knows(name) {
                // Similar names are looked for once, and not for each use; and not without end, as each of them is compared
                // with all that there are.
                let advice = match self.missing.note_of(name) {
                    Some(told) => told,
                    None if self.compared >= MAX_COMPARED => None,
                    None => {
                        self.compared += 1;
                        missing(registry(), context, node).hint
                    }
                };
                let first = self.place(node.name.place);
                self.missing.add(name, advice, first, module_of(name));
                self.lost += 1 + inside(node);
                removed.add(node);
                return false;
            }
            if let Some((known, children)) = registry().lookup(name, context).zip(node.block.as_mut())
                && let Block::Inside(inner) = known.shape.block
            {
                self.take_missing(children, inner, removed);
            }
            true
        });
    }

    /// Sorts the directives by how they compare with nginx's, but for those that are `wrong`. What is inside of a wrong block
    /// may be right.
    fn classify(&mut self, nodes: &[Node], context: Contexts, wrong: &HashSet<u32>) {
        for node in nodes {
            // One in a wrong place was reported as refused.
            let Some(known) = registry().lookup(&node.name.text, context) else { continue };
            if !wrong.contains(&node.order) {
                let first = self.place(node.name.place);
                let (uses, told) = match known.fidelity {
                    Fidelity::Same | Fidelity::Own => (&mut self.works, None),
                    Fidelity::Differs(how) if concern::differs(node) => (&mut self.differs, Some(unmarked(how))),
                    Fidelity::Differs(how) => (&mut self.differs_in_principle, Some(unmarked(how))),
                    Fidelity::NoEffect(why) => {
                        self.is_effect_missed |= concern::is_missed(node);
                        (&mut self.no_effect, Some(unmarked(why)))
                    }
                };
                uses.add(known.name, told, first, None);
            }
            if let Block::Inside(inner) = known.shape.block {
                self.classify(node.children(), inner, wrong);
            }
        }
    }

    /// Notes the variables of nginx that freerun lacks and that no directive defines.
    fn variables(&mut self, nodes: &[Node]) {
        let mut lacking: BTreeMap<&str, &'static str> = BTreeMap::new();
        for (module, names) in variables::missing() {
            // Of those that `http` and `stream` have, the module of `http` comes first.
            for name in names {
                lacking.entry(name).or_insert(module);
            }
        }
        let defined = definitions(nodes);
        self.uses_of(nodes, &lacking, &defined);
    }

    fn uses_of(&mut self, nodes: &[Node], lacking: &BTreeMap<&str, &'static str>, defined: &BTreeSet<String>) {
        Node::each(nodes, &mut |node| {
            for word in std::iter::once(&node.name).chain(&node.args) {
                for name in variables_in(&word.text) {
                    if let Some((name, module)) = lacking.get_key_value(name.as_str())
                        && !defined.contains(*name)
                    {
                        let first = self.place(word.place);
                        self.missing_variables.add(&format!("${name}"), None, first, Some(module));
                    }
                }
            }
        });
    }

    /// Whether a problem is that a variable is unknown which is in the list of those that are missing.
    fn explains(&self, problem: &Problem) -> bool {
        let name = problem.message.strip_prefix("unknown \"").and_then(|rest| rest.strip_suffix("\" variable"));
        name.is_some_and(|name| self.missing_variables.0.contains_key(&(format!("${name}"), None)))
    }
}

/// Directives that give a variable among their arguments a value.
const DEFINING: &[&str] =
    &["set", "map", "num_map", "geo", "split_clients", "keyval", "auth_request_set", "js_set", "perl_set"];

/// The variables that directives define.
fn definitions(nodes: &[Node]) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    Node::each(nodes, &mut |node| {
        if DEFINING.contains(&node.name.text.as_str()) {
            let names = node.args.iter().filter_map(|word| word.text.strip_prefix('$'));
            all.extend(names.map(str::to_ascii_lowercase));
        }
    });
    all
}

/// The names of the variables in a text, in lower case.
fn variables_in(text: &str) -> impl Iterator<Item = String> {
    text.split('$').skip(1).map(|rest| {
        let rest = rest.strip_prefix('{').unwrap_or(rest);
        let end = rest.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(rest.len());
        rest[..end].to_ascii_lowercase()
    })
}

/// The words of directives that were taken out: others may refer to what these define.
#[derive(Default)]
struct RemovedNames(HashSet<String>);

/// Beginnings of messages about something that another directive should have defined.
const UNDEFINED: &[&str] =
    &["unknown \"", "unknown log format \"", "zero size shared memory zone ", "no ", "host not found "];

fn is_undefined(problem: &Problem) -> bool {
    UNDEFINED.iter().any(|begin| problem.message.starts_with(begin))
}

impl RemovedNames {
    fn add(&mut self, node: &Node) {
        self.0.insert(node.name.text.clone());
        for word in &node.args {
            let parts = word.text.split(['=', ':', '$']).filter(|part| !part.is_empty());
            self.0.extend(parts.map(str::to_owned));
            self.0.insert(word.text.clone());
        }
        for child in node.children() {
            self.add(child);
        }
    }

    /// Whether a problem is one only because something was taken out.
    fn explains(&self, problem: &Problem) -> bool {
        let message = problem.message.as_str();
        let quoted = message.split('"').skip(1).step_by(2);
        // In `no proxy_ssl_trusted_certificate for proxy_ssl_verify` nothing is quoted.
        let mut names = quoted.chain(message.strip_prefix("no ").and_then(|rest| rest.split(' ').next()));
        is_undefined(problem) && names.any(|name| self.0.contains(name))
    }
}

/// Words of messages about what the machine does not have.
const OF_MACHINE: &[&str] =
    &["No such file or directory", "Permission denied", "host not found in", "getpwnam(", "getgrnam("];

fn is_of_machine(problem: &Problem) -> bool {
    OF_MACHINE.iter().any(|words| problem.message.contains(words))
}

/// The directive that a problem is about: the innermost one.
fn culprit<'n>(nodes: &'n [Node], problem: &Problem) -> Option<&'n Node> {
    nodes.iter().find_map(|node| {
        let words = || std::iter::once(&node.name).chain(&node.args);
        let is_named = problem.order == Some(node.order) || words().any(|word| Some(word.place) == problem.place);
        culprit(node.children(), problem).or(is_named.then_some(node))
    })
}

/// The blocks that are never taken out: without them there is no configuration.
const KEPT: &[&str] = &["events", "http", "stream"];

/// Takes out directives by their position; whether any was there.
fn remove(nodes: &mut Vec<Node>, orders: &HashSet<u32>, removed: &mut RemovedNames) -> bool {
    let before = nodes.len();
    nodes.retain(|node| {
        let stays = !orders.contains(&node.order) || KEPT.contains(&node.name.text.as_str());
        if !stays {
            removed.add(node);
        }
        stays
    });
    let mut any = nodes.len() < before;
    for block in nodes.iter_mut().filter_map(|node| node.block.as_mut()) {
        any |= remove(block, orders, removed);
    }
    any
}
