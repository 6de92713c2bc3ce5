//! The common part of the protocols that are served, for requests of `http` and sessions of TCP or UDP alike.
//!
//! Both have to answer the same questions: the client's address, the address that it has connected to, the values of
//! its variables. The trait [`Subject`] defines them, and all code here that needs them is generic over it: it depends
//! on no part of HTTP, and no call becomes dynamic by it.
//!
//! The folders, from the bottom to the top; each imports only those before it:
//!
//! 1. [`listen`]: listening sockets as the `listen` directive specifies them, and addresses;
//! 2. [`configuration`]: the paths, parts and zones of a configuration, and the generation that serves with it;
//! 3. [`tls`]: TLS of listening sockets and of connections to upstream servers: certificates, sessions, OCSP, with
//!    [`http_client`] in it, above handshakes and below the rest: requests of the server itself;
//! 4. [`loops`]: what the loops of a worker share, the state of each, and what they count;
//! 5. [`accept`]: how the connections and datagrams of listening sockets come to the services of a loop;
//! 6. [`values`]: the subject, its variables and text with variables, and the tables that define variables (`map`, `geo`,
//!    `keyval` …);
//! 7. [`limits`]: which clients may come (`allow`, `deny`), and how many of them (`limit_conn`);
//! 8. [`upstream`]: groups of upstream servers, the choice of one, its health, and the bytes that go to and from it;
//! 9. [`logs`]: `error_log` and `access_log`, and their destinations;
//! 10. [`build`]: how the block of a service is read, what modules bring to it, and its virtual servers.

pub mod accept;
pub mod build;
pub mod configuration;
pub mod http_client;
pub mod limits;
pub mod listen;
pub mod logs;
pub mod loops;
pub mod tls;
pub mod upstream;
pub mod values;

pub use listen::address::Address;
pub use values::subject::Subject;
