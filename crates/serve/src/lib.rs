//! What the protocols that are served have in common: for a request of `http` and for a session of TCP or UDP alike.
//!
//! Both ask the same questions: who is it, which address did it come to, which values do its variables have. That is what
//! [`Subject`] says, and everything here that needs to know is generic over it: no word of HTTP is needed, and no call is
//! dynamic that was not.
//!
//! The modules, from the bottom to the top; each imports only those before it:
//!
//! 1. [`address`], [`background`], [`hosts`], [`loop_local`], [`predictor`], [`parts`], [`zones`]: leaf types;
//! 2. [`logs`] and [`resolver`]: values of the directives that name log files and name servers;
//! 3. [`listen`]: how a listening socket is made, and what it is known by;
//! 4. [`services`] and [`generation`]: what every configuration has, whatever it serves, and all of one;
//! 5. [`shared`] and [`loop_state`]: what the loops of a worker share, and what is known on each;
//! 6. [`service`] and [`loop_services`]: what takes connections on a loop, and all of that together;
//! 7. [`accept`] and [`worker`]: how connections come to them, and the loops as their process sees them.
//!
//! And beside 5 to 7, for whoever serves:
//!
//! 1. [`captures`]: the values that a subject gives to variables;
//! 2. [`subject`]: who is asked for;
//! 3. [`values`]: variables, text with variables, regular expressions;
//! 4. [`lookups`]: variables that directives define (`map`, `geo`, `split_clients`, `geoip2`);
//! 5. [`limits`] and [`access`]: how many there may be, and who; [`upstream`]: to which server they are passed on;
//! 6. [`access_log`]: formats of the lines that tell of a subject.

pub mod accept;
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
pub mod upstream;
pub mod values;
pub mod worker;
pub mod zones;

pub use address::Address;
pub use subject::Subject;
