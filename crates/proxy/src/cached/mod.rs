//! The path of a request through a cache (`proxy_cache` and the corresponding directives), for all members of the
//! family.
//!
//! A request comes to `lookup.rs`, which makes the key (`key_text.rs`; `key_sums.rs` remembers recent hashes) and looks
//! into the memory (`find.rs`). A fresh response is the answer (`respond.rs`; `made_head.rs` has the head that was made
//! before).
//!
//! For other requests `decision/` names the steps from there on, in pure code, and `answer.rs` takes them. It looks on
//! the disk, too. It waits for another request's response (`follow.rs`), whose body is `follower_body.rs`;
//! `own_fetch.rs` asks a server where that body comes to a halt. Or it asks a server (`fetch.rs`); `background.rs` asks
//! without a client, by a request of `clientless.rs`. `storing.rs` judges the response of a server, and gives its body
//! to the cache.
//!
//! `purge.rs` removes stored responses. `context.rs` has what these files share for one request.

mod answer;
pub mod background;
mod clientless;
pub mod clock;
mod context;
mod decision;
pub mod fetch;
pub mod find;
mod follow;
pub mod follower_body;
mod key_sums;
mod key_text;
pub mod lookup;
mod own_fetch;
pub mod purge;
pub mod respond;
pub mod store_decision;
mod stored_head;
