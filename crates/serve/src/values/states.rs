//! The state that modules keep with a request or a connection.

use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::rc::Rc;

use smallvec::SmallVec;

/// The state that a module keeps with a request, and its type.
pub type ModuleState = (TypeId, Rc<dyn Any>);

/// The states that modules keep with a request, by type.
#[derive(Default)]
pub struct States(RefCell<SmallVec<[ModuleState; 2]>>);

impl States {
    /// The module's state, made at first use. It is shared, so a part that changes needs a cell.
    pub fn get<T: Default + 'static>(&self) -> Rc<T> {
        if let Some(state) = self.find() {
            return state;
        }
        let state = Rc::new(T::default());
        self.0.borrow_mut().push((TypeId::of::<T>(), state.clone()));
        state
    }

    /// The module's state, if there is one.
    pub fn find<T: 'static>(&self) -> Option<Rc<T>> {
        let states = self.0.borrow();
        if states.is_empty() {
            return None;
        }
        let (_, state) = states.iter().find(|(key, _)| *key == TypeId::of::<T>())?;
        state.clone().downcast().ok()
    }

    /// The same states, but with this one of its type.
    pub fn with<T: 'static>(&self, state: T) -> States {
        let others = self.0.borrow().iter().filter(|(key, _)| *key != TypeId::of::<T>()).cloned().collect();
        let states = States(RefCell::new(others));
        states.0.borrow_mut().push((TypeId::of::<T>(), Rc::new(state)));
        states
    }

    /// The states in a slice without spare capacity.
    pub fn pack(self) -> Box<[ModuleState]> {
        self.0.into_inner().into_boxed_slice()
    }

    /// The states of a packed slice.
    pub fn unpack(packed: Box<[ModuleState]>) -> States {
        States(RefCell::new(packed.into_vec().into()))
    }
}
