//! The methods that choose the next server, as a configuration names them.

/// The time that [`Method::LeastTime`] compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Measure {
    /// The time until there is a connection.
    Connect,
    /// The time to the response's head, or to the first byte of a session.
    Header,
    /// The time to the end of the response or session.
    LastByte,
}

/// The criterion that decides between two servers drawn at random.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Two {
    /// The server with fewer connections in proportion to its weight.
    LeastConn,
    /// The faster server.
    LeastTime(Measure),
}

/// The method that chooses the next server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Method {
    /// Weighted round robin.
    #[default]
    RoundRobin,
    /// The method of the directive `least_conn`.
    LeastConn,
    /// The method of the directive `ip_hash`.
    IpHash,
    /// The method of the directive `hash key`.
    Hash,
    /// The method of the directive `hash key consistent`.
    ConsistentHash,
    /// The method of the directive `random`.
    Random,
    /// The method of the directive `random two …`.
    RandomTwo(Two),
    /// The method of the directive `least_time header | last_byte [inflight]`.
    LeastTime {
        /// The time that is compared.
        measure: Measure,
        /// Whether requests in flight count as well.
        inflight: bool,
    },
}
