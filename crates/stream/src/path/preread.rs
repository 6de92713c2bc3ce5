//! The first bytes of a session, which handlers may want to see before it is known where the session goes.

use std::rc::Rc;
use std::time::Duration;

use freerun_proto::Status;
use freerun_runtime::log::Level;
use freerun_runtime::loops;
use freerun_runtime::timer::Timer;
use freerun_serve::Subject;
use freerun_transport::Transport;

use crate::client::ClientSide;
use crate::session::Session;
use crate::session::handler::{HandlerRun, Phase, PhaseOutcome, PrereadProgress, status};
use crate::settings::core::CoreSettings;

/// Runs the handlers of the phase. `buffer` has the bytes that have come already, and gets those that are read here.
///
/// # Errors
/// The status with which the session ends.
pub(super) async fn run(session: &Rc<Session>, timer: &mut Timer, buffer: &mut Vec<u8>) -> Result<(), Status> {
    // Handlers may give the session another server, whose own handlers do not run then.
    let server = session.server();
    let mut deadline = None;
    for handler in server.handlers(Phase::Preread) {
        match handler {
            HandlerRun::Now(run) => match run(session) {
                PhaseOutcome::Declined => {}
                PhaseOutcome::End(status) => return Err(status),
            },
            HandlerRun::NowOrAfterEvents(..) => {}
            HandlerRun::Preread(see) => loop {
                match see(session, buffer) {
                    PrereadProgress::Done => break,
                    PrereadProgress::End(status) => return Err(status),
                    PrereadProgress::NeedMore => {}
                }
                match &session.client {
                    ClientSide::Stream(transport) => {
                        let settings = session.settings();
                        let core = settings.get::<CoreSettings>();
                        loops::note(session.number, "prereading");
                        session.set_step("prereading client data");
                        let most = core.preread_buffer_size.in_memory();
                        let until = *deadline.get_or_insert_with(|| loops::now() + core.preread_timeout);
                        let left = until.saturating_duration_since(loops::now());
                        read_more(session, transport, timer, (buffer, most), left).await?;
                    }
                    // There is nothing more to be seen of datagrams than the first one.
                    ClientSide::Datagrams(_) => break,
                }
            },
        }
    }
    Ok(())
}

/// Reads more bytes behind those that are there, up to `most` in all.
async fn read_more(
    session: &Session,
    transport: &Transport,
    timer: &mut Timer,
    (buffer, most): (&mut Vec<u8>, usize),
    left: Duration,
) -> Result<(), Status> {
    let room = most.saturating_sub(buffer.len());
    if room == 0 {
        session.log(Level::Error, format_args!("preread buffer full"));
        return Err(status::BAD_REQUEST);
    }
    // The buffer gets its memory only when there are bytes.
    let readable = timer.within(left, transport.readable()).await;
    match readable {
        // As in nginx, nothing is logged of a client that is silent, or that leaves.
        None | Some(Err(_)) => return Err(status::OK),
        Some(Ok(())) => {}
    }
    if buffer.capacity() != most {
        // All of the capacity may be filled.
        let mut fitting = Vec::with_capacity(most);
        fitting.append(buffer);
        *buffer = fitting;
    }
    match timer.within(left, transport.read(buffer)).await {
        Some(Ok(1..)) => Ok(()),
        _ => Err(status::OK),
    }
}
