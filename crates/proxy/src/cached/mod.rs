//! A request's way through a cache (`proxy_cache` and its like), for all members of the family.
//!
//! A request comes to `lookup.rs`: it makes the key (`key_text.rs`; `key_sums.rs` remembers the sums of late), finds what there is (`find.rs`), and
//! decides whether that is the answer (`respond.rs`; `made_head.rs` has the head that was made before), whether another request's
//! response is waited for and followed (`follower_body.rs`), or a server asked (`fetch.rs`; `background.rs` asks without a client).
//! `storing.rs` judges the response of a server, and gives its body to the cache. `purge.rs` removes.

pub mod background;
pub mod fetch;
pub mod find;
pub mod follower_body;
mod key_sums;
mod key_text;
pub mod lookup;
mod made_head;
pub mod purge;
pub mod respond;
pub mod storing;
