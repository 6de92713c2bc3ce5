//! The common part of the protocols that are served, for requests of `http` and sessions of TCP or UDP alike.
//!
//! Both have to answer the same questions: the client's address, the address that it has connected to, the values of
//! its variables. The trait [`Subject`] defines them, and all code here that needs them is generic over it: it depends
//! on no part of HTTP, and no call becomes dynamic by it.
//!
//! The modules, from the bottom to the top; each imports only those before it:
//!
//! 1. [`address`], [`background`], [`compiled`], [`drained`], [`hosts`], [`limit_figures`], [`loop_local`], [`predictor`],
//!    [`parts`], [`shedding`], [`states`], [`zones`]: leaf types;
//! 2. [`logs`], [`resolver`] and [`state_file`]: values of the directives that name log files, name servers and files with a
//!    state;
//! 3. [`listen`]: the specification and the key of a listening socket; [`silent`]: connections from which nothing has come yet;
//! 4. [`services`] and [`generation`]: the parts that every configuration has, and a whole configuration; [`blueprint`]: the
//!    same before it serves;
//!    [`status_zones`]: what is counted of requests and sessions by zones;
//! 5. [`shared`] and [`loop_state`]: the state that the loops of a worker share, and the state of each;
//!    [`datagrams`]: a socket for datagrams;
//! 6. [`service`] and [`loop_services`]: a service that takes connections on a loop, and all services of a loop;
//! 7. [`accept`] and [`worker`]: how connections come to them, and the loops as their process sees them.
//!
//! And beside 5 to 7, for the code that serves:
//!
//! 1. [`captures`]: the values that a subject gives to variables;
//! 2. [`subject`]: the request or session that all of this is about;
//! 3. [`values`]: variables, text with variables, regular expressions;
//! 4. [`lookups`]: variables that directives define (`map`, `geo`, `split_clients`, `geoip2`), and [`keyvals`]: those whose
//!    values are changed while the server runs;
//! 5. [`limits`] and [`access`]: how many subjects there may be, and which; [`upstream`]: the server that they are
//!    passed to; [`names`]: the virtual server that they ask for; [`proxy_header`] and [`ssl_variables`]: what they
//!    have of the protocols below;
//! 6. [`access_log`]: formats of the log lines of a subject; [`health`]: checks of the servers that they are passed to;
//!    [`module`]: what modules bring to a service; in builds with debug assertions `debug_block`, a directive that
//!    holds up a loop;
//! 7. [`build`]: how the block of a service is read.
//!
//! [`relay`] knows no subject: it passes bytes both ways between a client and a server.

pub mod accept;
pub mod access;
pub mod access_log;
pub mod address;
pub mod background;
pub mod blueprint;
pub mod build;
pub mod captures;
pub mod compiled;
pub mod datagrams;
#[cfg(debug_assertions)]
pub mod debug_block;
pub mod drained;
pub mod generation;
pub mod health;
pub mod hosts;
pub mod http2_figures;
pub mod keyvals;
pub mod limit_figures;
pub mod limits;
pub mod listen;
pub mod logs;
pub mod lookups;
pub mod loop_local;
pub mod loop_services;
pub mod loop_state;
pub mod module;
pub mod names;
pub mod parts;
pub mod predictor;
pub mod proxy_header;
pub mod relay;
pub mod resolver;
pub mod resolver_settings;
pub mod service;
pub mod services;
pub mod session_figures;
pub mod shared;
pub mod shedding;
pub mod silent;
pub mod ssl_variables;
pub mod state_file;
mod stateless;
pub mod states;
pub mod status_zones;
pub mod subject;
pub mod tls;
pub mod unsaved_states;
pub mod upstream;
pub mod values;
pub mod worker;
pub mod zones;

pub use address::Address;
pub use subject::Subject;
