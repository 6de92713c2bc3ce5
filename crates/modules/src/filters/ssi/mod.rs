//! `ssi`: commands in pages that the server carries out while it sends them.

mod commands;
mod expr;
mod page;
mod parser;
mod state;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use freerun_conf::{Size, group, into_bytes, settings};
use freerun_http::module::Module;
use freerun_http::request::Request;
use freerun_http::request::handler::{Filter, Slot};
use freerun_http::request::representation::Change;
use freerun_http::request::response::{Body, Response};
use freerun_http::values::media_types::MediaTypes;
use freerun_http::variables::Variable;
use freerun_runtime::log::clock;

use crate::dates;
use state::TimeFormat;

settings! {
    /// Server side includes.
    #[module = "ssi"]
    pub struct SsiSettings {
        /// Carries out the commands in pages.
        ///
        /// A command is `<!--# name parameter="value" … -->`:
        ///
        /// | command | does |
        /// |---|---|
        /// | `include virtual="uri"` or `file="path"` | inserts the answer to a subrequest. `stub="block"`: that block replaces an empty answer or an error; `wait="yes"`: the page goes on only after it; `set="name"`: the answer is stored in a variable |
        /// | `block name="name"` … `endblock` | text and commands for `stub` |
        /// | `echo var="name"` | the value of a variable; `default="text"` where there is none, `encoding="none"`, `"url"` or `"entity"` |
        /// | `set var="name" value="text"` | sets a variable, which may have variables in it |
        /// | `if expr="…"`, `elif expr="…"`, `else`, `endif` | conditions: `$name`, `$name = text`, `$name != text`, and these with `/expression/`, whose groups become variables |
        /// | `config errmsg="text" timefmt="format"` | the text that is shown for a command that fails, and the format of dates, as in strftime(3) |
        ///
        /// Includes run at the same time and are sent in their order. There are limits that nginx does not have: 64 KB
        /// for a value made of variables, 1 MB for all variables and blocks of a request, 10,000 subrequests.
        ssi: bool = "off", in HTTP | SERVER | LOCATION | LOCATION_IF,
            fidelity = Differs("what looks like the beginning of a command at the very end of a page is sent, and not lost");
        /// Whether a page with commands keeps the `Last-Modified` and (weak) `ETag` of its file.
        ssi_last_modified: bool = "off", in HTTP | SERVER | LOCATION;
        /// The smallest part of a file that is sent from the file.
        ssi_min_file_chunk: Size = "1k", in HTTP | SERVER | LOCATION, fidelity = NoEffect("text between commands is in memory already when they have been looked for");
        /// Whether a command that fails leaves no text in the page.
        ssi_silent_errors: bool = "off", in HTTP | SERVER | LOCATION;
        /// Media types, besides `text/html`, of the pages with commands; `*` is all.
        ssi_types: MediaTypes, in HTTP | SERVER | LOCATION;
        /// The longest value of a parameter.
        ssi_value_length: Size = "256", in HTTP | SERVER | LOCATION;
    }
}

/// The module `ssi`.
pub static MODULE: Module = Module {
    name: "ssi",
    groups: &[group::<SsiSettings>()],
    filters: &[Filter { slot: Slot::Ssi, wanted: |settings| settings.get::<SsiSettings>().ssi, run }],
    variables: &[
        Variable::named(
            "date_gmt",
            "The time in GMT, in the format that the SSI command `config timefmt` gives.",
            |request, _| {
                let now = clock::now().secs;
                Some(Cow::Owned(into_bytes(TimeFormat::with(request, |format| dates::gmt(format, now)))))
            },
        ),
        Variable::named(
            "date_local",
            "The local time, in the format that the SSI command `config timefmt` gives.",
            |request, _| {
                let now = clock::now().secs;
                Some(Cow::Owned(into_bytes(TimeFormat::with(request, |format| dates::local(format, now)))))
            },
        ),
    ],
    ..Module::EMPTY
};

fn run(request: &mut Request, response: &mut Response) {
    let location = request.place.location.clone();
    let settings = &location.settings;
    let settings = settings.get::<SsiSettings>();
    // A 304 has no length and no media type, so with `*` it is treated as a page.
    if response.length() == Some(0) && !response.no_length || !settings.ssi_types.contains(&response.content_type) {
        return;
    }
    response.content_changes(if settings.ssi_last_modified { Change::COMMANDS_DATED } else { Change::COMMANDS });
    if response.no_length {
        return;
    }
    let source = std::mem::replace(&mut response.body, Body::Empty).into_source(request);
    response.body = Body::Source(Box::new(page::SsiPage::new(request, response, source)));
}
