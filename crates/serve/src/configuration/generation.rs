//! A configuration that serves. Requests that began with it also end with it.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use crate::configuration::services::Services;
use crate::listen::ListenSpec;

/// A configuration that serves: its [`Services`], whose fields can be read directly, and the sockets it listens on. What a service
/// has of a configuration, such as the servers of `http {}`, is one of its [`Parts`](crate::configuration::parts::Parts).
pub struct Generation {
    /// Serial number, from 1.
    pub number: u64,
    /// The time since 1970 at which it was made.
    pub loaded: Duration,
    /// The logs, pools, files and zones, and the parts of modules and services.
    pub services: Services,
    /// The listening sockets, in the order of the configuration.
    pub listeners: Vec<Arc<ListenSpec>>,
}

impl Deref for Generation {
    type Target = Services;

    fn deref(&self) -> &Services {
        &self.services
    }
}
