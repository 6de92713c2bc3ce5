//! What a member of the family (`proxy_pass`, `fastcgi_pass`, …) is to those who have its requests answered: its directives behind
//! one view, and a maker of exchanges.

use std::ops::{Deref, DerefMut};

use bytes::Bytes;
use freerun_conf::SettingsSet;
use freerun_http::request::Request;
use freerun_http::request::handler::Outcome;
use freerun_http::request::response::Response;
use freerun_http::values::temp_path::TempPath;
use freerun_proto::HeaderId;

use crate::exchange::http1::{HttpExchange, WriteHead};
use crate::exchange::target::{Target, TargetLookup};
use crate::exchange::{Exchange, Fault, UpstreamHead};
use crate::settings::FamilySettings;
use crate::settings::options::Options;

/// An exchange, in a place of its own where it is not the most frequent one.
pub enum Exchanging {
    /// Of `proxy`.
    Http(HttpExchange<WriteHead>),
    /// Of the other members.
    Boxed(Box<dyn Exchange>),
}

impl Deref for Exchanging {
    type Target = dyn Exchange;

    fn deref(&self) -> &(dyn Exchange + 'static) {
        match self {
            Exchanging::Http(exchange) => exchange,
            Exchanging::Boxed(exchange) => &**exchange,
        }
    }
}

impl DerefMut for Exchanging {
    fn deref_mut(&mut self) -> &mut (dyn Exchange + 'static) {
        match self {
            Exchanging::Http(exchange) => exchange,
            Exchanging::Boxed(exchange) => &mut **exchange,
        }
    }
}

/// The body that is sent to the upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestBody {
    /// None (`proxy_pass_request_body off`).
    None,
    /// The client's.
    Client,
    /// This one (`proxy_set_body`).
    Set(Bytes),
}

/// What a member makes of a response's head.
pub enum Passed {
    /// The response for the client, without its body, which is put in later.
    Response(Box<Response>, Advice),
    /// It goes elsewhere inside the server (`X-Accel-Redirect`); the body of the upstream is not wanted.
    Elsewhere(Outcome),
}

/// What a response says about itself to the server (`X-Accel-…`), where that is not ignored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Advice {
    /// `X-Accel-Buffering`
    pub buffering: Option<bool>,
    /// `X-Accel-Limit-Rate`, bytes a second to the client; 0: no limit.
    pub limit_rate: Option<u64>,
}

/// A member of the family. All its methods look at the settings of the place where the request is.
pub trait Family: Sync {
    /// The directives' prefix without its underscore: `proxy`, `fastcgi`.
    fn name(&self) -> &'static str;

    /// The directives that `client/` reads.
    fn options(&self, request: &Request) -> Options;

    /// The member's part of the table that all share. What it lacks there has its default.
    fn table<'s>(&self, settings: &'s SettingsSet) -> &'s FamilySettings;

    /// The directives that all members share, where the member has them all.
    fn shared<'s>(&self, settings: &'s SettingsSet) -> Option<&'s FamilySettings> {
        let _ = settings;
        None
    }

    /// `proxy_temp_path`: where a response goes that the client does not take as fast as it comes.
    fn temp_path<'s>(&self, settings: &'s SettingsSet) -> Option<&'s TempPath> {
        let _ = settings;
        None
    }

    /// What the request is passed to.
    fn target<'r>(&'r self, request: &'r Request) -> TargetLookup<'r>;

    /// Appends the key of a response where `cache_key` says none: what is asked of whom. `false`: there is none.
    ///
    /// # Errors
    /// What is asked cannot be made out; it is logged.
    fn cache_key(&self, request: &Request, out: &mut Vec<u8>) -> Result<bool, Outcome> {
        let _ = (request, out);
        Ok(false)
    }

    /// Whether HEAD is passed on as GET where responses are cached: `cache_convert_head`.
    fn converts_head(&self, request: &Request) -> bool {
        let _ = request;
        false
    }

    /// Whether the server is asked for a part of the response (`Range`) by the configuration itself.
    fn asks_for_part(&self, request: &Request) -> bool {
        let _ = request;
        false
    }

    /// Which body goes there.
    fn body(&self, request: &Request) -> RequestBody {
        let _ = request;
        RequestBody::Client
    }

    /// A try. The target is that of [`Family::target`], and the response's head may have `max_head` bytes: what `buffer_size` says.
    fn exchange(&self, request: &Request, target: &Target, max_head: usize) -> Exchanging;

    /// What the client gets for a final response: fields are hidden, passed and changed here. What is decided by
    /// the status and the like (retries, `proxy_intercept_errors`) is decided before.
    ///
    /// # Errors
    /// It cannot be passed on: 502, and the text is logged.
    fn respond(&self, request: &mut Request, target: &Target, head: UpstreamHead) -> Result<Passed, Fault>;

    /// Whether a field is kept from the client, be it in a head, an interim one or behind the body.
    fn hides(&self, request: &Request, id: HeaderId, name: &[u8]) -> bool {
        let _ = (request, id, name);
        false
    }

    /// Whether a body of unknown length can be passed on as it comes, in the way this request is passed on: by chunks. If
    /// not, it is read completely before, whatever `proxy_request_buffering` says.
    fn passes_unknown_length(&self, request: &Request) -> bool {
        let _ = request;
        false
    }

    /// The method that the upstream sees, for deciding what may be sent again (`proxy_method`); `GET` where the protocol
    /// has none.
    fn is_idempotent(&self, request: &Request) -> bool;

    /// Whether the client's request asks to leave the protocol, and was passed on as such (`Upgrade` in `proxy`): only
    /// then 101 is an answer.
    fn upgrades(&self, request: &Request) -> bool {
        let _ = request;
        false
    }
}
