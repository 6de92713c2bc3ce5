//! Problems that the figures of one moment show: disks, queues, caches, certificates, logs.

use super::{FoundProblems, duration};
use crate::content::status::acme::AcmeCertificate;
use crate::content::status::caches::CacheFigures;
use crate::content::status::cluster::ClusterFigures;
use crate::content::status::figures::{Figures, Log, Mount, Pool};
use crate::content::status::problem::ProblemKind;
use crate::content::status::tls::LoadedCertificate;

/// Microseconds without the end of any operation on a mount, from which on the mount is a problem.
const STUCK_US: u64 = 1_000_000;

/// Seconds before the end of a certificate in which that is a problem: a week. ACME renews earlier.
const CERTIFICATE_SECONDS: i64 = 7 * 86_400;

/// The share of a pool's queue in use from which on the pool is a problem, in per cent.
const FULL_PERCENT: usize = 80;

/// Finds the problems.
pub(super) fn find(figures: &Figures, found: &mut FoundProblems<'_>) {
    figures.mounts.iter().for_each(|one| mount(one, found));
    figures.pools.iter().for_each(|one| pool(one, found));
    figures.caches.iter().for_each(|one| cache(one, found));
    figures.tls.certificates.iter().for_each(|one| certificate(one, found));
    figures.acme.iter().for_each(|one| ordered_certificate(one, found));
    figures.logs.iter().for_each(|one| log(one, found));
    figures.cluster.iter().for_each(|one| engine(one, found));
    for path in &figures.unsaved_states {
        let text = "The state could not be written to this file. It is tried again each second.";
        found.add(ProblemKind::StateUnsaved, path, text.to_owned());
    }
}

fn engine(cluster: &ClusterFigures, found: &mut FoundProblems<'_>) {
    let text = match cluster.state {
        "away" => format!("The engine is away, so this machine shares nothing with others: {}.", cluster.error),
        "read_only" => format!("The engine stores nothing: {}.", cluster.error),
        _ => return,
    };
    found.add(ProblemKind::EngineAway, &cluster.engine, text);
}

fn mount(mount: &Mount, found: &mut FoundProblems<'_>) {
    if mount.stuck_us >= STUCK_US {
        let time = duration((mount.stuck_us / 1_000_000).cast_signed());
        let text = format!("No operation on this mount has ended for {time}.");
        found.add_part(ProblemKind::MountHangs, &mount.mount, &mount.device, text);
    }
}

fn pool(pool: &Pool, found: &mut FoundProblems<'_>) {
    if pool.max_queue > 0 && pool.waiting.saturating_mul(100) / pool.max_queue >= FULL_PERCENT {
        let text = format!("{} tasks of at most {} wait for a thread.", pool.waiting, pool.max_queue);
        found.add(ProblemKind::PoolFull, &pool.name, text);
    }
}

fn cache(cache: &CacheFigures, found: &mut FoundProblems<'_>) {
    if cache.disk.health != "in" {
        let why = cache.disk.error.as_ref().map_or(cache.disk.health, |error| error);
        let text = format!("The cache is not used, because of its disk: {why}.");
        found.add(ProblemKind::CacheOut, &cache.name, text);
    }
}

fn certificate(certificate: &LoadedCertificate, found: &mut FoundProblems<'_>) {
    let left = certificate.expires.saturating_sub(found.context.now);
    if left >= CERTIFICATE_SECONDS {
        return;
    }
    let subject = certificate.names.first().unwrap_or(&certificate.subject);
    let time = duration(left.abs());
    let (kind, text) = if left > 0 {
        (ProblemKind::CertificateEnds, format!("The certificate {} ends in {time}.", certificate.file))
    } else {
        (ProblemKind::CertificateEnded, format!("The certificate {} has ended {time} ago.", certificate.file))
    };
    found.add_part(kind, subject, &certificate.file, text);
}

fn ordered_certificate(certificate: &AcmeCertificate, found: &mut FoundProblems<'_>) {
    if let Some(error) = &certificate.last_error {
        let names = certificate.names.join(", ");
        let text = format!("Its certificate cannot be ordered: {error}");
        found.add_part(ProblemKind::CertificateOrder, &names, &certificate.issuer, text);
    }
}

fn log(log: &Log, found: &mut FoundProblems<'_>) {
    if let Some(error) = &log.error {
        let text = format!("The file cannot be written ({error}); {} bytes wait.", log.waiting_bytes);
        found.add(ProblemKind::LogFails, &log.name, text);
    } else if log.held_up {
        let text = format!("The file takes no lines; {} bytes wait.", log.waiting_bytes);
        found.add(ProblemKind::LogFails, &log.name, text);
    }
}
