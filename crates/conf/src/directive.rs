//! The definition of a directive: a row of a directive table.

use crate::contexts::Contexts;

/// The end of a directive, after its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block {
    /// The directive ends with `;`.
    No,
    /// A block `{}` with directives of another context, which a builder walks.
    Inside(Contexts),
    /// A block `{}` whose content the directive's own type reads, such as `types {}`.
    Raw,
}

/// The number and the form of a directive's arguments, and whether a block follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The fewest arguments.
    pub min: u16,
    /// The most arguments; [`Shape::MANY`] stands for no limit.
    pub max: u16,
    /// The arguments in the form of nginx's documentation: `on | off`, `size`, `name [uri]`.
    pub syntax: &'static str,
    /// The end of the directive, after the arguments.
    pub block: Block,
}

impl Shape {
    /// No upper limit for the number of arguments.
    pub const MANY: u16 = u16::MAX;

    /// A shape with exactly `count` arguments.
    pub const fn exactly(count: u16, syntax: &'static str) -> Shape {
        Shape { min: count, max: count, syntax, block: Block::No }
    }

    /// A shape with `min` to `max` arguments.
    pub const fn between(min: u16, max: u16, syntax: &'static str) -> Shape {
        Shape { min, max, syntax, block: Block::No }
    }

    /// A shape with at least `min` arguments.
    pub const fn at_least(min: u16, syntax: &'static str) -> Shape {
        Shape { min, max: Shape::MANY, syntax, block: Block::No }
    }

    /// A shape like this, with a block of directives of `context`.
    #[must_use]
    pub const fn with_block(self, context: Contexts) -> Shape {
        Shape { block: Block::Inside(context), ..self }
    }

    /// A shape like this, with a block that the directive's type reads itself.
    #[must_use]
    pub const fn with_raw_block(self) -> Shape {
        Shape { block: Block::Raw, ..self }
    }

    /// Whether a block has to follow.
    pub const fn is_block(&self) -> bool {
        !matches!(self.block, Block::No)
    }

    /// Whether this many arguments are allowed.
    pub const fn takes(&self, count: usize) -> bool {
        count >= self.min as usize && (self.max == Shape::MANY || count <= self.max as usize)
    }
}

/// Comparison of a directive with nginx's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fidelity {
    /// The directive behaves as nginx documents it.
    Same,
    /// The directive works, with this difference.
    Differs(&'static str),
    /// The directive is accepted and checked, but has no effect, for this reason.
    NoEffect(&'static str),
    /// nginx does not have the directive.
    Own,
}

/// The members of a family that have a row of its table, a bit each. The family gives the bits their meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Members(u16);

impl Members {
    /// All members.
    pub const ALL: Members = Members(u16::MAX);

    /// The member with this number, which is less than 16.
    pub const fn one(number: u32) -> Members {
        Members(1 << number)
    }

    /// The members of both sets.
    #[must_use]
    pub const fn and(self, others: Members) -> Members {
        Members(self.0 | others.0)
    }

    /// Whether all members of the other set are in this one.
    pub const fn contains(self, others: Members) -> bool {
        self.0 & others.0 == others.0
    }
}

/// A row of a directive table.
#[derive(Clone, Copy, Debug)]
pub struct Directive {
    /// The name.
    pub name: &'static str,
    /// The contexts in which it may be written.
    pub contexts: Contexts,
    /// The arguments and the block of the directive.
    pub shape: Shape,
    /// The text of the default value, which is parsed like the arguments of a written directive.
    pub default: Option<&'static str>,
    /// The documentation: lines of Markdown; the first paragraph is the summary.
    pub documentation: &'static str,
    /// The comparison of the directive with nginx's.
    pub fidelity: Fidelity,
    /// Whether a block without the directive takes the value of the enclosing block.
    pub inherit: bool,
    /// The first version of nginx that has it, if that is after 1.22.
    pub since: Option<&'static str>,
    /// The members that have the row, where a family shares the table.
    pub members: Members,
}

impl Directive {
    /// A structural directive: a builder handles it, not a settings group.
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
            members: Members::ALL,
        }
    }

    /// The same directive with another fidelity.
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
