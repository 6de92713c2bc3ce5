//! Lines of the error log about changes by the API: the change, and its author.

use std::fmt;

use freerun_conf::text_of;
use freerun_http::log_error;
use freerun_http::request::Request;
use freerun_http::request::core_settings::{CoreSettings, Satisfy};
use freerun_proto::Credentials;

use crate::access::basic;

/// The longest description of a change in a line, in bytes.
const MAX_TEXT: usize = 500;

/// Logs a change. The line has the client's address, and the name of the user if the location asks for a password.
pub fn note(request: &Request, change: fmt::Arguments<'_>) {
    let mut text = change.to_string();
    if text.len() > MAX_TEXT {
        let end = (0..=MAX_TEXT).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    // The name is a client's own word unless the password was checked.
    let settings = request.settings();
    let is_checked = basic::is_checked(settings) && settings.get::<CoreSettings>().satisfy == Satisfy::All;
    let credentials = request.head.value(request.authorization()).filter(|_| is_checked).and_then(Credentials::parse);
    match credentials {
        Some(credentials) => log_error!(request, Notice, "api: {text}, by user \"{}\"", text_of(credentials.user())),
        None => log_error!(request, Notice, "api: {text}"),
    }
}
