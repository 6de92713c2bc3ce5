//! The folders of a crate have an order, as crates have layers: who reads one does not have to know what is above it.
//!
//! The order is in `xtask/tidy.toml`, from the bottom to the top, with two numbers that may only fall. These are the
//! imports that lead upward (*arrows against the order*), and the sizes of the circles of imports. A file, a folder
//! (`path/route`) or a top-level file has a place; places on one step do not import each other.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::allow::{self, Exceptions};
use super::imports::Graph;
use super::source::Source;
use super::{Problem, Tree, manifests};

/// The most files of one folder that may import each other in a circle. Larger circles have to be listed.
const MAX_CIRCLE: usize = 6;

/// The most files of several folders, all of one place, that may do so.
const MAX_SPREAD_CIRCLE: usize = 3;

/// The order of one crate's folders, as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FolderOrder {
    /// The crate's folder: `crates/http/`.
    pub(crate) folder: String,
    /// The line of the entry.
    pub(crate) line: usize,
    /// From the bottom to the top; each step has one place or several.
    pub(crate) steps: Vec<Vec<String>>,
    /// The number of imports that may lead upward.
    pub(crate) arrows: usize,
    /// The sizes of the circles there may be beyond [`MAX_CIRCLE`] and [`MAX_SPREAD_CIRCLE`], the largest first.
    pub(crate) circles: Vec<usize>,
}

/// The imports against an order.
#[derive(Debug, Default)]
struct OrderFindings {
    /// Importing file, its line, the file it imports.
    arrows: Vec<(String, usize, String)>,
    /// The files of each circle that is too large, the largest first.
    circles: Vec<Vec<String>>,
    /// Files and folders without a place.
    homeless: Vec<String>,
    /// Places without a file.
    empty: Vec<String>,
}

impl OrderFindings {
    fn sizes(&self) -> Vec<usize> {
        self.circles.iter().map(Vec::len).collect()
    }
}

impl FolderOrder {
    /// The step and the place of a file below `src/`: the longest match.
    fn place(&self, file: &str) -> Option<(usize, &str)> {
        let stem = file.strip_suffix(".rs").unwrap_or(file);
        let fits = |place: &str| stem.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        let all = self.steps.iter().enumerate();
        let places = all.flat_map(|(step, places)| places.iter().map(move |place| (step, place.as_str())));
        places.filter(|(_, place)| fits(place)).max_by_key(|(_, place)| place.len())
    }

    fn look(&self, sources: &[Source]) -> OrderFindings {
        let graph = Graph::of(&format!("{}src/", self.folder), sources);
        let places: Vec<Option<(usize, &str)>> = graph.files.iter().map(|file| self.place(file)).collect();
        let mut found = OrderFindings::default();
        for ((from, to), line) in &graph.imports {
            if let (Some(low), Some(high)) = (places[*from], places[*to])
                && low.1 != high.1
                && low.0 <= high.0
            {
                found.arrows.push((graph.files[*from].clone(), *line, graph.files[*to].clone()));
            }
        }
        for circle in graph.circles() {
            let own: BTreeSet<_> = circle.iter().map(|file| places[*file].map(|(_, place)| place)).collect();
            let folders: BTreeSet<_> = circle.iter().map(|file| folder_of(&graph.files[*file])).collect();
            let most = match (own.len(), folders.len()) {
                (1, 1) => MAX_CIRCLE,
                (1, _) => MAX_SPREAD_CIRCLE,
                _ => 0,
            };
            if circle.len() > most {
                found.circles.push(circle.iter().map(|file| graph.files[*file].clone()).collect());
            }
        }
        let homeless = graph.files.iter().zip(&places).filter(|(_, place)| place.is_none());
        let top = |file: &String| file.split('/').next().map(str::to_owned);
        found.homeless = homeless.filter_map(|(file, _)| top(file)).collect();
        found.homeless.dedup();
        let empty = self.steps.iter().flatten().filter(|name| !places.iter().flatten().any(|(_, own)| own == name));
        found.empty = empty.cloned().collect();
        found
    }
}

