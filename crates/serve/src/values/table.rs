//! All variables that a configuration may name.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::{Arc, OnceLock};

use freerun_conf::{Place, Problem};

use super::variable::{Compute, Declared, Definition, Reference, Set, Variable};

/// What `set` assigns to.
pub enum Target<S> {
    /// A slot of the values.
    Slot(u32),
    /// A variable of the server itself.
    Call(Set<S>),
}

// Not derived: that would ask the same of the subject.
impl<S> Clone for Target<S> {
    fn clone(&self) -> Target<S> {
        *self
    }
}

impl<S> Copy for Target<S> {}

/// A name without a getter of its own that something defines or uses.
struct Entry<S> {
    used: Option<(Arc<Declared<S>>, Place)>,
    slot: Option<u32>,
    /// Whether the first directive that assigns to it is `set`.
    by_set: Option<bool>,
    compute: Option<Arc<dyn Compute<S>>>,
    /// Whether a named group of an expression gives it its value: it is not there for subjects that did not match, even
    /// where the name means something else otherwise.
    captured: bool,
}

impl<S> Default for Entry<S> {
    fn default() -> Entry<S> {
        Entry { used: None, slot: None, by_set: None, compute: None, captured: false }
    }
}

/// The variables; lives in the configuration's context while that is read.
///
/// Names compare without regard to case, as in nginx. A variable may be used above what defines it, so names are resolved
/// when all has been read.
pub struct VariableTable<S> {
    names: HashMap<&'static str, Variable<S>>,
    families: Vec<Variable<S>>,
    entries: BTreeMap<Box<str>, Entry<S>>,
    slots: u32,
    /// The first uses of names that no getter has, in the order of the configuration.
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

    fn entry(&mut self, name: &str) -> &mut Entry<S> {
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
    /// nginx's `the duplicate "x" variable`, for one that cannot be changed.
    fn may_change(&self, name: &str, lower: &str) -> Result<(), Problem> {
        let may = match self.names.get(lower) {
            Some(own) => own.changeable || own.set.is_some(),
            None => self.family(lower).is_none_or(|family| !family.fixed.contains(&&lower[family.name.len()..])),
        };
        may.then_some(()).ok_or_else(|| Problem::new(format!("the duplicate \"{name}\" variable")))
    }

    /// A regular expression sets `$name`: the slot for it. What the name means otherwise counts no longer, as in nginx.
    ///
    /// # Errors
    /// nginx's `the duplicate "x" variable`, for one that cannot be changed.
    pub fn add_capture(&mut self, name: &str) -> Result<u32, Problem> {
        self.may_change(name, &name.to_ascii_lowercase())?;
        self.entry(name).captured = true;
        Ok(self.slot(name))
    }

    /// What `set` assigns to under this name (without `$`). Where it did not, the variable is empty.
    ///
    /// # Errors
    /// nginx's `the duplicate "x" variable`, for one that cannot be changed.
    pub fn assign(&mut self, name: &str) -> Result<Target<S>, Problem> {
        self.assigned(name, true)
    }

    /// What another directive than `set` assigns to: where it did not, the variable is not there. Of several directives the first
    /// one decides that.
    ///
    /// # Errors
    /// Those of [`VariableTable::assign`].
    pub fn assign_if_known(&mut self, name: &str) -> Result<Target<S>, Problem> {
        self.assigned(name, false)
    }

    fn assigned(&mut self, name: &str, by_set: bool) -> Result<Target<S>, Problem> {
        let lower = name.to_ascii_lowercase();
        self.may_change(name, &lower)?;
        if let Some(Variable { set: Some(set), .. }) = self.names.get(lower.as_str()) {
            return Ok(Target::Call(*set));
        }
        let slot = self.slot(&lower);
        self.entry(&lower).by_set.get_or_insert(by_set);
        Ok(Target::Slot(slot))
    }

    /// Defines `$name` (given without `$`) by a directive; of several definitions the last one counts.
    ///
    /// # Errors
    /// nginx's `the duplicate "x" variable`, for one that cannot be changed.
    pub fn define(&mut self, name: &str, compute: Arc<dyn Compute<S>>) -> Result<(), Problem> {
        let lower = name.to_ascii_lowercase();
        self.may_change(name, &lower)?;
        self.slot(&lower);
        self.entry(&lower).compute = Some(compute);
        Ok(())
    }

    /// Resolves `$name`, used at `place`.
    pub fn resolve(&mut self, name: &str, place: Place) -> Reference<S> {
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
            return Reference(declared.clone());
        }
        let declared = Arc::new(Declared { name: name.as_str().into(), definition: OnceLock::new() });
        entry.used = Some((declared.clone(), place));
        self.order.push(name.into());
        Reference(declared)
    }

    /// Whether the configuration uses a variable whose name begins so: what only such variables show need not be kept otherwise.
    pub fn uses_family(&self, prefix: &str) -> bool {
        let from = self.entries.range::<str, _>((Bound::Included(prefix), Bound::Unbounded));
        from.take_while(|(name, _)| name.starts_with(prefix)).any(|(_, entry)| entry.used.is_some())
    }

    /// Looks `$name` (in lower case) up while serving: what a page names, no configuration has resolved.
    pub fn find(&self, name: &str) -> Option<Reference<S>> {
        let unnamed = Entry::default();
        let definition = self.definition(name, self.entries.get(name).unwrap_or(&unnamed))?;
        Some(Reference(Arc::new(Declared { name: name.into(), definition: OnceLock::from(definition) })))
    }

    fn family(&self, name: &str) -> Option<&Variable<S>> {
        // The longest one: `sent_http_` begins as `sent_` would.
        let families = self.families.iter().filter(|family| name.starts_with(family.name));
        families.max_by_key(|family| family.name.len())
    }

    fn definition(&self, name: &str, entry: &Entry<S>) -> Option<Definition<S>> {
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

    /// After everything was read: defines what is used.
    ///
    /// # Errors
    /// nginx's `unknown "x" variable`, at the place of the first use of one that nothing defines.
    pub fn check(&self) -> Result<(), Problem> {
        for name in &self.order {
            let Some(entry) = self.entries.get(name) else { continue };
            let Some((declared, place)) = &entry.used else { continue };
            match self.definition(name, entry) {
                Some(definition) => drop(declared.definition.set(definition)),
                None => return Err(Problem::new(format!("unknown \"{name}\" variable")).at(*place)),
            }
        }
        Ok(())
    }
}
