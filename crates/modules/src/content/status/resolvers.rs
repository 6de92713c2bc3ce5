//! The counters of resolvers that have a `status_zone`, in both forms.

use freerun_serve::configuration::generation::Generation;
use freerun_serve::upstream::resolver::ZonedResolvers;
use freerun_upstream::resolve::Resolver as Asked;
use serde::Serialize;

use super::samples::Text;

/// The counters of the resolvers of a zone.
#[derive(Debug, Default, Serialize)]
pub struct Resolver {
    pub name: String,
    pub questions: u64,
    pub service_questions: u64,
    pub found: u64,
    pub not_found: u64,
    pub timed_out: u64,
    pub failed: u64,
}

impl Resolver {
    /// The counters of resolvers, by the names of their zones. Resolvers with the same zone are added up.
    pub fn of<'a>(resolvers: impl Iterator<Item = &'a Asked>) -> Vec<Resolver> {
        let mut zones: Vec<Resolver> = Vec::new();
        for resolver in resolvers {
            let Some(name) = resolver.spec().status_zone.as_deref() else { continue };
            let zone = match zones.iter().position(|zone| zone.name == name) {
                Some(known) => &mut zones[known],
                None => {
                    zones.push(Resolver { name: name.to_owned(), ..Resolver::default() });
                    let last = zones.len() - 1;
                    &mut zones[last]
                }
            };
            let figures = &resolver.figures;
            zone.questions += figures.names.get();
            zone.service_questions += figures.services.get();
            zone.found += figures.found.get();
            zone.not_found += figures.not_found.get();
            zone.timed_out += figures.timed_out.get();
            zone.failed += figures.failed();
        }
        zones
    }
}

/// Collects the counters of the resolvers of a generation.
pub fn collect(generation: &Generation) -> Vec<Resolver> {
    let zoned = generation.parts.get::<ZonedResolvers>().unwrap_or_default();
    Resolver::of(zoned.0.iter().map(|resolver| &**resolver))
}

/// Writes the counters for Prometheus.
pub(super) fn text(resolvers: &[Resolver], out: &mut Text) {
    let name = "freerun_resolver_questions_total";
    out.head(name, "counter", "Questions to name servers.");
    for one in resolvers {
        out.sample(name, &[("resolver", &one.name), ("kind", &"name")], one.questions);
        out.sample(name, &[("resolver", &one.name), ("kind", &"service")], one.service_questions);
    }
    let name = "freerun_resolver_answers_total";
    out.head(name, "counter", "What became of them; timed_out: of those who waited for an answer.");
    for one in resolvers {
        let all =
            [("found", one.found), ("not_found", one.not_found), ("timed_out", one.timed_out), ("failed", one.failed)];
        for (answer, count) in all {
            out.sample(name, &[("resolver", &one.name), ("answer", &answer)], count);
        }
    }
}
