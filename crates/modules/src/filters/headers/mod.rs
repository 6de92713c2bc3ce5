//! `add_header`, `add_trailer` and `expires`.

mod expires;

use std::sync::Arc;

use bytes::Bytes;
use freerun_conf::{Cx, Node, Problem, Setting, SettingsSet, Shape, group, keyword_enum, settings};
use freerun_http::module::Module;
use freerun_http::request::Request;
use freerun_http::request::handler::{Filter, Slot};
use freerun_http::request::response::Response;
use freerun_http::template::Template;
use freerun_http::write::text;

use expires::Expires;

settings! {
    /// Fields added to responses.
    #[module = "headers"]
    pub struct HeadersSettings {
        /// Adds a field to responses with status 200, 201, 204, 206, 301, 302, 303, 304, 307 or 308, or with `always` to all.
        ///
        /// A field whose value is empty is not added. `Last-Modified` and `ETag` replace the response's own; an empty
        /// value removes them.
        add_header: Additions, in HTTP | SERVER | LOCATION | LOCATION_IF;
        /// Adds a field that is sent after the body, to responses with the same statuses as `add_header`.
        ///
        /// The response is sent in chunks for it; a client of HTTP/1.0 does not get the field. The value is evaluated
        /// after the body was sent.
        add_trailer: Additions, in HTTP | SERVER | LOCATION | LOCATION_IF;
        /// Sets `Expires` and `Cache-Control` to now plus the time. `modified` takes the file's modification time
        /// instead of now, and `@` a time of the day; `epoch` and `max` are the extremes.
        expires: Expires = "off", in HTTP | SERVER | LOCATION | LOCATION_IF;
    }
    also {
        /// Inheritance of `add_header`: by levels that have none of their own (`on`, the default), by no level (`off`),
        /// or by every level, after its own (`merge`).
        "add_header_inherit" => add_header: Shape::exactly(1, "on | off | merge"),
            in HTTP | SERVER | LOCATION | LOCATION_IF, since = "1.29.3";
        /// Inheritance of `add_trailer`: `on`, `off` or `merge`, as with `add_header_inherit`.
        "add_trailer_inherit" => add_trailer: Shape::exactly(1, "on | off | merge"),
            in HTTP | SERVER | LOCATION | LOCATION_IF, since = "1.29.3";
    }
}

keyword_enum! {
    /// The way in which additions are inherited.
    #[derive(Default)]
    pub enum Inherit {
        /// By a level that has no additions of its own.
        #[default]
        On = "on",
        /// Not at all.
        Off = "off",
        /// By every level, in addition to its own.
        Merge = "merge",
    }
}

/// A field to add.
#[derive(Debug, Clone)]
struct Addition {
    name: Bytes,
    value: Template,
    always: bool,
}

/// The fields to add at one level.
#[derive(Debug, Clone, Default)]
pub struct Additions {
    list: Arc<Vec<Addition>>,
    inherit: Option<Inherit>,
}

impl Setting for Additions {
    const SHAPE: Shape = Shape::between(2, 3, "name value [always]");
    // With `off`, a level without any directive has no additions.
    const MERGES_ALWAYS: bool = true;

    fn set(previous: Option<Additions>, directive: &Node, cx: &mut Cx) -> Result<Additions, Problem> {
        let mut level = previous.unwrap_or_default();
        if directive.name.text.ends_with("_inherit") {
            if level.inherit.is_some() {
                return Err(Problem::duplicate(directive));
            }
            level.inherit = Some(<Inherit as freerun_conf::Value>::parse(directive, cx)?);
            return Ok(level);
        }
        let name = Bytes::from(directive.args[0].bytes().into_owned());
        let value = Template::parse(&directive.args[1], cx)?;
        let always = match directive.args.get(2) {
            None => false,
            Some(word) if word.text == "always" => true,
            Some(word) => return Err(Problem::invalid_parameter(directive, word)),
        };
        Arc::make_mut(&mut level.list).push(Addition { name, value, always });
        Ok(level)
    }

    fn merge(level: Option<Additions>, outer: &Additions) -> Additions {
        let own = level.unwrap_or_default();
        let inherit = own.inherit.or(outer.inherit);
        let list = match inherit.unwrap_or_default() {
            Inherit::On if own.list.is_empty() => outer.list.clone(),
            Inherit::Merge if own.list.is_empty() => outer.list.clone(),
            Inherit::On | Inherit::Off => own.list,
            Inherit::Merge => Arc::new(own.list.iter().chain(&*outer.list).cloned().collect()),
        };
        Additions { list, inherit }
    }
}

