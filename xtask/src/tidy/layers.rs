//! Imports go downward only: the table of layers, and the crates that must stay free of I/O.

use super::manifests::{self, Dependency};
use super::{Problem, Tree};

/// The crates that may import a crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CratePlace {
    /// A crate of the server: imports only crates with a smaller number.
    Layer(u8),
    /// A tool or harness: imports anything, and is imported by tests and other tools only.
    Tool,
}

/// Every crate of the workspace and its place. ARCHITECTURE.md shows the same table.
const PLACES: &[(&str, CratePlace)] = &[
    ("freerun-sys", CratePlace::Layer(1)),
    ("freerun-conf", CratePlace::Layer(1)),
    ("freerun-proto", CratePlace::Layer(1)),
    ("freerun-runtime", CratePlace::Layer(2)),
    ("freerun-tls", CratePlace::Layer(2)),
    ("freerun-transport", CratePlace::Layer(3)),
    ("freerun-quic", CratePlace::Layer(3)),
    ("freerun-cache", CratePlace::Layer(3)),
    ("freerun-upstream", CratePlace::Layer(4)),
    ("freerun-serve", CratePlace::Layer(5)),
    ("freerun-acme", CratePlace::Layer(6)),
    ("freerun-cluster", CratePlace::Layer(6)),
    ("freerun-telemetry", CratePlace::Layer(6)),
    ("freerun-http", CratePlace::Layer(7)),
    ("freerun-proxy", CratePlace::Layer(8)),
    ("freerun-modules", CratePlace::Layer(9)),
    ("freerun-stream", CratePlace::Layer(9)),
    ("freerun", CratePlace::Layer(10)),
    ("freerun-testkit", CratePlace::Tool),
    ("freerun-tests", CratePlace::Tool),
    ("freerun-bench", CratePlace::Tool),
    ("xtask", CratePlace::Tool),
];

/// The page that shows every crate.
const PICTURE: &str = "ARCHITECTURE.md";

/// Crates that are pure, and the packages with which they would not be.
const PURE: &[(&str, &[&str])] = &[("freerun-conf", IO_PACKAGES), ("freerun-proto", IO_PACKAGES)];

/// Packages that do I/O, wait, or read the clock.
const IO_PACKAGES: &[&str] = &["tokio", "mio", "rustix", "nix", "libc", "socket2", "glob"];

fn place(name: &str) -> Option<CratePlace> {
    PLACES.iter().find(|(own, _)| *own == name).map(|(_, place)| *place)
}

/// Reports imports that go upward or sideways.
pub(crate) fn check(tree: &Tree, problems: &mut Vec<Problem>) {
    for manifest in manifests::members(tree, &mut Vec::new()) {
        let Some(name) = manifest.text(&["package", "name"]) else {
            problems.push(Problem::new(manifest.path, 1, "the package has no name", "add [package] name"));
            continue;
        };
        let Some(own) = place(name) else {
            let fix = "add it to PLACES in xtask/src/tidy/layers.rs and to the table in ARCHITECTURE.md";
            problems.push(Problem::new(manifest.path, 1, format!("{name} is in no layer"), fix));
            continue;
        };
        let folder = manifest.path.trim_end_matches("/Cargo.toml");
        if tree.get(PICTURE).is_some_and(|text| !text.contains(&format!("]({folder}/)"))) {
            let fix = "add it to the table of crates and layers";
            problems.push(Problem::new(PICTURE, 1, format!("{folder} is not in the table"), fix));
        }
        for dependency in manifest.dependencies() {
            if let Some((message, fix)) = wrong(name, own, &dependency) {
                problems.push(Problem::new(manifest.path, dependency.line, message, fix));
            }
        }
    }
}

