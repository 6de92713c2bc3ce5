//! Virtual servers by the names that clients ask for: `server_name`, and the tables that are made of it.

mod setting;
mod table;

pub use setting::ServerNames;
pub use table::{Name, NameTable};
