//! The traits for types of settings fields, which are made of a directive's arguments, and how single and repeated
//! directives fold.

use std::ops::Deref;
use std::sync::Arc;

use crate::cx::Cx;
use crate::directive::Shape;
use crate::node::Node;
use crate::problem::Problem;

/// A type that is made from one directive. A field of such a type is single-valued: a second directive at one level is
/// `"x" directive is duplicate`.
pub trait Value: Sized + Clone + Send + Sync + 'static {
    /// The arguments of the directive; checked before `parse` is called.
    const SHAPE: Shape;

    /// Makes the value. If the problem lacks a place or the reported line, they are filled in from `directive`.
    ///
    /// # Errors
    /// The directive is invalid; the message is nginx's.
    fn parse(directive: &Node, cx: &mut Cx) -> Result<Self, Problem>;
}

/// A type that is folded from all the directives of one level that belong to a field.
///
/// Every [`Value`] is a setting, and so are `Option<T>` and [`Many<T>`]; implement it by hand for other ways of
/// folding, such as several directives that make one ordered script.
pub trait Setting: Sized + Clone + Send + Sync + 'static {
    /// The arguments of the field's first directive; checked before `set` is called.
    const SHAPE: Shape;

    /// Whether [`Setting::merge`] has to be called at every level, even at a level that has none of the group's
    /// directives.
    const MERGES_ALWAYS: bool = false;

    /// The value after `directive`; `previous` is the value of this level's earlier directives, never the inherited
    /// one.
    ///
    /// # Errors
    /// The directive is invalid; the message is nginx's.
    fn set(previous: Option<Self>, directive: &Node, cx: &mut Cx) -> Result<Self, Problem>;

    /// The value of a level: its own, or else the value of the enclosing level (`outer`). Types whose directives have
    /// inheritance rules of their own override this.
    fn merge(level: Option<Self>, outer: &Self) -> Self {
        level.unwrap_or_else(|| outer.clone())
    }
}

impl<T: Value> Setting for T {
    const SHAPE: Shape = T::SHAPE;

    fn set(previous: Option<Self>, directive: &Node, cx: &mut Cx) -> Result<Self, Problem> {
        match previous {
            Some(_) => Err(Problem::duplicate(directive)),
            None => T::parse(directive, cx),
        }
    }
}

/// A field without a default: `None` until the directive is written.
impl<T: Setting> Setting for Option<T> {
    const SHAPE: Shape = T::SHAPE;

    fn set(previous: Option<Self>, directive: &Node, cx: &mut Cx) -> Result<Self, Problem> {
        T::set(previous.flatten(), directive, cx).map(Some)
    }
}

/// A repeatable directive: one item for each occurrence at one level, in order. A level that has any replaces the items
/// of the enclosing one. Cloning is cheap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Many<T>(Arc<Vec<T>>);

impl<T> Many<T> {
    /// The items in order.
    pub fn as_slice(&self) -> &[T] {
        &self.0
    }
}

impl<T> Default for Many<T> {
    fn default() -> Self {
        Many(Arc::new(Vec::new()))
    }
}

impl<T> Deref for Many<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T> From<Vec<T>> for Many<T> {
    fn from(items: Vec<T>) -> Self {
        Many(Arc::new(items))
    }
}

impl<'a, T> IntoIterator for &'a Many<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<T: Value> Setting for Many<T> {
    const SHAPE: Shape = T::SHAPE;

    fn set(previous: Option<Self>, directive: &Node, cx: &mut Cx) -> Result<Self, Problem> {
        let mut items = previous.unwrap_or_default();
        let item = T::parse(directive, cx)?;
        let list = Arc::make_mut(&mut items.0);
        if list.is_empty() {
            // Most directives are written once, and there may be thousands of servers: no room is taken for further items.
            list.reserve_exact(1);
        }
        list.push(item);
        Ok(items)
    }
}

/// A directive's block as it was written, for types that are read later or elsewhere.
#[derive(Clone, Debug)]
pub struct RawBlock(pub Arc<Node>);

impl Value for RawBlock {
    const SHAPE: Shape = Shape::exactly(0, "").with_raw_block();

    fn parse(directive: &Node, _cx: &mut Cx) -> Result<Self, Problem> {
        Ok(RawBlock(Arc::new(directive.clone())))
    }
}

/// The entries of a raw block.
///
/// # Errors
/// An entry has a block of its own: nginx's `unexpected "{"`, in its place.
pub fn raw_entries(directive: &Node) -> Result<&[Node], Problem> {
    match directive.children().iter().find(|entry| entry.block.is_some()) {
        Some(entry) => Err(Problem::new("unexpected \"{\"").at_node(entry).at(entry.end)),
        None => Ok(directive.children()),
    }
}