/// The fault of one dependency, and the remedy.
fn wrong(name: &str, own: CratePlace, dependency: &Dependency) -> Option<(String, String)> {
    let other = &dependency.name;
    let testing = dependency.section == "dev-dependencies";
    let pure = PURE.iter().find(|(pure, _)| *pure == name).is_some_and(|(_, listed)| listed.contains(&other.as_str()));
    if pure && !testing {
        let fix = "keep this crate free of I/O and clocks: take the data or the time as an argument";
        return Some((format!("{name} must not use {other}"), fix.to_owned()));
    }
    match (own, place(other)?) {
        (CratePlace::Tool, _) => None,
        (CratePlace::Layer(_), CratePlace::Tool) if testing => None,
        (CratePlace::Layer(_), CratePlace::Tool) => {
            let fix = "import it under [dev-dependencies] only";
            Some((format!("{name} imports the tool {other}"), fix.to_owned()))
        }
        (CratePlace::Layer(high), CratePlace::Layer(low)) if high > low => None,
        (CratePlace::Layer(high), CratePlace::Layer(low)) => {
            let fix =
                "imports go downward only: move the code down, or hand it in as a value or trait object from above";
            Some((format!("{name} (layer {high}) imports {other} (layer {low})"), fix.to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, dependencies: &str) -> Vec<String> {
        let text = format!("[package]\nname = \"{name}\"\n{dependencies}");
        let mut problems = Vec::new();
        check(&Tree::of(&[("crates/x/Cargo.toml", &text)]), &mut problems);
        problems.into_iter().map(|problem| format!("{}: {}", problem.line, problem.message)).collect()
    }

    #[test]
    fn downward_is_fine() {
        assert!(found("freerun-http", "[dependencies]\nfreerun-runtime.workspace = true\nbytes = \"1\"\n").is_empty());
        assert!(found("freerun-testkit", "[dependencies]\nfreerun.workspace = true\n").is_empty());
    }

    #[test]
    fn upward_and_sideways_are_not() {
        let up = found("freerun-runtime", "[dependencies]\nfreerun-http.workspace = true\n");
        assert_eq!(up, ["4: freerun-runtime (layer 2) imports freerun-http (layer 7)"]);
        let sideways = found("freerun-cache", "[build-dependencies]\nfreerun-transport.workspace = true\n");
        assert_eq!(sideways, ["4: freerun-cache (layer 3) imports freerun-transport (layer 3)"]);
        let renamed = "[target.'cfg(unix)'.dependencies]\nh = { package = \"freerun-http\", workspace = true }\n";
        assert_eq!(found("freerun-proto", renamed).len(), 1);
    }

    #[test]
    fn tools_are_for_tests() {
        assert!(found("freerun-http", "[dev-dependencies]\nfreerun-testkit.workspace = true\n").is_empty());
        let live = found("freerun-http", "[dependencies]\nfreerun-testkit.workspace = true\n");
        assert_eq!(live, ["4: freerun-http imports the tool freerun-testkit"]);
        assert_eq!(found("freerun-conf", "[dev-dependencies]\nfreerun-http.workspace = true\n").len(), 1);
    }

    #[test]
    fn pure_crates_stay_pure() {
        assert_eq!(
            found("freerun-proto", "[dependencies]\ntokio.workspace = true\n"),
            ["4: freerun-proto must not use tokio"]
        );
        assert!(found("freerun-proto", "[dev-dependencies]\ntokio.workspace = true\n").is_empty());
        assert!(found("freerun-runtime", "[dependencies]\ntokio.workspace = true\n").is_empty());
    }

    #[test]
    fn the_picture_shows_every_crate() {
        let manifest = ("crates/http/Cargo.toml", "[package]\nname = \"freerun-http\"\n");
        for (text, expected) in [("| 4 | [crates/http](crates/http/) |", 0), ("| 4 | [crates/htt](crates/htt/) |", 1)] {
            let mut problems = Vec::new();
            check(&Tree::of(&[manifest, (PICTURE, text)]), &mut problems);
            assert_eq!(problems.len(), expected, "{problems:?}");
        }
    }

    #[test]
    fn an_unknown_crate_has_to_be_placed() {
        assert_eq!(found("freerun-new", ""), ["1: freerun-new is in no layer"]);
    }
}
