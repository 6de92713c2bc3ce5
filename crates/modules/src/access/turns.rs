//! Slow work on what a client shows, which is done in the pool for processor work: comparing a password, decrypting a token.
//!
//! Each client has a few tasks at a time. A client that tries many passwords at once waits for its own comparisons, and
//! does not fill the queue of the pool that all clients share.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use freerun_http::connection::client_gone::ClientGone;
use freerun_http::log_error;
use freerun_http::request::Request;
use freerun_http::request::handler::Outcome;
use freerun_proto::Status;
use freerun_runtime::files::ClientPresence;
use freerun_runtime::pool::{PoolError, Tag};
use tokio::sync::Semaphore;

/// The number of tasks of one client that a loop gives to the pool at a time.
const AT_A_TIME: usize = 8;

/// The clients of a loop that wait for a task, or have one running. Their number is bounded by the number of
/// connections.
#[derive(Default)]
pub struct Turns(RefCell<HashMap<u64, Rc<Semaphore>>>);

/// A client's place in the table; dropping the last one removes the client.
struct TurnHolder {
    turns: Rc<Turns>,
    client: u64,
    semaphore: Rc<Semaphore>,
}

impl TurnHolder {
    fn new(turns: Rc<Turns>, client: u64) -> TurnHolder {
        let semaphore = {
            let mut clients = turns.0.borrow_mut();
            clients.entry(client).or_insert_with(|| Rc::new(Semaphore::new(AT_A_TIME))).clone()
        };
        TurnHolder { turns, client, semaphore }
    }
}

impl Drop for TurnHolder {
    fn drop(&mut self) {
        // The references of the table and of this place.
        if Rc::strong_count(&self.semaphore) == 2 {
            self.turns.0.borrow_mut().remove(&self.client);
        }
    }
}

/// Runs `work` in the pool when it is the client's turn.
///
/// # Errors
/// The errors of the pool; [`refused`] answers them.
pub(super) async fn run<T: Send + 'static>(
    request: &Request,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, PoolError> {
    let place = TurnHolder::new(request.client.loop_state.modules.get::<Turns>(), request.client_key());
    let _turn = tokio::select! {
        biased;
        turn = place.semaphore.acquire() => turn,
        () = request.client.gone() => return Err(PoolError::ClientGone),
    };
    let pool = request.generation.pools.cpu().clone();
    let gone = ClientGone::of(&request.client);
    pool.threads().run_unless(Tag::client(request.client_key()), Some(gone.gone()), work).await
}

/// The outcome of a request whose work was not done.
pub(super) fn refused(request: &Request, error: &PoolError) -> Outcome {
    let status = match error {
        PoolError::ClientGone => Status::CLIENT_CLOSED_REQUEST,
        PoolError::Overflow { .. } | PoolError::ShutDown => Status::SERVICE_UNAVAILABLE,
        PoolError::Panicked => Status::INTERNAL_SERVER_ERROR,
    };
    match status {
        Status::CLIENT_CLOSED_REQUEST => log_error!(request, Info, "{error}"),
        _ => log_error!(request, Error, "{error}"),
    }
    Outcome::Status(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_remains_of_clients_that_have_left() {
        let turns = Rc::new(Turns::default());
        let first = TurnHolder::new(turns.clone(), 1);
        let again = TurnHolder::new(turns.clone(), 1);
        let other = TurnHolder::new(turns.clone(), 2);
        assert!(Rc::ptr_eq(&first.semaphore, &again.semaphore) && !Rc::ptr_eq(&first.semaphore, &other.semaphore));
        drop(first);
        assert_eq!(turns.0.borrow().len(), 2);
        drop((again, other));
        assert!(turns.0.borrow().is_empty());
    }
}
