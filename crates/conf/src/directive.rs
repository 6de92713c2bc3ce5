//! What a directive is: the row of a directive table.

use crate::contexts::Contexts;

/// What stands after a directive's arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block {
    /// The directive ends with `;`.
    No,
    /// `{}` with directives of another context: a builder walks them.
    Inside(Contexts),
    /// `{}` whose content the directive's own type reads, such as `types {}`.
    Raw,
}

/// How many arguments a directive takes, what they are, and whether a block follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Fewest arguments.
    pub min: u16,
    /// Most arguments; [`Shape::MANY`] is no limit.
    pub max: u16,
    /// The arguments as nginx's documentation writes them: `on | off`, `size`, `name [uri]`.
    pub syntax: &'static str,
    /// What follows the arguments.
    pub block: Block,
}

impl Shape {
    /// No upper limit for the number of arguments.
    pub const MANY: u16 = u16::MAX;

    /// Exactly `count` arguments.
    pub const fn exactly(count: u16, syntax: &'static str) -> Shape {
        Shape { min: count, max: count, syntax, block: Block::No }
    }

    /// `min` to `max` arguments.
    pub const fn between(min: u16, max: u16, syntax: &'static str) -> Shape {
        Shape { min, max, syntax, block: Block::No }
    }

    /// At least `min` arguments.
    pub const fn at_least(min: u16, syntax: &'static str) -> Shape {
        Shape { min, max: Shape::MANY, syntax, block: Block::No }
    }

    /// This shape, with a block whose inside is `context`.
    #[must_use]
    pub const fn with_block(self, context: Contexts) -> Shape {
        Shape { block: Block::Inside(context), ..self }
    }

    /// The same with a block that the directive's type reads itself.
    #[must_use]
    pub const fn with_raw_block(self) -> Shape {
        Shape { block: Block::Raw, ..self }
    }

    /// Whether a block must follow.
    pub const fn is_block(&self) -> bool {
        !matches!(self.block, Block::No)
    }

    /// Whether this many arguments are allowed.
    pub const fn takes(&self, count: usize) -> bool {
        count >= self.min as usize && (self.max == Shape::MANY || count <= self.max as usize)
    }
}

/// How a directive compares with nginx's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fidelity {
    /// Behaves as nginx documents it.
    Same,
    /// Works, with this difference.
    Differs(&'static str),
    /// Accepted and checked, but changes nothing, because of this.
    NoEffect(&'static str),
    /// Not in nginx.
    Own,
}

/// One row of a directive table.
#[derive(Clone, Copy, Debug)]
pub struct Directive {
    /// The name.
    pub name: &'static str,
    /// Where it may stand.
    pub contexts: Contexts,
    /// Its arguments and block.
    pub shape: Shape,
    /// The default's text, parsed like a written directive's arguments.
    pub default: Option<&'static str>,
    /// The documentation: lines of Markdown; the first paragraph is the summary.
    pub documentation: &'static str,
    /// How it compares with nginx's.
    pub fidelity: Fidelity,
    /// Whether a block that does not have it takes the value of the enclosing block.
    pub inherit: bool,
    /// The first version of nginx that has it, where that is after 1.22.
    pub since: Option<&'static str>,
}

impl Directive {
    /// A structural directive: one that a builder, not a settings group, handles.
    pub const fn structural(
        name: &'static str,
        contexts: Contexts,
        shape: Shape,
        documentation: &'static str,
    ) -> Directive {
        Directive {
            name,
            contexts,
            shape,
            default: None,
            documentation,
            fidelity: Fidelity::Same,
            inherit: false,
            since: None,
        }
    }

    /// This directive, with another fidelity.
    #[must_use]
    pub const fn fidelity(self, fidelity: Fidelity) -> Directive {
        Directive { fidelity, ..self }
    }

    /// The first paragraph of the documentation, on one line.
    pub fn summary(&self) -> String {
        let lines = self.documentation.lines().map(str::trim).skip_while(|line| line.is_empty());
        lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
    }

    /// The documentation after the first paragraph, lines kept.
    pub fn docs(&self) -> String {
        let mut lines = self.documentation.lines().map(|line| line.strip_prefix(' ').unwrap_or(line).trim_end());
        let mut begun = false;
        for line in lines.by_ref() {
            if line.is_empty() && begun {
                break;
            }
            begun |= !line.is_empty();
        }
        lines.collect::<Vec<_>>().join("\n").trim().to_owned()
    }
}
