//! The condition of an `if`, as it is written.

use freerun_conf::{Cx, Node, Problem, Word};
use freerun_runtime::files::Meta;
use freerun_serve::Subject;
use freerun_serve::values::{Comparison, Template};

/// The condition of an `if`.
pub struct Condition<S> {
    /// The test.
    pub test: Test<S>,
    /// Whether there is a `!` before the operator.
    pub negative: bool,
}

/// The test of a condition.
pub enum Test<S> {
    /// A variable is compared.
    Compare(Comparison<S>),
    /// A file passes a test.
    File(FileTest, Template<S>),
}

/// The test of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileTest {
    /// `-f`: it is a regular file.
    File,
    /// `-d`: it is a folder.
    Folder,
    /// `-e`: it exists.
    Exists,
    /// `-x`: its owner may execute it.
    Executable,
}

/// The permission bit of the owner to execute.
const OWNER_EXECUTES: u32 = 0o100;

impl FileTest {
    fn of(letter: &str) -> Option<FileTest> {
        Some(match letter {
            "f" => FileTest::File,
            "d" => FileTest::Folder,
            "e" => FileTest::Exists,
            "x" => FileTest::Executable,
            _ => return None,
        })
    }

    /// Whether a file with these attributes passes.
    pub fn holds(self, meta: &Meta) -> bool {
        match self {
            FileTest::File => meta.is_file(),
            FileTest::Folder => meta.is_dir(),
            FileTest::Exists => true,
            FileTest::Executable => meta.mode & OWNER_EXECUTES != 0,
        }
    }
}

impl<S: Subject> Condition<S> {
    /// Reads the text between the parentheses.
    ///
    /// # Errors
    /// nginx's `invalid condition "x"` and `unexpected "x" in condition`.
    pub fn parse(node: &Node, cx: &mut Cx) -> Result<Condition<S>, Problem> {
        let mut words: Vec<Word> = node.args.clone();
        let first = words.first().map(|word| word.text.clone()).unwrap_or_default();
        let place = words.first().map_or(node.name.place, |word| word.place);
        let joins = |word: &Word| ["&&", "||", "and", "or"].contains(&word.text.as_str()) && !word.quoted;
        let hint = node.args.iter().any(joins).then(|| freerun_serve::values::ONE_CONDITION.to_owned());
        let invalid = |text: &str| {
            Problem::new(format!("invalid condition \"{text}\"")).at_node(node).at(place).hint_if(hint.clone())
        };
        let Some(opened) = first.strip_prefix('(') else { return Err(invalid(&first)) };
        if opened.is_empty() {
            words.remove(0);
        } else {
            words[0].text = opened.to_owned();
        }
        let shown = words.first().map(|word| word.text.clone()).unwrap_or_default();
        let Some(last) = words.last_mut() else { return Err(invalid(&shown)) };
        let Some(closed) = last.text.strip_suffix(')').map(str::to_owned) else {
            return Err(invalid(&last.text));
        };
        if closed.is_empty() {
            words.pop();
        } else {
            last.text = closed;
        }
        let Some((first, rest)) = words.split_first() else { return Err(invalid(&shown)) };
        let shown = if words.len() == 1 { first.text.clone() } else { shown };
        if let Some((comparison, negative)) = Comparison::parse(node, &words, cx)? {
            return Ok(Condition { test: Test::Compare(comparison), negative });
        }
        let (negative, letter) = match first.text.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, first.text.as_str()),
        };
        match (letter.strip_prefix('-').and_then(FileTest::of), rest) {
            (Some(test), [path]) => Ok(Condition { test: Test::File(test, Template::parse(path, cx)?), negative }),
            _ => Err(invalid(&shown)),
        }
    }
}
