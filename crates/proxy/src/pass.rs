//! The content handler of a location that passes requests on: with a cache or without, and with `store`.

use freerun_http::request::Request;
use freerun_http::request::handler::Outcome;
use freerun_http::request::response::LocalBoxFuture;
use freerun_proto::{Method, Status};

use crate::cached::lookup;
use crate::cached::lookup::Quick;
use crate::client::{Terms, reach};
use crate::exchange::family::Family;
use crate::family::tunnel::TunnelMember;
use crate::settings::store::StoreSetting;
use crate::store;

/// Passes the request on: the content handler of a location of the family. CONNECT is refused: only a tunnel answers
/// it, and another server may take it for a request of its own kind.
pub fn pass<'r>(request: &'r mut Request, family: &'static dyn Family) -> LocalBoxFuture<'r, Outcome> {
    if request.asked.method == Method::Connect {
        return Box::pin(std::future::ready(Outcome::Status(Status::METHOD_NOT_ALLOWED)));
    }
    match lookup::quick(request, family) {
        Quick::Answered(outcome) => Box::pin(std::future::ready(outcome)),
        Quick::Uncached => made_at_hand(|| uncached(request, family)),
        Quick::Ask(job) => made_in_place(|| lookup::serve(request, family, job)),
        Quick::Read => Box::pin(async move {
            match Box::pin(lookup::read(request, family)).await {
                Quick::Answered(outcome) => outcome,
                Quick::Ask(job) => Box::pin(lookup::serve(request, family, job)).await,
                Quick::Uncached | Quick::Read => Box::pin(uncached(request, family)).await,
            }
        }),
    }
}

/// Opens a tunnel: the content handler for `tunnel_pass`.
pub fn open_tunnel(request: &mut Request) -> LocalBoxFuture<'_, Outcome> {
    if request.asked.method != Method::Connect || request.is_subrequest() {
        return Box::pin(std::future::ready(Outcome::Status(Status::METHOD_NOT_ALLOWED)));
    }
    Box::pin(uncached(request, &TunnelMember))
}

/// The size in bytes of the largest allocation that mimalloc serves from its shortest path: one look at a table. A larger
/// one costs more, and is not in the processor's caches the next time.
const AT_HAND: usize = 1024;

/// Makes the future as [`made_in_place`] does; for a future that every request has.
fn made_at_hand<'r, F: Future<Output = Outcome> + 'r>(make: impl FnOnce() -> F) -> LocalBoxFuture<'r, Outcome> {
    const { assert!(size_of::<F>() <= AT_HAND, "what is kept while the server is waited for has grown too large") };
    made_in_place(make)
}

/// Makes a future in a box of its own. It has a thousand bytes, and few are used at first. In a separate function they
/// are written where they stay; inlined next to others, the compiler builds it on the stack and copies all of it.
#[inline(never)]
fn made_in_place<'r, F: Future<Output = Outcome> + 'r>(make: impl FnOnce() -> F) -> LocalBoxFuture<'r, Outcome> {
    let future: Box<F> = Box::write(Box::new_uninit(), make());
    Box::into_pin(future)
}

/// Has a request answered that uses no cache.
async fn uncached(request: &mut Request, family: &'static dyn Family) -> Outcome {
    // A response that is stored is fetched to its end, whatever the client does.
    let stores =
        family.shared(request.settings()).is_some_and(|shared| !matches!(shared.proxy_store, StoreSetting::Off));
    let terms = Terms { watched: !request.client.is_background() && !stores, head_at_once: false };
    let outcome = match reach(request, family, terms).await {
        Ok(reached) => reached.answer(request),
        Err(failed) => failed.outcome,
    };
    match family.shared(request.settings()) {
        Some(shared) if !matches!(shared.proxy_store, StoreSetting::Off) => {
            let location = request.place.location.clone();
            Box::pin(async move {
                match family.shared(&location.settings) {
                    Some(shared) => store::keep(request, shared, outcome).await,
                    None => outcome,
                }
            })
            .await
        }
        _ => outcome,
    }
}
