//! The counters of resolvers that have a `status_zone`, in both forms.

use freerun_serve::configuration::generation::Generation;
use freerun_serve::upstream::resolver::ZonedResolvers;
use freerun_upstream::resolve::Resolver as Asked;

use super::samples::{MetricRow, Text};
use crate::content::described::described;

described! {
    /// The counters of the resolvers of a zone.
    #[derive(Default)]
    pub struct Resolver {
        pub name: String,
        /// Questions for addresses, sent to name servers.
        #[metric(counter "freerun_resolver_questions_total" by "kind" is "name", "Questions to name servers.")]
        pub questions: u64,
        /// Questions for services, sent to name servers.
        #[metric(counter "freerun_resolver_questions_total" by "kind" is "service")]
        pub service_questions: u64,
        /// Questions with an answer.
        #[metric(counter "freerun_resolver_answers_total" by "answer" is "found",
            "What became of them; timed_out: of those who waited for an answer.")]
        pub found: u64,
        /// Questions about names that do not exist.
        #[metric(counter "freerun_resolver_answers_total" by "answer" is "not_found")]
        pub not_found: u64,
        /// Questions without an answer in time.
        #[metric(counter "freerun_resolver_answers_total" by "answer" is "timed_out")]
        pub timed_out: u64,
        /// Questions whose answer was an error.
        #[metric(counter "freerun_resolver_answers_total" by "answer" is "failed")]
        pub failed: u64,
    }
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
    let rows = resolvers.iter().map(|resolver| MetricRow::new("resolver", &resolver.name, resolver));
    out.objects(&rows.collect::<Vec<_>>());
}
