//! The states of modules on a loop.

use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::rc::Rc;

use crate::loops::local::AddressHasher;

/// Called when the data that a module has gathered on a loop must not be kept any longer.
type HandOver = Box<dyn Fn()>;

/// The states of modules on a loop, one value for each type.
#[derive(Default)]
pub struct ModuleStates {
    /// Type ids are as good as hashes; spreading them again costs nothing.
    states: RefCell<HashMap<TypeId, Rc<dyn Any>, BuildHasherDefault<AddressHasher>>>,
    hand_over: RefCell<Vec<HandOver>>,
}

impl ModuleStates {
    /// The state of a module on this loop, made at first use.
    pub fn get<T: Default + 'static>(&self) -> Rc<T> {
        let mut states = self.states.borrow_mut();
        let state = match states.get(&TypeId::of::<T>()) {
            Some(state) => state,
            None => states.entry(TypeId::of::<T>()).or_insert_with(|| Rc::new(T::default())),
        };
        match state.clone().downcast() {
            Ok(state) => state,
            Err(_) => unreachable!("the key is the value's type"),
        }
    }

    /// Registers `hook`, which is called when a module must hand over the data that it gathers on this loop. That is when
    /// another generation takes over, when logs are reopened, and before the loop ends. The hook must not register another
    /// one.
    pub fn on_hand_over(&self, hook: impl Fn() + 'static) {
        self.hand_over.borrow_mut().push(Box::new(hook));
    }

    /// Calls all hooks.
    pub fn hand_over(&self) {
        for hook in &*self.hand_over.borrow() {
            hook();
        }
    }
}
