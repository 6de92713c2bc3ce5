//! All variables that a configuration may name.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::{Arc, OnceLock};

use freerun_conf::{Cx, Place, Problem, Word};

use super::variable::{Compute, DeclaredVariable, Definition, Set, Variable, VariableReference};

/// The target of `set`.
pub enum SetTarget<S> {
    /// A slot of the values.
    Slot(u32),
    /// A variable of the server itself.
    Call(Set<S>),
}

// Not derived, because that would demand the trait of the subject.
impl<S> Clone for SetTarget<S> {
    fn clone(&self) -> SetTarget<S> {
        *self
    }
}

impl<S> Copy for SetTarget<S> {}

/// A name without a getter of its own that a directive defines or uses.
struct VariableEntry<S> {
    used: Option<(Arc<DeclaredVariable<S>>, Place)>,
    slot: Option<u32>,
    /// Whether the first directive that assigns to it is `set`.
    by_set: Option<bool>,
    compute: Option<Arc<dyn Compute<S>>>,
    /// Whether a named group of a regular expression gives it its value. Then it has no value for subjects that did not
    /// match, even if the name has another meaning otherwise.
    captured: bool,
}

impl<S> Default for VariableEntry<S> {
    fn default() -> VariableEntry<S> {
        VariableEntry { used: None, slot: None, by_set: None, compute: None, captured: false }
    }
}

/// The variables of a configuration; lives in its context while it is read.
///
/// Names are compared without regard to case, as in nginx. A variable may be used above its definition, so names are
/// resolved when the whole configuration has been read.
pub struct VariableTable<S> {
    names: HashMap<&'static str, Variable<S>>,
    families: Vec<Variable<S>>,
    entries: BTreeMap<Box<str>, VariableEntry<S>>,
    slots: u32,
    /// The first uses of names that have no getter, in the order of the configuration.
    order: Vec<Box<str>>,
}

impl<S> Default for VariableTable<S> {
    fn default() -> VariableTable<S> {
        let (names, families, entries, order) = Default::default();
        VariableTable { names, families, entries, slots: 0, order }
    }
}

impl<S> VariableTable<S> {
    /// Adds a module's variables.
    pub fn add(&mut self, variables: &[Variable<S>]) {
        for variable in variables {
            if variable.prefix {
                self.families.push(*variable);
            } else {
                self.names.insert(variable.name, *variable);
            }
        }
    }

    fn entry(&mut self, name: &str) -> &mut VariableEntry<S> {
        self.entries.entry(name.to_ascii_lowercase().into()).or_default()
    }

    fn slot(&mut self, name: &str) -> u32 {
        let next = self.slots;
        let entry = self.entry(name);
        let slot = *entry.slot.get_or_insert(next);
        if slot == next {
            self.slots += 1;
        }
        slot
    }

    /// Whether a directive or a capture may give `$name`, in lower case, a value.
    ///
    /// # Errors
    /// nginx's `the duplicate "x" variable`, for a variable that cannot be changed.
    fn may_change(&self, name: &str, lower: &str) -> Result<(), Problem> {
        let may = match self.names.get(lower) {
            Some(own) => own.changeable || own.set.is_some(),
            None => self.family(lower).is_none_or(|family| !family.fixed.contains(&&lower[family.name.len()..])),
        };
        may.then_some(()).ok_or_else(|| {
            let hint = format!("the server itself gives ${lower} its value; choose another name");
            Problem::new(format!("the duplicate \"{name}\" variable")).hint(hint)
        })
    }

    /// Returns the slot of `$name`, which a regular expression sets. The name loses any other meaning, as in nginx.
    ///
    /// # Errors
    /// nginx's `the duplicate "x" variable`, for a variable that cannot be changed.
    pub fn add_capture(&mut self, name: &str) -> Result<u32, Problem> {
        self.may_change(name, &name.to_ascii_lowercase())?;
        self.entry(name).captured = true;
        Ok(self.slot(name))
    }

    /// The target of a `set` of this name (given without `$`). As long as no `set` has run, the variable is empty.
    ///
    /// # Errors
    /// nginx's `the duplicate "x" variable`, for a variable that cannot be changed.
    pub fn assign(&mut self, name: &str) -> Result<SetTarget<S>, Problem> {
        self.assigned(name, true)
    }

    /// The target of another directive than `set`: as long as it has not run, the variable has no value. Of several
    /// directives the first one decides which of the two applies.
    ///
    /// # Errors
    /// The errors of [`VariableTable::assign`].
    pub fn assign_if_known(&mut self, name: &str) -> Result<SetTarget<S>, Problem> {
        self.assigned(name, false)
    }

    fn assigned(&mut self, name: &str, by_set: bool) -> Result<SetTarget<S>, Problem> {
        let lower = name.to_ascii_lowercase();
        self.may_change(name, &lower)?;
        if let Some(Variable { set: Some(set), .. }) = self.names.get(lower.as_str()) {
            return Ok(SetTarget::Call(*set));
        }
        let slot = self.slot(&lower);
        self.entry(&lower).by_set.get_or_insert(by_set);
        Ok(SetTarget::Slot(slot))
    }

