//! The effect of `rewrite` on a request whose path matches.

use freerun_conf::text_of;
use freerun_proto::Status;
use freerun_proto::uri::{EscapeSet, escape_into};

use crate::log_error;
use crate::request::Request;
use crate::request::handler::Outcome;
use crate::script::replace::{Flag, Replace};

/// The next step of the script.
pub(super) enum NextStep {
    /// The script goes on with the next directive.
    Goes,
    /// The script has ended; `find` is whether a location has to be found for the new path.
    Ended { find: bool },
    /// The script has ended with this answer.
    Answer(Outcome),
}

/// Applies a directive whose expression has matched. `escapes` is whether the client's path had escapes in it.
pub(super) fn apply(replace: &Replace<Request>, request: &mut Request, escapes: bool, logs: bool) -> NextStep {
    let redirects = replace.redirects();
    let mut path = Vec::with_capacity(request.asked.path.len() + 16);
    replace.path.render_with(request, &mut path, |capture, out| {
        if escapes && redirects { escape_into(EscapeSet::Args, capture, out) } else { out.extend_from_slice(capture) }
    });
    let mut args = None;
    if let Some(template) = &replace.args {
        let mut text = Vec::new();
        template.render_with(request, &mut text, |capture, out| {
            if escapes { escape_into(EscapeSet::Args, capture, out) } else { out.extend_from_slice(capture) }
        });
        args = Some(text);
    }
    if replace.add_args
        && let Some(own) = request.asked.args.as_ref().filter(|own| !own.is_empty())
    {
        match &mut args {
            Some(args) => {
                args.push(b'&');
                args.extend_from_slice(own);
            }
            None => args = Some(own.clone()),
        }
    }
    request.place.rewritten_here = true;
    if let Flag::Redirect(status) = replace.flag {
        path = unescape_redirect(&path);
        if let Some(args) = args.filter(|args| replace.args.is_some() || !args.is_empty()) {
            path.push(b'?');
            path.extend_from_slice(&args);
        }
        if logs {
            log_error!(request, Notice, "rewritten redirect: \"{}\"", text_of(&path));
        }
        return NextStep::Answer(Outcome::ClientRedirect(status, path.into()));
    }
    if logs {
        let (path, args) = (text_of(&path), args.as_deref().unwrap_or_default());
        log_error!(request, Notice, "rewritten data: \"{path}\", args: \"{}\"", text_of(args));
    }
    request.asked.path = path;
    if request.asked.path.is_empty() {
        log_error!(request, Error, "the rewritten URI has a zero length");
        return NextStep::Answer(Outcome::Status(Status::INTERNAL_SERVER_ERROR));
    }
    request.asked.args = args;
    request.place.internal = true;
    request.asked.uri_kept = false;
    match replace.flag {
        Flag::Break => NextStep::Ended { find: false },
        Flag::Last => NextStep::Ended { find: true },
        _ => NextStep::Goes,
    }
}

/// Decodes the escapes in the path of a redirect that a URI does not need, as nginx does: escapes of `&` to `~`, up to
/// the first question mark. Invalid escapes are removed.
fn unescape_redirect(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'?' => {
                out.push(b'?');
                break;
            }
            b'%' => {
                let Some((high, after)) = rest.split_first() else { break };
                rest = after;
                let Some(value) = hex(*high) else {
                    out.push(*high);
                    continue;
                };
                let Some((low, after)) = rest.split_first() else { break };
                rest = after;
                match hex(*low).map(|low| value << 4 | low) {
                    None => {}
                    Some(b'?') => {
                        out.push(b'?');
                        break;
                    }
                    Some(plain @ b'&'..=b'~') => out.push(plain),
                    Some(_) => out.extend_from_slice(&[b'%', *high, *low]),
                }
            }
            byte => out.push(*byte),
        }
    }
    out.extend_from_slice(rest);
    out
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_lose_escapes_that_they_do_not_need() {
        for (path, wanted) in [
            ("/a%41%20%2f%26%25%3cb", "/aA%20/&%25<b"),
            ("%zz%4z%5", "zz"),
            ("%%41", "%41"),
            ("%4%41", "41"),
            ("a%3fb%41", "a?b%41"),
            ("a?b%41%", "a?b%41%"),
            ("%00%7e%7F%ff", "%00~%7F%ff"),
            ("%", ""),
        ] {
            assert_eq!(unescape_redirect(path.as_bytes()), wanted.as_bytes(), "{path}");
        }
    }
}
