//! The choice of a server: the key of the group's method is computed from the subject, and the group chooses.

use std::borrow::Cow;
use std::cell::RefCell;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

use freerun_upstream::method::Method;
use freerun_upstream::random::Random;
use freerun_upstream::{ClientBinding, Lease, Millis, NoPeer, Query, TriedServers, now};

use super::SubjectProtocol;
use super::group::Upstream;
use crate::listen::address::Address;
use crate::values::subject::Subject;

thread_local! {
    /// The random numbers of this loop.
    static RANDOM: RefCell<Random> = RefCell::new(Random::seeded(RandomState::new().hash_one(0)));
}

fn random_number() -> u64 {
    RANDOM.with_borrow_mut(Random::number)
}

/// The inputs of a choice, computed from the subject once: a second choice, after waiting, does not compute them again.
#[derive(Debug)]
pub struct ChoiceInputs<'s> {
    /// The time of the choice.
    pub now: Millis,
    key: MethodKey<'s>,
}

/// The key of the group's method. The bytes of an address need no memory of their own.
#[derive(Debug)]
enum MethodKey<'s> {
    Text(Cow<'s, [u8]>),
    V4([u8; 4]),
    V6([u8; 16]),
}

impl ChoiceInputs<'_> {
    fn query<'a>(&'a self, bound: Option<ClientBinding<'a>>, random: u64) -> Query<'a> {
        let key = match &self.key {
            MethodKey::Text(text) => text,
            MethodKey::V4(octets) => &octets[..],
            MethodKey::V6(octets) => octets,
        };
        Query { now: self.now, key, sticky: bound, random }
    }
}

impl<P: SubjectProtocol> Upstream<P> {
    /// Computes the inputs of the group's method from the subject.
    pub fn asking<'s>(&'s self, subject: &'s P::Subject) -> ChoiceInputs<'s> {
        let now = now();
        let key = match self.group.settings.method {
            Method::IpHash => match subject.peer() {
                Address::Ip(address) => match address.ip() {
                    IpAddr::V4(ip) => MethodKey::V4(ip.octets()),
                    IpAddr::V6(ip) => MethodKey::V6(ip.octets()),
                },
                Address::Unix(_) => MethodKey::Text(Cow::default()),
            },
            Method::Hash | Method::ConsistentHash => {
                MethodKey::Text(self.key.as_ref().map(|key| key.render(subject)).unwrap_or_default())
            }
            _ => MethodKey::Text(Cow::default()),
        };
        ChoiceInputs { now, key }
    }

    /// Chooses a server that was not tried yet: the client's own, if it is `bound` to a server that is available, or else a
    /// server by the group's method. `None` if the caller has to wait for one ([`Upstream::pick_later`]), because the group
    /// has a queue.
    pub fn pick_now(
        &self,
        asking: &ChoiceInputs<'_>,
        bound: Option<ClientBinding<'_>>,
        tried: &mut TriedServers,
    ) -> Option<Result<Lease, NoPeer>> {
        self.group.pick_now(&asking.query(bound, self.random()), tried)
    }

    /// Waits in the group's queue for a server that has room. Dropping the future gives up waiting.
    ///
    /// # Errors
    /// There is no server: none was available, the queue was full, or the time in it was over.
    pub async fn pick_later(
        &self,
        asking: &ChoiceInputs<'_>,
        bound: Option<ClientBinding<'_>>,
        tried: &mut TriedServers,
    ) -> Result<Lease, NoPeer> {
        // Each choice in the queue has a random number of its own.
        let mut random = Random::seeded(random_number());
        self.group.pick_later(&asking.query(bound, 0), &mut random, tried, now).await
    }

    /// A random number, if the method uses one.
    fn random(&self) -> u64 {
        match self.group.settings.method {
            Method::Random | Method::RandomTwo(_) => random_number(),
            _ => 0,
        }
    }
}