    /// Defines `$name` (given without `$`) by a directive; of several definitions the last one counts.
    ///
    /// # Errors
    /// nginx's `the duplicate "x" variable`, for a variable that cannot be changed.
    pub fn define(&mut self, name: &str, compute: Arc<dyn Compute<S>>) -> Result<(), Problem> {
        let lower = name.to_ascii_lowercase();
        self.may_change(name, &lower)?;
        self.slot(&lower);
        self.entry(&lower).compute = Some(compute);
        Ok(())
    }

    /// Resolves `$name`, used at `place`.
    pub fn resolve(&mut self, name: &str, place: Place) -> VariableReference<S> {
        let name = name.to_ascii_lowercase();
        let kept = match self.names.get(name.as_str()) {
            Some(variable) => variable.kept,
            None => self.family(&name).is_some_and(|family| family.kept),
        };
        if kept {
            self.slot(&name);
        }
        let entry = self.entries.entry(name.as_str().into()).or_default();
        if let Some((declared, _)) = &entry.used {
            return VariableReference(declared.clone());
        }
        let declared = Arc::new(DeclaredVariable { name: name.as_str().into(), definition: OnceLock::new() });
        entry.used = Some((declared.clone(), place));
        self.order.push(name.into());
        VariableReference(declared)
    }

    /// Whether the configuration uses a variable whose name begins with `prefix`: data that only such variables show
    /// need not be kept otherwise.
    pub fn uses_family(&self, prefix: &str) -> bool {
        let from = self.entries.range::<str, _>((Bound::Included(prefix), Bound::Unbounded));
        from.take_while(|(name, _)| name.starts_with(prefix)).any(|(_, entry)| entry.used.is_some())
    }

    /// Looks `$name` (in lower case) up while serving, for a name in a page, which no configuration has resolved.
    pub fn find(&self, name: &str) -> Option<VariableReference<S>> {
        let unnamed = VariableEntry::default();
        let definition = self.definition(name, self.entries.get(name).unwrap_or(&unnamed))?;
        Some(VariableReference(Arc::new(DeclaredVariable {
            name: name.into(),
            definition: OnceLock::from(definition),
        })))
    }

    fn family(&self, name: &str) -> Option<&Variable<S>> {
        // The longest prefix counts: `sent_http_` also begins with `sent_`.
        let families = self.families.iter().filter(|family| name.starts_with(family.name));
        families.max_by_key(|family| family.name.len())
    }

    fn definition(&self, name: &str, entry: &VariableEntry<S>) -> Option<Definition<S>> {
        let family = self.family(name).map(|family| (family.get, name[family.name.len()..].into(), family.kept));
        let variable = self.names.get(name);
        let changeable = variable.is_some_and(|variable| variable.changeable);
        let own = variable.map(|variable| (variable.get, name.into(), variable.kept));
        if let (Some(compute), Some(slot)) = (&entry.compute, entry.slot) {
            let keep = !compute.is_volatile() && !changeable;
            return Some(Definition::Computed(slot, compute.clone(), keep));
        }
        if let Some(slot) = entry.slot
            && entry.captured
            && (changeable || own.is_none())
        {
            return Some(Definition::User(slot, None, entry.by_set == Some(true)));
        }
        match (entry.slot, own, family) {
            (Some(slot), Some((get, argument, true)), _) => Some(Definition::Kept(slot, get, argument)),
            (Some(slot), None, Some((get, argument, true))) if entry.by_set.is_none() => {
                Some(Definition::Kept(slot, get, argument))
            }
            (Some(slot), Some((get, argument, _)), _) if changeable => {
                Some(Definition::User(slot, Some((get, argument)), entry.by_set == Some(true)))
            }
            (_, Some((get, argument, _)), _) => Some(Definition::Getter(get, argument)),
            (Some(slot), None, family) => {
                let family = family.map(|(get, argument, _)| (get, argument));
                Some(Definition::User(slot, family, entry.by_set == Some(true)))
            }
            (None, None, family) => family.map(|(get, argument, _)| Definition::Getter(get, argument)),
        }
    }

    /// Defines all used variables, after the whole configuration has been read. What comes back are the problems of those
    /// that nothing defines: nginx's `unknown "x" variable`, each at the place of its first use.
    pub fn check(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for name in &self.order {
            let Some(entry) = self.entries.get(name) else { continue };
            let Some((declared, place)) = &entry.used else { continue };
            match self.definition(name, entry) {
                Some(definition) => drop(declared.definition.set(definition)),
                None => {
                    let near = self.near(name).map(|near| format!("did you mean \"${near}\"?"));
                    problems.push(Problem::new(format!("unknown \"{name}\" variable")).at(*place).hint_if(near));
                }
            }
        }
        problems
    }

    /// A variable with a similar name.
    fn near(&self, name: &str) -> Option<&str> {
        let defined = self.entries.iter().filter(|(_, entry)| entry.slot.is_some());
        freerun_conf::near(name, self.names.keys().copied().chain(defined.map(|(name, _)| &**name)))
    }
}

/// The variable that a directive gives a value.
///
/// # Errors
/// It is no name of a variable, or the variable cannot be changed.
pub fn target<S: 'static>(name: &Word, cx: &mut Cx) -> Result<SetTarget<S>, Problem> {
    let Some(bare) = name.text.strip_prefix('$').filter(|bare| !bare.is_empty()) else {
        return Err(Problem::new(format!("invalid variable name \"{}\"", name.text)).at(name.place));
    };
    let table = cx.extensions.get_or_default::<VariableTable<S>>();
    table.assign(bare).map_err(|problem| problem.at(name.place))
}