impl Additions {
    /// The additions for a response with this status.
    fn for_status(&self, status: u16) -> impl Iterator<Item = &Addition> {
        let usual = matches!(status, 200 | 201 | 204 | 206 | 301 | 302 | 303 | 304 | 307 | 308);
        self.list.iter().filter(move |addition| usual || addition.always)
    }
}

/// The module `headers`.
pub static MODULE: Module = Module {
    name: "headers",
    groups: &[group::<HeadersSettings>()],
    filters: &[Filter { slot: Slot::Headers, wanted, run }],
    ..Module::EMPTY
};

fn wanted(settings: &SettingsSet) -> bool {
    let settings = settings.get::<HeadersSettings>();
    !settings.add_header.list.is_empty() || !settings.add_trailer.list.is_empty() || !settings.expires.is_off()
}

fn run(request: &mut Request, response: &mut Response) {
    if request.is_subrequest() {
        return;
    }
    text::preview(request, response);
    let location = request.place.location.clone();
    let settings = location.settings.get::<HeadersSettings>();
    let status = request.sent.code();
    if matches!(status, 200 | 201 | 204 | 206 | 301 | 302 | 303 | 304 | 307 | 308) {
        expires::set(&settings.expires, request, response);
        if !settings.expires.is_off() {
            text::preview(request, response);
        }
    }
    for Addition { name, value, .. } in settings.add_header.for_status(status) {
        let value = value.render(request);
        if name.eq_ignore_ascii_case(b"Last-Modified") {
            response.drop_last_modified();
        } else if name.eq_ignore_ascii_case(b"ETag") {
            response.etag = (!value.is_empty()).then(|| Bytes::copy_from_slice(&value));
            text::preview(request, response);
            continue;
        }
        if !value.is_empty() {
            let value = Bytes::copy_from_slice(&value);
            // The fields after it may use it in variables.
            text::preview_field(request, name, &value);
            response.fields.push((name.clone(), value));
        }
    }
    if settings.add_trailer.for_status(status).next().is_some() {
        response.late_trailers.added = Some(trailers);
    }
}

fn trailers(request: &mut Request) {
    let location = request.place.location.clone();
    let settings = location.settings.get::<HeadersSettings>();
    for Addition { name, value, .. } in settings.add_trailer.for_status(request.sent.code()) {
        let value = Bytes::copy_from_slice(&value.render(request));
        if !value.is_empty() {
            request.answered.trailers.push((name.clone(), value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(names: &[&'static str], inherit: Option<Inherit>) -> Option<Additions> {
        let addition = |name: &&'static str| Addition {
            name: Bytes::from_static(name.as_bytes()),
            value: Template::literal(&b"x"[..]),
            always: false,
        };
        Some(Additions { list: Arc::new(names.iter().map(addition).collect()), inherit })
    }

    fn names(additions: &Additions) -> Vec<&str> {
        additions.list.iter().map(|addition| std::str::from_utf8(&addition.name).unwrap()).collect()
    }

    #[test]
    fn a_level_replaces_merges_or_drops_what_is_outside_and_the_rule_is_inherited() {
        let outer = Additions::merge(level(&["A"], None), &Additions::default());
        assert_eq!(names(&Additions::merge(None, &outer)), ["A"]);
        assert_eq!(names(&Additions::merge(level(&["B"], None), &outer)), ["B"]);
        assert_eq!(names(&Additions::merge(level(&[], Some(Inherit::Off)), &outer)), [""; 0]);
        let merged = Additions::merge(level(&["B"], Some(Inherit::Merge)), &outer);
        assert_eq!(names(&merged), ["B", "A"]);
        assert_eq!(names(&Additions::merge(level(&["C"], None), &merged)), ["C", "B", "A"]);
        assert_eq!(names(&Additions::merge(level(&["C"], Some(Inherit::On)), &merged)), ["C"]);
        let dropped = Additions::merge(level(&["B"], Some(Inherit::Off)), &outer);
        assert_eq!(names(&dropped), ["B"]);
        assert_eq!(names(&Additions::merge(None, &dropped)), [""; 0]);
    }
}
