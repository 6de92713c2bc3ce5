//! Health checks that go on all the time: the loop that checks a server, the time, and the consequence. The protocol of a check
//! decides what it sends and expects ([`GroupCheck`]).
//!
//! The consequence of a series of results is decided in [`freerun_upstream::health`].

mod settings;
mod watcher;

use std::collections::{HashMap, HashSet};
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

use arc_swap::ArcSwap;
use freerun_conf::{Cx, Problem};
use freerun_upstream::Peer;
use freerun_upstream::health::ServerCheck;

pub use self::settings::{CheckSettings, MatchBlock, MatchBlocks, MatchRef, Matches};
use self::watcher::{CheckKey, Watcher};
use crate::accept::loop_listeners;
use crate::configuration::generation::Generation;
use crate::configuration::parts::Parts;
use crate::configuration::zones::ZoneTable;
use crate::loops::shared::SharedState;
use crate::loops::state::LoopState;
use crate::upstream::{SubjectProtocol, Upstream, Upstreams};

/// A check of a group, as a configuration describes it.
pub trait GroupCheck: Sized + Send + Sync + 'static {
    /// The protocol whose groups are checked.
    type Protocol: SubjectProtocol;
    /// State that is kept between two checks of a server: a connection, for example.
    type Kept: Default;
    /// State that all checks of a loop share.
    type Local: Default;

    /// The parameters that all protocols have.
    fn checking(&self) -> &CheckSettings;

    /// The group. `None` only while the configuration is being read.
    fn group(&self) -> Option<&Arc<Upstream<Self::Protocol>>>;

    /// All that makes it another check than others of its group.
    fn text(&self) -> String;

    /// The name of the check in the log: `"/"`, or nothing.
    fn shown(&self) -> &str;

    /// Checks a server.
    ///
    /// # Errors
    /// The point where it failed, as the text for the log.
    fn check(
        &self,
        peer: &Arc<Peer>,
        kept: &mut Self::Kept,
        loop_state: &Rc<LoopState>,
        local: &Self::Local,
    ) -> impl Future<Output = Result<(), &'static str>>;
}

/// A check with what tells it from others.
struct NamedCheck<C> {
    /// The identity of the check over reloads.
    key: Arc<str>,
    check: C,
}

/// The checks of a generation.
struct Checks<C>(Vec<Arc<NamedCheck<C>>>);

/// The checks that run. A mandatory check that is new holds its servers back from the first request on, and no loop begins
/// a check that another loop has. Each loop enters the checks that it begins, and removes the checks that it ends.
struct RunningChecks<C>(ArcSwap<HashSet<CheckKey>>, PhantomData<fn() -> C>);

impl<C> Default for RunningChecks<C> {
    fn default() -> RunningChecks<C> {
        RunningChecks(ArcSwap::default(), PhantomData)
    }
}

impl<C> RunningChecks<C> {
    fn has(&self, key: &CheckKey) -> bool {
        self.0.load().contains(key)
    }

    fn change(&self, ended: &[CheckKey], begun: &[CheckKey]) {
        self.0.rcu(|running| {
            let mut next = HashSet::clone(running);
            next.retain(|key| !ended.contains(key));
            next.extend(begun.iter().cloned());
            next
        });
    }
}

/// The checks gathered while the configuration is read.
struct GatheredChecks<C>(Vec<C>);

impl<C> Default for GatheredChecks<C> {
    fn default() -> GatheredChecks<C> {
        GatheredChecks(Vec::new())
    }
}

/// Adds a check to the configuration that is being read.
pub fn declare<C: GroupCheck>(check: C, cx: &mut Cx) {
    cx.extensions.get_or_default::<GatheredChecks<C>>().0.push(check);
}

/// Gives the generation its checks, when all of the protocol's configuration has been read, its groups included.
///
/// # Errors
/// A check refers to a `match` block that is missing.
pub fn finish<C: GroupCheck, M: 'static>(cx: &mut Cx) -> Result<(), Problem> {
    cx.extensions.get_or_default::<MatchBlocks<M>>().check()?;
    let gathered = cx.extensions.remove::<GatheredChecks<C>>().unwrap_or_default().0;
    let mut same: HashMap<String, usize> = HashMap::new();
    let checks = gathered.into_iter().map(|check| {
        let name = check.group().map(|group| group.name().clone()).unwrap_or_default();
        let text = format!("{name} {}", check.text());
        let nth = same.entry(text.clone()).or_default();
        *nth += 1;
        Arc::new(NamedCheck { key: format!("{text} {nth}").into(), check })
    });
    let checks = Checks(checks.collect());
    let known = cx.extensions.get_or_default::<ZoneTable>().keep("health checks", RunningChecks::<C>::default);
    let parts = cx.extensions.get_or_default::<Parts>();
    parts.insert(Arc::new(checks));
    parts.insert(known);
    Ok(())
}

/// Holds servers back from the first request on whose mandatory checks begin. Called on the control thread.
pub fn prepare<C: GroupCheck>(generation: &Arc<Generation>, shared: &Arc<SharedState>) {
    let parts = &generation.parts;
    let (Some(checks), Some(known)) = (parts.get::<Checks<C>>(), parts.get::<RunningChecks<C>>()) else { return };
    let running = known.0.load_full();
    let mut new: HashMap<usize, Vec<(CheckKey, ServerCheck)>> = HashMap::new();
    let upstreams = parts.get::<Upstreams<C::Protocol>>();
    for group in upstreams.iter().flat_map(|upstreams| upstreams.all()) {
        let own = |named: &&Arc<NamedCheck<C>>| {
            let check = &named.check;
            check.checking().rules.mandatory && check.group().is_some_and(|of| Arc::ptr_eq(of, group))
        };
        let own: Vec<&Arc<NamedCheck<C>>> = checks.0.iter().filter(own).collect();
        // This applies to servers that a name resolves to from now on.
        group.group.state().hold_back(own.len() as u32);
        let peers = group.group.peers();
        for named in own {
            for peer in peers.peers().filter(|peer| !peer.settings.down) {
                let key = CheckKey::new(&named.key, peer);
                if !running.contains(&key) {
                    let watch = ServerCheck::new(peer.live().clone(), named.check.checking().rules);
                    new.entry(key.loop_index(shared)).or_default().push((key, watch));
                }
            }
        }
        peers.peers().for_each(|peer| peer.live().unhold());
    }
    for (index, watches) in new {
        loop_listeners::tell(shared, index, move |services| {
            services.loop_state.modules.get::<Watcher<C>>().prepare(watches);
        });
    }
}

/// Begins the checks of a generation, and ends those that it does not have. Called on the control thread.
pub fn begin<C: GroupCheck>(_: &Arc<Generation>, shared: &Arc<SharedState>) {
    for index in 0..shared.loops.load().stats.len() {
        loop_listeners::tell(shared, index, |services| {
            services.loop_state.modules.get::<Watcher<C>>().begin(&services.loop_state);
        });
    }
}
