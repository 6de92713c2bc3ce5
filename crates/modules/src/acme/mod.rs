//! Certificates from CAs by ACME: the client of the worker, which outlives configurations, and what it has got.
//!
//! `freerun_http::settings::acme` reads the directives; the crate `freerun_acme` is the client, on a thread of its own.

pub mod client;
mod server;
mod variables;

use std::sync::Arc;

use freerun_conf::{Cx, Problem, SettingsSet, text_of_os};
use freerun_http::module::Module;
use freerun_http::settings::acme::{DeclaredIssuers, WantedCertificates};
use freerun_runtime::log::Level;
use freerun_runtime::loops::Remote;
use freerun_serve::configuration::generation::Generation;
use freerun_serve::configuration::parts::{Parts, TempFolders};
use freerun_serve::configuration::zones::ZoneTable;
use freerun_serve::http_client::RemoteClient;
use freerun_serve::loops::shared::SharedState;
use freerun_serve::upstream::resolver_settings::ResolverSettings;

use client::Client;

/// The module of certificates by ACME.
pub static MODULE: Module = Module {
    name: "acme",
    variables: variables::VARIABLES,
    finish: Some(finish),
    prepare: Some(prepare),
    begin: Some(begin),
    drain: Some(drain),
    end: Some(end),
    ..Module::EMPTY
};

fn finish(settings: &SettingsSet, cx: &mut Cx) -> Result<(), Problem> {
    let resolver = settings.get::<ResolverSettings>().resolver_and_timeout();
    let resolver = resolver.map(|(resolver, timeout)| (resolver.clone(), timeout));
    let wanted = cx.extensions.remove::<DeclaredIssuers>().unwrap_or_default().finish(resolver);
    // A configuration without certificates has the client too, so that certificates of the previous configuration are
    // no longer ordered.
    let client = cx.extensions.get_or_default::<ZoneTable>().keep("acme", Client::new);
    if let Some(wanted) = &wanted {
        let folders = cx.extensions.get_or_default::<TempFolders>();
        for path in wanted.issuers.iter().filter_map(|issuer| issuer.state_path.as_ref()) {
            folders.add(&text_of_os(path), "state_path");
        }
    }
    let parts = cx.extensions.get_or_default::<Parts>();
    if let Some(wanted) = wanted {
        parts.insert(client.server.challenges().clone());
        parts.insert(Arc::new(wanted));
    }
    parts.insert(client);
    Ok(())
}

/// Takes the certificates that an earlier run has left, so that the first handshakes have them.
fn prepare(generation: &Arc<Generation>, _: &Arc<SharedState>) {
    let (client, wanted) = (generation.parts.get::<Client>(), generation.parts.get::<WantedCertificates>());
    let Some(client) = client else { return };
    let Some(wanted) = wanted else { return client.server.clear() };
    client.server.take(&wanted, &generation.error_log);
    for certificate in wanted.certificates.iter().filter(|one| !client.server.has(&one.settings)) {
        let issuer = wanted.issuers.iter().find(|issuer| issuer.name == certificate.settings.issuer);
        if let Some(pair) = issuer.and_then(|issuer| client.acme.load(issuer, &certificate.settings)) {
            client.server.put(&certificate.settings, &pair);
        }
    }
}

fn begin(generation: &Arc<Generation>, shared: &Arc<SharedState>) {
    let Some(client) = generation.parts.get::<Client>() else { return };
    let loops = shared.loops.load();
    let http_client =
        |remote: &Remote| RemoteClient::new(remote.clone(), generation.files.clone(), generation.pools.clone());
    client.server.set_http_client(loops.first_remote().map(http_client));
    let (issuers, certificates) = match generation.parts.get::<WantedCertificates>() {
        Some(wanted) => {
            let certificates = wanted.certificates.iter().map(|one| one.settings.clone()).collect();
            (wanted.issuers.clone(), certificates)
        }
        None => Default::default(),
    };
    if let Err(error) = client.acme.update(issuers, certificates) {
        let told = format_args!("no certificates are ordered: the thread for it cannot be started ({error})");
        generation.error_log.write(Level::Alert, None, told);
    }
}

/// Leaves orders to the worker that takes the connections from now on: the CA's questions come to that one, which does not
/// know the answers of this one.
fn drain(generation: &Generation) {
    if let Some(client) = generation.parts.get::<Client>() {
        client.acme.end();
    }
}

fn end(generation: &Generation) {
    if let Some(client) = generation.parts.get::<Client>() {
        client.acme.stop();
        client.server.set_http_client(None);
    }
}
