//! `fastcgi_pass`: requests answered by applications that speak FastCGI.

pub mod reply;
