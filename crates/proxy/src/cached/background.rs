//! `cache_background_update`: a stale response is fetched anew after the client got it.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use freerun_cache::fill::FillWriter;
use freerun_cache::object::StoredObject;
use freerun_http::phases::subrequest::Subrequest;
use freerun_http::request::Request;
use freerun_http::request::handler::Outcome;
use freerun_runtime::loops;
use freerun_serve::loops::background::Background;

use crate::cached::clientless::fork_of;
use crate::cached::context::CacheContext;
use crate::cached::fetch::{Ask, log_full};
use crate::state::cache_status::CacheStatus;

/// The most updates that run on one loop at a time. Beyond that, the client waits for the server.
const MAX_RUNNING: usize = 1024;

#[derive(Default)]
struct RunningUpdates(Cell<usize>);

struct UpdatePlace(Rc<RunningUpdates>);

impl Drop for UpdatePlace {
    fn drop(&mut self) {
        self.0.0.set(self.0.0.get() - 1);
    }
}

/// Starts a task that asks the server for the response.
///
/// # Errors
/// Too many updates are running already; the filling is returned.
pub fn update(
    request: &Request,
    context: &CacheContext<'_>,
    object: Arc<StoredObject>,
    filling: FillWriter,
) -> Result<(), FillWriter> {
    let running = request.client.loop_state.modules.get::<RunningUpdates>();
    if running.0.get() >= MAX_RUNNING {
        log_full(request, MAX_RUNNING);
        return Err(filling);
    }
    running.0.set(running.0.get() + 1);
    let place = (UpdatePlace(running), Background::new(&request.client.loop_state.shared.background));
    let mut fork = fork_of(request);
    let (family, wanted, aio) = (context.family, context.wanted.clone(), context.aio.clone());
    loops::spawn(request.client.number, "updating a cache", async move {
        let _place = place;
        let location = fork.place.location.clone();
        let response = match family.shared(&location.settings) {
            Some(shared) => {
                let context = CacheContext { family, shared, wanted, aio };
                let ask = Ask::new(&context, &fork);
                match ask.keeping(&mut fork, filling, CacheStatus::Expired, Some(object)).await {
                    Outcome::Response(response) => Some(response),
                    _ => None,
                }
            }
            None => None,
        };
        Subrequest { request: fork, response }.finish();
    });
    Ok(())
}
