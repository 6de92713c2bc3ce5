//! Rules for every crate's `Cargo.toml`.

use toml::de::{DeTable, DeValue};

use super::tree::line_of;
use super::{Problem, Tree};

/// The crate that may hold `unsafe` and so cannot inherit the workspace's lints.
const OWN_LINTS: &str = "crates/sys/Cargo.toml";

/// The sections of a manifest that list dependencies.
pub(crate) const DEPENDENCY_SECTIONS: [&str; 3] = ["dependencies", "build-dependencies", "dev-dependencies"];

/// A manifest, parsed.
pub(crate) struct CargoManifest<'a> {
    /// Path from the root.
    pub(crate) path: &'a str,
    text: &'a str,
    table: DeTable<'a>,
}

/// A dependency of a manifest.
pub(crate) struct Dependency {
    /// The package's name.
    pub(crate) name: String,
    /// The section it stands in: one of [`DEPENDENCY_SECTIONS`].
    pub(crate) section: &'static str,
    /// Its line.
    pub(crate) line: usize,
    /// Whether version and features come from the workspace.
    pub(crate) inherited: bool,
}

impl<'a> CargoManifest<'a> {
    /// Parses a manifest; a text that is not TOML becomes a problem.
    pub(crate) fn parse(path: &'a str, text: &'a str, problems: &mut Vec<Problem>) -> Option<Self> {
        match DeTable::parse(text) {
            Ok(table) => Some(Self { path, text, table: table.into_inner() }),
            Err(error) => {
                let line = error.span().map_or(1, |span| line_of(text, span.start));
                problems.push(Problem::new(path, line, error.message(), "make it valid TOML"));
                None
            }
        }
    }

    /// The value at a path of keys.
    pub(crate) fn get(&self, keys: &[&str]) -> Option<&DeValue<'a>> {
        let (last, parents) = keys.split_last()?;
        let mut table = &self.table;
        for key in parents {
            table = table.get(*key)?.get_ref().as_table()?;
        }
        table.get(*last).map(toml::Spanned::get_ref)
    }

    /// The text at a path of keys.
    pub(crate) fn text(&self, keys: &[&str]) -> Option<&str> {
        self.get(keys)?.as_str()
    }

    /// Every dependency, those for one platform included.
    pub(crate) fn dependencies(&self) -> Vec<Dependency> {
        let mut all = Vec::new();
        self.collect(&self.table, &mut all);
        if let Some(targets) = self.get(&["target"]).and_then(DeValue::as_table) {
            for (_, target) in targets.iter() {
                if let Some(table) = target.get_ref().as_table() {
                    self.collect(table, &mut all);
                }
            }
        }
        all
    }

    fn collect(&self, table: &DeTable<'_>, all: &mut Vec<Dependency>) {
        for section in DEPENDENCY_SECTIONS {
            let Some(entries) = table.get(section).and_then(|value| value.get_ref().as_table()) else { continue };
            for (key, value) in entries.iter() {
                let field = |name: &str| value.get_ref().as_table().and_then(|table| table.get(name));
                let name = field("package").and_then(|value| value.get_ref().as_str()).unwrap_or(key.get_ref());
                all.push(Dependency {
                    name: name.to_owned(),
                    section,
                    line: line_of(self.text, key.span().start),
                    inherited: field("workspace").and_then(|value| value.get_ref().as_bool()) == Some(true),
                });
            }
        }
    }
}

/// Folders that are workspaces of their own, so that only those who need them compile what they depend on.
const OWN_WORKSPACES: [&str; 2] = ["fuzz/", "xtask/book/"];

/// The manifests of the workspace's members: all below the root, without other workspaces.
pub(crate) fn members<'a>(tree: &'a Tree, problems: &mut Vec<Problem>) -> Vec<CargoManifest<'a>> {
    let member =
        |path: &str| path.ends_with("/Cargo.toml") && !OWN_WORKSPACES.iter().any(|folder| path.starts_with(folder));
    let manifests = tree.iter().filter(|(path, _)| member(path));
    manifests.filter_map(|(path, text)| CargoManifest::parse(path, text, problems)).collect()
}

