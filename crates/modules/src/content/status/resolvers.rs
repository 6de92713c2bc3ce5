//! The figures of resolvers that have a `status_zone`, in both forms.

use freerun_http::generation::Generation;
use freerun_upstream::resolve::Resolver as Asked;
use serde::Serialize;

use super::prometheus::Text;
use crate::upstream::Upstreams;

/// A resolver.
#[derive(Debug, Serialize)]
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
    /// The figures of a resolver, under the name of its zone.
    pub fn new(name: &str, resolver: &Asked) -> Resolver {
        let figures = &resolver.figures;
        Resolver {
            name: name.to_owned(),
            questions: figures.names.get(),
            service_questions: figures.services.get(),
            found: figures.found.get(),
            not_found: figures.not_found.get(),
            timed_out: figures.timed_out.get(),
            failed: figures.failed.get(),
        }
    }
}

/// The resolvers of a generation.
pub fn collect(generation: &Generation) -> Vec<Resolver> {
    let upstreams = generation.parts.get::<Upstreams>().unwrap_or_default();
    let named = upstreams.resolvers().iter();
    named.filter_map(|one| Some(Resolver::new(one.spec().status_zone.as_deref()?, one))).collect()
}

/// Writes them for Prometheus.
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
