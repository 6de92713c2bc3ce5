//! What a directive's arguments become: the traits for field types, and how single and repeated directives fold.

use std::ops::Deref;
use std::sync::Arc;

use crate::cx::Cx;
use crate::directive::Shape;
use crate::problem::Problem;
use crate::tree::Node;

/// A type made from one directive. A field of such a type is single-valued: twice at one level is
/// `"x" directive is duplicate`.
pub trait Value: Sized + Clone + Send + Sync + 'static {
    /// The arguments it takes; checked before `parse` is called.
    const SHAPE: Shape;

    /// Makes the value. Places and the reported line that the problem lacks are filled in from `directive`.
    ///
    /// # Errors
    /// nginx's wording for the fault.
    fn parse(directive: &Node, cx: &mut Cx) -> Result<Self, Problem>;
}

/// A type folded from all the directives of one level that belong to a field.
///
/// Every [`Value`] is one, and so are `Option<T>` and [`Many<T>`]; implement it by hand for other ways of folding, such
/// as several directive names making one ordered script.
pub trait Setting: Sized + Clone + Send + Sync + 'static {
    /// The arguments of the field's first directive; checked before `set` is called.
    const SHAPE: Shape;

    /// Whether [`Setting::merge`] has to be asked at every level, even at one that writes nothing of the group.
    const MERGES_ALWAYS: bool = false;

    /// The value after `directive`; `previous` is what this level's earlier directives made, never the inherited one.
    ///
    /// # Errors
    /// nginx's wording for the fault.
    fn set(previous: Option<Self>, directive: &Node, cx: &mut Cx) -> Result<Self, Problem>;

    /// The value of a level: what was written at it, or else what stands outside it (`outer`). Types whose directives
    /// say themselves how they are inherited have a rule of their own.
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

/// No default: `None` until the directive is written.
impl<T: Setting> Setting for Option<T> {
    const SHAPE: Shape = T::SHAPE;

    fn set(previous: Option<Self>, directive: &Node, cx: &mut Cx) -> Result<Self, Problem> {
        T::set(previous.flatten(), directive, cx).map(Some)
    }
}

/// A repeatable directive: one item for each occurrence at one level, in order. A level that has any replaces what
/// the enclosing one had. Cloning is cheap.
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
        Arc::make_mut(&mut items.0).push(item);
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
/// nginx's `unexpected "{"` for an entry with a block of its own, in its place.
pub fn raw_entries(directive: &Node) -> Result<&[Node], Problem> {
    match directive.children().iter().find(|entry| entry.block.is_some()) {
        Some(entry) => Err(Problem::new("unexpected \"{\"").at_node(entry).at(entry.end)),
        None => Ok(directive.children()),
    }
}
