//! `gzip_static`, `brotli_static`, `zstd_static`: compressed files that are stored beside the originals.
//!
//! The choice among several codings is the same as for responses that are compressed on the fly, see
//! [`crate::filters::compress`].

use std::cell::Cell;

use freerun_conf::{SettingsSet, group, keyword_enum, settings};
use freerun_http::content::open;
use freerun_http::content::path;
use freerun_http::module::Module;
use freerun_http::request::Request;
use freerun_http::request::handler::{Filter, Handler, Outcome, Phase, Run, Slot};
use freerun_http::request::response::LocalBoxFuture;
use freerun_proto::{HeaderId, Method, Status};

use super::static_files::{log_open_error, respond};
use crate::filters::compress::accept_encoding;
use crate::filters::compress::gzip::{self, GzipSettings};

keyword_enum! {
    /// The value of `gzip_static` and the corresponding directives.
    pub enum Static {
        /// The original files are sent.
        Off = "off",
        /// Compressed files are sent to clients that accept them.
        On = "on",
        /// Compressed files are sent to all clients.
        Always = "always",
    }
}

settings! {
    /// Compressed files that are stored beside the originals.
    #[module = "gzip_static"]
    pub struct PrecompressedSettings {
        /// Sends the file with the name of the requested one and `.gz` after it, if it exists, to clients that accept
        /// gzip, or to all clients.
        gzip_static: Static = "off", in HTTP | SERVER | LOCATION,
            fidelity = Differs("with `gzip_static`, `brotli_static` or `zstd_static` together, `Accept-Encoding` decides");
        /// Sends files with `.br` to clients that accept brotli, like `gzip_static`, as in the module ngx_brotli.
        brotli_static: Static = "off", in HTTP | SERVER | LOCATION;
        /// Sends files with `.zst` to clients that accept zstd, like `gzip_static`, as in the module zstd-nginx-module.
        zstd_static: Static = "off", in HTTP | SERVER | LOCATION;
    }
}

/// A kind of compressed files.
struct PrecompressedKind {
    coding: &'static str,
    extension: &'static [u8],
    setting: fn(&PrecompressedSettings) -> Static,
}

/// The kinds, preferred ones first.
static KINDS: [PrecompressedKind; 3] = [
    PrecompressedKind { coding: "zstd", extension: b".zst", setting: |settings| settings.zstd_static },
    PrecompressedKind { coding: "br", extension: b".br", setting: |settings| settings.brotli_static },
    PrecompressedKind { coding: "gzip", extension: b".gz", setting: |settings| settings.gzip_static },
];

/// The module `gzip_static`, for all codings.
pub static MODULE: Module = Module {
    name: "gzip_static",
    groups: &[group::<PrecompressedSettings>()],
    handlers: &[Handler { phase: Phase::Content, wanted, run: Run::Later(answer) }],
    filters: &[Filter {
        slot: Slot::Compress,
        wanted,
        run: |request, response| response.vary |= request.own.find::<Varies>().is_some_and(|varies| varies.0.get()),
    }],
    ..Module::EMPTY
};

fn wanted(settings: &SettingsSet) -> bool {
    let settings = settings.get::<PrecompressedSettings>();
    KINDS.iter().any(|kind| (kind.setting)(settings) != Static::Off)
}

/// Whether another client could get another file.
#[derive(Default)]
struct Varies(Cell<bool>);

fn answer(request: &mut Request) -> LocalBoxFuture<'_, Outcome> {
    Box::pin(async move {
        if !matches!(request.asked.method, Method::Get | Method::Head) || request.asked.path.last() == Some(&b'/') {
            return Outcome::Declined;
        }
        let vary = request.settings().get::<GzipSettings>().gzip_vary;
        let name = path::file_name(request);
        let candidates = candidates(request);
        for (kind, quality) in candidates {
            if quality == 0 && !vary {
                continue;
            }
            let name = [&name, kind.extension].concat();
            let file = match open::open(request, &name).await {
                Ok(file) => file,
                Err(error) if error.is_missing() => continue,
                Err(error) => match log_open_error(request, &name, &error) {
                    // The status of the pool, or of a client that went away.
                    status @ (Status::CLIENT_CLOSED_REQUEST | Status::SERVICE_UNAVAILABLE) => {
                        return Outcome::Status(status);
                    }
                    _ => continue,
                },
            };
            let always = (kind.setting)(request.settings().get::<PrecompressedSettings>()) == Static::Always;
            if vary && !always {
                request.own.get::<Varies>().0.set(true);
            }
            if quality == 0 || !file.meta.is_file() {
                continue;
            }
            let mut outcome = respond(request, &file);
            if let Outcome::Response(response) = &mut outcome {
                response.add(&b"Content-Encoding"[..], kind.coding);
            }
            return outcome;
        }
        Outcome::Declined
    })
}

/// The enabled kinds, sorted by the client's quality value, which is returned with each; 0 means not acceptable.
fn candidates(request: &Request) -> impl Iterator<Item = (&'static PrecompressedKind, u16)> + use<> {
    let settings = request.settings().get::<PrecompressedSettings>();
    let field = request.head.value(HeaderId::AcceptEncoding).unwrap_or_default();
    let mut candidates = KINDS.each_ref().map(|kind| {
        let quality = match accept_encoding::quality(field, kind.coding) {
            _ if request.is_subrequest() => 0,
            quality if kind.coding != "gzip" || quality == 0 || gzip::allows_request(request) => quality,
            _ => 0,
        };
        match (kind.setting)(settings) {
            Static::Off => None,
            Static::On => Some((kind, quality)),
            // Even if the client does not want it, but after the kinds that it wants.
            Static::Always => Some((kind, quality.max(1))),
        }
    });
    candidates.sort_by_key(|candidate| std::cmp::Reverse(candidate.map_or(0, |(_, quality)| quality)));
    candidates.into_iter().flatten()
}
