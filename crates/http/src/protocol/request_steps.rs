//! The steps of a request that are the same in every protocol. A driver takes them in this order: [`route`],
//! [`verification`], [`judge`], [`phases::respond`]. Then it sends the response, runs
//! [`post_action`](crate::phases::post_action), and ends with [`finish`](crate::finish::finish).
//!
//! Between [`route`] and [`verification`] a driver adds the checks of its own protocol. A request that gets no response
//! takes [`route`] and [`finish`](crate::finish::finish) alone.
//!
//! None of them is a future of its own: each one would cost every request some dozens of instructions.

use freerun_proto::Status;

use crate::arrive;
use crate::message::scratch::RequestScratch;
#[cfg(doc)]
use crate::phases;
use crate::protocol::tls;
use crate::request::Request;
use crate::request::generation::Servers;
use crate::request::response::LocalBoxFuture;

/// Chooses the server of a request, if its head is understood at all, and counts the request there. `whole` is whether all
/// fields of the head are known.
///
/// # Errors
/// The status of the response: the path is wrong, or the choice has failed, which is logged.
#[inline]
pub(super) fn route(
    request: &mut Request,
    servers: &Servers,
    whole: bool,
    merge_slashes: bool,
    scratch: &mut RequestScratch,
) -> Result<(), Status> {
    let routed = if request.head.is_understood() {
        arrive::route_server(request, servers, whole, merge_slashes, scratch)
    } else {
        Ok(())
    };
    request.count_begin();
    routed
}

/// The verification of the client's certificate where it has to be done again, as hardly ever. The result is `None` if the
/// client has gone meanwhile: the request is finished without a response then.
#[inline]
pub(super) fn verification<'r>(
    request: &'r Request,
    servers: &Servers,
    routed: Result<(), Status>,
) -> Option<LocalBoxFuture<'r, Option<()>>> {
    if routed.is_ok() { tls::verify_anew(request, servers) } else { None }
}

/// Judges the client's certificate before the phases ([`phases::respond`]).
///
/// # Errors
/// The status of the response: an earlier step has failed, or the certificate is refused.
#[inline]
pub(super) fn judge(request: &mut Request, servers: &Servers, routed: Result<(), Status>) -> Result<(), Status> {
    routed.and_then(|()| arrive::judge_tls(request, servers))
}

/// Notes that the connection or the stream of a request is closed without a response.
#[inline]
pub(super) fn note_unanswered(request: &mut Request) {
    if request.sent.code() == 0 {
        request.sent.status = Some(Status::NO_RESPONSE);
    }
}
