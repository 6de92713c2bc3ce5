//! Modules with handlers that make the response.

mod answer_size;
pub mod api;
pub mod autoindex;
pub mod dav;
pub mod dav_ext;
#[cfg(debug_assertions)]
pub mod debug_sandbox;
mod described;
pub mod echo;
pub mod empty_gif;
pub mod fancyindex;
pub mod flv;
pub mod index;
pub mod mp4;
mod open;
pub mod precompressed;
pub mod random_index;
pub mod static_files;
pub mod status;
pub mod stub_status;
mod utf8;
