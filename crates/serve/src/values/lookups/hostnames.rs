//! Keys that may be host names with a wildcard at one end.

use std::collections::HashMap;

/// A table of keys: exact ones and, if they are host names, ones with a wildcard.
#[derive(Debug, Default)]
pub(super) struct Keys {
    exact: HashMap<Box<[u8]>, u32>,
    /// The keys of the form `*.example.com`, as `.example.com`.
    front: HashMap<Box<[u8]>, u32>,
    /// The keys of the form `www.example.*`, as `www.example.`.
    back: HashMap<Box<[u8]>, u32>,
    longest: usize,
}

/// The reason that a key was not added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HostnameRefusal {
    /// The key exists already.
    Conflict,
    /// The key is not a host name.
    Invalid,
}

impl Keys {
    /// Adds an exact key, in lower case.
    pub(super) fn add(&mut self, key: &[u8], entry: u32) -> Result<(), HostnameRefusal> {
        self.longest = self.longest.max(key.len());
        claim(&mut self.exact, key, entry)
    }

    /// Adds a host name, in lower case, that may have a wildcard at one end.
    pub(super) fn add_hostname(&mut self, key: &[u8], entry: u32) -> Result<(), HostnameRefusal> {
        if key.windows(2).any(|pair| pair == b"..") {
            return Err(HostnameRefusal::Invalid);
        }
        let has_wildcard = |text: &[u8]| text.contains(&b'*');
        if let Some(rest) = key.strip_prefix(b"*.") {
            if rest.is_empty() || has_wildcard(rest) {
                return Err(HostnameRefusal::Invalid);
            }
            return claim(&mut self.front, &key[1..], entry);
        }
        if let Some(rest) = key.strip_suffix(b".*") {
            if has_wildcard(rest) {
                return Err(HostnameRefusal::Invalid);
            }
            return claim(&mut self.back, &key[..key.len() - 1], entry);
        }
        if has_wildcard(key) {
            return Err(HostnameRefusal::Invalid);
        }
        match key.strip_prefix(b".").filter(|rest| !rest.is_empty()) {
            Some(domain) => {
                self.add(domain, entry)?;
                claim(&mut self.front, key, entry)
            }
            None => self.add(key, entry),
        }
    }

    /// The entry for a value in lower case.
    pub(super) fn find(&self, value: &[u8]) -> Option<u32> {
        if value.len() <= self.longest
            && let Some(entry) = self.exact.get(value)
        {
            return Some(*entry);
        }
        if !self.front.is_empty() {
            let dots = value.iter().enumerate().filter(|(_, byte)| **byte == b'.');
            for (dot, _) in dots {
                if let Some(entry) = self.front.get(&value[dot..]).filter(|_| dot + 1 < value.len()) {
                    return Some(*entry);
                }
            }
        }
        if !self.back.is_empty() {
            for (dot, _) in value.iter().enumerate().rev().filter(|(_, byte)| **byte == b'.') {
                if let Some(entry) = self.back.get(&value[..=dot]).filter(|_| dot + 1 < value.len()) {
                    return Some(*entry);
                }
            }
        }
        None
    }
}

fn claim(map: &mut HashMap<Box<[u8]>, u32>, key: &[u8], entry: u32) -> Result<(), HostnameRefusal> {
    use std::collections::hash_map::Entry;
    match map.entry(key.into()) {
        Entry::Occupied(_) => Err(HostnameRefusal::Conflict),
        Entry::Vacant(free) => {
            free.insert(entry);
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_names_win_then_the_longest_wildcard_in_front_then_behind() {
        let mut keys = Keys::default();
        for (number, key) in ["a.b.*", "*.b.c", "a.*", "*.c", "www.b.c", ".d", "w."].iter().enumerate() {
            keys.add_hostname(key.as_bytes(), number as u32).unwrap();
        }
        for (value, wanted) in [
            ("a.b.c", Some(1)),
            ("a.b.x", Some(0)),
            ("a.x", Some(2)),
            ("x.c", Some(3)),
            (".c", Some(3)),
            ("c", None),
            ("www.b.c", Some(4)),
            ("d", Some(5)),
            ("x.y.d", Some(5)),
            ("a.", None),
            ("", None),
        ] {
            assert_eq!(keys.find(value.as_bytes()), wanted, "{value}");
        }
    }

    #[test]
    fn what_is_no_host_name_or_is_there_already_is_refused() {
        let mut keys = Keys::default();
        for key in ["*", "*.", "a..b", "a.*.b", "*.*.c", "*.x.*", "b*"] {
            assert_eq!(keys.add_hostname(key.as_bytes(), 0), Err(HostnameRefusal::Invalid), "{key}");
        }
        for (first, second) in [("*.com", ".com"), ("w.*", "w.*"), (".x", "x"), ("y", "y")] {
            keys.add_hostname(first.as_bytes(), 0).unwrap();
            assert_eq!(keys.add_hostname(second.as_bytes(), 0), Err(HostnameRefusal::Conflict), "{second}");
        }
    }
}
