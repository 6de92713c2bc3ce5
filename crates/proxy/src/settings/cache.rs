//! Checks of the directives about caching in combination.

use freerun_conf::{Cx, Problem};
use freerun_http::module::RequestPath;
use freerun_serve::build::{at_the_end, end_of_block};

use crate::caches::values::CacheName;
use crate::caches::zones::Caches;
use crate::settings::FamilySettings;
use crate::settings::store::StoreSetting;

impl FamilySettings {
    /// Checks the merged cache settings of a member with this prefix.
    ///
    /// # Errors
    /// The directive names no cache zone.
    pub fn check_cache(&self, prefix: &str, has_key: bool, cx: &mut Cx) -> Result<(), Problem> {
        if let CacheName::Zone(zone) = &self.proxy_cache
            && zone.get().is_none()
        {
            let near = cx.extensions.get_or_default::<Caches>().near(zone.name());
            let message = format!("\"{prefix}cache\" zone \"{}\" is unknown", zone.name());
            // nginx, which finds it when everything was read, names the line where that ends.
            let end = end_of_block::<RequestPath>(cx);
            let problem = Problem::new(message).at(zone.place()).reported_at(end.unwrap_or(zone.place()));
            return Err(match near {
                Some(near) => problem.hint(format!("did you mean \"{near}\"?")),
                None => problem.hint(format!("no {prefix}cache_path declares it")),
            });
        }
        if let Some((zone, _)) = self.proxy_cache_purge.key()
            && zone.get().is_none()
        {
            let message = format!("\"{prefix}cache_purge\" zone \"{}\" is unknown", zone.name());
            let problem = Problem::new(message).at(zone.place());
            return Err(problem.hint(format!("no {prefix}cache_path declares it")));
        }
        if self.proxy_cache.is_on() && self.proxy_cache_key.is_none() && !has_key {
            let warning = Problem::warning(format!("no \"{prefix}cache_key\" for \"{prefix}cache\""));
            let warning = at_the_end::<RequestPath>(warning, cx);
            cx.warn(warning);
        }
        Ok(())
    }

    /// Refuses a location that passes requests on and purges a key, too: it can do only one of them.
    ///
    /// # Errors
    /// It would do both.
    pub fn check_purge(&self, prefix: &str) -> Result<(), Problem> {
        let Some((zone, _)) = self.proxy_cache_purge.key() else { return Ok(()) };
        let message = format!("\"{prefix}cache_purge\" directive is incompatible with \"{prefix}pass\"");
        let problem = Problem::new(message).at(zone.place());
        Err(problem
            .hint(format!("write \"{prefix}cache_purge PURGE from …\" here, or the key in a location of its own")))
    }

    /// Makes only one of `cache` and `store` hold: a directive of this level replaces the other one from an outer
    /// level.
    pub(super) fn settle_store(&mut self, cache: Option<&CacheName>, store: Option<&StoreSetting>) {
        if cache.is_some_and(CacheName::is_on) {
            self.proxy_store = StoreSetting::Off;
        } else if store.is_some_and(|store| !matches!(store, StoreSetting::Off)) {
            self.proxy_cache = CacheName::Off;
        }
    }
}
