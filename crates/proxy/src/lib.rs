//! Requests that other servers answer: `proxy_pass` and its family, the caches of their responses, and health checks.
//!
//! The folders and files of the crate are layers. Each one imports only what stands below it in this list:
//!
//! | | |
//! |---|---|
//! | `modules.rs` | the modules, which are registered in the list of `freerun_modules` |
//! | `health/` | health checks: requests that find out whether servers are healthy |
//! | `description.rs` | what would be sent, for an explanation |
//! | `pass.rs` | the content handler: it decides between cached and uncached |
//! | `cached/` | the path of a request through a cache |
//! | `store.rs` | responses kept as files (`proxy_store`) |
//! | `client/` | has a request answered by a server: tries, connections, bodies both ways, tunnels. Of caches it knows only a tee of the body |
//! | `family/` | the members (HTTP, gRPC, FastCGI, uwsgi, SCGI, memcached, CONNECT): directives, what they send, how they read answers |
//! | `upstream/` | `upstream` blocks: groups of servers, and the choice of a server for a request |
//! | `state/` | the state of a request while it is passed on, and the variables that show it |
//! | `exchange/` | the interface between members and `client/`: one request and its response as bytes |
//! | `settings/` | the directives that all members share, declared once |
//! | `caches/` | the caches of a configuration: `proxy_cache_path` and the values of the directives about caching |

pub mod cached;
pub mod caches;
pub mod client;
pub mod description;
pub mod exchange;
pub mod family;
pub mod health;
pub mod modules;
pub mod pass;
pub mod settings;
pub mod state;
pub mod store;
pub mod upstream;
