//! Comparisons of a variable, as conditions of the configuration have them.

use freerun_conf::{Cx, Node, Problem, Word};

use super::{GaveUp, Pattern, Template, VariableReference, VariableTable};
use crate::values::subject::Subject;

/// Help where several conditions were written as one.
pub const ONE_CONDITION: &str = "one \"if\" has one condition; a \"map\" of several variables can have more";

/// A condition on a variable.
pub enum Comparison<S> {
    /// The variable has a value other than `0`.
    True(VariableReference<S>),
    /// The variable has this value.
    Equal(VariableReference<S>, Template<S>),
    /// The variable matches a regular expression, whose text is for the log.
    Match(VariableReference<S>, Pattern, Box<str>),
}

impl<S: Subject> Comparison<S> {
    /// Reads `$variable`, with an operator (`=`, `~`, `~*`, or one of them behind a `!`) and a value behind it, or without.
    /// Also returns whether there is a `!`. `None`: the words are something else.
    ///
    /// # Errors
    /// nginx's `unexpected "x" in condition`; the text or the expression is invalid.
    pub fn parse(node: &Node, words: &[Word], cx: &mut Cx) -> Result<Option<(Comparison<S>, bool)>, Problem> {
        let Some((first, rest)) = words.split_first() else { return Ok(None) };
        let Some(name) = first.text.strip_prefix('$').filter(|name| !name.is_empty()) else { return Ok(None) };
        let variable = cx.extensions.get_or_default::<VariableTable<S>>().resolve(name, first.place);
        let (operator, value) = match rest {
            [] => return Ok(Some((Comparison::True(variable), false))),
            [operator, value] => (operator, value),
            _ => return Ok(None),
        };
        let (negative, plain) = match operator.text.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, operator.text.as_str()),
        };
        let comparison = match plain {
            "=" => Comparison::Equal(variable, Template::parse(value, cx)?),
            "~" | "~*" => {
                let table = cx.extensions.get_or_default::<VariableTable<S>>();
                let pattern = Pattern::new(&value.text, plain == "~*", table)
                    .map_err(|why| Problem::new(why).at_node(node).at(value.place))?;
                Comparison::Match(variable, pattern, value.text.as_str().into())
            }
            _ => {
                let message = format!("unexpected \"{}\" in condition", operator.text);
                let hint = match plain {
                    "==" => "one \"=\" compares here",
                    "&&" | "||" | "and" | "or" => ONE_CONDITION,
                    _ => "conditions compare by \"=\", \"!=\", \"~\", \"~*\", \"!~\" and \"!~*\"",
                };
                return Err(Problem::new(message).at_node(node).at(operator.place).hint(hint));
            }
        };
        Ok(Some((comparison, negative)))
    }

    /// Whether it holds for this subject.
    ///
    /// # Errors
    /// The matching of a regular expression was given up.
    pub fn holds(&self, subject: &S) -> Result<bool, GaveUp> {
        Ok(match self {
            Comparison::True(variable) => !matches!(&*variable.get(subject).unwrap_or_default(), b"" | b"0"),
            Comparison::Equal(variable, wanted) => variable.get(subject).unwrap_or_default() == wanted.render(subject),
            Comparison::Match(variable, pattern, _) => {
                pattern.matches(&variable.get(subject).unwrap_or_default(), subject.captures())?
            }
        })
    }
}
