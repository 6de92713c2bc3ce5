//! What the protocols that are served have in common: for a request of `http` and for a session of TCP or UDP alike.
//!
//! Both ask the same questions: who is it, which address did it come to, which values do its variables have. That is what
//! [`Subject`] says, and everything here that needs to know is generic over it: no word of HTTP is needed, and no call is
//! dynamic that was not.
//!
//! The modules, from the bottom to the top; each imports only those before it:
//!
//! 1. [`address`], [`hosts`], [`loop_local`], [`predictor`], [`parts`], [`zones`]: leaf types;
//! 2. [`logs`] and [`resolver`]: values of the directives that name log files and name servers;
//! 3. [`services`]: what every configuration has, whatever it serves;
//! 4. [`captures`]: the values that a subject gives to variables;
//! 5. [`subject`]: who is asked for;
//! 6. [`values`]: variables, text with variables, regular expressions;
//! 7. [`lookups`]: variables that directives define (`map`, `geo`, `split_clients`, `geoip2`);
//! 8. [`limits`] and [`access`]: how many there may be, and who;
//! 9. [`access_log`]: formats of the lines that tell of a subject.

pub mod access;
pub mod access_log;
pub mod address;
pub mod background;
pub mod captures;
pub mod generation;
pub mod hosts;
pub mod limits;
pub mod listen;
pub mod logs;
pub mod lookups;
mod loop_listeners;
pub mod loop_local;
pub mod loop_services;
pub mod loop_state;
pub mod parts;
pub mod predictor;
pub mod resolver;
pub mod service;
pub mod services;
pub mod shared;
mod stateless;
pub mod subject;
pub mod values;
pub mod worker;
pub mod zones;

pub use address::Address;
pub use subject::Subject;
