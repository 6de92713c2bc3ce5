//! `expires`: the time until which a response may be reused.

use bytes::Bytes;
use freerun_conf::{Cx, Node, Problem, Shape, Value, parse_seconds};
use freerun_http::request::Request;
use freerun_http::request::response::Response;
use freerun_http::template::Template;
use freerun_proto::date;
use freerun_runtime::log::clock;

/// The number of seconds in a day.
const DAY: i64 = 86_400;

/// The kind of a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExpiresTime {
    Off,
    Epoch,
    Max,
    /// A number of seconds from now.
    FromNow(i64),
    /// A number of seconds from the file's modification.
    FromModified(i64),
    /// A number of seconds from midnight, local time.
    Daily(i64),
}

/// The value of `expires`.
#[derive(Debug, Clone)]
pub struct Expires(ExpiresKind);

#[derive(Debug, Clone)]
enum ExpiresKind {
    Fixed(ExpiresTime),
    Variable { template: Template, modified: bool },
}

/// The reason why a text is not a valid time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum Wrong {
    #[error("invalid value")]
    Value,
    #[error("daily time value must be less than 24 hours")]
    TooLate,
    #[error("daily time cannot be used with \"modified\" parameter")]
    Daily,
}

impl ExpiresTime {
    fn parse(text: &[u8], modified: bool) -> Result<ExpiresTime, Wrong> {
        match text {
            b"epoch" if !modified => return Ok(ExpiresTime::Epoch),
            b"max" if !modified => return Ok(ExpiresTime::Max),
            b"off" if !modified => return Ok(ExpiresTime::Off),
            _ => {}
        }
        let text = std::str::from_utf8(text).map_err(|_| Wrong::Value)?;
        let seconds = |text: &str| parse_seconds(text).and_then(|n| i64::try_from(n).ok()).ok_or(Wrong::Value);
        let time = match text.as_bytes().first() {
            Some(b'@') if modified => return Err(Wrong::Daily),
            Some(b'@') => {
                let time = seconds(&text[1..])?;
                return if time > DAY { Err(Wrong::TooLate) } else { Ok(ExpiresTime::Daily(time)) };
            }
            Some(b'+') => seconds(&text[1..])?,
            Some(b'-') => -seconds(&text[1..])?,
            _ => seconds(text)?,
        };
        Ok(if modified { ExpiresTime::FromModified(time) } else { ExpiresTime::FromNow(time) })
    }
}

impl Value for Expires {
    const SHAPE: Shape = Shape::between(1, 2, "[modified] time | epoch | max | off");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<Expires, Problem> {
        let (modified, word) = match directive.args.as_slice() {
            [word] => (false, word),
            [first, word] if first.text == "modified" => (true, word),
            [first, ..] => return Err(Problem::invalid_value(directive, first)),
            [] => return Err(Problem::wrong_count(directive)),
        };
        let template = Template::parse(word, cx)?;
        Ok(Expires(match template.constant() {
            None => ExpiresKind::Variable { template, modified },
            Some(text) => ExpiresKind::Fixed(
                ExpiresTime::parse(text, modified)
                    .map_err(|why| Problem::directive(directive, &why.to_string()).at(word.place))?,
            ),
        }))
    }
}

impl Expires {
    /// Whether the fields are never set.
    pub fn is_off(&self) -> bool {
        matches!(self.0, ExpiresKind::Fixed(ExpiresTime::Off))
    }
}

/// Sets `Expires` and `Cache-Control`.
pub fn set(expires: &Expires, request: &Request, response: &mut Response) {
    let time = match &expires.0 {
        ExpiresKind::Fixed(time) => *time,
        // A text that is not a valid time counts as `off`.
        ExpiresKind::Variable { template, modified } => {
            ExpiresTime::parse(&template.render(request), *modified).unwrap_or(ExpiresTime::Off)
        }
    };
    let now = clock::now().secs;
    let until = match (time, response.last_modified) {
        (ExpiresTime::Off, _) => return,
        (ExpiresTime::Epoch, _) => return put(response, "Thu, 01 Jan 1970 00:00:01 GMT".into(), "no-cache".into()),
        (ExpiresTime::Max, _) => {
            return put(response, "Thu, 31 Dec 2037 23:55:55 GMT".into(), "max-age=315360000".into());
        }
        // A time of 0 is counted from now, as in nginx.
        (ExpiresTime::FromModified(time), Some(modified)) if time != 0 => modified.saturating_add(time),
        (ExpiresTime::FromNow(time) | ExpiresTime::FromModified(time), _) => now.saturating_add(time),
        (ExpiresTime::Daily(time), _) => next(now, time, i64::from(clock::utc_offset())),
    };
    let age = until.saturating_sub(now);
    let control = if age < 0 { "no-cache".into() } else { format!("max-age={age}").into() };
    put(response, Bytes::copy_from_slice(&date::imf_fixdate(until)), control);
}

/// The next time after `now` that is `time` seconds after midnight, at an offset from UTC.
fn next(now: i64, time: i64, offset: i64) -> i64 {
    let midnight = (now + offset).div_euclid(DAY) * DAY - offset;
    if midnight + time > now { midnight + time } else { midnight + DAY + time }
}

/// Sets the fields, in the place where the response has them already or at the end.
fn put(response: &mut Response, expires: Bytes, control: Bytes) {
    for (name, value) in [("Expires", expires), ("Cache-Control", control)] {
        let mut value = Some(value);
        response.fields.retain(|(field, old)| {
            if !field.eq_ignore_ascii_case(name.as_bytes()) {
                return true;
            }
            match value.take() {
                Some(value) => *old = value,
                None => return false,
            }
            true
        });
        if let Some(value) = value {
            response.add(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_nginx_does() {
        for (text, modified, want) in [
            ("off", false, Ok(ExpiresTime::Off)),
            ("max", false, Ok(ExpiresTime::Max)),
            ("epoch", false, Ok(ExpiresTime::Epoch)),
            ("max", true, Err(Wrong::Value)),
            ("Max", false, Err(Wrong::Value)),
            ("", false, Err(Wrong::Value)),
            ("-", false, Err(Wrong::Value)),
            ("1h 30m", false, Ok(ExpiresTime::FromNow(5400))),
            ("+24h", true, Ok(ExpiresTime::FromModified(DAY))),
            ("-1", false, Ok(ExpiresTime::FromNow(-1))),
            ("@15h30m", false, Ok(ExpiresTime::Daily(55_800))),
            ("@24h", false, Ok(ExpiresTime::Daily(DAY))),
            ("@25h", false, Err(Wrong::TooLate)),
            ("@1h", true, Err(Wrong::Daily)),
            ("@-1h", false, Err(Wrong::Value)),
            ("-@1h", false, Err(Wrong::Value)),
            ("1ms", false, Err(Wrong::Value)),
        ] {
            assert_eq!(ExpiresTime::parse(text.as_bytes(), modified), want, "{text}");
        }
    }

    #[test]
    fn a_time_of_the_day_is_the_next_one_in_local_time() {
        assert_eq!(next(1000, 2000, 0), 2000);
        assert_eq!(next(2000, 2000, 0), DAY + 2000);
        assert_eq!(next(1000, 0, 0), DAY);
        assert_eq!(next(1000, 3700, 3600), 3700 - 3600 + DAY);
        assert_eq!(next(1000, DAY, 0), DAY);
    }
}
