//! Virtual servers by the names that clients ask for: `server_name`, the tables that are made of it, and the servers of an
//! address.

mod setting;
mod table;
pub mod virtual_servers;

pub use setting::ServerNames;
pub use table::{NameTable, ServerName};
pub use virtual_servers::VirtualServers;
