//! Packing responses for clients that can unpack them: `gzip`, `brotli`, `zstd`. One filter serves all codings; what
//! differs between them is in their files.
//!
//! When several codings are on and the client takes more than one of them, the one with the highest quality in
//! `Accept-Encoding` is used; among equals zstd, then brotli, then gzip.

pub mod accept;
pub mod brotli;
pub mod coding;
mod deflate;
pub mod gzip;
mod kept;
mod source;
#[cfg(test)]
mod tests;
pub mod zstd;

use bytes::Bytes;
use freerun_conf::SettingsSet;
use freerun_http::log_error;
use freerun_http::module::Module;
use freerun_http::request::Request;
use freerun_http::request::handler::{Filter, Slot};
use freerun_http::request::response::{Body, Response};
use freerun_http::variables::Value;
use freerun_proto::HeaderId;
use freerun_runtime::loops;

use coding::{Coding, INLINE, Params};
use gzip::GzipSettings;
use kept::{Kept, Original};
use source::{Compressed, Packed, Ratio};

/// The codings, the preferred ones first.
pub static CODINGS: [&Coding; 3] = [&zstd::CODING, &brotli::CODING, &gzip::CODING];

/// The filter of all codings.
pub static MODULE: Module = Module {
    name: "compress",
    filters: &[Filter {
        slot: Slot::Compress,
        wanted: |settings| CODINGS.iter().any(|coding| (coding.plan)(settings).is_some()),
        run,
    }],
    ..Module::EMPTY
};

fn run(request: &mut Request, response: &mut Response) {
    if request.is_subrequest()
        || !matches!(response.status, 200 | 403 | 404)
        || response.field(b"Content-Encoding").is_some_and(|encoding| !encoding.is_empty())
    {
        return;
    }
    let location = request.place.location.clone();
    let settings = &location.settings;
    let Some((coding, params)) = choose(request, response, settings) else { return };
    match packed(request, response, coding, params) {
        Ok(body) => {
            response.weaken_and_refuse_ranges();
            response.add(&b"Content-Encoding"[..], coding.name);
            response.body = body;
        }
        Err(error) => log_error!(request, Alert, "{} failed: {error}", coding.name),
    }
}

/// The coding for a response. Notes that the answer depends on what the client accepts, where it does.
fn choose(request: &Request, response: &mut Response, settings: &SettingsSet) -> Option<(&'static Coding, Params)> {
    let accepted = request.head.value(HeaderId::AcceptEncoding).unwrap_or_default();
    let mut best = None;
    let mut best_quality = 0;
    for coding in CODINGS {
        let Some(plan) = (coding.plan)(settings) else { continue };
        if response.length().is_some_and(|length| length < plan.min_length)
            || !plan.types.contains(&response.content_type)
        {
            continue;
        }
        response.vary |= settings.get::<GzipSettings>().gzip_vary;
        let quality = accept::quality(accepted, coding.name);
        if quality > best_quality && (coding.allows)(request, response) {
            best_quality = quality;
            best = Some((coding, plan.params));
        }
    }
    best
}

/// The body, packed: at once where it is here and that takes no time.
fn packed(
    request: &Request,
    response: &mut Response,
    coding: &'static Coding,
    params: Params,
) -> std::io::Result<Body> {
    if request.is_head() {
        return Ok(Body::Source(Box::new(Packed::new(Bytes::new()))));
    }
    let ratio = request.own.get::<Ratio>();
    ratio.coding.set(coding.name);
    let loop_state = &request.client.loop_state;
    let again =
        Original::of(&response.body, coding, params).map(|original| (loop_state.modules.get::<Kept>(), original));
    if let Some((kept, original)) = &again
        && let Some(packed) = kept.get(original, loops::now())
    {
        ratio.input.set(original.len());
        ratio.output.set(packed.len() as u64);
        return Ok(Body::Source(Box::new(Packed::new(packed))));
    }
    let at_hand = match &response.body {
        Body::Empty => Some(Bytes::new()),
        Body::Bytes(bytes) if coding.estimate(params, bytes.len()) <= INLINE => Some(bytes.clone()),
        _ => None,
    };
    if let Some(bytes) = at_hand {
        let packed = (coding.whole)(params, &bytes)?;
        ratio.input.set(bytes.len() as u64);
        ratio.output.set(packed.len() as u64);
        if let Some((kept, original)) = again {
            kept.put(original, packed.clone());
        }
        return Ok(Body::Source(Box::new(Packed::new(packed))));
    }
    let source = std::mem::replace(&mut response.body, Body::Empty).into_source(request);
    Ok(Body::Source(Box::new(Compressed::new(request, source, coding, params, ratio, again))))
}

/// `$gzip_ratio` and its like: how many times smaller the response became; nothing where it was not packed this way.
fn ratio<'r>(request: &'r Request, coding: &Coding) -> Value<'r> {
    let ratio = request.own.find::<Ratio>()?;
    let (input, output) = (ratio.input.get(), ratio.output.get());
    if ratio.coding.get() != coding.name || output == 0 || !request.sent.complete {
        return None;
    }
    Some(hundredths(input, output).into_bytes().into())
}

/// A ratio with two digits behind the point, rounded as nginx does.
fn hundredths(input: u64, output: u64) -> String {
    let value = (u128::from(input) * 1000 / u128::from(output) + 5) / 10;
    format!("{}.{:02}", value / 100, value % 100)
}
