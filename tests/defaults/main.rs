//! The binary on a machine as Debian's nginx package leaves it, and on one laid out like nginx's container image: each test
//! has a file tree of its own, and configurations contain the case and nothing else. What a user leaves out has to work.
//!
//! All of them need root, for mount namespaces. Where nginx is there, the package's own files are used.

mod applications;
mod caches;
mod container;
mod downloads;
mod machine;
mod rotation;
mod signals;
mod temp_folders;
mod unit;
mod untouched;
mod uploads;
