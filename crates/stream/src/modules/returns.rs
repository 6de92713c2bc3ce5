//! `return`: sends a text, and ends the session.
//!
//! <https://nginx.org/en/docs/stream/ngx_stream_return_module.html>

use std::io::{self, IoSlice};
use std::rc::Rc;
use std::time::Duration;

use freerun_conf::{group, settings};
use freerun_runtime::log::{Errno, Level};
use freerun_runtime::loops;
use freerun_runtime::timer::Timer;
use freerun_serve::Subject;
use freerun_serve::values::Template;
use freerun_transport::Transport;

use crate::client::ClientSide;
use crate::module::Module;
use crate::session::Session;
use crate::session::handler::{ContentFuture, ContentHandler, SessionEnd, status};

/// The time that a client may take nothing of the text before the session ends.
const PATIENCE: Duration = Duration::from_secs(60);

settings! {
    /// Texts for clients.
    #[module = "stream/return"]
    pub struct ReturnSettings {
        /// Sends a text with variables to the client, and closes the connection. A client that sends datagrams gets it in one,
        /// for each of its own.
        #[name = "return"]
        text: Option<Template<Session>>, in STREAM_SERVER, local;
    }
}

/// The module.
pub static MODULE: Module = Module {
    name: "stream/return",
    groups: &[group::<ReturnSettings>()],
    content: &[ContentHandler { directive: "return", start }],
    ..Module::EMPTY
};

fn start(session: Rc<Session>) -> ContentFuture {
    Box::pin(async move {
        let settings = session.settings();
        let text = match &settings.get::<ReturnSettings>().text {
            Some(text) => text.render(&*session).into_owned(),
            None => Vec::new(),
        };
        match &session.client {
            ClientSide::Stream(transport) => match send(&session, transport, &text).await {
                Ok(()) => SessionEnd::Status(status::OK),
                Err(error) => {
                    session.log(Level::Info, format_args!("send() failed ({})", Errno(&error)));
                    SessionEnd::Status(status::INTERNAL_SERVER_ERROR)
                }
            },
            ClientSide::Datagrams(datagrams) => {
                if !text.is_empty() {
                    datagrams.send(&text, None);
                }
                SessionEnd::Status(status::OK)
            }
        }
    })
}

/// Sends all of a text.
async fn send(session: &Session, transport: &Transport, text: &[u8]) -> io::Result<()> {
    loops::note(session.number, "returning a text");
    let mut timer = Timer::default();
    let mut done = 0;
    while done < text.len() {
        match transport.try_write(&[IoSlice::new(&text[done..])], false) {
            Ok(count) => {
                done += count;
                session.sent.set(session.sent.get() + count as u64);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                match timer.within(PATIENCE, transport.writable_after_full()).await {
                    Some(writable) => writable?,
                    None => return Err(io::ErrorKind::TimedOut.into()),
                }
            }
            Err(error) => return Err(error),
        }
        loops::consume_budget().await;
    }
    Ok(())
}
