//! Requests that other servers answer: `proxy_pass` and its family, the caches of their responses, and health checks.
//!
//! The folders and files of the crate are layers. Each one imports only what stands below it in this list:
//!
//! | | |
//! |---|---|
//! | `modules.rs` | the modules, which are registered in the list of `freerun_modules` |
//! | `health/` | health checks: requests that ask servers whether they are well |
//! | `pass.rs` | the content handler: it decides between cached and uncached |
//! | `cached/` | a request's way through a cache |
//! | `store.rs` | responses kept as files (`proxy_store`) |
//! | `client/` | has a request answered by a server: tries, connections, bodies both ways, tunnels. Of caches it knows only a tee of the body |
//! | `family/` | the members (HTTP, FastCGI, uwsgi, SCGI, memcached): their directives, what they send, what they make of answers |
//! | `upstream/` | `upstream` blocks: groups of servers as requests choose from them |
//! | `state/` | what is kept with a request while it is passed on, and the variables that show it |
//! | `exchange/` | the contract between members and `client/`: one request and its response as bytes |
//! | `settings/` | the directives that all members share, declared once |
//! | `caches/` | the caches of a configuration: `proxy_cache_path` and the values of the directives about caching |

pub mod cached;
pub mod caches;
pub mod client;
pub mod exchange;
pub mod family;
pub mod health;
pub mod modules;
pub mod pass;
pub mod settings;
pub mod state;
pub mod store;
pub mod upstream;
