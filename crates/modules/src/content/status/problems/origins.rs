//! The origins of a problem: the line of the configuration that made the object, and the newest line of the error log that
//! names it.

use freerun_serve::configuration::object_places::{ObjectKind, ObjectPlaces};

use super::watched::{WatchedGroup, groups};
use crate::content::status::figures::Figures;
use crate::content::status::problem::{ProblemKind, StatusProblem};

/// Adds the place and the line of the log to a problem.
pub(super) fn add(kind: ProblemKind, problem: &mut StatusProblem, figures: &Figures, places: &ObjectPlaces) {
    problem.place = place(kind, problem, figures, places);
    let words = words(kind, problem, figures);
    let is_about = |line: &&String| words.iter().any(|word| has_word(line, word));
    problem.log_line = figures.last_errors.iter().rev().find(is_about).cloned();
}

/// The file and the line of the directive that made the object.
fn place(kind: ProblemKind, problem: &StatusProblem, figures: &Figures, places: &ObjectPlaces) -> Option<String> {
    let (subject, part) = (problem.subject.as_str(), problem.part.as_str());
    match kind {
        ProblemKind::GroupOut | ProblemKind::RequestsWait => place_of_group(group(problem, figures)?, places),
        ProblemKind::NameUnresolved => place_of_server(group(problem, figures)?, part, places),
        ProblemKind::ServerOut | ProblemKind::ServerSlow => {
            let group = group(problem, figures)?;
            let written = group.figures.servers.iter().find(|server| server.address == part);
            place_of_server(group, written.map_or(part, |server| &server.server), places)
        }
        ProblemKind::CacheOut | ProblemKind::CacheFull | ProblemKind::CacheUnstored => {
            places.find_shared(ObjectKind::Cache, subject)
        }
        ProblemKind::CertificateEnded | ProblemKind::CertificateEnds => places.find_shared(ObjectKind::File, part),
        ProblemKind::CertificateOrder => places.find("http", ObjectKind::Issuer, part),
        ProblemKind::PoolFull => places.find_shared(ObjectKind::ThreadPool, subject),
        ProblemKind::EngineAway => places.find_shared(ObjectKind::Engine, ""),
        ProblemKind::Limit => match part {
            "requests" => places.find("http", ObjectKind::RequestLimit, subject),
            "connections" => places.find("http", ObjectKind::ConnectionLimit, subject),
            _ => places.find("stream", ObjectKind::ConnectionLimit, subject),
        },
        ProblemKind::ServerErrors => {
            let service = if part == "stream" { "stream" } else { "http" };
            let own = subject.strip_suffix(" (server)").unwrap_or(subject);
            let zone = places.find(service, ObjectKind::Zone, subject);
            zone.or_else(|| places.find(service, ObjectKind::ServerZone, own))
        }
        ProblemKind::LogFails | ProblemKind::LogLoses | ProblemKind::StateUnsaved => {
            places.find_shared(ObjectKind::File, subject)
        }
        // The mounts are the machine's, and loops have no directive each.
        ProblemKind::MountHangs | ProblemKind::LoopLate | ProblemKind::More => None,
    }
}

/// The group of servers that a problem is about.
fn group<'f>(problem: &StatusProblem, figures: &'f Figures) -> Option<WatchedGroup<'f>> {
    groups(figures).find(|group| group.section == problem.section && group.figures.name == problem.subject)
}

fn place_of_group(group: WatchedGroup<'_>, places: &ObjectPlaces) -> Option<String> {
    places.find(group.service, ObjectKind::Group, &group.figures.name)
}

/// The place of a server as it is written in its group, or of the group, if the server is in no file.
fn place_of_server(group: WatchedGroup<'_>, server: &str, places: &ObjectPlaces) -> Option<String> {
    let key = format!("{} {server}", group.figures.name);
    let own = places.find(group.service, ObjectKind::GroupServer, &key);
    own.or_else(|| place_of_group(group, places))
}

