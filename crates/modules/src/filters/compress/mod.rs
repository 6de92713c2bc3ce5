//! Compresses responses for clients that can decompress them: `gzip`, `brotli`, `zstd`. One filter serves all codings;
//! each coding has a file of its own.
//!
//! If several codings are on and the client accepts more than one of them, the highest quality in `Accept-Encoding`
//! decides; among equals zstd, then brotli, then gzip.

pub mod accept_encoding;
pub mod brotli;
pub mod coding;
mod compressed_bodies;
mod deflate;
pub mod gzip;
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
use freerun_http::request::representation::Change;
use freerun_http::request::response::{Body, Response};
use freerun_http::variables::VariableValue;
use freerun_proto::{HeaderId, Status};
use freerun_runtime::loops;

use coding::{Coding, INLINE, Params};
use compressed_bodies::{CompressedBodies, Original};
use gzip::GzipSettings;
use source::{CompressedBytes, CompressedSource, Ratio};

/// The codings, preferred ones first.
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
        || !matches!(response.status, Status::OK | Status::FORBIDDEN | Status::NOT_FOUND)
        || response.field(b"Content-Encoding").is_some_and(|encoding| !encoding.is_empty())
    {
        return;
    }
    let location = request.place.location.clone();
    let settings = &location.settings;
    let Some((coding, params)) = choose(request, response, settings) else { return };
    match packed(request, response, coding, params) {
        Ok(body) => {
            response.content_changes(Change::CODING);
            response.add(&b"Content-Encoding"[..], coding.name);
            response.body = body;
        }
        Err(error) => log_error!(request, Alert, "{} failed: {error}", coding.name),
    }
}

/// Chooses the coding for a response. Records that the answer depends on `Accept-Encoding`, if it does.
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
        let quality = accept_encoding::quality(accepted, coding.name);
        if quality > best_quality && (coding.allows)(request, response) {
            best_quality = quality;
            best = Some((coding, plan.params));
        }
    }
    best
}

/// Compresses the body: at once if it is here and that is fast.
fn packed(
    request: &Request,
    response: &mut Response,
    coding: &'static Coding,
    params: Params,
) -> std::io::Result<Body> {
    if request.is_head() {
        return Ok(Body::Source(Box::new(CompressedBytes::new(Bytes::new()))));
    }
    let ratio = request.own.get::<Ratio>();
    ratio.coding.set(coding.name);
    let loop_state = &request.client.loop_state;
    let again = Original::of(&response.body, coding, params)
        .map(|original| (loop_state.modules.get::<CompressedBodies>(), original));
    if let Some((kept, original)) = &again
        && let Some(packed) = kept.get(original, loops::now())
    {
        ratio.input.set(original.len());
        ratio.output.set(packed.len() as u64);
        return Ok(Body::Source(Box::new(CompressedBytes::new(packed))));
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
        return Ok(Body::Source(Box::new(CompressedBytes::new(packed))));
    }
    let source = std::mem::replace(&mut response.body, Body::Empty).into_source(request);
    Ok(Body::Source(Box::new(CompressedSource::new(request, source, coding, params, ratio, again))))
}

/// The value of `$gzip_ratio` and the corresponding variables: how many times smaller the response became; no value if
/// it was not compressed with this coding.
fn ratio<'r>(request: &'r Request, coding: &Coding) -> VariableValue<'r> {
    let ratio = request.own.find::<Ratio>()?;
    let (input, output) = (ratio.input.get(), ratio.output.get());
    if ratio.coding.get() != coding.name || output == 0 || !request.sent.complete {
        return None;
    }
    Some(hundredths(input, output).into_bytes().into())
}

/// Prints a ratio with two decimals, rounded like in nginx.
fn hundredths(input: u64, output: u64) -> String {
    let value = (u128::from(input) * 1000 / u128::from(output) + 5) / 10;
    format!("{}.{:02}", value / 100, value % 100)
}