/// The folder of a file; empty for one directly in `src/`.
fn folder_of(file: &str) -> &str {
    file.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Reports what is against the orders, and numbers that could be smaller.
pub(crate) fn check(tree: &Tree, sources: &[Source], exceptions: &Exceptions, problems: &mut Vec<Problem>) {
    for manifest in manifests::members(tree, &mut Vec::new()) {
        let folder = manifest.path.trim_end_matches("Cargo.toml");
        let has_order = || exceptions.orders().iter().any(|order| order.folder == folder);
        if tree.exists(&format!("{folder}src/")) && !has_order() {
            let message = format!("the folders of {folder} have no order");
            problems.push(Problem::new(allow::FILE, 1, message, "write it down under [[order]]"));
        }
    }
    for order in exceptions.orders() {
        let mut report = |message: String, fix: &str| {
            problems.push(Problem::new(allow::FILE, order.line, message, fix));
        };
        if !tree.exists(&order.folder) || !order.folder.ends_with('/') {
            report(
                format!("{} is no folder", order.folder),
                "remove the order, or name a folder with \"/\" at the end",
            );
            continue;
        }
        let found = order.look(sources);
        for file in &found.homeless {
            let file = format!("{}src/{file}", order.folder);
            report(format!("{file} has no place in the order"), "add it to the steps");
        }
        for name in &found.empty {
            report(format!("{}: nothing is called \"{name}\"", order.folder), "remove it from the steps");
        }
        let show = "see `cargo xtask tidy --layers`, and have the lower one take a value or a trait from above";
        let lower = "lower the number: `cargo xtask tidy --record`";
        let (arrows, allowed) = (found.arrows.len(), order.arrows);
        match arrows.cmp(&allowed) {
            std::cmp::Ordering::Greater => {
                report(format!("{}: {arrows} imports lead upward, more than {allowed}", order.folder), show);
            }
            std::cmp::Ordering::Less => {
                report(format!("{}: only {arrows} imports lead upward, not {allowed}", order.folder), lower);
            }
            std::cmp::Ordering::Equal => {}
        }
        let sizes = found.sizes();
        if sizes != order.circles {
            let message =
                format!("{}: circles of {sizes:?} files, where {:?} are allowed", order.folder, order.circles);
            report(message, if falls(&sizes, &order.circles) { lower } else { show });
        }
    }
}

/// Whether circles of some sizes are within what is allowed.
fn falls(sizes: &[usize], allowed: &[usize]) -> bool {
    sizes.len() <= allowed.len() && sizes.iter().zip(allowed).all(|(size, most)| size <= most)
}

/// Everything that is against the orders, for somebody who works it down.
pub(crate) fn show(sources: &[Source], exceptions: &Exceptions) -> String {
    let mut out = String::new();
    for order in exceptions.orders() {
        let found = order.look(sources);
        let _ = writeln!(out, "{} {} arrows against the order", order.folder, found.arrows.len());
        for (from, line, to) in &found.arrows {
            let _ = writeln!(out, "  {}src/{from}:{line} -> {to}", order.folder);
        }
        for circle in &found.circles {
            let _ = writeln!(out, "{} a circle of {} files", order.folder, circle.len());
            let _ = writeln!(out, "  {}", circle.join(" "));
        }
    }
    out
}

/// The text of `xtask/tidy.toml` with the numbers that have fallen. Numbers that would rise stay.
pub(crate) fn record(text: &str, sources: &[Source], exceptions: &Exceptions) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for order in exceptions.orders() {
        let found = order.look(sources);
        let entry = lines.iter_mut().skip(order.line).take_while(|line| !line.starts_with("[["));
        for line in entry {
            if line.starts_with("arrows = ") && found.arrows.len() < order.arrows {
                *line = format!("arrows = {}", found.arrows.len());
            } else if line.starts_with("circles = ") && falls(&found.sizes(), &order.circles) {
                *line = format!("circles = {:?}", found.sizes());
            }
        }
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source;

    const ORDER: &str = "[[order]]\nfolder = \"crates/http/\"\nsteps = [\"low\", \"mid other\", \"top lib\"]\n";

    fn run(numbers: &str, files: &[(&str, &str)]) -> (Vec<String>, String, String) {
        let toml = format!("{ORDER}{numbers}\n");
        let files: Vec<(String, &str)> =
            files.iter().map(|(path, text)| (format!("crates/http/src/{path}"), *text)).collect();
        let mut all: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        all.push((allow::FILE, &toml));
        let tree = Tree::of(&all);
        let mut problems = Vec::new();
        let exceptions = Exceptions::read(&tree, &mut problems);
        let sources = source::read_all(&tree, &mut problems);
        check(&tree, &sources, &exceptions, &mut problems);
        let messages = problems.into_iter().map(|problem| format!("{}: {}", problem.line, problem.message)).collect();
        (messages, show(&sources, &exceptions), record(&toml, &sources, &exceptions))
    }

    const GOOD: &[(&str, &str)] = &[
        ("lib.rs", ""),
        ("low.rs", ""),
        ("mid/mod.rs", "use crate::low::A;"),
        ("other.rs", "use crate::low::A;"),
        ("top/a.rs", "use crate::mid::A; use super::b::B;"),
        ("top/b.rs", "use super::a::B;"),
    ];

    fn with<'a>(more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
        let changed = |path: &str| more.iter().any(|(own, _)| *own == path);
        GOOD.iter().filter(|(path, _)| !changed(path)).chain(more).copied().collect()
    }

    #[test]
    fn downward_and_within_a_place_is_fine() {
        assert_eq!(run("arrows = 0\ncircles = []", GOOD).0, Vec::<String>::new());
    }

    #[test]
    fn upward_and_sideways_imports_are_counted() {
        let files = with(&[("low.rs", "\nuse crate::mid::B;"), ("other.rs", "use crate::mid::C;")]);
        let (problems, shown, _) = run("arrows = 1\ncircles = [2]", &files);
        assert_eq!(problems, ["2: crates/http/: 2 imports lead upward, more than 1"]);
        assert!(shown.contains("crates/http/src/low.rs:2 -> mid/mod.rs\n"), "{shown}");
        assert!(shown.contains("a circle of 2 files\n  low.rs mid/mod.rs\n"), "{shown}");
    }

    #[test]
    fn numbers_follow_what_has_become_better() {
        let (problems, _, recorded) = run("arrows = 3\ncircles = [9, 2]", GOOD);
        assert_eq!(problems.len(), 2);
        assert_eq!(recorded, format!("{ORDER}arrows = 0\ncircles = []\n"));
        let files = with(&[("low.rs", "use crate::mid::B;")]);
        let (problems, _, recorded) = run("arrows = 0\ncircles = []", &files);
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert_eq!(recorded, format!("{ORDER}arrows = 0\ncircles = []\n"));
    }

    #[test]
    fn circles_within_one_place_are_smaller_if_they_spread_over_its_folders() {
        let ring: &[(&str, &str)] = &[
            ("top/a.rs", "use super::b::B;"),
            ("top/b.rs", "use super::c::C;"),
            ("top/c.rs", "use super::in_it::d::D;"),
            ("top/in_it/d.rs", "use crate::top::a::A;"),
        ];
        let (problems, ..) = run("arrows = 0\ncircles = []", &with(ring));
        assert_eq!(problems, ["2: crates/http/: circles of [4] files, where [] are allowed"]);
        let short = [ring[0], ("top/b.rs", "use super::in_it::d::D;"), ring[3]];
        assert_eq!(run("arrows = 0\ncircles = []", &with(&short)).0, Vec::<String>::new());
    }

    #[test]
    fn large_circles_count_within_one_place_too() {
        let names: Vec<String> = (0..=MAX_CIRCLE).map(|own| format!("top/n{own}.rs")).collect();
        let texts: Vec<String> =
            (0..=MAX_CIRCLE).map(|own| format!("use super::n{0}::A{0};", (own + 1) % (MAX_CIRCLE + 1))).collect();
        let ring: Vec<(&str, &str)> =
            names.iter().zip(&texts).map(|(name, text)| (name.as_str(), text.as_str())).collect();
        let (problems, ..) = run("arrows = 0\ncircles = []", &with(&ring));
        assert_eq!(problems, ["2: crates/http/: circles of [7] files, where [] are allowed"]);
    }

    #[test]
    fn everything_has_a_place() {
        let (problems, ..) = run("arrows = 0\ncircles = []", &with(&[("new/a.rs", "")]));
        assert_eq!(problems, ["2: crates/http/src/new has no place in the order"]);
        let less: Vec<(&str, &str)> = GOOD.iter().filter(|(path, _)| *path != "other.rs").copied().collect();
        assert_eq!(run("arrows = 0\ncircles = []", &less).0, ["2: crates/http/: nothing is called \"other\""]);
    }

    #[test]
    fn a_crate_that_has_to_have_an_order() {
        let manifest = "[package]\nname = \"a\"\n";
        let files =
            [("crates/new/Cargo.toml", manifest), ("crates/new/src/lib.rs", ""), ("tests/Cargo.toml", manifest)];
        let mut problems = Vec::new();
        check(&Tree::of(&files), &[], &Exceptions::default(), &mut problems);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert_eq!(problems[0].message, "the folders of crates/new/ have no order");
    }
}