/// The words that lines of the log about the problem have: each line has at least one. This is the only list of such words;
/// names of servers alone are none of them, because the lines of all their requests have them.
fn words(kind: ProblemKind, problem: &StatusProblem, figures: &Figures) -> Vec<String> {
    let (subject, part) = (problem.subject.as_str(), problem.part.as_str());
    let words = match kind {
        ProblemKind::GroupOut => {
            let servers = group(problem, figures).map_or(&[][..], |group| &group.figures.servers);
            servers.iter().map(|server| server.address.clone()).collect()
        }
        ProblemKind::ServerOut | ProblemKind::ServerSlow => vec![part.to_owned()],
        ProblemKind::NameUnresolved => {
            let name = part.rsplit_once(':').map_or(part, |(name, _)| name);
            vec![format!("{name} could not be resolved")]
        }
        // Every path begins with the root.
        ProblemKind::MountHangs if subject == "/" => Vec::new(),
        ProblemKind::MountHangs | ProblemKind::LogFails | ProblemKind::LogLoses | ProblemKind::StateUnsaved => {
            vec![subject.to_owned()]
        }
        ProblemKind::CacheOut | ProblemKind::CacheFull | ProblemKind::CacheUnstored => {
            let folder = figures.caches.iter().find(|cache| cache.name == subject).map(|cache| cache.path.clone());
            folder.into_iter().chain([format!("cache \"{subject}\"")]).collect()
        }
        ProblemKind::CertificateEnded | ProblemKind::CertificateEnds => vec![part.to_owned()],
        ProblemKind::CertificateOrder => {
            let first = subject.split(", ").next().unwrap_or_default();
            vec![freerun_acme::log_words(part, first)]
        }
        ProblemKind::LoopLate => vec![format!("event {subject}")],
        ProblemKind::PoolFull => vec![format!("thread pool \"{subject}\"")],
        ProblemKind::Limit => vec![format!("zone \"{subject}\"")],
        ProblemKind::ServerErrors => {
            // The counters of a server have its name with the port, or the name of its `status_zone`.
            let name = subject.rsplit_once(':').map_or(subject, |(name, _)| name);
            vec![format!("server: {name}")]
        }
        ProblemKind::EngineAway => vec![freerun_cluster::LOG_WORD.to_owned()],
        ProblemKind::RequestsWait | ProblemKind::More => Vec::new(),
    };
    words.into_iter().filter(|word| !word.is_empty()).collect()
}

/// Whether a line has a word that is no part of a longer name, address or path.
fn has_word(line: &str, word: &str) -> bool {
    let goes_on = |sign: char| sign.is_alphanumeric() || matches!(sign, '-' | '_');
    line.match_indices(word).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + word.len()..]);
        let begins = before.chars().next_back().is_none_or(|sign| !goes_on(sign) && sign != '.');
        let mut after = after.chars();
        let ends = match after.next() {
            // The end of a sentence is no part of a name.
            Some('.') => after.next().is_none_or(|sign| !goes_on(sign)),
            Some(sign) => !goes_on(sign),
            None => true,
        };
        begins && ends
    })
}

#[cfg(test)]
mod tests {
    use super::has_word;

    #[test]
    fn a_word_is_no_part_of_a_longer_one() {
        for (line, word, found) in [
            ("upstream: \"http://10.0.0.1:80/x\"", "10.0.0.1:80", true),
            ("upstream: \"http://10.0.0.1:8080/x\"", "10.0.0.1:80", false),
            ("upstream: \"http://110.0.0.1:80/x\"", "10.0.0.1:80", false),
            ("server: shop.example, request: \"GET / HTTP/1.1\"", "server: shop.example", true),
            ("server: shop.example.org, request", "server: shop.example", false),
            ("no answer from shop.example.", "shop.example", true),
            ("open() \"/srv/cache/a\" failed", "/srv/cache", true),
            ("open() \"/srv/cache2/a\" failed", "/srv/cache", false),
            ("open() \"/mnt/srv/cache/a\" failed", "/srv/cache", false),
            ("event loop 1 stalled for 12 ms", "event loop 1", true),
            ("event loop 12 stalled for 12 ms", "event loop 1", false),
            ("x 10.0.0.1:8080 and 10.0.0.1:80", "10.0.0.1:80", true),
        ] {
            assert_eq!(has_word(line, word), found, "{line} {word}");
        }
    }
}
