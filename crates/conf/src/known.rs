//! The directives nginx 1.31.5 documents, with their modules.

/// Directive name and module, sorted by name.
static KNOWN: &[(&str, &str)] = &[];

/// The module of nginx that has a directive of this name.
pub fn module(name: &str) -> Option<&'static str> {
    KNOWN.binary_search_by_key(&name, |(known, _)| known).ok().map(|index| KNOWN[index].1)
}

/// Every directive, sorted by name.
pub fn all() -> &'static [(&'static str, &'static str)] {
    KNOWN
}
