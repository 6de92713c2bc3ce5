//! A configuration that serves. Requests that began with it also end with it.

use std::any::Any;
use std::ops::Deref;
use std::sync::Arc;

use crate::listen::ListenSpec;
use crate::services::Services;

/// A configuration that serves: its [`Services`], which do not depend on what is served and whose fields can be read
/// directly, and the part of each service.
pub struct Generation {
    /// Serial number, from 1.
    pub number: u64,
    /// The logs, pools, files, zones and states of modules.
    pub services: Services,
    /// The listening sockets, in the order of the configuration.
    pub listeners: Vec<Arc<ListenSpec>>,
    /// The parts of the services, one value for each type.
    served: Vec<Arc<dyn Any + Send + Sync>>,
}

impl Generation {
    /// A generation that serves nothing yet: the parts of services are [added](Generation::with).
    pub fn new(number: u64, services: Services, listeners: Vec<Arc<ListenSpec>>) -> Generation {
        Generation { number, services, listeners, served: Vec::new() }
    }

    /// The generation with the part of a service in it, such as the servers of `http {}`.
    #[must_use]
    pub fn with<T: Send + Sync + 'static>(mut self, part: Arc<T>) -> Generation {
        debug_assert!(self.part::<T>().is_none(), "a service has one part");
        self.served.push(part);
        self
    }

    /// The part of a service, by its type.
    pub fn part<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.served.iter().find_map(|part| part.clone().downcast().ok())
    }
}

impl Deref for Generation {
    type Target = Services;

    fn deref(&self) -> &Services {
        &self.services
    }
}
