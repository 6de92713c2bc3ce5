//! Links in Markdown lead to files that exist.

use super::{Problem, Tree};

/// Reports links to files of the repository that are not there. Addresses of the web are not looked at.
pub(crate) fn check(tree: &Tree, problems: &mut Vec<Problem>) {
    for (path, text) in tree.iter().filter(|(path, _)| path.ends_with(".md")) {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let mut fenced = false;
        for (index, line) in text.lines().enumerate() {
            if line.trim_start().starts_with("```") {
                fenced = !fenced;
            }
            if fenced {
                continue;
            }
            for target in targets(line) {
                let missing = match resolve(folder, target) {
                    Some(file) => !tree.exists(&file),
                    None => true,
                };
                if missing {
                    let message = format!("the link to {target} leads nowhere");
                    problems.push(Problem::new(path, index + 1, message, "correct the path, or remove the link"));
                }
            }
        }
    }
}

/// The paths of the links `[…](path)` in a line: neither addresses with a scheme nor places in the same page.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| {
        let target = rest.split([')', ' ']).next()?;
        let target = target.split('#').next()?;
        (!target.is_empty() && !target.contains(':')).then_some(target)
    })
}

/// The path from the root that a relative link means; `None` where it leaves the repository.
fn resolve(folder: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let mut problems = Vec::new();
        check(&Tree::of(&[("docs/a.md", text), ("docs/b.md", ""), ("README.md", "")]), &mut problems);
        problems.into_iter().map(|problem| format!("{}: {}", problem.line, problem.message)).collect()
    }

    #[test]
    fn links_that_lead_somewhere() {
        assert!(
            found("[b](b.md), [r](../README.md#top), [d](../docs/), [w](https://x.example/y), [s](#here)").is_empty()
        );
        assert!(found("```\n[x](y)\n```\n").is_empty());
    }

    #[test]
    fn links_that_do_not() {
        assert_eq!(found("\n[b](c.md)"), ["2: the link to c.md leads nowhere"]);
        assert_eq!(found("[b](../../x)"), ["1: the link to ../../x leads nowhere"]);
    }
}
