//! Static files: listings, links, files that change, WebDAV.

pub mod files;
pub mod hot_files;
pub mod links;
pub mod listings;
pub mod webdav;
