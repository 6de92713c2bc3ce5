//! The path of a request through a cache (`proxy_cache` and the corresponding directives), for all members of the
//! family.
//!
//! A request comes to `lookup.rs`: it makes the key (`key_text.rs`; `key_sums.rs` remembers recent hashes), finds the
//! stored response (`find.rs`), and decides whether that is the answer (`respond.rs`; `made_head.rs` has the head that
//! was made before), whether the request waits for another request's response and follows it (`follower_body.rs`;
//! `own_fetch.rs` asks a server where that one comes to a halt), or whether a server is asked (`fetch.rs`;
//! `background.rs` asks without a client, by a request of `clientless.rs`). `storing.rs` judges the response of a
//! server, and gives its body to the cache. `purge.rs` removes stored responses.

pub mod background;
mod clientless;
pub mod fetch;
pub mod find;
pub mod follower_body;
mod key_sums;
mod key_text;
pub mod lookup;
mod made_head;
mod own_fetch;
pub mod purge;
pub mod respond;
pub mod storing;
