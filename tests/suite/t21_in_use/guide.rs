//! The commands of `docs/guide`: each page is followed as a reader would, and says what the reader will see.
//!
//! A page has two kinds of blocks that are followed, from its top to its end, in a folder of its own:
//!
//! - a block of `nginx`, `sh` or `text` whose first line is `# NAME` or `<!-- NAME -->` is a file of that name; one of `nginx`
//!   has that line too, as a comment, so that the numbers of lines in messages are those of whoever copies the block as it is;
//! - a block of `console` has commands, after `$ `, and below each what it prints. In this, `…` stands for anything in a line, and
//!   alone in a line for any lines. A command that ends in `&` goes on, and the next waits until it listens.
//!
//! Other blocks are only read. As root, or where a user may have namespaces, each page has a network of its own, so that it can use
//! the ports that a reader would use.
//!
//! With `FREERUN_GUIDE_ROOT` the pages are followed in the system that is installed in that folder, which has the binary as
//! `/usr/local/bin/freerun` and the temporary folder of this process below it: see `tests/tools/first-hour`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use freerun_testkit::{Kind, TempDir, require};

/// How long a page may take, in seconds.
const SECONDS: &str = "120";

/// What separates the answers of commands; it occurs in no page.
const MARK: &str = "@@freerun-guide@@";

/// A step of a page.
enum Step {
    /// A file to write.
    File { name: String, text: String },
    /// A command, and what it prints.
    Command { line: usize, command: String, expected: Vec<String> },
}

fn guide() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide")
}

/// The steps of a page.
fn steps(page: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut lines = page.lines().enumerate();
    while let Some((_, line)) = lines.next() {
        let Some(language) = line.strip_prefix("```").filter(|language| !language.is_empty()) else { continue };
        let block: Vec<(usize, &str)> = lines.by_ref().take_while(|(_, line)| *line != "```").collect();
        if language == "console" {
            for (number, line) in block {
                match (line.strip_prefix("$ "), steps.last_mut()) {
                    (Some(command), _) => {
                        steps.push(Step::Command {
                            line: number + 1,
                            command: command.to_owned(),
                            expected: Vec::new(),
                        });
                    }
                    (None, Some(Step::Command { command, .. })) if command.ends_with('\\') => {
                        let _ = write!(command, "\n{line}");
                    }
                    (None, Some(Step::Command { expected, .. })) => expected.push(line.to_owned()),
                    (None, _) => panic!("line {}: an answer without a command", number + 1),
                }
            }
        } else if let Some((name, rest)) = block.split_first().and_then(|((_, first), rest)| Some((name(first)?, rest)))
        {
            let first = if language == "nginx" { format!("# {name}\n") } else { String::new() };
            let text = rest.iter().fold(first, |text, (_, line)| text + line + "\n");
            steps.push(Step::File { name: name.to_owned(), text });
        }
    }
    for step in &steps {
        if let Step::Command { line, command, expected } = step {
            // grep prints 0 where it finds nothing, and any number would do.
            let counts_anything = command.contains("grep -c") && expected.iter().any(|line| line == "…");
            assert!(!counts_anything, "line {line}: a count that may be 0 shows nothing: {command}");
        }
    }
    steps
}

/// The name of the file that a block is, from its first line.
fn name(first: &str) -> Option<&str> {
    let named = first.strip_prefix("# ").or_else(|| first.strip_prefix("<!-- ")?.strip_suffix(" -->"))?;
    (named.contains('.') && !named.contains(' ')).then_some(named)
}

/// Whether a line is what a pattern says.
fn line_matches(pattern: &str, line: &str) -> bool {
    let parts: Vec<&str> = pattern.split('…').collect();
    let [first, middle @ .., last] = parts.as_slice() else { return pattern == line };
    let Some(mut rest) = line.strip_prefix(first).and_then(|rest| rest.strip_suffix(last)) else { return false };
    middle.iter().all(|part| rest.find(part).map(|at| rest = &rest[at + part.len()..]).is_some())
}

/// Whether lines are what patterns say.
fn matches(patterns: &[String], lines: &[&str]) -> bool {
    match patterns.split_first() {
        None => lines.is_empty(),
        Some((first, rest)) if first == "…" => (0..=lines.len()).any(|skipped| matches(rest, &lines[skipped..])),
        Some((first, rest)) => {
            lines.split_first().is_some_and(|(line, others)| line_matches(first, line) && matches(rest, others))
        }
    }
}

/// A script for bash that follows the steps.
fn script(steps: &[Step]) -> String {
    // A command that goes on is waited for until a socket listens that did not before.
    let mut script = String::from(
        "listening() { cat /proc/net/tcp /proc/net/tcp6 /proc/net/udp 2>/dev/null | awk '$4 == \"0A\" || $4 == \"07\"' | wc -l; }\n\
         settle() { for _ in $(seq 200); do [ \"$(listening)\" != \"$1\" ] && return; sleep 0.05; done; }\n",
    );
    for step in steps {
        match step {
            Step::File { name, text } => {
                let folder = Path::new(name).parent().filter(|folder| !folder.as_os_str().is_empty());
                if let Some(folder) = folder {
                    let _ = writeln!(script, "mkdir -p '{}'", folder.display());
                }
                let _ = writeln!(script, "cat > '{name}' <<'{MARK}'\n{text}{MARK}");
            }
            Step::Command { command, .. } if command.ends_with('&') => {
                let _ = writeln!(
                    script,
                    "before=$(listening)\n{{ {command} }} > /dev/null 2>&1\nsettle $before\nprintf '{MARK}\\n'"
                );
            }
            Step::Command { command, .. } => {
                let _ = writeln!(script, "{{ {command}\n}} 2>&1 < /dev/null\nprintf '{MARK}\\n'");
            }
        }
    }
    script
}

