//! Static files: listings, links, files that change, WebDAV.

pub mod conditional_requests;
pub mod dav;
pub mod file_cache;
pub mod files;
pub mod listings;
pub mod media;
pub mod symlinks;
