//! The machine.

use std::sync::OnceLock;

/// The name of the machine in lower case (uname(2), `nodename`).
pub fn name() -> &'static [u8] {
    static NAME: OnceLock<Vec<u8>> = OnceLock::new();
    NAME.get_or_init(|| rustix::system::uname().nodename().to_bytes().to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_machine_has_a_name() {
        let known = std::fs::read("/proc/sys/kernel/hostname").unwrap();
        assert_eq!(super::name(), known.trim_ascii().to_ascii_lowercase());
    }
}
