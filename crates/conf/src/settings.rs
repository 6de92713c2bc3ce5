//! Groups of settings: one struct for each subject, merged level by level.

use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::contexts::Contexts;
use crate::cx::Cx;
use crate::directive::Directive;
use crate::node::Node;
use crate::problem::Problem;

/// The process-wide index of a settings type in every [`SettingsSet`], assigned at first use.
#[derive(Debug, Default)]
pub struct Slot(OnceLock<usize>);

impl Slot {
    /// A slot that has no index yet; for a `static` in [`Settings::slot`].
    pub const fn new() -> Self {
        Slot(OnceLock::new())
    }

    /// The index of the type.
    pub fn index(&self) -> usize {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        *self.0.get_or_init(|| NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// A struct of settings with its directive table. Made by [`crate::settings!`], or by hand.
pub trait Settings: Clone + Send + Sync + 'static {
    /// The values of the directives of one level; it starts out empty.
    type Level: Default + 'static;

    /// The group's name in the reference: the struct's name or the text of `#[module = "…"]`.
    const NAME: &'static str;
    /// The group's documentation, in Markdown.
    const DOCS: &'static str;
    /// Whether a field is `local`: not inherited.
    const HAS_LOCAL: bool;
    /// Whether a field has to be merged at every level ([`crate::Setting::MERGES_ALWAYS`]).
    const MERGES_ALWAYS: bool = false;

    /// The static slot of this type.
    fn slot() -> &'static Slot;

    /// The directive table.
    fn directives() -> &'static [Directive];

    /// The values if nothing is written.
    ///
    /// # Errors
    /// The text of a default does not parse; `Registry::check` finds this in a test.
    fn defaults(cx: &mut Cx) -> Result<Self, Problem>;

    /// Folds one directive, row `index` of the table, into the level.
    ///
    /// # Errors
    /// The directive is invalid.
    fn set(level: &mut Self::Level, index: usize, node: &Node, cx: &mut Cx) -> Result<(), Problem>;

    /// The values of a level of the context `within` over the values of the enclosing level; `local` fields over the
    /// defaults.
    fn merge(level: Self::Level, parent: &Self, defaults: &Self, within: Contexts) -> Self;
}

/// A value of a settings type, with its type erased.
pub type ErasedSettings = Arc<dyn Any + Send + Sync>;

/// [`Settings`] with the type erased, for lists of groups. Made by [`group`].
pub trait Group: Sync {
    /// The group's name: [`Settings::NAME`].
    fn name(&self) -> &'static str;
    /// The group's documentation: [`Settings::DOCS`].
    fn docs(&self) -> &'static str;
    /// Whether a level has settings of its own: [`Settings::HAS_LOCAL`].
    fn has_local(&self) -> bool;
    /// Whether levels are merged even if nothing is written there: [`Settings::MERGES_ALWAYS`].
    fn merges_always(&self) -> bool;
    /// The index of [`Settings::slot`].
    fn slot(&self) -> usize;
    /// The group's directives: [`Settings::directives`].
    fn directives(&self) -> &'static [Directive];
    /// The settings if nothing is written: [`Settings::defaults`].
    ///
    /// # Errors
    /// See [`Settings::defaults`].
    fn defaults(&self, cx: &mut Cx) -> Result<ErasedSettings, Problem>;
    /// An empty level.
    fn level(&self) -> Box<dyn Any>;
    /// Takes one directive into a level: [`Settings::set`].
    ///
    /// # Errors
    /// See [`Settings::set`].
    fn set(&self, level: &mut dyn Any, index: usize, node: &Node, cx: &mut Cx) -> Result<(), Problem>;
    /// Merges a level with its parent: [`Settings::merge`].
    fn merge(
        &self,
        level: Option<Box<dyn Any>>,
        parent: &ErasedSettings,
        defaults: &ErasedSettings,
        within: Contexts,
    ) -> ErasedSettings;
}

struct Of<T>(PhantomData<fn() -> T>);

/// The [`Group`] of a settings type: `Registry::new(&[group::<FileSettings>()], …)`.
pub const fn group<T: Settings>() -> &'static dyn Group {
    &Of::<T>(PhantomData)
}

impl<T: Settings> Group for Of<T> {
    fn name(&self) -> &'static str {
        T::NAME
    }

