//! The PROXY protocol header before everything else (`listen … proxy_protocol`).

use freerun_proto::Status;
use freerun_runtime::log::{Errno, Level};
use freerun_runtime::loops;
use freerun_runtime::timer::Timer;
use freerun_serve::Subject;
use freerun_serve::values::proxy_header::{self, HeaderError};
use freerun_transport::Transport;

use super::tell;
use crate::session::Session;
use crate::session::handler::status;
use crate::settings::core::CoreSettings;

/// Reads the header, behind the bytes in `buffer`; leaves the bytes after it there.
///
/// # Errors
/// The status that ends the session: there is no header, which is logged.
pub(super) async fn read(
    session: &Session,
    transport: &Transport,
    timer: &mut Timer,
    buffer: &mut Vec<u8>,
) -> Result<(), Status> {
    loops::note(session.number, "reading a PROXY protocol header");
    session.set_step("reading PROXY protocol");
    let timeout = session.settings().get::<CoreSettings>().proxy_protocol_timeout;
    match proxy_header::read(transport, timer, timeout, buffer).await {
        Ok(header) => {
            session.set_proxied(header);
            Ok(())
        }
        Err(HeaderError::TimedOut) => {
            tell(session, format_args!("client timed out (110: Connection timed out)"));
            Err(status::OK)
        }
        Err(HeaderError::Closed) => {
            session.log(Level::Error, format_args!("broken header: \"\""));
            Err(status::BAD_REQUEST)
        }
        Err(HeaderError::Broken(error)) => {
            tell(session, format_args!("recv() failed ({})", Errno(&error)));
            Err(status::BAD_REQUEST)
        }
        Err(HeaderError::Refused(refused)) => {
            session.log(Level::Error, format_args!("{refused}"));
            Err(status::BAD_REQUEST)
        }
    }
}
