//! The methods by which the next server is chosen, as a configuration names them.

/// What [`Method::LeastTime`] compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Measure {
    /// Time to the response's head.
    Header,
    /// Time to the response's end.
    LastByte,
}

/// What decides between two servers drawn at random.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Two {
    /// The one with fewer connections for its weight.
    LeastConn,
    /// The one that is faster.
    LeastTime(Measure),
}

/// How the next server is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Method {
    /// In turn, by weight.
    #[default]
    RoundRobin,
    /// The method of the directive `least_conn`.
    LeastConn,
    /// The method of the directive `ip_hash`.
    IpHash,
    /// `hash key`
    Hash,
    /// `hash key consistent`
    ConsistentHash,
    /// The method of the directive `random`.
    Random,
    /// `random two …`
    RandomTwo(Two),
    /// `least_time header | last_byte [inflight]`
    LeastTime {
        /// The time that counts.
        measure: Measure,
        /// Whether requests that are on their way count as well.
        inflight: bool,
    },
}
