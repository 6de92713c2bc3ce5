//! The listening socket that a client reaches.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use freerun_serve::listen::ListenSpec;
use freerun_serve::listen::address::Address;

/// The socket that a client reaches, and the address that it has connected to.
pub struct ReachedListener {
    /// The socket.
    pub spec: Arc<ListenSpec>,
    /// The address.
    pub local: Address,
    /// Other sockets that the client may as well have meant.
    pub others: Vec<String>,
}

/// Finds the socket for a port, or for an address, which `--to` or the host of the URL gives. Of several for a port a
/// wildcard comes first, then the order of the configuration counts.
///
/// # Errors
/// There is none.
pub fn reach<'l>(
    all: impl Iterator<Item = &'l Arc<ListenSpec>> + Clone,
    port: Option<u16>,
    ip: Option<IpAddr>,
    to: Option<&str>,
) -> Result<ReachedListener, String> {
    let known = || all.clone().map(|spec| spec.name.as_str()).collect::<Vec<_>>().join(", ");
    let missing = |what: String| match known() {
        none if none.is_empty() => "the configuration has no address for such a request".to_owned(),
        known => format!("nothing listens at {what}; the addresses are {known}"),
    };
    if let Some(path) = to.filter(|to| to.starts_with("unix:")) {
        let spec = all.clone().find(|spec| spec.name == path).ok_or_else(|| missing(path.to_owned()))?;
        return Ok(ReachedListener { spec: spec.clone(), local: spec.address(), others: Vec::new() });
    }
    let (ip, port) = match to {
        None => (ip, port),
        Some(to) => match (to.parse::<SocketAddr>(), super::asked::address_of(to)) {
            (Ok(address), _) => (Some(address.ip()), Some(address.port())),
            (_, Some(ip)) => (Some(ip), port),
            _ => return Err(format!("\"--to {to}\" is no address, such as 192.0.2.1:443 or unix:/path")),
        },
    };
    let fits = |spec: &&Arc<ListenSpec>| {
        let Some(address) = spec.ip else { return false };
        let is_port = port.is_none_or(|port| port == address.port());
        let takes_both = address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) && !spec.ipv6only;
        is_port
            && ip.is_none_or(|ip| {
                address.ip() == ip || address.ip().is_unspecified() && (address.is_ipv6() == ip.is_ipv6() || takes_both)
            })
    };
    let is_wildcard = |spec: &Arc<ListenSpec>| spec.ip.is_some_and(|address| address.ip().is_unspecified());
    let mut found: Vec<&Arc<ListenSpec>> = all.clone().filter(fits).collect();
    // With an address, the socket of that address itself takes the connection.
    found.sort_by_key(|spec| is_wildcard(spec) == ip.is_some());
    let wanted = match (ip, port) {
        (Some(ip), Some(port)) => SocketAddr::new(ip, port).to_string(),
        (Some(ip), None) => ip.to_string(),
        (None, Some(port)) => format!("port {port}"),
        (None, None) => "any port".to_owned(),
    };
    let spec = found.first().copied().ok_or_else(|| missing(wanted))?;
    let address = spec.ip.unwrap_or_else(|| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0));
    let of_machine = || match address.ip() {
        IpAddr::V6(_) if spec.ipv6only => IpAddr::V6(Ipv6Addr::LOCALHOST),
        _ => IpAddr::V4(Ipv4Addr::LOCALHOST),
    };
    let ip = ip.unwrap_or_else(|| if is_wildcard(spec) { of_machine() } else { address.ip() });
    let others = found.iter().skip(1).map(|spec| spec.name.clone()).collect();
    Ok(ReachedListener { spec: spec.clone(), local: Address::Ip(SocketAddr::new(ip, address.port())), others })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn specs(names: &[&str]) -> Vec<Arc<ListenSpec>> {
        let spec = |name: &&str| Arc::new(ListenSpec::new("http", name.parse().ok(), (*name).to_owned()));
        names.iter().map(spec).collect()
    }

    #[test]
    fn an_address_is_found_by_port_address_or_path() {
        let all = specs(&["192.0.2.1:80", "0.0.0.0:80", "[::]:80", "127.0.0.1:81", "unix:/a"]);
        let of = |port: Option<u16>, ip: Option<&str>, to: Option<&str>| {
            let ip = ip.map(|ip| ip.parse().expect("an address"));
            reach(all.iter(), port, ip, to).map(|reached| (reached.spec.name.clone(), reached.local))
        };
        let local = |text: &str| Address::Ip(text.parse().expect("an address"));
        assert_eq!(of(Some(80), None, None), Ok(("0.0.0.0:80".to_owned(), local("127.0.0.1:80"))));
        assert_eq!(of(Some(80), Some("192.0.2.1"), None), Ok(("192.0.2.1:80".to_owned(), local("192.0.2.1:80"))));
        assert_eq!(of(Some(80), Some("192.0.2.9"), None), Ok(("0.0.0.0:80".to_owned(), local("192.0.2.9:80"))));
        assert_eq!(of(Some(80), Some("::1"), None), Ok(("[::]:80".to_owned(), local("[::1]:80"))));
        assert_eq!(of(Some(80), None, Some("127.0.0.1:81")), Ok(("127.0.0.1:81".to_owned(), local("127.0.0.1:81"))));
        assert_eq!(of(None, None, Some("unix:/a")).expect("the socket").0, "unix:/a");
        assert!(of(Some(82), None, None).unwrap_err().contains("port 82; the addresses are 192.0.2.1:80, "));
        assert!(of(None, None, Some("x")).is_err() && of(None, None, Some("unix:/b")).is_err());
        assert!(reach([].iter(), Some(80), None, None).is_err());
    }
}