/// Reports what the manifests lack.
pub(crate) fn check(tree: &Tree, problems: &mut Vec<Problem>) {
    if let Some(text) = tree.get("Cargo.toml")
        && let Some(root) = CargoManifest::parse("Cargo.toml", text, problems)
        && root.text(&["workspace", "lints", "rust", "unsafe_code"]) != Some("forbid")
    {
        let message = "the workspace's lints do not forbid unsafe code";
        problems.push(Problem::new("Cargo.toml", 1, message, "[workspace.lints.rust] unsafe_code = \"forbid\""));
    }
    for manifest in members(tree, problems) {
        let mut report = |line, message: String, fix: &str| {
            problems.push(Problem::new(manifest.path, line, message, fix));
        };
        if manifest.text(&["package", "description"]).is_none_or(|text| text.trim().is_empty()) {
            report(1, "the crate has no description".into(), "say in [package] description what it is for");
        }
        let inherits = manifest.get(&["lints", "workspace"]).and_then(DeValue::as_bool) == Some(true);
        if !inherits && manifest.path != OWN_LINTS {
            report(1, "the crate does not inherit the workspace's lints".into(), "add [lints] workspace = true");
        }
        for dependency in manifest.dependencies().iter().filter(|dependency| !dependency.inherited) {
            let fix = "name version and features in the root Cargo.toml, and write NAME.workspace = true here";
            report(dependency.line, format!("{} has a version of its own", dependency.name), fix);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let mut problems = Vec::new();
        check(&Tree::of(&[(path, text)]), &mut problems);
        problems.into_iter().map(|problem| format!("{}: {}", problem.line, problem.message)).collect()
    }

    const GOOD: &str = "[package]\nname = \"freerun-http\"\ndescription = \"x\"\n[lints]\nworkspace = true\n";

    #[test]
    fn a_good_manifest_passes() {
        assert!(found("crates/http/Cargo.toml", GOOD).is_empty());
        assert!(found("crates/http/Cargo.toml", &format!("{GOOD}[dependencies]\na.workspace = true\n")).is_empty());
        assert!(found("crates/sys/Cargo.toml", "[package]\ndescription = \"x\"\n").is_empty());
    }

    #[test]
    fn each_lack_is_named() {
        assert_eq!(
            found("crates/http/Cargo.toml", &GOOD.replace("\"x\"", "\"\"")),
            ["1: the crate has no description"]
        );
        let lints = "1: the crate does not inherit the workspace's lints";
        assert_eq!(found("bench/Cargo.toml", &GOOD.replace("true", "false")), [lints]);
        let own = "8: bytes has a version of its own";
        assert_eq!(found("crates/http/Cargo.toml", &format!("{GOOD}[dependencies]\n# why\nbytes = \"1\"\n")), [own]);
        let target =
            format!("{GOOD}[target.'cfg(unix)'.dev-dependencies]\nb = {{ package = \"c\", version = \"1\" }}\n");
        assert_eq!(found("crates/http/Cargo.toml", &target), ["7: c has a version of its own"]);
    }

    #[test]
    fn other_workspaces_are_left_alone() {
        for path in ["fuzz/Cargo.toml", "xtask/book/Cargo.toml"] {
            assert!(found(path, "[package]\nname = \"other\"\n").is_empty());
        }
    }

    #[test]
    fn the_root_forbids_unsafe() {
        assert!(found("Cargo.toml", "[workspace.lints.rust]\nunsafe_code = \"forbid\"\n").is_empty());
        let message = "1: the workspace's lints do not forbid unsafe code";
        assert_eq!(found("Cargo.toml", "[workspace.lints.rust]\nunsafe_code = \"warn\"\n"), [message]);
    }

    #[test]
    fn broken_toml_is_reported() {
        assert_eq!(found("crates/a/Cargo.toml", "[package\n").len(), 1);
    }
}