    fn docs(&self) -> &'static str {
        T::DOCS
    }

    fn has_local(&self) -> bool {
        T::HAS_LOCAL
    }

    fn merges_always(&self) -> bool {
        T::MERGES_ALWAYS
    }

    fn slot(&self) -> usize {
        T::slot().index()
    }

    fn directives(&self) -> &'static [Directive] {
        T::directives()
    }

    fn defaults(&self, cx: &mut Cx) -> Result<ErasedSettings, Problem> {
        Ok(Arc::new(T::defaults(cx)?))
    }

    fn level(&self) -> Box<dyn Any> {
        Box::new(T::Level::default())
    }

    fn set(&self, level: &mut dyn Any, index: usize, node: &Node, cx: &mut Cx) -> Result<(), Problem> {
        match level.downcast_mut::<T::Level>() {
            Some(level) => T::set(level, index, node, cx),
            None => unreachable!("a level is made by its own group"),
        }
    }

    fn merge(
        &self,
        level: Option<Box<dyn Any>>,
        parent: &ErasedSettings,
        defaults: &ErasedSettings,
        within: Contexts,
    ) -> ErasedSettings {
        let level = level.and_then(|level| level.downcast::<T::Level>().ok()).map(|level| *level).unwrap_or_default();
        match (parent.downcast_ref::<T>(), defaults.downcast_ref::<T>()) {
            (Some(parent), Some(defaults)) => Arc::new(T::merge(level, parent, defaults, within)),
            _ => unreachable!("a slot holds its own type"),
        }
    }
}

#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) value: ErasedSettings,
    /// The defaults, for `local` fields.
    pub(crate) default: ErasedSettings,
    /// Whether a `local` field was written at this level, so that the next level cannot share the value.
    pub(crate) locals: bool,
}

/// The settings of one level: one shared value for each group. Cloning is cheap; a level that writes none of a group's
/// directives shares the value of the enclosing level.
#[derive(Clone)]
pub struct SettingsSet(pub(crate) Arc<[Option<Entry>]>);

impl SettingsSet {
    /// The group's settings at this level.
    ///
    /// # Panics
    /// The group is not in the registry that the set was made with: a bug in the program, not in its input.
    pub fn get<T: Settings>(&self) -> &T {
        match self.entry::<T>().and_then(|entry| entry.value.downcast_ref()) {
            Some(value) => value,
            None => panic!("settings group \"{}\" is not in this registry", T::NAME),
        }
    }

    /// The group's settings at this level, shared.
    ///
    /// # Panics
    /// See [`SettingsSet::get`].
    pub fn share<T: Settings>(&self) -> Arc<T> {
        match self.entry::<T>().and_then(|entry| entry.value.clone().downcast().ok()) {
            Some(value) => value,
            None => panic!("settings group \"{}\" is not in this registry", T::NAME),
        }
    }

    /// Whether the group is in the registry that the set was made with.
    pub fn has<T: Settings>(&self) -> bool {
        self.entry::<T>().is_some()
    }

    fn entry<T: Settings>(&self) -> Option<&Entry> {
        self.0.get(T::slot().index())?.as_ref()
    }
}

impl std::fmt::Debug for SettingsSet {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "SettingsSet({} groups)", self.0.iter().flatten().count())
    }
}

/// Reads a default's text as the arguments of a directive. Used by [`crate::settings!`].
///
/// # Errors
/// The value's own error for the text, or a syntax error in it.
pub fn parse_default<T: crate::Setting>(name: &str, text: &str, cx: &mut Cx) -> Result<T, Problem> {
    let node = crate::parse::default_node(name, text)?;
    T::set(None, &node, cx)
}
