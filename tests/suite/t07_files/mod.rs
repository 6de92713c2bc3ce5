//! Static files: links, files that change, WebDAV.

pub mod files;
pub mod hot_files;
pub mod links;
pub mod webdav;
