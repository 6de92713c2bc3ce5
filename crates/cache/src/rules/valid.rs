//! `*_cache_valid`: lifetimes for statuses, for responses without a lifetime of their own.

/// The statuses that a `*_cache_valid` without statuses is about.
const USUAL: [u16; 3] = [200, 301, 302];

/// All `*_cache_valid` of a location, in their order; the first match counts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Valid {
    entries: Vec<(Option<u16>, u32)>,
}

impl Valid {
    /// Adds one directive: its `statuses` as written (empty: 200, 301 and 302; `None` is `any`), and its seconds.
    pub fn push(&mut self, statuses: &[Option<u16>], seconds: u32) {
        match statuses {
            [] => self.entries.extend(USUAL.map(|status| (Some(status), seconds))),
            _ => self.entries.extend(statuses.iter().map(|&status| (status, seconds))),
        }
    }

    /// Whether there is no such directive.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The lifetime for a status in seconds; 0, and a status without an entry, mean that the response is not stored.
    pub fn seconds(&self, status: u16) -> u32 {
        let fits = |entry: &&(Option<u16>, u32)| entry.0.is_none_or(|wanted| wanted == status);
        self.entries.iter().find(fits).map_or(0, |&(_, seconds)| seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_fits_counts() {
        let mut valid = Valid::default();
        assert!(valid.is_empty() && valid.seconds(200) == 0);
        valid.push(&[Some(200), Some(404)], 10);
        valid.push(&[], 20);
        valid.push(&[None], 30);
        valid.push(&[Some(500)], 40);
        let statuses = [200, 404, 301, 302, 500, 206].map(|status| valid.seconds(status));
        assert_eq!(statuses, [10, 10, 20, 20, 30, 30]);
    }
}