/// The system that pages are followed in, if it is not that of this process.
fn guest() -> Option<PathBuf> {
    std::env::var_os("FREERUN_GUIDE_ROOT").map(PathBuf::from)
}

/// Whether the system that pages are followed in has a program.
fn has(program: &str) -> bool {
    let Some(root) = guest() else { return require::program(program).is_some() };
    let folders = ["usr/bin", "usr/sbin"];
    let there = folders.iter().any(|folder| root.join(folder).join(program).is_file());
    assert!(there, "no {program} in {}", root.display());
    there
}

/// Follows a page of the guide, which needs further programs.
#[track_caller]
fn follow(page: &str, further: &[&str]) {
    if !require::freerun()
        || !["unshare", "ip", "curl", "openssl", "python3"].iter().chain(further).all(|name| has(name))
    {
        return;
    }
    let text = std::fs::read_to_string(guide().join(page)).expect("a page of the guide");
    let steps = steps(&text);
    let folder = TempDir::new("guide");
    // The workers' user has to reach what is in it.
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("permissions");
    let programs = folder.path().join("bin");
    std::fs::create_dir(&programs).expect("a folder");
    let server = match guest() {
        Some(_) => PathBuf::from("/usr/local/bin/freerun"),
        None => Kind::under_test().program().expect("a binary"),
    };
    std::os::unix::fs::symlink(server, programs.join("freerun")).expect("a link");
    let work = folder.path().join("work");
    std::fs::create_dir(&work).expect("a folder");
    std::fs::write(folder.path().join("script"), script(&steps)).expect("the script");
    let mut command = Command::new("timeout");
    // The session ends what a page has left running.
    // unshare does not end by other signals.
    command.args(["--signal=KILL", SECONDS, "unshare", "--net", "--pid", "--fork", "--kill-child"]);
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    let (home, root) = match guest() {
        Some(root) => {
            let inside = folder.path().strip_prefix(&root).expect("a temporary folder in the system");
            (Path::new("/").join(inside), Some(root))
        }
        None => (folder.path().to_owned(), None),
    };
    let path = match root {
        Some(_) => "/usr/local/bin:/usr/sbin:/usr/bin".to_owned(),
        None => std::env::var("PATH").unwrap_or_default(),
    };
    let variables = [
        format!("PATH={}:{path}", home.join("bin").display()),
        format!("HOME={}", home.display()),
        "LC_ALL=C.UTF-8".to_owned(),
    ];
    match root {
        Some(root) => {
            command.arg(format!("--mount-proc={}", root.join("proc").display())).args(["env", "-i"]).args(variables);
            command.arg("chroot").arg(root);
        }
        None => drop(command.args(["--mount-proc", "env"]).args(variables)),
    }
    let start = "ip link set lo up && cd \"$HOME/work\" && exec bash ../script";
    command.args(["sh", "-c", start]).stdin(Stdio::null());
    let output = command.output().expect("the command timeout");
    let said = String::from_utf8_lossy(&output.stdout);
    let mark = format!("{MARK}\n");
    let mut answers = said.split(&mark);
    for step in &steps {
        let Step::Command { line, command, expected } = step else { continue };
        let answer = answers.next().unwrap_or_default();
        let lines: Vec<&str> = answer.lines().collect();
        assert!(
            matches(expected, &lines),
            "{page}:{line}: $ {command}\n--- it should print\n{}\n--- it printed\n{answer}\n--- all\n{said}{}",
            expected.join("\n"),
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

macro_rules! pages {
    ($($name:ident $page:literal $($further:literal)*,)*) => {
        $(#[test]
        fn $name() {
            follow($page, &[$($further),*]);
        })*

        #[test]
        fn every_page_is_followed() {
            let followed = [$($page),*];
            for entry in std::fs::read_dir(guide()).expect("the guide") {
                let name = entry.expect("a page").file_name().into_string().expect("a name");
                // The table of contents has no commands.
                assert!(name == "SUMMARY.md" || followed.contains(&name.as_str()), "no test follows {name}");
            }
        }
    };
}

pages! {
    the_first_minutes "first-minutes.md",
    mistakes "mistakes.md",
    lint "lint.md",
    explain "explain.md",
    recipes "recipes.md",
    recipes_for_access "recipes-access.md",
    recipes_for_applications "recipes-applications.md",
    coming_from_nginx "from-nginx.md" "nginx",
    moving_a_site "moving-a-site.md" "nginx" "php-fpm8.2",
    incidents "incidents.md",
    slow_disks "slow-disks.md",
    a_caching_node "caching-node.md",
    several_nodes "several-nodes.md" "redis-server" "redis-cli",
    http2 "http2.md",
    http3 "http3.md",
    tls "tls.md",
    load_balancing "load-balancing.md",
    platform "platform.md",
    operating "operating.md",
    running "running.md",
    security "security.md",
    when_something_breaks "when-something-breaks.md" "bindfs",
}

#[test]
fn answers_are_compared_line_by_line() {
    let matches = |patterns: &[&str], lines: &[&str]| {
        matches(&patterns.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>(), lines)
    };
    assert!(matches(&["a", "…", "z"], &["a", "b", "c", "z"]));
    assert!(matches(&["…"], &[]));
    assert!(!matches(&["a"], &["a", "b"]));
    assert!(!matches(&["a", "…", "z"], &["a", "b"]));
    assert!(matches(&["x…z"], &["x-y-z"]));
    assert!(matches(&["…z"], &["z z"]));
    assert!(!matches(&["x…z"], &["x-y"]));
    assert!(!matches(&["x"], &["xy"]));
}
